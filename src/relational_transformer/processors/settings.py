"""The hyperparameters of all models, and of their training."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from relational_transformer.nn.checks import (
    LARGEST_SIZE,
    MOST_LAYERS,
    check_choice,
    check_flag,
    check_size,
    check_sizes,
    shown,
)

from .registry import PROCESSORS, find_processor

LARGEST_BATCH = 2**20
LARGEST_LEARNING_RATE = 1e3
LARGEST_CLIP = 1e30
LARGEST_DECAY = 1e3
"""Bounds beyond which float32 overflows or no training is possible."""


@dataclass(frozen=True)
class Settings:
    """One model of the CLRS-30 experiments (the paper's tables of hyperparameters).

    >>> small = replace(TUNED["rt"], hidden_size=48, num_heads=3)
    >>> small.num_layers, small.hidden_size, small.learning_rate
    (3, 48, 0.00025)
    """

    processor: str = "rt"
    """The kind of processor; on the command line, --model sets it."""
    num_layers: int = 3
    """Layers of the processor. All run at every step of the algorithm."""
    hidden_size: int = 192
    """Size of node, edge and global vectors, d_n = d_e = d_g. With heads, it is heads x head size."""
    learning_rate: float = 2.5e-4
    """Adam's learning rate."""
    gradient_clip: float | None = None
    """The norm to which the gradient of each seed is clipped; by default no clipping, as in the paper."""
    weight_decay: float = 0.0
    """AdamW's weight decay: an update subtracts this share of every parameter, times the learning rate; 0 in the
    paper."""
    batch_size: int = 4
    """Examples in a batch of one seed."""
    num_heads: int = 12
    """Attention heads (RT, transformer, GATs)."""
    node_hidden_size: int = 32
    """Hidden size of the nodes' feed-forward network, d_nh (RT, transformer)."""
    edge_hidden_sizes: tuple[int, int] = (16, 8)
    """Hidden sizes of the two networks of the edge update, d_eh1 and d_eh2 (RT)."""
    global_mode: Literal["cat", "core", "att"] = "cat"
    """How RT reads the global vector: concatenated, as a core node, or in every attention."""
    update_edges: bool = True
    """Update edges in every layer (RT)."""
    pointers_from_edges: bool = True
    """Decode node pointers from edge vectors alone. Otherwise they are decoded from nodes and edges, as in CLRS-30."""
    edge_pointers: Literal["averaged", "bound"] = "averaged"
    """How pointers of edges are encoded and decoded: averaged over either end, as in CLRS-30, or bound to their edges,
    each of which is told what it points to."""
    hint_mode: Literal["encoded_decoded", "decoded_only", "none"] = "encoded_decoded"
    """Whether hints are inputs and outputs of a step, only outputs, or not used."""

    def __post_init__(self) -> None:
        for name in ("num_layers", "hidden_size", "batch_size", "num_heads", "node_hidden_size"):
            _check_whole(name, getattr(self, name), MOST.get(name, LARGEST_SIZE))
        check_sizes("edge_hidden_sizes", self.edge_hidden_sizes, "d_eh1, d_eh2")
        _check_number("learning_rate", self.learning_rate, LARGEST_LEARNING_RATE)
        if self.gradient_clip is not None:
            _check_number("gradient_clip", self.gradient_clip, LARGEST_CLIP)
        _check_number("weight_decay", self.weight_decay, LARGEST_DECAY, zero=True)
        if not isinstance(self.processor, str):
            raise ValueError(f"processor must be the name of a processor, got {shown(self.processor)}")
        check_choice("global_mode", self.global_mode, ("cat", "core", "att"))
        check_choice("hint_mode", self.hint_mode, ("encoded_decoded", "decoded_only", "none"))
        check_choice("edge_pointers", self.edge_pointers, ("averaged", "bound"))
        check_flag(update_edges=self.update_edges, pointers_from_edges=self.pointers_from_edges)


MOST = {"num_layers": MOST_LAYERS, "batch_size": LARGEST_BATCH}


def _check_whole(name: str, number: Any, most: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(f"{name} must be a whole number, got {shown(number)}")
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {shown(number)}")
    if number > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(number)}")


def _check_number(name: str, number: Any, most: float, *, zero: bool = False) -> None:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not (is_number and 0 <= number < float("inf") and (zero or number > 0)):
        raise ValueError(f"{name} must be a number {'from 0 on' if zero else 'above 0'}, got {shown(number)}")
    if number > most:
        raise ValueError(f"{name} must be at most {most:g}, got {shown(number)}")


def check_heads(hidden_size: int, num_heads: int) -> None:
    """Heads must divide the hidden size evenly."""
    check_size(hidden_size=hidden_size, num_heads=num_heads)
    if hidden_size % num_heads:
        raise ValueError(f"num_heads must divide hidden_size={hidden_size}, got num_heads={num_heads}")


def _baseline(processor: str, num_layers: int, hidden_size: int, learning_rate: float, num_heads: int = 1) -> Settings:
    return Settings(
        processor=processor,
        num_layers=num_layers,
        hidden_size=hidden_size,
        learning_rate=learning_rate,
        num_heads=num_heads,
        pointers_from_edges=False,
    )


TUNED: dict[str, Settings] = {
    "deep_sets": _baseline("deep_sets", 2, 512, 2.5e-4),
    "gat": _baseline("gat", 2, 10 * 64, 6.3e-4, num_heads=10),
    "gatv2": _baseline("gatv2", 2, 12 * 64, 2.5e-4, num_heads=12),
    "mpnn": _baseline("mpnn", 1, 512, 1.6e-3),
    "pgn": _baseline("pgn", 1, 180, 1.6e-3),
    "pgn_masked": _baseline("pgn_masked", 3, 512, 1e-3),
    "rt": Settings(),
}
"""Table `clrs_hp_table`. `pgn` is the paper's PGN-u, `pgn_masked` its PGN-m, `gat` its GAT-v1."""

UNTUNED: dict[str, Settings] = {
    name: _baseline(name, 1, 128, 1e-3) for name in ("deep_sets", "gat", "gatv2", "mpnn", "pgn", "pgn_masked")
}
"""The single-layer baselines of CLRS-30 before tuning: hidden size 128, one head."""

ABLATIONS: dict[str, Settings] = {
    "transformer": replace(TUNED["rt"], processor="transformer", pointers_from_edges=False),
    "rt_single_layer": replace(TUNED["rt"], num_layers=1),
    "rt_node_pointers": replace(TUNED["rt"], pointers_from_edges=False),
    "rt_core": replace(TUNED["rt"], global_mode="core"),
    "rt_no_edge_updates": replace(TUNED["rt"], update_edges=False, pointers_from_edges=False),
}
"""The paper's ablations of RT. It re-tuned `transformer` and `rt_single_layer` but does not print the result, so these
two keep RT's other settings. It does not say how `rt_no_edge_updates` decodes pointers. Without updates, edges have no
information about nodes, so pointers decoded from edges alone could not reach the reported scores."""


MODERN: dict[str, Settings] = {
    name: replace(_baseline(name, 1, 128, 1e-3), batch_size=32, gradient_clip=1.0)
    for name in ("triplet_gmpnn", "triplet_mpnn", "gmpnn")
}
"""Triplet-GMPNN as its authors trained it on single tasks (Ibarz et al., 2022), and its ablations without the gate or
without triplets."""


MODERN_TRAINING: dict[str, Any] = {"learning_rate": 1.5e-4, "batch_size": 32, "gradient_clip": 1.0}
"""The training of every other model by the modern protocol, with a schedule of the learning rate
(`training.find_schedule`). With a constant rate of 2.5e-4 RT diverged on long trajectories, with these it did not."""


def find_settings(name: str, *, modern: bool = False) -> Settings:
    """The settings of a model by its name, as in `TUNED`, `ABLATIONS`, `MODERN`, or `untuned_` and a baseline's name.

    A processor that is not in the paper has the sizes of RT. By the `modern` protocol, a model of the paper keeps its
    sizes and has `MODERN_TRAINING`.

    >>> find_settings("untuned_mpnn").hidden_size
    128
    >>> find_settings("gatv2_full").pointers_from_edges
    False
    >>> find_settings("rt", modern=True).batch_size
    32
    """
    tables = {**TUNED, **ABLATIONS, **MODERN, **{f"untuned_{key}": value for key, value in UNTUNED.items()}}
    names = list(dict.fromkeys((*PROCESSORS, *tables)))
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"there is no model {shown(name)}; the models are {', '.join(names)}")
    settings = tables.get(name) or Settings(processor=name, pointers_from_edges=find_processor(name).returns_edges)
    return replace(settings, **MODERN_TRAINING) if modern and name not in MODERN else settings
