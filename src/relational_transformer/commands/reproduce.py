"""`rt reproduce`: train the runs of a table of the paper."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from relational_transformer.fleet.adam import Decay
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.precision import Precision, PrecisionChoice
from relational_transformer.sweeps import Selection, cells_of, find_experiment, plan
from relational_transformer.sweeps.cells import protocol_of
from relational_transformer.sweeps.engines import EngineOptions, check_options, precision_on
from relational_transformer.sweeps.planning import finished_runs
from relational_transformer.sweeps.speeds import Speeds

from .terminal.sweeps import Order, carry_out, show_plan
from .train_run import changes_of


@dataclass(frozen=True)
class ReproduceArguments:
    """Train the runs of a table of the paper, or some of them, and print the table with the paper's numbers beside
    ours.

    Experiments of the paper: main, classes, transformer, single_layer, pointers, core_node, edge_updates, train_size,
    untuned, published_baselines, parameters, speed, lobster, sokoban. Others: modern (CLRS-30 by the protocol in use
    since 2022) and qm9 (extra molecules).

    Experiments share runs, and a run that has a result is never trained again. A killed command resumes from the last
    checkpoints. Begin with --plan: the whole table main costs 132,106 PFLOP.
    """

    experiment: Annotated[str, tyro.conf.Positional]
    """The name of an experiment, such as edge_updates."""
    tasks: tuple[str, ...] = ()
    """Only these of its tasks; core is the paper's eight."""
    order: Order = "cost"
    """The order in which runs begin. cost: cheap ones first if one is trained at a time, else costly ones; given: that
    of --tasks."""
    models: tuple[str, ...] = ()
    """Only these of its models; pgn_combined is pgn and pgn_masked."""
    seeds: int | None = None
    """The number of seeds of each; by default that of the paper."""
    examples: int | None = None
    """Examples that each seed trains on (Sokoban: steps); by default those of the paper."""
    plan: bool = False
    """Print the runs, their cost and the time left, and train nothing."""
    out: Path = Path("runs/reproduce")
    """The folder of all runs; on a cluster, on storage that its machines share."""
    seeds_together: int = 20
    """The largest number of seeds that are trained together as a fleet."""
    precision: PrecisionChoice = "auto"
    """The precision of all runs. auto: bf16 on cards with fused kernels for it, tf32 on other cards and on a cluster,
    fp32 on a CPU."""
    precision_of: dict[str, Precision] = field(default_factory=dict)
    """CLRS-30: the precision of single tasks, such as minimum tf32 insertion_sort tf32."""
    learning_rate: float | None = None
    """CLRS-30: the learning rate of all models, in place of their own."""
    weight_decay: float | None = None
    """CLRS-30: the weight decay of all models, in place of their own."""
    num_layers: int | None = None
    """CLRS-30: the layers of all models, in place of their own."""
    warmup_steps: int | None = None
    """CLRS-30: training steps over which the learning rates grow from zero, in place of the models' own."""
    decay: Decay | None = None
    """CLRS-30: the learning rates after the warm-up, in place of the models' own."""
    compile: CompileMode = "auto"
    """Compile training steps; auto: on CUDA but for the modern protocol, and in long runs on a CPU."""
    protocol: Literal["paper", "modern"] | None = None
    """CLRS-30: the paper's protocol or the modern one; by default that of the experiment. rt report has tables of their
    own for modern results."""
    recipe: Literal["original", "batched"] = "original"
    """Sokoban: one game at a time as in the paper, or 64 games at once, which is much faster."""
    levels: Path | None = None
    """Sokoban: a Boxoban folder, which has the paper's levels; by default easier levels are generated."""
    where: Annotated[EngineOptions, tyro.conf.arg(name="engine")] = field(default_factory=EngineOptions)
    """Where the runs are trained."""


def run(arguments: ReproduceArguments) -> None:
    check_options(arguments.where)
    selection = Selection(
        tasks=arguments.tasks,
        models=arguments.models,
        seeds=arguments.seeds,
        examples=arguments.examples,
        precision=precision_on(arguments.where, arguments.precision),
        precision_of=arguments.precision_of,
        changes=changes_of(arguments, "learning_rate", "weight_decay", "num_layers"),
        schedule=changes_of(arguments, "warmup_steps", "decay"),
        compile=arguments.compile,
        protocol=arguments.protocol,
        recipe=arguments.recipe,
        levels=None if arguments.levels is None else str(arguments.levels.absolute()),
    )
    experiment = find_experiment(arguments.experiment)
    runs = plan(arguments.out, cells_of(experiment, selection), arguments.seeds_together)
    if arguments.plan:
        show_plan(experiment.title, runs, Speeds(finished_runs(arguments.out)))
        return
    outcome = carry_out(runs, arguments.where, arguments.order)
    print_table("modern" if protocol_of(experiment, selection) == "modern" else arguments.experiment, arguments.out)
    if not outcome.is_complete:
        sys.exit(1)


def print_table(experiment: str, folder: Path) -> None:
    """Print the table of an experiment from all results in a folder."""
    from relational_transformer.reports.tables import table_for

    print(table_for(experiment, folder), end="")
