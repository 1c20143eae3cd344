"""One example on a page: the truth at every step, and what each run makes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relational_transformer.analysis.hint_scores import spread
from relational_transformer.analysis.rollout import PredictedHint
from relational_transformer.clrs.feature import ProtocolName, Spec, Stage, Type
from relational_transformer.clrs.trajectories import Trajectories

from .explanations import EXPLANATIONS
from .inside import Inside, look_inside
from .layout import place_nodes
from .mistakes import find_mistakes
from .packing import Packer
from .plain import names_of, plain, plain_example, plain_outputs
from .run import TrainedRun, draw_example

MOST_BYTES = 6_000_000
"""Of attention, and of norms of edge vectors, of all examples and runs of a page, before compression."""

MOST_BYTES_OF_SMALL = 1_250_000
"""The same of a page whose examples have at most `SMALL` nodes: it stays below 2 MB, even if nothing can be
compressed."""

SMALL = 20

Scene = dict[str, Any]


def make_scene(
    packer: Packer,
    task: str,
    nodes: int,
    seed: int,
    runs: Sequence[TrainedRun],
    protocol: ProtocolName,
    layers: tuple[int, ...] | None,
    room: int,
) -> Scene:
    """Put an example into the packer, and return the table of what lies where; `room` is for the attention of each run
    on it, in bytes."""
    spec, data = draw_example(task, nodes, seed, protocol)
    truth = plain_example(spec, data)
    scene: Scene = {
        "nodes": data.num_nodes,
        "seed": int(seed),  # of any integer type
        "steps": int(data.lengths[0]),
        "truth": {name: packer.add(values) for name, values in truth.items()},
        "runs": [_add_run(packer, run, task, nodes, seed, layers, room) for run in runs],
    }
    if EXPLANATIONS[task].view == "graph":
        scene["places"] = packer.add(place_nodes(data.inputs["adj"][0] > 0).astype(np.float32))
    if "string" in truth:
        scene["first"] = int((truth["string"] == 0).sum())
    return scene


def _add_run(
    packer: Packer,
    run: TrainedRun,
    task: str,
    nodes: int,
    seed: int,
    layers: tuple[int, ...] | None,
    room: int,
) -> dict[str, Any]:
    """What a run says of the example."""
    spec, data = draw_example(task, nodes, seed, run.protocol)
    chosen, note = _choose_layers(run, data, layers, room)
    inside = look_inside(run.network, data, chosen)
    said, sure, wrong = _predicted(spec, data, inside)
    attention = None if inside.attention is None or chosen == () else inside.attention
    numbers = range(1, run.config.settings.num_layers + 1) if chosen is None else [layer + 1 for layer in chosen]
    norms = inside.edge_norms if inside.edge_norms is not None and inside.edge_norms.nbytes <= room else None
    return {
        "said": {name: packer.add(values) for name, values in said.items()},
        "sure": {name: packer.add(values) for name, values in sure.items()},
        "wrong": {name: packer.add(values.astype(np.uint8)) for name, values in wrong.items()},
        "score": inside.predictions.score,
        "attention": None if attention is None else packer.add(attention),
        "layers": [] if attention is None else list(numbers),
        "attention_note": ""
        if attention is not None and not note
        else note or "This model has no relational attention.",
        "norms": None if norms is None else packer.add(norms),
        "norm_range": inside.norm_range,
    }


def _choose_layers(
    run: TrainedRun, data: Trajectories, layers: tuple[int, ...] | None, room: int
) -> tuple[tuple[int, ...] | None, str]:
    """Whose attention is kept, counted from 0 (None: all layers), and what is said of it."""
    settings = run.config.settings
    last = settings.num_layers
    if layers is not None:
        unknown = [layer for layer in layers if not 1 <= layer <= last]
        if unknown:
            raise ValueError(f"layers are numbers from 1 to {last}, the layers of {run.name}; got {unknown[0]}")
        return tuple(layer - 1 for layer in layers), f"Attention of the layers that were asked for, of {last}."
    of_layer = max(1, int(data.lengths[0]) - 1) * settings.num_heads * data.num_nodes**2
    if of_layer * last <= room:
        return None, ""
    if of_layer <= room:
        return (last - 1,), f"Attention of the last of {last} layers alone: more would make this page too large."
    return (), "Attention is left out: it would make this page too large (rt look --layers chooses)."


def _predicted(spec: Spec, data: Trajectories, inside: Inside) -> tuple[Mapping[str, np.ndarray], ...]:
    """In the plain form, by name: what is predicted, how sure it is as bytes, and which elements are wrong."""
    hints, outputs, _ = inside.predictions
    truth = plain_example(spec, data)
    said = {name: plain(spec[name], hint.predicted[:, 0]) for name, hint in hints.items()}
    said |= plain_outputs(spec, {name: values[0] for name, values in outputs.items()})
    sure = {
        name: _sureness(spec, name, hint, said[name]) for name, hint in hints.items() if hint.probabilities is not None
    }
    spreads = {name: spread(data, name) for name in names_of(spec, Stage.HINT) if spec[name].type == Type.SCALAR}
    wrong = {
        name: find_mistakes(spec[name], values, truth[name], spreads.get(name, 1.0)) for name, values in said.items()
    }
    for name in hints:
        wrong[name][0] = False  # given
    return said, sure, wrong


def _sureness(spec: Spec, name: str, hint: PredictedHint, said: np.ndarray) -> np.ndarray:
    """Probabilities as bytes: of a mask being 1, of each node of a mask_one, else of what is said."""
    assert hint.probabilities is not None
    chances = hint.probabilities[:, 0]
    if spec[name].type not in (Type.MASK, Type.MASK_ONE):
        chances = np.take_along_axis(chances, np.maximum(said, 0)[..., None].astype(np.int64), -1).squeeze(-1)
    return (chances * 255).round().clip(0, 255).astype(np.uint8)
