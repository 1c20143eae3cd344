"""Small-scale evidence for optional parts of a model: the same short training with and without each.

    python benchmarks/levers.py train floyd_warshall --edge-pointers bound
    python benchmarks/levers.py table --write docs/levers.md
    python benchmarks/levers.py table --all --write results/levers/README.md

`train` trains two seeds of a small model by a short form of the modern protocol on a CPU, in minutes, and keeps the
result in `results/levers/`. `table` compares the kept results of today's options with those of the same task without
any option; with `--all` also those of options that the package has no more, and names the commits. What is compared is
validation on 16 nodes, the first best; scores on 32 nodes are of examples from a data seed of their own, for diagnosis,
and never of the test set.
"""

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from relational_transformer.processors.settings import find_settings
from relational_transformer.runs.session import train
from relational_transformer.training import PROTOCOLS, CLRSTask, TrainConfig

KEPT = Path(__file__).parent.parent / "results" / "levers"
BEGIN, END = "<!-- levers: begin (made by benchmarks/levers.py) -->", "<!-- levers: end -->"

SETTINGS = replace(
    find_settings("rt", modern=True), hidden_size=32, num_heads=4, num_layers=1, batch_size=16, learning_rate=1e-3
)
PROTOCOL = replace(
    PROTOCOLS["modern"],
    ties="first",
    train_lengths=(4, 7, 10),
    validation_interval=960,
    test_nodes=32,
    test_data_seed=5,
)
SEEDS = (0, 1)
UPDATES = {
    "floyd_warshall": 300,
    "matrix_chain_order": 180,
    "optimal_bst": 120,
    "insertion_sort": 300,
    "bellman_ford": 600,
}
"""Of each seed: as many as take a minute or two."""


def configuration(task: str, changes: Mapping[str, Any]) -> TrainConfig:
    protocol = replace(PROTOCOL, examples=UPDATES[task] * SETTINGS.batch_size)
    return TrainConfig(task, "rt", replace(SETTINGS, **changes), protocol, SEEDS, precision="fp32", compile="off")


def options_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a result's model has besides the settings that all of these models have."""
    return {
        name: value for name, value in result["config"]["settings"].items() if name not in BASE or BASE[name] != value
    }


BASE = json.loads(json.dumps(TrainConfig("bfs", "rt", SETTINGS, PROTOCOL, SEEDS).as_dict()["settings"]))


def file_of(task: str, options: Mapping[str, Any]) -> str:
    """The name of the file, and of the run, of a task and options."""
    return "-".join([task, *(f"{name}-{value}" for name, value in options.items())])


def named(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in options.items())


def exists(task: str, options: Mapping[str, Any]) -> bool:
    """Whether the package still has these options."""
    try:
        configuration(task, options)
    except (TypeError, ValueError):
        return False
    return True


def table(results: list[dict[str, Any]], *, every: bool = False) -> str:
    """A row for each result with an option, beside the one without; `every`: also of options that are no more, with
    the commits."""
    without = {result["config"]["task"]: result for result in results if not options_of(result)}
    lines = [
        f"| option | task | updates | validation, 16 nodes | with | 32 nodes | with |{' commit |' if every else ''}",
        f"|---|---|---:|---:|---:|---:|---:|{'---|' if every else ''}",
    ]
    for result in sorted(results, key=lambda result: (named(options_of(result)), result["config"]["task"])):
        config, options = result["config"], options_of(result)
        if not options or not (every or exists(config["task"], options)):
            continue
        plain = without[config["task"]]
        if plain["config"]["protocol"] != config["protocol"]:
            raise ValueError(f"{config['task']} was not trained by one protocol")
        scores = [scores_of(one, column) for column in ("validation", "test") for one in (plain, result)]
        updates = config["protocol"]["examples"] // config["settings"]["batch_size"]
        commit = f" {result['commit'][:7]} |" if every else ""
        lines.append(f"| {named(options)} | {config['task']} | {updates} | {' | '.join(scores)} |{commit}")
    return "\n".join(lines) + "\n"


def scores_of(result: Mapping[str, Any], column: str) -> str:
    """The mean over the seeds and the score of each, in percent."""
    scores = [100 * row[column] for row in result["seeds"]]
    return f"{fmean(scores):.1f} ({', '.join(f'{score:.1f}' for score in scores)})"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    trained = commands.add_parser("train")
    trained.add_argument("task", choices=UPDATES)
    trained.add_argument("--edge-pointers")
    trained.add_argument("--runs", type=Path, default=Path("runs/levers"))
    shown = commands.add_parser("table")
    shown.add_argument("--all", action="store_true", help="also options that the package has no more")
    shown.add_argument("--write", type=Path)
    arguments = parser.parse_args(words)
    if arguments.command == "table":
        text = table([json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))], every=arguments.all)
        if arguments.write is None:
            print(text, end="")
        else:
            before, _, rest = arguments.write.read_text().partition(BEGIN)
            _, _, after = rest.partition(END)
            arguments.write.write_text(f"{before}{BEGIN}\n{text}{END}{after}")
        return
    given = {"edge_pointers": arguments.edge_pointers}
    changes = {name: value for name, value in given.items() if value is not None}
    name = file_of(arguments.task, changes)
    train(CLRSTask(configuration(arguments.task, changes)), arguments.runs / name, torch.device("cpu"))
    KEPT.mkdir(exist_ok=True)
    shutil.copyfile(arguments.runs / name / "result.json", KEPT / f"{name}.json")


if __name__ == "__main__":
    main()
