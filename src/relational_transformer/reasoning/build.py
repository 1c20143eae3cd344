"""Builds networks from settings."""

from relational_transformer.clrs.spec import Spec
from relational_transformer.processors import Settings, build_processor

from .hints import HintFeedback
from .network import Network, find_spec


def build_network(
    algorithm: str | Spec,
    settings: Settings,
    *,
    hint_feedback: HintFeedback = "paper",
    small_scalar_hints: bool = False,
) -> Network:
    """The network for `algorithm` with the model of `settings`. The other arguments are those of `Network`.

    >>> from relational_transformer.processors import TUNED
    >>> sum(parameter.numel() for parameter in build_network("bellman_ford", TUNED["rt"]).parameters())
    1103404
    """
    find_spec(algorithm)  # before anything is built
    return Network(
        algorithm,
        build_processor(settings),
        settings.hidden_size,
        pointers_from_edges=settings.pointers_from_edges,
        hint_mode=settings.hint_mode,
        hint_feedback=hint_feedback,
        small_scalar_hints=small_scalar_hints,
        edge_pointers=settings.edge_pointers,
    )
