"""The paper's tables of what a model costs: numbers of parameters, and speed of training."""

import torch

from relational_transformer.processors.settings import find_settings
from relational_transformer.reasoning.build import build_network

from .paper import contradictions, numbers
from .results.archive import Archive
from .results.cell import Cell, Ours
from .results.estimate import Estimate
from .results.variants import title_of
from .table import Table


def parameters(archive: Archive) -> Table:
    """Trainable parameters on Bellman-Ford, encoders and decoders included. Counted, so that no run is needed."""
    paper = numbers()["parameters"]
    cells = [
        Cell(row, title_of(model), Ours(_bare(_count(paper["task"], prefix + model))), _bare(printed))
        for row, prefix in (("tuned", ""), ("untuned", "untuned_"))
        for model, printed in paper[row].items()
    ]
    return Table(
        name="parameters",
        title="Numbers of trainable parameters on Bellman-Ford",
        source=paper["table"],
        cells=tuple(cells),
        row_header="settings",
        unit="",
        decimals=0,
        kind="exact",
        remarks=(
            "Ours are counted, not measured.",
            *contradictions("parameters"),
            "The paper does not print the untuned settings; one layer of size 128 with one head gives its counts, "
            "except that of GAT-v1.",
        ),
    )


def speed(archive: Archive) -> Table:
    """Examples a second in training on Bellman-Ford, over all seeds of a fleet."""
    paper = numbers()["speed"]
    cells = [
        Cell(row, title_of(model), _fastest(archive, paper["task"], prefix + model), _bare(printed))
        for row, prefix in (("tuned", ""), ("untuned", "untuned_"))
        for model, printed in paper[row].items()
    ]
    return Table(
        name="speed",
        title="Speed of training on Bellman-Ford, examples a second",
        source=paper["table"],
        cells=tuple(cells),
        row_header="settings",
        unit="examples/s",
        decimals=1,
        kind="ratio",
        remarks=(
            f"The paper's speeds are of one seed on a {paper['hardware']}. Ours are of whole runs, over all seeds that "
            "were trained together, with validations and compilation; the hardware is in the footnotes. Runs that "
            "shared a device or were interrupted are slower than alone.",
        ),
    )


def _count(task: str, model: str) -> int:
    with torch.device("meta"):
        network = build_network(task, find_settings(model))
    return sum(parameter.numel() for parameter in network.parameters())


def _fastest(archive: Archive, task: str, variant: str) -> Ours | None:
    """The fastest of the measured runs."""
    rates = []
    for size in (1_000, 10_000) if variant.startswith("untuned_") else (None,):
        for result in archive.of(task, variant, size):
            examples = result.config["protocol"]["examples"]
            for run in result.runs:
                if run.seconds:
                    note = f"{run.hardware}, {_seeds(len(run.seeds))}, {result.config.get('precision', 'fp32')}"
                    rates.append((examples * len(run.seeds) / run.seconds, len(run.seeds), note))
    if not rates:
        return None
    rate, seeds, note = max(rates)
    return Ours(Estimate(rate, None, seeds, None, None), notes=(note,))


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds together"


def _bare(value: float) -> Estimate:
    return Estimate(value, None, 0, None, None)
