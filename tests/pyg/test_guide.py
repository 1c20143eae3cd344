"""The code of docs/pyg.md runs, from top to bottom, and prints what it says."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "pyg.md"


def test_code_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), flags=re.DOTALL | re.MULTILINE)
    names: dict = {}
    for block in blocks:
        exec(compile(block, GUIDE.name, "exec"), names)
    assert capsys.readouterr().out == "torch.Size([6, 32]) torch.Size([8, 8])\n"
    assert (names["x"].shape, names["edge_attr"].shape) == ((6, 32), (8, 8))
    assert (names["papers"].shape, names["predictions"].shape) == ((3, 32), (4, 1))
    assert (tmp_path / "my-layer" / "model.safetensors").is_file()
