"""The two sources of training examples: a training set on the device, or fresh examples for every part of a run."""

from relational_transformer.runs.task import Start

from .config import TrainConfig
from .data import Split, draw, load_split, make_split
from .fresh import Blocks, FreshExamples, buckets_of, draw_fresh
from .mixed_step import MixedSteps
from .step import TrainingStep


class TrainingSet:
    """The source of the paper's protocol: examples are drawn from a training set, with replacement.

    Attributes:
        steps: the training steps.
    """

    def __init__(self, config: TrainConfig, start: Start) -> None:
        self.config = config
        self.split = load_split(start.model, make_split(config.task, "train", config.protocol), start.device)
        self.steps = _steps_on(self.split, config, start)

    def load(self, part: int, position: int) -> None:
        """Draw the random numbers of a part, whose step number `position` is the next one."""
        config, split = self.config, self.split
        drawn = draw(
            config.seeds,
            part,
            config.steps_of_part,
            config.settings.batch_size,
            len(split),
            split.num_steps - 1,
            config.protocol.teacher_forcing,
        )
        self.steps.load(drawn, position)

    def head(self, count: int) -> Split:
        """The first examples, for scoring."""
        return self.split.head(count)


class FreshData:
    """The source of the modern protocol: every part of a run has a block of new examples, of several sizes in turn."""

    def __init__(self, config: TrainConfig, start: Start) -> None:
        self.config, self.network, self.device = config, start.model, start.device
        seeds, batch_size = len(config.seeds), config.settings.batch_size
        lengths = tuple(sorted(config.protocol.sizes(config.task)))
        self.blocks = Blocks(
            config.task, config.seeds, updates=config.steps_of_part, batch_size=batch_size, lengths=lengths
        )
        probes = self.blocks.probes()
        self.largest = probes[-1]
        buckets = [buckets_of(examples.lengths, seeds * batch_size) for examples in probes]
        count = seeds * batch_size * (config.steps_of_part // len(lengths))
        self.sizes = [
            FreshExamples(start.model, examples, count, max(hints), start.device)
            for examples, hints in zip(probes, buckets, strict=True)
        ]
        first = _steps_on(self.sizes[-1].split, config, start)
        self.steps = MixedSteps(
            [first.of_size(size.split, hints) for size, hints in zip(self.sizes, buckets, strict=True)]
        )

    def load(self, part: int, position: int) -> None:
        """See `TrainingSet.load`."""
        config, block = self.config, self.blocks.get(part)
        draws = []
        for turn, (examples, size) in enumerate(zip(block.sizes, self.sizes, strict=True)):
            size.replace(examples)
            self.steps.sizes[turn].use(size.split, size.num_hints)
            noise_shape = self.network.noise_shape(size.split.num_nodes)
            teacher_forcing = config.protocol.teacher_forcing
            draws.append(draw_fresh(block, config.seeds, turn, size.num_hints - 1, teacher_forcing, noise_shape))
        self.steps.load(draws, position)

    def head(self, count: int) -> Split:
        """Examples of the largest size, for scoring after training. Stops the making of training examples."""
        self.blocks.close()
        return load_split(self.network, self.largest, self.device).head(count)


def _steps_on(split: Split, config: TrainConfig, start: Start) -> TrainingStep:
    return TrainingStep(
        start.model,
        start.fleet,
        split,
        start.adam,
        batch_size=config.settings.batch_size,
        precision=config.precision,
        compiled=start.compiled,
    )
