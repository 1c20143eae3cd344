"""Processors: the networks that run at every step of an algorithm, one file each. A new one is a file and a line
below."""

from relational_transformer.nn.checks import shown

from .deep_sets import DeepSets
from .gat import GAT, FullGAT
from .gatv2 import FullGATv2, GATv2
from .mpnn import MPNN
from .pgn import PGN, MaskedPGN
from .processor import GraphState, Processor
from .relational import RelationalProcessor
from .settings import ABLATIONS, MODERN, TUNED, UNTUNED, Settings, find_settings
from .transformer import Transformer
from .triplet_gmpnn import GMPNN, TripletGMPNN, TripletMPNN

PROCESSORS: dict[str, type[Processor]] = {
    "rt": RelationalProcessor,
    "transformer": Transformer,
    "deep_sets": DeepSets,
    "gat": GAT,
    "gat_full": FullGAT,
    "gatv2": GATv2,
    "gatv2_full": FullGATv2,
    "mpnn": MPNN,
    "pgn": PGN,
    "pgn_masked": MaskedPGN,
    "triplet_gmpnn": TripletGMPNN,
    "triplet_mpnn": TripletMPNN,
    "gmpnn": GMPNN,
}


def build_processor(settings: Settings) -> Processor:
    """The processor that `settings` name, with the sizes they give.

    >>> type(build_processor(TUNED["rt"])).__name__, build_processor(TUNED["rt"]).returns_edges
    ('RelationalProcessor', True)
    """
    if not isinstance(settings, Settings):
        raise ValueError(f"settings must be Settings, got {shown(settings)}")
    if settings.processor not in PROCESSORS:
        raise ValueError(f"there is no processor {settings.processor!r}; the processors are {', '.join(PROCESSORS)}")
    return PROCESSORS[settings.processor].from_settings(settings)


__all__ = [
    "ABLATIONS",
    "MODERN",
    "PROCESSORS",
    "TUNED",
    "UNTUNED",
    "GraphState",
    "Processor",
    "Settings",
    "build_processor",
    "find_settings",
]
