"""`rt data`: make the CLRS-30 data, or show one example of it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from relational_transformer.clrs import ALGORITHMS, FeatureVersion, ProtocolName, SplitName
from relational_transformer.clrs.checks import check_count, check_name
from relational_transformer.clrs.classes import STRING_MATCHERS
from relational_transformer.clrs.dataset import MODERN_SPLITS, SPLITS
from relational_transformer.clrs.preparation import Preparation, PreparedSplit, prepare
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.show import show_example
from relational_transformer.files import cache_folder


@dataclass(frozen=True)
class DataArguments:
    """Make the canonical data of CLRS-30 algorithms, as the paper used it, and keep it in a cache. Data in the cache is
    checked, and made again if it is damaged. Training makes what it needs by itself.

    With --show, print one small example of an algorithm instead: its inputs, the hints of every step, and its outputs.
    """

    algorithms: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """The algorithms, such as bfs or insertion_sort; by default all thirty (6 GB). A wrong name lists them."""
    show: bool = False
    """Print one example of each of the algorithms, step by step, and make no data."""
    length: int | None = None
    """With --show: the size of the example; 8 by default, 20 for string matchers of the modern protocol."""
    seed: int = 9
    """With --show: the seed of the example. Some seeds give graphs without edges."""
    protocol: ProtocolName = "paper"
    """The data of the paper, or of the modern protocol. The modern protocol trains on fresh examples, so it has no
    train split."""
    splits: tuple[SplitName, ...] = ()
    """The splits to make; by default all that the protocol has."""
    train_samples: int = SPLITS["train"].num_samples
    """Training examples of each algorithm: 10,000 in the paper, 1,000 in dm-clrs."""
    version: FeatureVersion | None = None
    """The features of dm-clrs 1.0, as in the paper, or of 2.0, which adds a hint to quickselect; by default 1.0,
    but 2.0 for the modern protocol."""
    cache: Path | None = None
    """The folder of the cache; by default $RT_CACHE, or ~/.cache/relational_transformer."""
    processes: int = os.cpu_count() or 1
    """The number of processes that make data; by default all cores."""


def run(arguments: DataArguments) -> None:
    """Show examples, or make data and print a table of it."""
    for name in arguments.algorithms:
        check_name(name)
    console = Console()
    if arguments.show:
        if not arguments.algorithms:
            raise ValueError("--show needs the name of an algorithm, for instance: rt data --show bellman_ford")
        for name in arguments.algorithms:
            length = _shown_length(name, arguments.protocol) if arguments.length is None else arguments.length
            for line in show_example(name, length, arguments.seed, arguments.version, arguments.protocol):
                console.print(line, markup=False, highlight=False, soft_wrap=True)
        return
    names = arguments.algorithms or ALGORITHMS
    prepared = _prepare(arguments, names, console)
    console.print(_table(prepared, names))
    console.print(f"in {cache_folder(arguments.cache) / 'clrs'}", soft_wrap=True)


def _shown_length(name: str, protocol: ProtocolName) -> int:
    return training_lengths(name)[-1] if protocol == "modern" and name in STRING_MATCHERS else 8


def _prepare(arguments: DataArguments, names: tuple[str, ...], console: Console) -> list[PreparedSplit]:
    check_count(arguments.processes, "number of processes")
    check_count(arguments.train_samples, "number of training examples")
    splits = arguments.splits or tuple(MODERN_SPLITS if arguments.protocol == "modern" else SPLITS)
    preparations = [
        Preparation(
            algorithm=name,
            split=split,
            num_samples=arguments.train_samples if split == "train" else None,
            version=arguments.version,
            protocol=arguments.protocol,
            cache=arguments.cache,
        )
        for name in dict.fromkeys(names)
        for split in dict.fromkeys(splits)
    ]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    prepared = []
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("making data", total=len(preparations))
        for result in prepare(preparations, min(arguments.processes, len(preparations))):
            prepared.append(result)
            progress.update(task, advance=1, description=f"{result.algorithm} {result.split}")
        progress.update(task, description="data is ready")
    return prepared


def _table(prepared: list[PreparedSplit], names: tuple[str, ...]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("algorithm", no_wrap=True)
    table.add_column("split")
    for title in ("examples", "steps", "longest", "MB", "s"):
        table.add_column(title, justify="right")
    order = {name: place for place, name in enumerate(names)}
    splits = {split: place for place, split in enumerate(SPLITS)}
    for result in sorted(prepared, key=lambda result: (order[result.algorithm], splits[result.split])):
        table.add_row(
            result.algorithm,
            result.split,
            f"{result.num_samples:,}",
            f"{result.mean_steps:.1f}",
            f"{result.longest:,}",
            f"{result.num_bytes / 1e6:,.1f}",
            f"{result.seconds:.1f}",
        )
    table.add_section()
    total = sum(result.num_bytes for result in prepared)
    count = sum(result.num_samples for result in prepared)
    table.add_row("together", "", f"{count:,}", "", "", f"{total / 1e6:,.1f}", "")
    return table
