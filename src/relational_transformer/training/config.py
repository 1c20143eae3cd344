"""What a training run is: a task, a model, a protocol with all of its numbers, and the seeds."""

from dataclasses import dataclass, fields
from typing import Any, get_args

from relational_transformer.bounds import LARGEST_COUNT, check_bounds
from relational_transformer.clrs.checks import LARGEST_LENGTH, LARGEST_SEED, check_length, check_protocol
from relational_transformer.clrs.classes import STRING_MATCHERS
from relational_transformer.clrs.feature import ProtocolName
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.spec import SPECS
from relational_transformer.fleet.adam import CONSTANT, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import check_seeds
from relational_transformer.fleet.precision import Precision
from relational_transformer.nn.checks import check_choice, check_flag
from relational_transformer.processors.settings import Settings
from relational_transformer.reading import make
from relational_transformer.reasoning.hints import HintFeedback
from relational_transformer.runs.task import config_as_dict


@dataclass(frozen=True)
class Protocol:
    """What is trained on, for how long, and how the model that is tested is chosen (the paper's appendix on its
    train/test protocol, and what Ibarz et al. made of it in 2022).

    >>> PROTOCOLS["paper"].examples, PROTOCOLS["paper"].train_nodes, PROTOCOLS["paper"].test_nodes
    (320000, 16, 64)
    >>> PROTOCOLS["modern"].hint_feedback, PROTOCOLS["modern"].sizes("bfs"), PROTOCOLS["modern"].sizes("kmp_matcher")
    ('soft', (4, 7, 11, 13, 16), (20,))
    """

    train_examples: int = 10_000
    """Size of the training set."""
    train_nodes: int = 16
    """Nodes of the training graphs."""
    train_data_seed: int = 1
    """Seed of the training graphs."""
    validation_nodes: int = 16
    """Nodes of the validation graphs."""
    validation_data_seed: int = 2
    """Seed of the validation graphs."""
    test_nodes: int = 64
    """Nodes of the test graphs."""
    test_data_seed: int = 3
    """Seed of the test graphs."""
    evaluation_examples: int = 32
    """Examples of the validation and of the test set, times the algorithm's canonical multiplier (1, 32 or 64)."""
    minimum_evaluation_examples: int = 0
    """Evaluation sets have at least so many examples (the paper's tuning: 100)."""
    examples: int = 320_000
    """Examples that each seed trains on, drawn with replacement."""
    validation_interval: int = 320
    """A validation after so many examples. The first of the best validation scores is tested."""
    teacher_forcing: float = 0.5
    """Probability with which a step sees the true hints instead of the model's own, per example."""

    data: ProtocolName = "paper"
    """paper: a training set, of which examples are drawn; modern: fresh examples of several sizes in the form of
    dm-clrs 2."""
    train_lengths: tuple[int, ...] = ()
    """Sizes of the modern protocol's training examples, whose batches take turns; by default 4, 7, 11, 13 and 16, of
    strings 20."""
    validation_examples: int | None = None
    """Examples of the validation set, times the algorithm's multiplier, where they are not as many as those of the test
    set."""
    hint_feedback: HintFeedback = "paper"
    """What a step sees of the model's own hints. paper: decisions, and scalars with gradients; soft: probabilities with
    gradients; hard: decisions without; hard_on_eval: soft in training alone."""
    small_scalar_hints: bool = False
    """Whether encoders of scalar hints begin with small weights."""

    def __post_init__(self) -> None:
        check_bounds(self, BOUNDS)
        check_protocol(self.data)
        check_choice("hint_feedback", self.hint_feedback, get_args(HintFeedback))
        check_flag(small_scalar_hints=self.small_scalar_hints)
        if not self.is_modern and self.train_lengths:
            raise ValueError("train-lengths are sizes of fresh examples, which --data modern has: say --train-nodes")
        changed = [name for name in TRAINING_SET if self.is_modern and getattr(self, name) != DEFAULTS[name]]
        if changed:
            raise ValueError(
                f"{changed[0].replace('_', '-')} is of a training set, and --data modern trains on fresh examples: "
                "leave it out; their sizes are --train-lengths"
            )

    @property
    def is_modern(self) -> bool:
        """Whether all data is in the modern form, and that for training fresh."""
        return self.data == "modern"

    def sizes(self, task: str) -> tuple[int, ...]:
        """The sizes of training examples that take turns."""
        if not self.is_modern:
            return (self.train_nodes,)
        return self.train_lengths or training_lengths(task)

    def length(self, task: str, nodes: int) -> int:
        """The size of validation and test examples that stand beside so many nodes of other algorithms: the modern form
        counts both strings of a string matcher."""
        return nodes + nodes // 4 if self.is_modern and task in STRING_MATCHERS else nodes

    def as_dict(self) -> dict[str, Any]:
        """What was asked for, without what it does not use, and without what is as it was before it could be asked for:
        a run is known by this."""
        unused = TRAINING_SET if self.is_modern else ()
        usual = [name for name in LATER if getattr(self, name) == DEFAULTS[name]]
        return {name: value for name, value in vars(self).items() if name not in (*unused, *usual)}


