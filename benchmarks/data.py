"""Speed of the CLRS-30 data: examples a second of one core, for every algorithm at lengths 16 and 64.

    python benchmarks/data.py                      all thirty algorithms
    python benchmarks/data.py bfs dijkstra         some
    python benchmarks/data.py --canonical          also: all canonical data, 10,000 training examples each, on all cores
    python benchmarks/data.py --modern             instead: the modern protocol's training blocks, sizes 4 to 16 mixed

Where dm-clrs is installed, it is measured in the same run and the ratio is printed. Times are processor times of the
best of several rounds; compiling is done before and its time is printed on its own.
"""

import argparse
import math
import os
import tempfile
import time
import warnings
from pathlib import Path

from relational_transformer.clrs import ALGORITHMS, SPLITS, sample, training_block
from relational_transformer.clrs.checks import check_name
from relational_transformer.clrs.classes import STRING_MATCHERS
from relational_transformer.clrs.preparation import Preparation, prepare

try:
    import clrs as dm_clrs  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError:
    dm_clrs = None

LENGTHS = (16, 64)
ROUNDS = 3
UPDATES = 50


def seconds_per_example(make, largest: int, enough: float) -> float:
    """Processor time of one example; their number is doubled until a round takes `enough` seconds."""
    count = 1
    while True:
        best = math.inf
        for _ in range(ROUNDS if count < largest else 1):
            start = time.process_time()
            make(count)
            best = min(best, time.process_time() - start)
            if best > 10 * enough:
                break
        if best >= enough or count >= largest:
            return best / count
        count = min(largest, 2 * count)


def make_with_dm_clrs(name: str, count: int, length: int) -> None:
    """The same examples by dm-clrs, which counts both strings in a matcher's length."""
    if name in STRING_MATCHERS:
        length += length // 4
    assert dm_clrs is not None
    dm_clrs.build_sampler(name, count, seed=1, length=length)


def measure(names: list[str]) -> None:
    """Print a line for every algorithm and the geometric means of the ratios."""
    ratios: dict[int, list[float]] = {length: [] for length in LENGTHS}
    compiling = time.perf_counter()
    for name in names:
        sample(name, 1, LENGTHS[0], 1)
    compiling = time.perf_counter() - compiling
    print(f"compiling (or loading what was compiled before): {compiling:.1f} s, not counted below\n")

    versus = "" if dm_clrs is None else "   x dm-clrs"
    print(f"{'examples a second of one core':32}" + "".join(f"{f'length {length}':>14}{versus}" for length in LENGTHS))
    for name in names:
        line = f"{name:32}"
        for length in LENGTHS:
            ours = seconds_per_example(lambda count: sample(name, count, length, 1), largest=4096, enough=0.1)  # noqa: B023
            line += f"{1 / ours:14,.0f}"
            if dm_clrs is not None:
                theirs = seconds_per_example(
                    lambda count: make_with_dm_clrs(name, count, length),  # noqa: B023
                    largest=64,
                    enough=0.1,
                )
                ratios[length].append(theirs / ours)
                line += f"{theirs / ours:12.0f}"
        print(line, flush=True)
    for length, values in ratios.items():
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"length {length}: {mean:.0f} times dm-clrs (geometric mean), least {min(values):.0f}")


def measure_modern(names: list[str]) -> None:
    """Print examples a second, steps of the longest trace and MB of a training block."""
    print(f"{'training blocks, one core':32}{'examples/s':>14}{'longest':>10}{'MB':>8}")
    for name in names:
        training_block(name, [0], 0, updates=UPDATES, batch_size=1)  # compiles
        best = math.inf
        for number in range(ROUNDS):
            start = time.process_time()
            block = training_block(name, [1], number, updates=UPDATES)
            best = min(best, time.process_time() - start)
        count = sum(len(data) for data in block.sizes)
        longest = max(data.num_steps for data in block.sizes)
        size = sum(data.nbytes for data in block.sizes) / 1e6
        print(f"{name:32}{count / best:14,.0f}{longest:10}{size:8.1f}", flush=True)


def measure_canonical(processes: int) -> None:
    """Time the making of all canonical data, from nothing to files on disk; compiled code is loaded, not made."""
    with tempfile.TemporaryDirectory() as folder:
        work = [Preparation(name, split, cache=Path(folder)) for name in ALGORITHMS for split in SPLITS]
        start = time.perf_counter()
        prepared = list(prepare(work, processes))
        seconds = time.perf_counter() - start
    size = sum(result.num_bytes for result in prepared) / 1e9
    print(f"all canonical data: {seconds:.0f} s on {processes} processes, {size:.1f} GB")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=ALGORITHMS, type=check_name, help="all thirty by default")
    parser.add_argument("--modern", action="store_true", help="measure the modern protocol's training blocks instead")
    parser.add_argument("--canonical", action="store_true", help="time the making of all canonical data, too")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="for --canonical")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)  # dm-clrs uses numpy's two-dimensional cross product
    if arguments.modern:
        measure_modern(list(arguments.algorithms))
        return
    measure(list(arguments.algorithms))
    if arguments.canonical:
        measure_canonical(arguments.processes)


if __name__ == "__main__":
    main()
