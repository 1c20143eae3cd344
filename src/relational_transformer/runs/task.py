"""What an experiment tells the trainer: the contract that a new one fulfils in a file of its own."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from relational_transformer.fleet.adam import Adam, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import Fleet
from relational_transformer.fleet.over_seeds import Parameters
from relational_transformer.fleet.precision import Precision

from .curves import draw_curves
from .records import MetricsRow
from .run_folder import RunFolder


class Config(Protocol):
    """What the configuration of every run has, whatever it trains; a frozen dataclass."""

    @property
    def task(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def seeds(self) -> tuple[int, ...]: ...
    @property
    def precision(self) -> Precision: ...
    @property
    def compile(self) -> CompileMode: ...
    @property
    def schedule(self) -> Schedule: ...

    def as_dict(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self: ...


def config_as_dict(config: Any) -> dict[str, Any]:
    """A configuration as its run folder keeps it. What is constant is left out, so that a run is known by what it was
    known by before learning rates had schedules."""
    content = asdict(config)
    if config.schedule.is_constant:
        del content["schedule"]
    return content


class Optimiser(NamedTuple):
    """Adam's numbers: the learning rate, epsilon, the norm that the gradient of a seed is cut down to, and the weight
    decay."""

    learning_rate: float
    epsilon: float = 1e-8
    clip: float | None = None
    weight_decay: float = 0.0


class Start(NamedTuple):
    """What a task is given when its run begins.

    Attributes:
        model: of the first seed, on the device, through which all seeds are run.
        fleet, adam: the parameters of all seeds, and what updates them.
        compiled: whether functions that are called many times are to be compiled.
        folder: of the run.
    """

    model: Any
    fleet: Fleet
    adam: Adam
    device: torch.device
    compiled: bool
    folder: RunFolder


class Steps(Protocol):
    """What makes training steps.

    Attributes:
        losses: the loss of every seed, summed over the steps since `forget`, [S].
        finite: whether every loss of a seed so far was a finite number, bool [S].
        recompute: whether activations are computed again in the backward pass; None until the first step has decided.
    """

    losses: Tensor
    finite: Tensor
    recompute: bool | None

    def forget(self) -> None:
        """Set the sums over steps to zero."""
        ...


ConfigType = TypeVar("ConfigType", bound=Config)


class Evaluation(NamedTuple):
    """The scores of a run on other data, by seed; None of a seed that failed."""

    title: str
    measure: str
    scores: dict[int, float | None]
    shown: Callable[[float], str]
    note: str | None = None


class Task(ABC, Generic[ConfigType]):
    """One run of an experiment, as the trainer sees it: `num_steps` training steps of a fleet, with a validation after
    every part of `steps_of_part`.

    A task keeps what its steps need on the device, and waits for nothing there. Tensors that a step changes stay where
    they are, so that it can be recorded as a CUDA graph. What chance decides depends on the seed and the number of the
    part alone, so that a run goes on from anywhere.

    >>> from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol, LobsterTask
    >>> task = LobsterTask(LobsterConfig("gat", SETTINGS["gat"], LobsterProtocol(), seeds=(0, 1)))
    >>> task.num_steps, task.examples_of_step, task.shown(0.25)
    (62500, 32, '0.2500')

    Attributes (of a class):
        higher_is_better: of the scores of a validation.
        scores: names of the scores of a test; one of them is `test`.
        columns: what a row of the metrics has besides loss and validation.
        steps_at_once: training steps between two moments at which other runs may have their turn.
        records_validation: whether the validation is recorded as a CUDA graph; then it waits for nothing.
        only_launches: whether on CUDA all turns of a run after the first launch recorded graphs and nothing else, so
            that another run may be compiled meanwhile.
        is_small: whether several runs share a GPU unless something else is asked for.
        title: of a picture of its validation scores; that of the algorithm where it is empty.
        examples_are: what an example is called there.
        measure: what its scores are, where a table has to say it.
        shown_times, shown_as, unit: a score is shown so many times as large, in this format, with this behind it.
        row_type: what a row of the metrics is checked against when it is read again.
    """

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
    """What makes the training steps, a `Steps`; there when the run has started."""

    def __init__(self, config: ConfigType, data: str | None = None) -> None:
        """`data` is the folder of the run's data, where they are not generated."""
        self.config, self.data = config, data

    # What a run is.

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

    def check(self, folder: RunFolder) -> None:
        """Refuse what cannot be trained, before there is a folder."""
        with torch.device("meta"):
            self.build()

    def linears(self, model: Any) -> Mapping[str, Tensor]:
        """See `Adam`."""
        return {}

    # What it does.

    @abstractmethod
    def start(self, start: Start) -> None:
        """Load the data to the device and get ready for the first step."""

    @abstractmethod
    def load(self, part: int, position: int) -> None:
        """Draw what chance decides in a part; its step number `position` comes next."""

    @abstractmethod
    def step(self, number: int) -> None:
        """Make training step `number` of the part that was loaded; they are made in order."""

    def rehearse(self) -> None:
        """Call all that is compiled for training steps, as a step does; what it changes does not matter."""
        self.step(0)

    @abstractmethod
    def validate(self, steps: int) -> dict[str, Tensor]:
        """At the end of a part of so many steps: `validation`, by which the best parameters are chosen, and the other
        `columns`, [S] each."""

    def competes(self, steps: int) -> bool:
        """Whether the parameters after a part of so many steps may be the best ones."""
        return True

    @abstractmethod
    def test(self, best: Parameters, tested: Sequence[bool]) -> dict[str, list[float]]:
        """The `scores` of every seed by name, [S] each, NaN of those that are not to be `tested`; with the best
        parameters [S, *shape] by name."""

    def state(self) -> dict[str, Tensor]:
        """What else a step changes and the next one reads, by name; a checkpoint keeps it."""
        return {}

    # What it says.

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row of the metrics as it is written: lists [S] by column, None for what is no finite number."""
        return row

    def about(self) -> dict[str, Any]:
        """What a result says besides scores and provenance."""
        return {}

    @classmethod
    def shown(cls, score: float) -> str:
        """A score as people read it."""
        return f"{score * cls.shown_times:{cls.shown_as}}{cls.unit}"

    @classmethod
    def evaluate(
        cls, folder: RunFolder, device: torch.device, nodes: int | None, examples: int | None, data_seed: int | None
    ) -> Evaluation:
        """The scores of a trained run on graphs of another size, number or seed."""
        raise ValueError(f"{folder.path} holds a run of a task that is not scored on graphs of another size")

    @property
    def headings(self) -> dict[str, str]:
        """The scores of a test that a table shows, each with its heading."""
        return {name: name for name in self.scores}

    def note(self, scores: Sequence[float]) -> str | None:
        """What the scores of a test mean, in a sentence, where that is not plain."""
        return None

    def draw(self, path: Path, title: str, metrics: list[dict[str, Any]], seeds: list[dict[str, Any]]) -> None:
        """Draw the learning curves of a run, given its metrics and the rows of its result."""
        draw_curves(path, title, metrics, [row["test"] for row in seeds], self.shown_times, self.unit)

    # What sweeps and reports ask.

    @classmethod
    @abstractmethod
    def read_config(cls, content: dict[str, Any]) -> ConfigType:
        """A configuration as a run folder keeps it."""

    @classmethod
    def paper_config(
        cls, task: str, model: Any, seeds: tuple[int, ...], *, examples: int | None, precision: Precision,
        compile: CompileMode, **options: Any,
    ) -> ConfigType:  # fmt: skip
        """The configuration of the paper, with another number of examples where one is given; of the other `options` of
        a sweep a task takes those that it knows."""
        raise ValueError(f"the paper has no experiment on {task}")

    @classmethod
    def paper_values(cls, config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """The numbers that the paper has in each part of such a configuration, by the name of the part."""
        return {}

    @classmethod
    def paper_unit(cls, score: float) -> float:
        """The number that is printed for a score: percent, unless a task says something else."""
        return 100 * score

    def flop(self) -> float:
        """Floating-point operations of the matrix products of the whole run, with all its seeds."""
        raise ValueError(f"what runs on {self.config.task} cost is not known")

    @property
    def num_examples(self) -> int:
        """Examples that each seed trains on in the whole run."""
        return self.num_steps * self.examples_of_step


FORWARD_AND_BACKWARD = 3
"""Training costs three forward passes: the backward pass has two products for each one."""


def count(function: Callable[[], Any]) -> int:
    """Floating-point operations of the matrix products in a call of `function`; to multiply and add is two.

    >>> count(lambda: torch.ones(2, 3) @ torch.ones(3, 5))
    60
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        function()
    return counter.get_total_flops()


def without_values(build: Callable[[], nn.Module]) -> Any:
    """A module whose parameters were never initialised: what they are does not matter where operations are counted."""
    with torch.device("meta"):
        module = build()
    return module.to_empty(device="cpu")