DEFAULTS: dict[str, Any] = {one.name: one.default for one in fields(Protocol)}
TRAINING_SET = ("train_examples", "train_nodes", "train_data_seed")
"""What the paper's data alone has."""
LATER = ("data", "train_lengths", "validation_examples", "hint_feedback", "small_scalar_hints")
"""What came with the modern protocol."""

LATER_SETTINGS = {"gradient_clip": None, "weight_decay": 0.0}
"""Settings that models did not always have: a run is known by what it was known by before."""

BOUNDS = {
    **dict.fromkeys(
        ("train_examples", "evaluation_examples", "examples", "validation_interval", "validation_examples"),
        (1, LARGEST_COUNT),
    ),
    **dict.fromkeys(("train_nodes", "validation_nodes", "test_nodes"), (1, LARGEST_LENGTH)),
    **dict.fromkeys(("train_data_seed", "validation_data_seed", "test_data_seed"), (0, LARGEST_SEED)),
    "minimum_evaluation_examples": (0, LARGEST_COUNT),
    "teacher_forcing": (0.0, 1.0),
}
"""The least and the most that each may be."""


PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(),
    "quick": Protocol(train_examples=1_000, examples=4_000, validation_interval=400),
    "modern": Protocol(
        data="modern",
        hint_feedback="soft",
        small_scalar_hints=True,
        teacher_forcing=0.0,
        validation_examples=64,
        validation_interval=1_600,
    ),
}
"""`paper` is the default; `quick` ends within minutes on a laptop and proves little; `modern` is that of Ibarz et al.,
with models as `find_settings(name, modern=True)` has them."""


@dataclass(frozen=True)
class TrainConfig:
    """One fleet: `seeds` of one model trained on one task. All that changes its numbers is here, but for
    the device and the kernels' switch, which the result names.

    >>> from relational_transformer.processors import TUNED
    >>> config = TrainConfig("bfs", "rt", TUNED["rt"], Protocol(), seeds=(0, 1))
    >>> TrainConfig.from_dict(config.as_dict()) == config
    True
    """

    task: str
    model: str
    settings: Settings
    protocol: Protocol
    seeds: tuple[int, ...]
    precision: Precision = "tf32"
    compile: CompileMode = "auto"
    schedule: Schedule = CONSTANT

    def __post_init__(self) -> None:
        if self.task not in SPECS:
            raise ValueError(f"no task is called {self.task!r}; there are {', '.join(SPECS)}")
        check_seeds(self.seeds)
        if self.protocol.is_modern:
            self._check_modern()
            return
        for nodes in {self.protocol.train_nodes, self.protocol.validation_nodes, self.protocol.test_nodes}:
            check_length(self.task, nodes, "1.0")  # before a run is trained whose test cannot be made

    def _check_modern(self) -> None:
        protocol, sizes = self.protocol, self.protocol.sizes(self.task)
        for length in (*sizes, protocol.length(self.task, protocol.validation_nodes)):
            check_length(self.task, length, "2.0", varied=True)
        check_length(self.task, protocol.length(self.task, protocol.test_nodes), "2.0")
        if max(self.seeds) > LARGEST_SEED:
            raise ValueError(f"seeds of fresh examples must be at most {LARGEST_SEED:,}, got {max(self.seeds):,}")
        if self.steps_of_part % len(sizes):
            raise ValueError(
                f"there is a validation after {self.steps_of_part} updates, and {len(sizes)} sizes take turns in them: "
                "change --validation-interval or --batch-size, so that it is a multiple of that"
            )

    @property
    def steps_of_part(self) -> int:
        """Updates between two validations."""
        return max(1, self.protocol.validation_interval // self.settings.batch_size)

    def as_dict(self) -> dict[str, Any]:
        content = {**config_as_dict(self), "protocol": self.protocol.as_dict()}
        for name, usual in LATER_SETTINGS.items():
            if content["settings"][name] == usual:
                del content["settings"][name]
        return content

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "TrainConfig":
        """A configuration as `as_dict` gave it, after a trip through JSON."""
        try:
            return make(content, TrainConfig)
        except ValueError as error:
            raise ValueError(f"this is not the configuration of a training run ({error})") from None
