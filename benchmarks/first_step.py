"""The seconds before the first step of a run that is not compiled, without and with what an earlier run has cached.

    python benchmarks/first_step.py bellman_ford dfs mst_kruskal
    python benchmarks/first_step.py bellman_ford --protocol paper --device cpu

Each task is begun by two processes in turn. The first finds empty caches: no examples of splits, no machine code of
samplers and layers. A row has the seconds of the clock, and in parentheses those of the processor, of *imports*, the
*device* (on CUDA its context), the first *examples* (which compiles their sampler), the *trainer* (networks, data, the
validation set) and the first *step* (with the examples of a part, and on CUDA with the capture of all graphs).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PARTS = ("imports", "device", "examples", "trainer", "step")


class Clock:
    """Seconds of the clock and of the processor by part, each counted from the end of the part before it."""

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}
        self._last = time.perf_counter(), 0.0  # what starting Python took is only known of the processor

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        yield
        now = time.perf_counter(), time.process_time()
        self.seconds[name] = now[0] - self._last[0], now[1] - self._last[1]
        self._last = now


def begin(options: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Begin a run in this process; the seconds of every part."""
    clock = Clock()
    with clock.part("imports"):
        import torch

        from relational_transformer.clrs import sample
        from relational_transformer.commands import train as command  # all that `rt train` imports
        from relational_transformer.fleet.precision import choose_precision, find_device
        from relational_transformer.runs import RunFolder, Trainer
        from relational_transformer.training import CLRSTask
    with clock.part("device"):
        device = find_device(options["device"] or command.RunOptions().device)
        torch.zeros(1, device=device).sum().item()
    task = CLRSTask(
        CLRSTask.paper_config(
            options["task"], options["model"], tuple(range(options["seeds"])), compile="off",
            precision=choose_precision("auto", device), protocol=options["protocol"],
        )
    )  # fmt: skip
    with clock.part("examples"):
        sample(options["task"], 1, max(task.config.protocol.sizes(options["task"])), 0, protocol=options["protocol"])
    with TemporaryDirectory() as place, RunFolder(place).opened(task.config.as_dict()) as folder:
        with clock.part("trainer"):
            Trainer(task, folder, device)
        with clock.part("step"):
            task.load(0, 0)
            task.steps.make(0)
            if device.type == "cuda":
                torch.cuda.synchronize()
    return clock.seconds


def in_a_process(options: dict[str, Any], caches: Path) -> dict[str, tuple[float, float]]:
    """Begin a run in a process of its own with these caches."""
    environment = {**os.environ, "RT_CACHE": str(caches), "NUMBA_CACHE_DIR": str(caches / "numba")}
    command = [sys.executable, __file__, options["task"], "--as-a-process", json.dumps(options)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", metavar="task")
    parser.add_argument("--model", default="rt")
    parser.add_argument("--protocol", choices=["paper", "modern"], default="modern")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device")
    parser.add_argument("--as-a-process", type=json.loads, help=argparse.SUPPRESS)
    arguments = vars(parser.parse_args())
    if options := arguments.pop("as_a_process"):
        print(json.dumps(begin(options)))
        return
    print(f"{'':24}{'caches':>8}" + "".join(f"{part:>15}" for part in (*PARTS, "in all")))
    for task in arguments.pop("tasks"):
        with TemporaryDirectory() as caches:
            for state in ("empty", "filled"):
                seconds = in_a_process({"task": task, **arguments}, Path(caches))
                rows = [seconds[part] for part in PARTS]
                rows.append([sum(column) for column in zip(*rows, strict=True)])
                cells = (f"{f'{clock:.2f} ({processor:.2f})':>15}" for clock, processor in rows)
                print(f"{task:24}{state:>8}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
