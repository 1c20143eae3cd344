import re
from collections.abc import Callable


def test_it_learns(run_example: Callable[..., str]):
    """A tenth of the full number of steps."""
    found = re.search(r"variance on new molecules: ([\d.-]+)%", run_example("molecule_regression.py", "--steps", 100))
    assert found is not None
    assert float(found.group(1)) > 30
