"""The configuration of a training run: task, model, protocol and seeds."""

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal, get_args

from relational_transformer.bounds import LARGEST_COUNT, check_bounds
from relational_transformer.clrs.checks import LARGEST_LENGTH, LARGEST_SEED, check_length, check_protocol
from relational_transformer.clrs.classes import STRING_MATCHERS
from relational_transformer.clrs.feature import ProtocolName
from relational_transformer.clrs.samples.modern import training_lengths
from relational_transformer.clrs.spec import SPECS
from relational_transformer.fleet.adam import CONSTANT, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.precision import Precision
from relational_transformer.nn.checks import check_choice, check_flag
from relational_transformer.processors.settings import MODERN, Settings
from relational_transformer.reasoning.hints import HintFeedback
from relational_transformer.runs.config import RunConfig


@dataclass(frozen=True)
class Protocol:
    """The data, the length of training, and the choice of the model that is tested: the paper's train/test protocol
    (its appendix), or the one of Ibarz et al. (2022).

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
    """The least number of examples of the validation and of the test set (in the paper's tuning 100)."""
    examples: int = 320_000
    """Examples that each seed trains on, drawn with replacement."""
    validation_interval: int = 320
    """Examples between two validations. The parameters with the best validation score are tested."""
    teacher_forcing: float = 0.5
    """The probability, for each example, that a step sees the true hints instead of the model's own."""

    data: ProtocolName = "paper"
    """paper: examples are drawn from a training set; modern: every example is new, of several sizes, in the form of
    dm-clrs 2."""
    train_lengths: tuple[int, ...] = ()
    """With --data modern: sizes of the training examples, one for each batch in turn; by default 4, 7, 11, 13 and 16,
    or 20 for string matchers."""
    validation_examples: int | None = None
    """Examples of the validation set, times the algorithm's multiplier; by default as many as in the test set."""
    hint_feedback: HintFeedback = "paper"
    """The form in which a step sees the model's own hints. paper: decisions, with gradients for scalars alone; soft:
    probabilities, with gradients; hard: decisions, without gradients; hard_on_eval: soft in training, hard in
    evaluation."""
    small_scalar_hints: bool = False
    """Initialise the encoders of scalar hints with small weights."""
    ties: Literal["first", "last"] = "first"
    """Of several validations with the best score, the one whose parameters are tested."""

    def __post_init__(self) -> None:
        check_bounds(self, BOUNDS)
        check_protocol(self.data)
        check_choice("hint_feedback", self.hint_feedback, get_args(HintFeedback))
        check_flag(small_scalar_hints=self.small_scalar_hints)
        check_choice("ties", self.ties, ("first", "last"))
        if not self.is_modern and self.train_lengths:
            raise ValueError("--train-lengths needs --data modern: give --train-nodes for a training set")
        changed = [name for name in TRAINING_SET if self.is_modern and getattr(self, name) != DEFAULTS[name]]
        if changed:
            raise ValueError(
                f"--{changed[0].replace('_', '-')} describes a training set, which --data modern does not have: "
                "leave it out; --train-lengths gives the sizes of fresh examples"
            )

    @property
    def is_modern(self) -> bool:
        """Whether the data has the modern form and training examples are fresh."""
        return self.data == "modern"

    def sizes(self, task: str) -> tuple[int, ...]:
        """The sizes of training examples, one for each batch in turn."""
        if not self.is_modern:
            return (self.train_nodes,)
        return self.train_lengths or training_lengths(task)

    def length(self, task: str, nodes: int) -> int:
        """The `length` of validation and test examples with `nodes` nodes. In the modern form the length of a string
        matcher counts both strings."""
        return nodes + nodes // 4 if self.is_modern and task in STRING_MATCHERS else nodes

    def as_dict(self) -> dict[str, Any]:
        """The fields for `config.json`, by which a run is recognised: without unused ones, and without defaults of
        fields that older runs did not have."""
        unused = TRAINING_SET if self.is_modern else ()
        usual = [name for name in LATER if getattr(self, name) == DEFAULTS[name]]
        return {name: value for name, value in vars(self).items() if name not in (*unused, *usual)}


DEFAULTS: dict[str, Any] = {one.name: one.default for one in fields(Protocol)}
TRAINING_SET = ("train_examples", "train_nodes", "train_data_seed")
"""Fields that only the paper's data uses."""
LATER = ("data", "train_lengths", "validation_examples", "hint_feedback", "small_scalar_hints", "ties")
"""Fields that came with the modern protocol, which older runs did not have."""

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
"""The smallest and the largest valid value of each field."""


PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(),
    "quick": Protocol(train_examples=1_000, examples=4_000, validation_interval=400),
    "modern": Protocol(
        data="modern",
        hint_feedback="soft",
        small_scalar_hints=True,
        teacher_forcing=0.0,
        validation_examples=64,
        validation_interval=6_400,
        ties="last",
    ),
}
"""`paper` is the default. `quick` takes minutes on a laptop; its scores show only that training works. `modern` is that
of Ibarz et al., with the models of `find_settings(name, modern=True)`."""


MODERN_SCHEDULE = Schedule(warmup_steps=500, decay="cosine")


def find_schedule(model: str, *, modern: bool) -> Schedule:
    """The usual schedule of a model's learning rate: constant, as published, except for the models of the paper by the
    modern protocol.

    >>> find_schedule("rt", modern=True).decay, find_schedule("triplet_gmpnn", modern=True).decay
    ('cosine', 'constant')
    """
    return MODERN_SCHEDULE if modern and model not in MODERN else CONSTANT


@dataclass(frozen=True)
class TrainConfig(RunConfig):
    """One fleet: `seeds` of one model trained on one task. Besides these fields only the device and the kernels' switch
    change the numbers of a run; the result names both.

    >>> from relational_transformer.processors import TUNED
    >>> config = TrainConfig("bfs", "rt", TUNED["rt"], Protocol(), seeds=(0, 1))
    >>> TrainConfig.from_dict(config.as_dict()) == config
    True
    """

    later_settings = MappingProxyType({"gradient_clip": None, "weight_decay": 0.0, "edge_pointers": "averaged"})

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
            raise ValueError(f"there is no task {self.task!r}; the tasks are {', '.join(SPECS)}")
        super().__post_init__()
        if self.protocol.is_modern:
            self._check_modern()
            return
        for nodes in {self.protocol.train_nodes, self.protocol.validation_nodes, self.protocol.test_nodes}:
            check_length(self.task, nodes, "1.0")  # before training a run that cannot be tested

    def _check_modern(self) -> None:
        protocol, sizes = self.protocol, self.protocol.sizes(self.task)
        for length in (*sizes, protocol.length(self.task, protocol.validation_nodes)):
            check_length(self.task, length, "2.0", varied=True)
        check_length(self.task, protocol.length(self.task, protocol.test_nodes), "2.0")
        if max(self.seeds) > LARGEST_SEED:
            raise ValueError(f"seeds of fresh examples must be at most {LARGEST_SEED:,}, got {max(self.seeds):,}")
        if self.steps_of_part % len(sizes):
            raise ValueError(
                f"a validation comes after {self.steps_of_part} updates, which must be a multiple of the {len(sizes)} "
                "training sizes: change --validation-interval or --batch-size"
            )

    @property
    def steps_of_part(self) -> int:
        """Updates between two validations."""
        return max(1, self.protocol.validation_interval // self.settings.batch_size)

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "protocol": self.protocol.as_dict()}
