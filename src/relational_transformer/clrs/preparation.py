"""Makes many canonical splits, in several processes."""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from relational_transformer.clrs.dataset import SplitName, canonical, canonical_path
from relational_transformer.clrs.feature import FeatureVersion, ProtocolName


@dataclass(frozen=True)
class PreparedSplit:
    """A split in the cache: its size, the lengths of its traces, and the seconds that making or checking it took."""

    algorithm: str
    split: SplitName
    path: Path
    num_samples: int
    mean_steps: float
    longest: int
    num_bytes: int
    seconds: float


@dataclass(frozen=True)
class Preparation:
    """A split to be made, if it is not in the cache."""

    algorithm: str
    split: SplitName
    num_samples: int | None = None
    version: FeatureVersion | None = None
    protocol: ProtocolName = "paper"
    cache: Path | None = None

    def run(self) -> PreparedSplit:
        """Make the split, or check it if it is in the cache."""
        start = time.perf_counter()
        options = {
            "num_samples": self.num_samples,
            "version": self.version,
            "protocol": self.protocol,
            "cache": self.cache,
        }
        data = canonical(self.algorithm, self.split, **options)
        path = canonical_path(self.algorithm, self.split, **options)
        return PreparedSplit(
            algorithm=self.algorithm,
            split=self.split,
            path=path,
            num_samples=len(data),
            mean_steps=float(data.lengths.mean()),
            longest=int(data.lengths.max()),
            num_bytes=path.stat().st_size,
            seconds=time.perf_counter() - start,
        )


def prepare(preparations: Sequence[Preparation], processes: int) -> Iterator[PreparedSplit]:
    """Run all preparations and yield each result when it is ready.

    All splits of an algorithm are made by one process, so that no two of them compile it.
    """
    groups: dict[str, list[Preparation]] = {}
    for preparation in preparations:
        groups.setdefault(preparation.algorithm, []).append(preparation)
    if processes <= 1:
        for group in groups.values():
            yield from _run(group)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as executor:
        try:
            for future in as_completed([executor.submit(_run, group) for group in groups.values()]):
                yield from future.result()
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def _run(group: list[Preparation]) -> list[PreparedSplit]:
    return [preparation.run() for preparation in group]
