"""Trained runs to look at: their networks, and the examples in the form that they were trained on."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from relational_transformer.clrs.feature import ProtocolName, Spec
from relational_transformer.clrs.samples.modern import modern_form
from relational_transformer.clrs.samples.sampling import sample
from relational_transformer.clrs.spec import spec_of
from relational_transformer.clrs.trajectories import Trajectories
from relational_transformer.nn.checks import shown
from relational_transformer.reasoning.network import Network
from relational_transformer.runs.run_folder import RunFolder
from relational_transformer.tasks import kind_of
from relational_transformer.training import PROTOCOLS, TrainConfig, load_network


@dataclass(frozen=True)
class TrainedRun:
    """One seed of a run: its name, its configuration, its network."""

    name: str
    config: TrainConfig
    network: Network

    @property
    def protocol(self) -> ProtocolName:
        return self.config.protocol.data

    @property
    def about(self) -> str:
        """The run in a few words."""
        config, settings = self.config, self.config.settings
        sizes = f"{settings.num_layers} layers of {settings.hidden_size}" if settings.num_layers > 1 else "one layer"
        feeding = self.network.feeding(training=False)
        fed = "sees probabilities of its last step" if feeding == "soft" else "sees decisions of its last step"
        return f"{config.model}, {sizes}, {config.protocol.examples:,} training examples; {fed}"


def open_runs(folders: Sequence[Path], seed: int | None = None) -> list[TrainedRun]:
    """Runs of `rt train` on algorithms, with names that tell them apart."""
    # Not `Path.resolve`, which has an error of its own for links in a circle.
    names = tell_apart([Path(os.path.realpath(folder)) for folder in folders])
    return [open_run(folder, seed, name) for folder, name in zip(folders, names, strict=True)]


def tell_apart(folders: Sequence[Path]) -> list[str]:
    """The ends of paths, as short as they are without being alike, and without their middle where that is enough. A
    folder that is there twice gets numbers.

    >>> tell_apart([Path("/runs/long/bfs"), Path("/runs/short/bfs")])
    ['long/bfs', 'short/bfs']
    >>> tell_apart([Path("/old/results/gallery/bfs"), Path("/new/results/gallery/bfs")])
    ['old/…/bfs', 'new/…/bfs']
    """
    if len(set(folders)) < len(folders):
        return [f"{folder.name} ({number})" for number, folder in enumerate(folders, start=1)]
    for parts in range(1, max((len(folder.parts) for folder in folders), default=0) + 1):
        names = ["/".join(folder.parts[-parts:]) for folder in folders]
        if len(set(names)) == len(names):
            short = [f"{folder.parts[-parts]}/…/{folder.name}" for folder in folders] if parts > 2 else names
            return short if len(set(short)) == len(names) else names
    return []


def open_run(folder: Path, seed: int | None = None, name: str | None = None) -> TrainedRun:
    """A run of `rt train` on an algorithm; one of its seeds, or the first that did not fail."""
    task = str(RunFolder(folder).read_config().get("task"))
    if kind_of(task) != "clrs":
        raise ValueError(f"the run in {folder} is of {shown(task)}; pages are made of the thirty algorithms of CLRS-30")
    network = load_network(folder, seed).eval()
    config = RunFolder(folder).read_config(TrainConfig.from_dict)
    return TrainedRun(name or Path(os.path.realpath(folder)).name, config, network)


def draw_example(task: str, nodes: int, seed: int, protocol: ProtocolName) -> tuple[Spec, Trajectories]:
    """The first example of a seed; that of the modern protocol is the same one in the modern form, as in its tests."""
    if protocol == "paper":
        return spec_of(task), sample(task, 1, nodes, seed)
    length = PROTOCOLS["modern"].length(task, nodes)
    return spec_of(task, protocol="modern"), modern_form(task, sample(task, 1, length, seed, version="2.0"))
