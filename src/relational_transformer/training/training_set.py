"""The training data of the paper's protocol: examples are drawn from a training set, with replacement."""

from relational_transformer.runs.task import Start

from .config import TrainConfig
from .data import Split, draw, load_split, make_split
from .step import TrainingStep


class TrainingSet:
    """A training set on the device, and the training steps on it.

    Attributes:
        steps: the training steps.
    """

    def __init__(self, config: TrainConfig, start: Start) -> None:
        self.config = config
        self.split = load_split(start.model, make_split(config.task, "train", config.protocol), start.device)
        self.steps = TrainingStep.of_run(config, start, self.split)

    def load(self, part: int, position: int) -> None:
        """Draw the random numbers of a part, whose step number `position` is the next one."""
        config, split = self.config, self.split
        hint_steps, forcing = split.num_steps - 1, config.protocol.teacher_forcing
        batch_size = config.settings.batch_size
        drawn = draw(config.seeds, part, config.steps_of_part, batch_size, len(split), hint_steps, forcing)
        self.steps.load(drawn, position)

    def head(self, count: int) -> Split:
        """The first examples, for scoring."""
        return self.split.head(count)
