"""The grids that the paper searched for its CLRS-30 experiments, one for each model that it tuned."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relational_transformer.processors.settings import Settings, find_settings

from .grid import Configuration, Value

VALUES: dict[str, tuple[Value, ...]] = {
    "batch_size": (1, 2, 4, 8, 16),
    "num_layers": (1, 2, 3, 4),
    "learning_rate": (4e-5, 6.3e-5, 1e-4, 1.6e-4, 2.5e-4, 4e-4, 6.3e-4, 1e-3, 1.6e-3, 2.5e-3, 4e-3, 6.3e-3, 1e-2),
    "hidden_size": (45, 64, 90, 128, 180, 256, 360, 512),
    "num_heads": (3, 4, 6, 8, 10, 12, 16),
    "head_size": (8, 12, 16, 24, 32, 45, 64),
    "node_hidden_size": (4, 6, 8, 12, 16, 24, 32, 45, 64, 90),
    "edge_hidden_size_1": (12, 16, 24, 32, 45, 64),
    "edge_hidden_size_2": (4, 6, 8, 12, 16, 24, 32, 45),
    "pointers_from_edges": (False, True),
    "global_mode": ("core", "cat"),
}
"""Table `all_hp_values_table`, in its order: d_n = d_e = d_g is `hidden_size`, d_nh `node_hidden_size`, d_eh1 and d_eh2
`edge_hidden_size_1` and `_2`, nb_heads `num_heads`, ptr_from_edges `pointers_from_edges`, graph_vec `global_mode`."""

_TRAINING = ("batch_size", "num_layers", "learning_rate")
_HEADS = ("num_heads", "head_size")
_EDGES = ("edge_hidden_size_1", "edge_hidden_size_2", "pointers_from_edges", "global_mode")

_HYPERPARAMETERS: dict[str, tuple[str, ...]] = {
    "rt": (*_TRAINING, *_HEADS, "node_hidden_size", *_EDGES),
    "deep_sets": (*_TRAINING, "hidden_size"),
    "gat": (*_TRAINING, *_HEADS),
    "gatv2": (*_TRAINING, *_HEADS),
    "mpnn": (*_TRAINING, "hidden_size"),
    "pgn": (*_TRAINING, "hidden_size"),
    "pgn_masked": (*_TRAINING, "hidden_size"),
    "transformer": (*_TRAINING, *_HEADS, "node_hidden_size"),
    "rt_single_layer": ("batch_size", "learning_rate", *_HEADS, "node_hidden_size", *_EDGES),
}
"""The hyperparameters of each model: the rows of `clrs_hp_table` that hold a value. The last two are ablations that the
paper re-tuned without printing a table. They have RT's, without those that the ablation removes."""

GRIDS: dict[str, dict[str, tuple[Value, ...]]] = {
    model: {name: VALUES[name] for name in names} for model, names in _HYPERPARAMETERS.items()
}
"""The grid of each model, as `GridDescentSampler` takes it."""


def find_grid(model: str) -> dict[str, tuple[Value, ...]]:
    """The grid of a model by its name."""
    if model not in GRIDS:
        raise ValueError(f"the paper tuned no model called {model!r}; it tuned {', '.join(GRIDS)}")
    return GRIDS[model]


def settings_of(model: str, configuration: Mapping[str, Any]) -> Settings:
    """The settings of a model with a configuration of its grid. Models with heads have hidden size heads x head size.

    >>> settings_of("gat", {"num_heads": 3, "head_size": 8, "num_layers": 2}).hidden_size
    24
    """
    changes = dict(configuration)
    settings = find_settings(model)
    if "head_size" in changes:
        changes["hidden_size"] = changes.pop("head_size") * changes.get("num_heads", settings.num_heads)
    edge_hidden_sizes = tuple(
        changes.pop(f"edge_hidden_size_{k}", size) for k, size in enumerate(settings.edge_hidden_sizes, start=1)
    )
    return replace(settings, edge_hidden_sizes=edge_hidden_sizes, **changes)


def configuration_of(model: str, settings: Settings | None = None) -> Configuration:
    """The configuration on a model's grid that corresponds to `settings`, by default the paper's.

    >>> configuration_of("mpnn")
    {'batch_size': 4, 'num_layers': 1, 'learning_rate': 0.0016, 'hidden_size': 512}
    """
    settings = settings or find_settings(model)
    values = vars(settings) | {
        "head_size": settings.hidden_size // settings.num_heads,
        "edge_hidden_size_1": settings.edge_hidden_sizes[0],
        "edge_hidden_size_2": settings.edge_hidden_sizes[1],
    }
    return {name: values[name] for name in find_grid(model)}
