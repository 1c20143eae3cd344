"""Which model of the paper a result is of, and what its run has that the paper's has not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relational_transformer.processors.settings import ABLATIONS, TUNED, UNTUNED, Settings
from relational_transformer.training.protocol import PROTOCOLS, Protocol

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
}
"""Names of models as the paper prints them."""

PAPER_PRECISION = ("fp32", "fp64")
"""The paper says nothing of precision; its hardware computes in float32."""

_KNOWN: dict[str, Settings] = {**TUNED, **ABLATIONS, **{f"untuned_{name}": one for name, one in UNTUNED.items()}}


def title_of(variant: str) -> str:
    """A model's name in print.

    >>> title_of("untuned_pgn"), title_of("my_own")
    ('PGN-u, untuned', 'my_own')
    """
    plain = variant.removeprefix("untuned_")
    return TITLES.get(plain, plain) + (", untuned" if plain != variant else "")


def variant_of(model: str, settings: Mapping[str, Any]) -> str:
    """The model of the paper that these settings are nearest to: the one of the same processor from which fewest of
    them differ, and the one the run is called after if there are several. A processor of your own goes by its name.

    >>> variant_of("rt", {**vars(TUNED["rt"]), "num_layers": 1})
    'rt_single_layer'
    """
    same = [name for name, known in _KNOWN.items() if known.processor == settings.get("processor")]
    if not same:
        return model
    return min(same, key=lambda name: (len(_changes(settings, vars(_KNOWN[name]))), name != model))


def departures(config: Mapping[str, Any], variant: str, protocol: Protocol) -> tuple[str, ...]:
    """What a run of a CLRS-30 task has in its protocol or its model that the paper's has not, in words."""
    different = changes_in_words(config["protocol"], vars(protocol))
    if variant in _KNOWN:
        different += changes_in_words(config["settings"], vars(_KNOWN[variant]))
    return different


def changes_in_words(ours: Mapping[str, Any], usual: Mapping[str, Any]) -> tuple[str, ...]:
    """What is other than usual: `("validation interval 3,200",)`."""
    return tuple(f"{name.replace('_', ' ')} {_in_words(value)}" for name, value in _changes(ours, usual).items())


def expected_protocol(variant: str, train_examples: int | None = None) -> Protocol:
    """The paper's protocol. It trained the untuned baselines on 1,000 examples as well as on 10,000."""
    paper = PROTOCOLS["paper"]
    sizes = (1_000, paper.train_examples) if variant.startswith("untuned_") else ()
    return replace(paper, train_examples=train_examples) if train_examples in sizes else paper


def _changes(ours: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value

    return {name: value for name, value in ours.items() if plain(usual.get(name)) != plain(value)}


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
