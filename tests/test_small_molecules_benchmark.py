"""The comparison on small sets of molecules runs to its table, which the guide has."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("rdkit")
REPOSITORY = Path(__file__).parents[1]
SMILES = ["CCO", "C", "c1ccccc1", "CC(=O)O", "CN", "CCCC", "O=C=O", "C#N", "CCl", "CCN(C)C"]


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    return importlib.import_module("small_molecules")


def test_it_trains_every_model_once_and_prints_a_table(
    benchmark: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rows = [f"{number},{smiles}" for number, smiles in enumerate(SMILES)]
    (tmp_path / "FreeSolv.csv").write_text("\n".join(["expt,smiles", *rows]))
    options = ["--data", "FreeSolv", "--seeds", "0", "--steps", "2", "--batch-size", "4", "--layers", "1"]
    options += ["--folder", str(tmp_path), "--results", str(tmp_path / "results.jsonl")]
    benchmark.main(options)
    first = capsys.readouterr().out
    assert first.count("'data': 'FreeSolv'") == 4
    benchmark.main(options)
    again = capsys.readouterr().out
    assert again == first[first.index("| model") :]
    table = [line.split(" | ") for line in again.splitlines() if line.startswith("| ")]
    names = [*benchmark.MODELS, "the mean of the training set"]
    assert [row[0] for row in table[1:]] == [f"| {name}" for name in names]
    sizes = [int(row[1].replace(",", "")) for row in table[1:-1]]
    assert all(40_000 < size <= 50_000 for size in sizes)


def test_validation_chooses_what_is_tested(benchmark: ModuleType):
    found = [
        {"seed": 0, "validation": 0.9, "test": 0.1},
        {"seed": 0, "validation": 0.8, "test": 0.7},
        {"seed": 1, "validation": 0.5, "test": 0.6},
    ]
    assert [row["test"] for row in benchmark.chosen(found)] == [0.7, 0.6]


def test_parts_of_a_split_share_no_molecule(benchmark: ModuleType):
    parts = benchmark.split(range(50), seed=3)
    assert [len(part) for part in parts] == [40, 5, 5]
    assert sorted(number for part in parts for number in part) == list(range(50))
    assert benchmark.split(range(50), seed=3) == parts != benchmark.split(range(50), seed=4)


def test_the_guide_has_the_table_of_the_recorded_runs(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]):
    benchmark.main(["--data"])
    assert f"\n{capsys.readouterr().out.strip()}\n" in (REPOSITORY / "docs" / "molecules.md").read_text()
