"""A process that trains one run or a queue of runs: `python -m relational_transformer.sweeps.engines.worker`.

It reads its runs from one line of JSON on the standard input. The input stays open: when it closes, the sweep has
ended, and the runs save a checkpoint and stop.
"""

import json
import os
import signal
import sys
import threading
import traceback

from relational_transformer.fleet.precision import find_device

from ..execution import execute_together
from ..run import Run
from .preparing import Preparation

FAILED, STOPPED = 1, 130


def main() -> int:
    """Train the runs and return the exit status."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_with_the_sweep, daemon=True).start()
    try:
        runs = [Run.from_dict(content) for content in order["runs"]]
        device, at_once = find_device(order["device"]), order["at_once"]
        with Preparation(runs, device, order["prepare"], begins=True) as preparation:
            execute_together(
                runs, device, order["checkpoint_seconds"], at_once, preparation.is_ready, order["begin_until"]
            )
    except KeyboardInterrupt as stop:
        print(stop, file=sys.stderr)
        return STOPPED
    except Exception:
        traceback.print_exc()
        return FAILED
    return 0


def _stop_with_the_sweep() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)  # runs save a checkpoint first


if __name__ == "__main__":
    # Not sys.exit: the interpreter would close the standard input, which the thread may be reading.
    status = main()
    sys.stderr.flush()
    os._exit(status)
