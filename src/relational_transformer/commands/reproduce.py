"""`rt reproduce`: make a table of the paper again."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.precision import Precision
from relational_transformer.sweeps import Part, cells_of, find_experiment, plan
from relational_transformer.sweeps.engines import EngineOptions, check_options
from relational_transformer.sweeps.planning import finished_runs
from relational_transformer.sweeps.speeds import Speeds

from .reproduce_display import carry_out, show_plan


@dataclass(frozen=True)
class ReproduceArguments:
    """Train what a table of the paper needs, or any part of it, and print the table, the paper's numbers beside ours.

    Experiments: main, classes, transformer, single_layer, pointers, core_node, edge_updates, train_size, untuned,
    published_baselines, parameters, speed, lobster, sokoban; and qm9, which the paper has not. They share
    their runs: what is done is never run again.
    Killed at any moment, the same command goes on from the last checkpoints.
    """

    experiment: Annotated[str, tyro.conf.Positional]
    """Which one; --plan says what it takes."""
    tasks: tuple[str, ...] = ()
    """Some of its tasks; `core` is the paper's eight."""
    models: tuple[str, ...] = ()
    """Some of its models; `pgn_combined` is pgn and pgn_masked."""
    seeds: int | None = None
    """Seeds of each; as many as the paper has by default."""
    examples: int | None = None
    """Examples that each seed trains on (Sokoban: steps); by default as many as in the paper."""
    plan: bool = False
    """Print the runs, what they cost and the time left, and start nothing."""
    out: Path = Path("runs/reproduce")
    """Folder of all runs; on a cluster, on storage that its machines share."""
    seeds_together: int = 20
    """Seeds that are trained at once, as one fleet."""
    precision: Precision = "tf32"
    """tf32 (on a CPU the same as fp32), bf16, fp32 or fp64."""
    compile: CompileMode = "auto"
    """Compile the training step: on CUDA, and in long runs on a CPU."""
    protocol: Literal["paper", "modern"] = "paper"
    """CLRS-30: the paper's protocol, or the modern one, whose results stand in the table `modern` of rt report."""
    recipe: Literal["original", "batched"] = "original"
    """Sokoban: the paper's one game at a time, or many, which is faster."""
    levels: Path | None = None
    """Sokoban: a Boxoban folder, as in the paper; generated levels by default."""
    where: Annotated[EngineOptions, tyro.conf.arg(name="")] = field(default_factory=EngineOptions)


def run(arguments: ReproduceArguments) -> None:
    part = Part(
        tasks=arguments.tasks,
        models=arguments.models,
        seeds=arguments.seeds,
        examples=arguments.examples,
        precision=arguments.precision,
        compile=arguments.compile,
        protocol=arguments.protocol,
        recipe=arguments.recipe,
        levels=None if arguments.levels is None else str(arguments.levels.absolute()),
    )
    check_options(arguments.where)
    experiment = find_experiment(arguments.experiment)
    runs = plan(arguments.out, cells_of(experiment, part), arguments.seeds_together)
    if arguments.plan:
        show_plan(experiment.title, runs, Speeds(finished_runs(arguments.out)))
        return
    given_up = carry_out(runs, arguments.where)
    print_table(arguments.experiment if arguments.protocol == "paper" else "modern", arguments.out)
    if given_up:
        sys.exit(1)


def print_table(experiment: str, folder: Path) -> None:
    """The table of the experiment, from all results that there are."""
    from relational_transformer.reports.tables import table_for

    print(table_for(experiment, folder), end="")
