"""The registry of processors. A processor is imported when a model of it is first built."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .processor import Processor

HERE = "relational_transformer.processors"

PROCESSORS: dict[str, str] = {
    "rt": f"{HERE}.relational.RelationalProcessor",
    "transformer": f"{HERE}.transformer.Transformer",
    "deep_sets": f"{HERE}.deep_sets.DeepSets",
    "gat": f"{HERE}.gat.GAT",
    "gat_full": f"{HERE}.gat.FullGAT",
    "gatv2": f"{HERE}.gatv2.GATv2",
    "gatv2_full": f"{HERE}.gatv2.FullGATv2",
    "mpnn": f"{HERE}.mpnn.MPNN",
    "pgn": f"{HERE}.pgn.PGN",
    "pgn_masked": f"{HERE}.pgn.MaskedPGN",
    "triplet_gmpnn": f"{HERE}.triplet_gmpnn.TripletGMPNN",
    "triplet_mpnn": f"{HERE}.triplet_gmpnn.TripletMPNN",
    "gmpnn": f"{HERE}.triplet_gmpnn.GMPNN",
}
"""The class of each processor. A new processor adds a line here (docs/add-a-processor.md)."""


def find_processor(name: str) -> "type[Processor]":
    """The class of a processor.

    >>> find_processor("mpnn").__name__
    'MPNN'
    """
    if name not in PROCESSORS:
        raise ValueError(f"there is no processor {name!r}; the processors are {', '.join(PROCESSORS)}")
    module, _, kind = PROCESSORS[name].rpartition(".")
    return getattr(import_module(module), kind)
