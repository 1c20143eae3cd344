import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "pyg_node_classification.py"


def test_node_classification_learns_at_small_size():
    """93% after two seconds of training; what cannot read the edges stays at 50%."""
    command = [sys.executable, str(EXAMPLE), "--graphs", "96", "--epochs", "8"]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    (accuracy,) = re.findall(r"accuracy on new graphs: ([\d.]+)%", finished.stdout)
    assert float(accuracy) > 80
