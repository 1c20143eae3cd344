"""`rt look`: a page that steps through an algorithm, and through what trained networks make of it."""

import webbrowser
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from relational_transformer.clrs import ProtocolName
from relational_transformer.clrs.checks import check_name, check_seed
from relational_transformer.files import write_atomically
from relational_transformer.look.page import make_page
from relational_transformer.look.run import open_runs


@dataclass(frozen=True)
class LookArguments:
    """Write a page that steps through an algorithm on one example, and open it. With a run, the page shows what its
    network predicts beside the truth at every step, and its attention; with two runs, it compares them. The page is one
    file that loads nothing, so it can be sent to others."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """The folders of one or two runs of the same algorithm; without any, the page shows the algorithm alone."""
    task: str | None = None
    """Without a run: the algorithm, such as dijkstra."""
    nodes: tuple[int, ...] = (16,)
    """The number of nodes of the example; two numbers make two examples on one page."""
    seed: int = 3
    """The seed of the example."""
    trained_seed: int | None = None
    """The seed of the run to look at; by default the first that did not fail."""
    layers: tuple[int, ...] = ()
    """The layers whose attention is shown, from 1; by default all, as long as the page stays small."""
    protocol: ProtocolName | None = None
    """Without a run: the form of the data, paper by default."""
    out: Path | None = None
    """The file to write; by default look-TASK.html."""
    open: bool = field(default=True)
    """Open the page in a browser."""


def run(arguments: LookArguments) -> None:
    check_seed(arguments.seed)
    if arguments.task is not None:
        check_name(arguments.task)
    _check_use(arguments)
    runs = open_runs(arguments.runs, arguments.trained_seed)
    task = arguments.task or (runs[0].config.task if runs else None)
    if task is None:
        raise ValueError("name a run, or an algorithm, for instance: rt look --task dijkstra")
    page = make_page(
        task,
        runs,
        nodes=arguments.nodes,
        seed=arguments.seed,
        protocol=arguments.protocol or "paper",
        layers=arguments.layers or None,
    )
    out = arguments.out or Path(f"look-{task}.html")
    write_atomically(out, lambda file: file.write_text(page, encoding="utf-8"))
    print(f"{out}: {len(page.encode()) / 1e6:.1f} MB, one file that loads nothing")
    if arguments.open:
        webbrowser.open(out.resolve().as_uri())


def _check_use(arguments: LookArguments) -> None:
    """Refuse options that would be ignored."""
    if arguments.runs and arguments.protocol is not None:
        raise ValueError("--protocol has no effect with a run, which has its own: leave it out")
    of_runs = {"--trained-seed": arguments.trained_seed is not None, "--layers": bool(arguments.layers)}
    for option, is_given in of_runs.items():
        if is_given and not arguments.runs:
            raise ValueError(f"{option} has no effect without a run: name one, or leave it out")
