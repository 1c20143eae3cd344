"""`rt look`: a page that steps through an algorithm, and through what trained networks make of it."""

import webbrowser
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from relational_transformer.clrs import ProtocolName
from relational_transformer.clrs.checks import check_count, check_name, check_seed
from relational_transformer.files import write_atomically
from relational_transformer.look.page import make_page
from relational_transformer.look.run import open_runs


@dataclass(frozen=True)
class LookArguments:
    """Write a page that steps through an algorithm on one example, and open it. With a run, what its network predicts
    stands beside the truth at every step; with two runs, they stand beside each other. The page is one file and loads
    nothing."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Folders of runs of one algorithm; none, to see the algorithm alone."""
    task: str | None = None
    """The algorithm, where no run says it, such as dijkstra."""
    nodes: tuple[int, ...] = (16,)
    """Size of the example; two sizes for two examples on one page."""
    seed: int = 3
    """Seed of the example."""
    trained_seed: int | None = None
    """Which seed of a run to look at; by default the first that did not fail."""
    layers: tuple[int, ...] = ()
    """Layers whose attention is kept, from 1; by default all of them, as long as the page stays small."""
    protocol: ProtocolName = "paper"
    """The form of the data, where no run says it."""
    out: Path | None = None
    """The file to write; by default look-TASK.html."""
    open: bool = field(default=True)
    """Open the page in a browser."""


def run(arguments: LookArguments) -> None:
    check_seed(arguments.seed)
    for size in arguments.nodes:
        check_count(size, "number of nodes")
    if arguments.task is not None:
        check_name(arguments.task)
    unused = [name for name in ("trained_seed", "layers") if getattr(arguments, name) not in (None, ())]
    if unused and not arguments.runs:
        raise ValueError(f"--{unused[0].replace('_', '-')} is of a run: name one, or leave it out")
    runs = open_runs(arguments.runs, arguments.trained_seed)
    task = arguments.task or (runs[0].config.task if runs else None)
    if task is None:
        raise ValueError("name a run, or an algorithm, for instance: rt look --task dijkstra")
    page = make_page(
        task,
        runs,
        nodes=arguments.nodes,
        seed=arguments.seed,
        protocol=arguments.protocol,
        layers=arguments.layers or None,
    )
    out = arguments.out or Path(f"look-{task}.html")
    write_atomically(out, lambda file: file.write_text(page, encoding="utf-8"))
    print(f"{out}: {len(page.encode()) / 1e6:.1f} MB, one file that loads nothing")
    if arguments.open:
        webbrowser.open(out.resolve().as_uri())
