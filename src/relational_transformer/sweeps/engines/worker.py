"""A run in a process of its own: `python -m relational_transformer.sweeps.engines.worker`.

Its order is one line of JSON on the standard input, which stays open: when it closes, whoever gave the order is gone,
and the run saves itself and ends.
"""

import json
import os
import signal
import sys
import threading
import traceback

from relational_transformer.training.devices import find_device

from ..execution import execute
from ..run import Run

FAILED, STOPPED = 1, 130


def main() -> int:
    """Carry out the order and return the exit status."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_stop_with_the_sweep, daemon=True).start()
    try:
        execute(Run.from_dict(order["run"]), find_device(order["device"]), order["checkpoint_seconds"])
    except KeyboardInterrupt as stop:
        print(stop, file=sys.stderr)
        return STOPPED
    except Exception:
        traceback.print_exc()
        return FAILED
    return 0


def _stop_with_the_sweep() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)  # a run that is being trained saves itself first


if __name__ == "__main__":
    # Not sys.exit: the thread may be reading the standard input, which the interpreter would want to close.
    status = main()
    sys.stderr.flush()
    os._exit(status)
