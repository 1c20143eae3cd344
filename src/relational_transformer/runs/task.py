"""The contract between an experiment and the trainer. A new experiment implements it in one file."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from relational_transformer.fleet.adam import Adam
from relational_transformer.fleet.compiling import CompileMode, should_compile
from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.graphs import usable_bytes
from relational_transformer.fleet.pieces import Parameters
from relational_transformer.fleet.precision import Precision

from .config import RunConfig
from .run_folder import MetricsRow, RunFolder

VECTORS = 4
"""Vectors of all parameters that a run holds at least: the parameters, Adam's moments, and the best parameters."""
MOST_TENSORS = 10**6


class Optimiser(NamedTuple):
    """Adam's hyperparameters: the learning rate, epsilon, the norm to which the gradient of a seed is clipped, and the
    weight decay.

    >>> Optimiser(1e-3, clip=1.0).epsilon
    1e-08
    """

    learning_rate: float
    epsilon: float = 1e-8
    clip: float | None = None
    weight_decay: float = 0.0


class Start(NamedTuple):
    """What the trainer gives a task when its run begins.

    >>> task.start(Start(model, fleet, adam, torch.device("cpu"), False, RunFolder("run")))  # doctest: +SKIP

    Attributes:
        model: the model of the first seed, on the device. All seeds are run through it.
        fleet, adam: the parameters of all seeds, and their optimiser.
        compiled: whether the task should compile functions that it calls many times.
        folder: the folder of the run.
    """

    model: Any
    fleet: Fleet
    adam: Adam
    device: torch.device
    compiled: bool
    folder: RunFolder


ConfigType = TypeVar("ConfigType", bound=RunConfig)


class Evaluation(NamedTuple):
    """The scores of a run on other data, by seed; None for a seed that failed."""

    title: str
    measure: str
    scores: dict[int, float | None]
    shown: Callable[[float], str]
    note: str | None = None


