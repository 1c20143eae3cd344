"""`rt reproduce`: train the runs of a table of the paper."""

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
    """Train the runs of a table of the paper, or some of them, and print the table, the paper's numbers beside ours.

    Experiments: main, classes, transformer, single_layer, pointers, core_node, edge_updates, train_size, untuned,
    published_baselines, parameters, speed, lobster, sokoban. They share runs: a run that has a result is never trained
    again. Killed at any moment, the same command resumes from the last checkpoints.
    """

    experiment: Annotated[str, tyro.conf.Positional]
    """The experiment; --plan prints what it costs."""
    tasks: tuple[str, ...] = ()
    """Only these of its tasks; `core` is the paper's eight."""
    models: tuple[str, ...] = ()
    """Only these of its models; `pgn_combined` is pgn and pgn_masked."""
    seeds: int | None = None
    """The number of seeds of each; by default that of the paper."""
    examples: int | None = None
    """Examples that each seed trains on (Sokoban: steps); by default those of the paper."""
    plan: bool = False
    """Print the runs, their cost and the time left, and train nothing."""
    out: Path = Path("runs/reproduce")
    """The folder of all runs; on a cluster, on storage that its machines share."""
    seeds_together: int = 20
    """Seeds per fleet: they are trained together."""
    precision: Precision = "tf32"
    """tf32 (the same as fp32 on a CPU), bf16, fp32 or fp64."""
    compile: CompileMode = "auto"
    """Whether to compile the training step; auto does so on CUDA, and in long runs on a CPU."""
    protocol: Literal["paper", "modern"] = "paper"
    """CLRS-30: the paper's protocol, or the modern one, whose results are in the table `modern` of rt report."""
    recipe: Literal["original", "batched"] = "original"
    """Sokoban: one game at a time as in the paper, or many games, which is faster."""
    levels: Path | None = None
    """Sokoban: a Boxoban folder, which has the paper's levels; by default levels are generated."""
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
    """Print the table of an experiment from all results in a folder."""
    from relational_transformer.reports.tables import table_for

    print(table_for(experiment, folder), end="")
