"""What a transformer scores that cannot see the vector of the whole graph, such as the key of a binary search:
`python docs/tools/transformer_without_globals.py`

Trains one seed in float32, by the paper's protocol but for its length and for how often it is validated, and prints its
scores. The run is a folder like any other, and goes on if it is interrupted.
"""

import argparse
from dataclasses import replace

import torch

from relational_transformer.fleet.precision import default_device, find_device
from relational_transformer.processors import find_settings
from relational_transformer.processors.processor import GraphState
from relational_transformer.processors.transformer import Transformer
from relational_transformer.runs import train
from relational_transformer.training import PROTOCOLS, CLRSTask, TrainConfig

forward = Transformer.forward


def blind_forward(self: Transformer, features: GraphState, *others: GraphState | torch.Tensor | None) -> GraphState:
    """`Transformer.forward` with zeros in place of the global vector."""
    assert features.globals is not None
    return forward(self, features._replace(globals=torch.zeros_like(features.globals)), *others)  # pyright: ignore[reportArgumentType]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="binary_search")
    parser.add_argument("--examples", type=int, default=48_000)
    parser.add_argument("--out", default="runs/transformer-without-globals")
    arguments = parser.parse_args()
    Transformer.forward = blind_forward  # pyright: ignore[reportAttributeAccessIssue]
    protocol = replace(PROTOCOLS["paper"], examples=arguments.examples, validation_interval=3_200)
    config = TrainConfig(arguments.task, "transformer", find_settings("transformer"), protocol, (0,), "fp32")
    (seed,) = train(CLRSTask(config), arguments.out, find_device(default_device()))["seeds"]
    print(f"{arguments.task}: validation {seed['validation']:.2%}, test {seed['test']:.2%}")


if __name__ == "__main__":
    main()
