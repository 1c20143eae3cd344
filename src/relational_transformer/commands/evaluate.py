"""`rt evaluate`: test a trained run again, on graphs of any size; with --hints, look where it goes wrong."""

import csv
import io
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from relational_transformer.files import check_replaceable, write_atomically
from relational_transformer.fleet.precision import default_device, find_device
from relational_transformer.nn.checks import shown
from relational_transformer.runs import RunFolder
from relational_transformer.runs.task import Evaluation
from relational_transformer.tasks import find_task, kind_of

if TYPE_CHECKING:
    from relational_transformer.analysis.hint_scores import HintScore, HintScores

WIDTH = 108
"""Of a table of hints where the output is no terminal, which has a width of its own."""


@dataclass(frozen=True)
class EvaluateArguments:
    """Test the best parameters of every seed of a run on its test set, or on graphs of another size, number or seed.
    Scores are those of the task: see rt train --help, rt train lobster --help and rt train qm9 --help.

    With --hints, find out where a run on CLRS-30 goes wrong: the score of every hint from the first step of a
    trajectory to the last, which hint is wrong first and when, and how often a step is wrong that sees the true hints.
    A step that is often wrong was never learnt; otherwise errors add up. Seeds are counted together.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """The folder of a run."""
    nodes: tuple[int, ...] = ()
    """The number of nodes of a graph (lobster graphs: of its spine), one or several; by default that of the run's test
    set (with --hints, of its validation and test sets)."""
    examples: int | None = None
    """The number of graphs, times the algorithm's canonical multiplier (1, 32 or 64); by default as in the run's test
    set."""
    data_seed: int | None = None
    """The seed of the graphs; by default that of the run's test set (3 on CLRS-30). With --hints it is 4 by default, so
    that no choice is made on the test set."""
    device: str = field(default_factory=default_device)
    """cuda, cuda:1 or cpu; by default a CUDA device if there is one."""
    hints: bool = False
    """Print the score of every hint by step."""
    seed: int | None = None
    """With --hints: the seed of the run to look at; by default all that did not fail."""
    csv: Path | None = None
    """With --hints: a file for the score of every hint at every step."""


def run(arguments: EvaluateArguments) -> None:
    folder = RunFolder(arguments.run)
    task = str(folder.read_config().get("task"))
    device = find_device(arguments.device)
    if arguments.hints:
        show_hints(arguments, folder, task, device)
        return
    unused = [name for name in ("seed", "csv") if getattr(arguments, name) is not None]
    if unused:
        raise ValueError(f"--{unused[0]} needs --hints: add it, or leave --{unused[0]} out")
    for nodes in arguments.nodes or (None,):
        kind = find_task(kind_of(task))
        show(kind.evaluate(folder, device, nodes, arguments.examples, arguments.data_seed))


def show(found: Evaluation) -> None:
    """Print the score of every seed."""
    table = Table(title=found.title)
    table.add_column("seed", justify="right")
    table.add_column(found.measure, justify="right")
    for seed, score in found.scores.items():
        table.add_row(str(seed), "failed" if score is None else found.shown(score))
    good = [score for score in found.scores.values() if score is not None]
    if len(good) > 1:
        table.add_row("mean", found.shown(statistics.mean(good)))
    Console().print(table)
    if found.note:
        Console().print(found.note, highlight=False)


def show_hints(arguments: EvaluateArguments, folder: RunFolder, task: str, device: Any) -> None:
    """Print a table of hints for every size, and write the file that was asked for."""
    if kind_of(task) != "clrs":
        raise ValueError(
            f"{folder.path} holds a run on {shown(task)}, which has no hints: --hints is for tasks of CLRS-30"
        )
    from relational_transformer.analysis.hint_scores import evaluate_hints
    from relational_transformer.training import TrainConfig

    if arguments.csv is not None:
        check_replaceable(arguments.csv)  # now, and not after everything has been scored
    config = folder.read_config(TrainConfig.from_dict)
    sizes = arguments.nodes or (config.protocol.validation_nodes, config.protocol.test_nodes)
    console = Console(width=None if sys.stdout is not None and sys.stdout.isatty() else WIDTH)
    all_found: list[HintScores] = []
    for nodes in sizes:
        found = evaluate_hints(
            folder, device, nodes=nodes, examples=arguments.examples, data_seed=arguments.data_seed, seed=arguments.seed
        )
        console.print(hints_table(f"{config.model} on {config.task}, {found.nodes} nodes", found))
        console.print(
            f"{found.examples:,} graphs, {len(found.running):,} steps at most. All hints but scalars are right to the "
            f"end in {_percent(found.all_right)}%. Score of the output: {100 * found.output:.2f}%.\n",
            highlight=False,
        )
        all_found.append(found)
    console.print(LEGEND, highlight=False)
    if arguments.csv is not None:
        text = hints_csv(all_found)
        write_atomically(arguments.csv, lambda file: file.write_text(text))


def hints_table(title: str, found: "HintScores") -> Table:
    """A row for every hint, those first that go wrong first."""
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("hint", no_wrap=True)
    ranges = tuple(found.hints[0].by_range)
    for heading in (*ranges, "wrong\nfirst", "from\nstep", "given\ntruth", "wrong\nsteps"):
        table.add_column(heading, justify="right", no_wrap=True)
    for hint in sorted(found.hints, key=lambda hint: -hint.first):
        table.add_row(
            hint.name,
            *(_score(hint, value) for value in hint.by_range.values()),
            _percent(hint.first),
            "-" if hint.first_step is None else f"{hint.first_step:g}",
            _score(hint, hint.given_truth),
            _percent(hint.wrong_given_truth),
        )
    return table


def _score(hint: "HintScore", value: float | None) -> str:
    if value is None:
        return "-"
    return _percent(value) if hint.spread is None else f"±{value / hint.spread:.3f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


LEGEND = """\
In percent; for scalars with ±, the mean error in standard deviations of the true values.
wrong first   share of graphs in which this hint is wrong before all others (a scalar never is)
from step     median of the first wrong step, over graphs in which this hint is ever wrong
given truth   score of steps that see the true hints
wrong steps   share of those steps at which any element of the hint is wrong"""


def hints_csv(found: Iterable["HintScores"]) -> str:
    """Every number in full, a row for each hint and step."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("nodes", "hint", "type", "spread", "step", "examples", "score", "score_given_truth"))
    writer.writerows(row for one in found for hint in one.hints for row in _rows(one, hint))
    return text.getvalue()


def _rows(found: "HintScores", hint: "HintScore") -> Iterator[tuple[Any, ...]]:
    spread = "" if hint.spread is None else hint.spread
    columns = zip(found.running, hint.by_step, hint.by_step_given_truth, strict=True)
    for step, (examples, score, given_truth) in enumerate(columns, start=1):
        yield found.nodes, hint.name, hint.type, spread, step, examples, score, given_truth
