import re
from collections.abc import Callable


def test_it_learns(run_example: Callable[..., str]):
    """A sixth of the full number of steps: 39% and 35% of the variance, on the way to 94% and 91%."""
    found = re.search(r"of 8 nodes: ([\d.-]+)%, of 16: ([\d.-]+)%", run_example("quickstart.py", "--steps", 100))
    assert found is not None
    assert float(found.group(1)) > 15
    assert float(found.group(2)) > 10
