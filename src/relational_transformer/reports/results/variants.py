"""The models of the paper, their printed names, and the model to which a run belongs."""

from collections.abc import Mapping
from typing import Any

from relational_transformer.processors.settings import ABLATIONS, TUNED, UNTUNED, Settings

MODELS = ("deep_sets", "gat", "gatv2", "mpnn", "pgn", "pgn_masked", "pgn_combined", "rt")
"""The columns of the paper's main table, in its order."""
BASELINES = MODELS[:-1]

TITLES: dict[str, str] = {
    "deep_sets": "Deep Sets",
    "gat": "GAT-v1",
    "gatv2": "GAT-v2",
    "mpnn": "MPNN",
    "pgn": "PGN-u",
    "pgn_masked": "PGN-m",
    "pgn_combined": "PGN-c",
    "rt": "RT",
    "transformer": "Transformer",
    "rt_single_layer": "RT-1",
    "rt_node_pointers": "RT, original decoding",
    "rt_core": "RT, core node",
    "rt_no_edge_updates": "RT, no edge updates",
    "gcn": "GCN",
    "triplet_gmpnn": "Triplet-GMPNN",
    "rt_along_edges": "RT, attention along edges",
}
"""The names of models as the paper prints them."""

OPTIONS = {"attention": "along_edges"}
"""Settings of lobster graphs that make another model than the paper's. They are recorded where they are not as
published."""

KNOWN: dict[str, Settings] = {**TUNED, **ABLATIONS, **{f"untuned_{name}": one for name, one in UNTUNED.items()}}
"""The settings of every model that the paper ran on CLRS-30."""


def title_of(variant: str) -> str:
    """A model's name in print.

    >>> title_of("untuned_pgn"), title_of("my_own")
    ('PGN-u, untuned', 'my_own')
    """
    plain = variant.removeprefix("untuned_")
    return TITLES.get(plain, plain) + (", untuned" if plain != variant else "")


def title_on(task: str, variant: str) -> str:
    """A model's printed name on a task: the lobster experiment has only one GAT.

    >>> title_on("lobster", "gat")
    'GAT'
    """
    return "GAT" if (task, variant) == ("lobster", "gat") else title_of(variant)


def variant_of(model: str, settings: Mapping[str, Any]) -> str:
    """The model of the paper that is nearest to these settings: the one with the same processor and the fewest
    differing values, of equals the one with the run's name. A processor that is not in the paper keeps its name.

    >>> variant_of("rt", {**vars(TUNED["rt"]), "num_layers": 1})
    'rt_single_layer'
    """
    same = [name for name, known in KNOWN.items() if known.processor == settings.get("processor")]
    if not same:
        return model
    return min(same, key=lambda name: (len(changes(settings, vars(KNOWN[name]))), name != model))


def with_options(model: str, settings: Mapping[str, Any]) -> str:
    """A model of lobster graphs or Sokoban by its name and the options that it has.

    >>> with_options("rt", {"num_layers": 30}), with_options("rt", {"attention": "edges"})
    ('rt', 'rt_along_edges')
    """
    return "_".join([model, *(name for option, name in OPTIONS.items() if option in settings)])


def changes(ours: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from the usual ones. Lists and tuples are equal, because JSON has lists only."""

    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    return {name: value for name, value in ours.items() if plain(usual.get(name)) != plain(value)}