class Task(ABC, Generic[ConfigType]):
    """One run of an experiment, as the trainer sees it: `num_steps` training steps of a fleet, cut into parts of
    `steps_of_part` steps, each of which ends in a validation.

    A task keeps the data of its steps on the device and does not wait for the device. The tensors that a step changes
    keep their addresses, so that the step can be captured as a CUDA graph. Random numbers depend on the seed and the
    number of the part alone, so that a run can be resumed after any step.

    >>> from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol, LobsterTask
    >>> task = LobsterTask(LobsterConfig("gat", SETTINGS["gat"], LobsterProtocol(), seeds=(0, 1)))
    >>> task.num_steps, task.examples_of_step, task.shown(0.25)
    (62500, 32, '0.2500')

    Attributes (of a class):
        config_type: the class of the configuration.
        higher_is_better: whether higher validation scores are better.
        scores: names of the scores of a test; one of them is `test`.
        columns: the columns of the metrics besides loss and validation.
        steps_at_once: training steps in a turn of this run, by type of device; runs on one device take turns.
        records_validation: whether the validation is captured as a CUDA graph; then it must not wait for the device.
        only_launches: whether on CUDA all turns of a run after the first only replay captured graphs, so that another
        run may be compiled meanwhile.
        is_small: whether several runs share a GPU by default.
        title: the title of its figure of validation scores; if empty, the title of the algorithm.
        examples_are: the plural of what an example is called.
        measure: what its scores measure, as tables say it.
        shown_times, shown_as, unit: the factor, the number format and the unit with which a score is shown.
        row_type: the TypedDict that a row of the metrics must fit.
    """

    config_type: ClassVar[type[RunConfig]]
    higher_is_better: ClassVar[bool] = True
    scores: ClassVar[tuple[str, ...]] = ("test",)
    columns: ClassVar[tuple[str, ...]] = ()
    steps_at_once: ClassVar[Mapping[str, int]] = {"cuda": 8, "cpu": 8}
    records_validation: ClassVar[bool] = False
    only_launches: ClassVar[bool] = False
    is_small: ClassVar[bool] = False
    title: ClassVar[str] = ""
    measure: ClassVar[str] = ""
    shown_times: ClassVar[float] = 100.0
    shown_as: ClassVar[str] = ".2f"
    unit: ClassVar[str] = "%"
    row_type: ClassVar[Any] = MetricsRow
    examples_are: ClassVar[str] = "examples"

    steps: Any
    """The training steps, a `Steps`, which `start` makes."""

    def __init__(self, config: ConfigType, data: str | None = None) -> None:
        """`data` is the folder of the run's data, for tasks that do not generate it."""
        self.config, self.data = config, data

    # The size of a run, its optimiser and its model.

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """Training steps of the whole run."""

    @property
    @abstractmethod
    def steps_of_part(self) -> int:
        """Training steps between two validations."""

    @property
    @abstractmethod
    def examples_of_step(self) -> int:
        """Examples that each seed trains on in a step."""

    @property
    @abstractmethod
    def optimiser(self) -> Optimiser:
        """Adam's numbers."""

    @abstractmethod
    def build(self) -> nn.Module:
        """The model of one seed, freshly initialised."""

    def check(self, folder: RunFolder, device: torch.device) -> None:
        """Refuse a configuration that cannot be trained, or whose parameters the device cannot hold, before its folder
        is made."""
        from relational_transformer.nn.saving.outline import TooLarge, at_most  # here: most programs begin no run

        seeds, memory = len(self.config.seeds), usable_bytes(device)
        bytes_of_a_parameter = VECTORS * seeds * (8 if self.config.precision == "fp64" else 4)
        try:
            with torch.device("meta"), at_most(MOST_TENSORS, memory // bytes_of_a_parameter):
                self.build()
        except TooLarge:
            raise ValueError(
                f"the model is too large: with its optimiser, for {seeds} seeds, it takes more than the "
                f"{memory / 2**30:,.0f} GiB of {device}"
            ) from None

    def linears(self, model: Any) -> Mapping[str, Tensor]:
        """The `linears` of `Adam`."""
        return {}

    # Training, validation and test.

    @abstractmethod
    def start(self, start: Start) -> None:
        """Load the data to the device and make `steps`."""

    @abstractmethod
    def load(self, part: int, position: int) -> None:
        """Draw the random numbers of a part, whose step number `position` is the next one."""

    @property
    def takes_last_of_ties(self) -> bool:
        """Whether of several validations with the best score the last one's parameters are tested, not the first's."""
        return False

    @property
    def compiling_pays_on_cuda(self) -> bool:
        """Whether compiling saves more time on CUDA than it takes."""
        return True

    def is_compiled(self, device: torch.device) -> bool:
        """Whether the run is compiled on a device."""
        return should_compile(self.config.compile, device, self.num_steps, pays_on_cuda=self.compiling_pays_on_cuda)

    @abstractmethod
    def validate(self, steps: int) -> dict[str, Tensor]:
        """At the end of a part of `steps` steps: the score `validation`, by which the best parameters are chosen, and
        the other `columns`, [S] each."""

    def competes(self, steps: int) -> bool:
        """Whether the parameters after a part of `steps` steps may be chosen as the best."""
        return True

    @abstractmethod
    def test(self, best: Parameters, tested: Sequence[bool]) -> dict[str, list[float]]:
        """The `scores` of every seed by name, [S] each, NaN for seeds that are not `tested`. `best` has the best
        parameters by name, [S, *shape]."""

    # How scores are shown.

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row of the metrics as it is written: lists [S] by column, None for a number that is not finite."""
        return row

    def about(self) -> dict[str, Any]:
        """Entries of the result besides scores and provenance."""
        return {}

    @classmethod
    def shown(cls, score: float) -> str:
        """A score as text, with its unit."""
        return f"{score * cls.shown_times:{cls.shown_as}}{cls.unit}"

    @classmethod
    def evaluate(
        cls, folder: RunFolder, device: torch.device, nodes: int | None = None, examples: int | None = None,
        data_seed: int | None = None,
    ) -> Evaluation:  # fmt: skip
        """The scores of a trained run on graphs of another size, number or seed."""
        raise ValueError(f"{folder.path} holds a run of a task that cannot be scored on graphs of another size")

    @property
    def headings(self) -> dict[str, str]:
        """The test scores that a table shows, with their column headings."""
        return {name: name for name in self.scores}

    def note(self, scores: Sequence[float]) -> str | None:
        """A sentence on how to read the test scores, where one is needed."""
        return None

    def draw(self, path: Path, title: str, metrics: list[dict[str, Any]], seeds: list[dict[str, Any]]) -> None:
        """Draw the learning curves of a run from its metrics and the seeds of its result."""
        from .curves import draw_curves  # here: it comes after training

        draw_curves(path, title, metrics, [row["test"] for row in seeds], self.shown_times, self.unit)

    # For sweeps and reports.

    @classmethod
    def paper_config(
        cls, task: str, model: Any, seeds: tuple[int, ...], *, examples: int | None, precision: Precision,
        compile: CompileMode, **options: Any,
    ) -> ConfigType:  # fmt: skip
        """The configuration of the paper, with `examples` examples if given. `options` are all other options of a
        sweep; a task reads those that it knows."""
        raise ValueError(f"the paper has no experiment on {task}")

    @classmethod
    def paper_values(cls, config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """The paper's numbers for each part of a configuration, by the name of the part."""
        return {}

    @classmethod
    def paper_unit(cls, score: float) -> float:
        """A score in the unit of the paper's tables: percent by default."""
        return 100 * score

    def flop(self) -> float:
        """Floating-point operations of the matrix products of the whole run, with all its seeds."""
        raise ValueError(f"the cost of a run on {self.config.task} is not known")

    @property
    def num_examples(self) -> int:
        """Examples that each seed trains on in the whole run."""
        return self.num_steps * self.examples_of_step


FORWARD_AND_BACKWARD = 3
"""The cost of a training step in forward passes: the backward pass has two matrix products for each one of the forward
pass."""


def count(function: Callable[[], Any]) -> int:
    """Floating-point operations of the matrix products in a call of `function`; a multiply-add counts as two.

    >>> count(lambda: torch.ones(2, 3) @ torch.ones(3, 5))
    60
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        function()
    return counter.get_total_flops()


def without_values(build: Callable[[], nn.Module]) -> Any:
    """A module with uninitialised parameters: counting operations does not read their values."""
    with torch.device("meta"):
        module = build()
    return module.to_empty(device="cpu")
