"""ESOL, FreeSolv and Lipophilicity: `RelationalGraphModel` beside models made of PyTorch Geometric's layers.

    python benchmarks/small_molecules.py --folder FOLDER

trains what `results/molecules/small.jsonl` does not have yet, adds it there, and prints the table. The CSV files in the
folder are those of the Python package gauche (docs/molecules.md says where they are), and nothing is downloaded.

All models read the same features (`torch_geometric.utils.from_smiles`), have the largest width with which they stay
below `--parameters`, and have layers, steps, splits (a random 80/10/10 for each seed), loss and optimizer alike. The
epoch (and learning rate, where several are given) is that of the lowest validation error; only there the test molecules
are looked at. RT gets shortest paths as encodings of pairs, GPS random walks as encodings of nodes. Batches of RT are
of molecules of like sizes; the other models, which pad nothing and have BatchNorm, get shuffled ones.
"""

import argparse
import csv
import json
import math
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from molecule_models import MODELS, PAIRS, WALKS, make_model
from torch import nn

from relational_transformer.commands.report import insert
from relational_transformer.pyg import RelationalGraphModel, SizeBucketSampler
from relational_transformer.runs.provenance import commit, hardware

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # PyG 2.8 calls torch.jit.script when it is imported
    import torch_geometric
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader
    from torch_geometric.transforms import AddRandomWalkPE
    from torch_geometric.utils import from_smiles

TARGETS = {"ESOL": "measured log solubility in mols per litre", "FreeSolv": "expt", "Lipophilicity": "exp"}
"""The column of each data set's file that is learnt."""
RESULTS = Path(__file__).parents[1] / "results" / "molecules" / "small.jsonl"


@dataclass(frozen=True)
class Settings:
    """What the models of a table have alike."""

    most_parameters: int
    num_layers: int
    steps: int
    batch_size: int


@dataclass(frozen=True)
class Run:
    """What is trained at once."""

    data: str
    model: str
    seed: int
    learning_rate: float


KEYS = tuple(field.name for field in fields(Run))


def load(folder: Path, data: str) -> list[Data]:
    """All molecules of a data set, with whatever one of the models reads."""
    with (folder / f"{data}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    walks, molecules = AddRandomWalkPE(WALKS, attr_name="walks"), []
    for row in rows:
        molecule = PAIRS(walks(from_smiles(row["smiles"])))
        molecule.y = torch.tensor([[float(row[TARGETS[data]])]])
        molecules.append(molecule)
    return molecules


def split(molecules: Sequence[Data], seed: int) -> list[list[Data]]:
    """A random 80/10/10."""
    order = torch.randperm(len(molecules), generator=torch.Generator().manual_seed(seed)).tolist()
    first, second = round(0.8 * len(order)), round(0.9 * len(order))
    return [[molecules[number] for number in part] for part in (order[:first], order[first:second], order[second:])]


def batches_of(molecules: list[Data], model: nn.Module, batch_size: int, seed: int) -> DataLoader:
    """Shuffled batches for training."""
    if isinstance(model, RelationalGraphModel):
        sizes = [molecule.num_nodes or 0 for molecule in molecules]
        return DataLoader(molecules, batch_sampler=SizeBucketSampler(sizes, batch_size, seed=seed, bucket_size=10))
    return DataLoader(molecules, batch_size, shuffle=True, drop_last=True)  # BatchNorm needs more than one atom


@torch.no_grad()
def error(model: nn.Module, molecules: list[Data], mean: float, std: float) -> float:
    """Root of the mean squared error."""
    model.eval()
    in_order = sorted(molecules, key=lambda molecule: molecule.num_nodes or 0)
    squares = [(mean + std * model(batch) - batch.y).square() for batch in DataLoader(in_order, 128)]
    return torch.cat(squares).mean().sqrt().item()


def train(molecules: list[Data], run: Run, settings: Settings) -> dict[str, Any]:
    """The figures of a run: errors in the best epoch by validation."""
    training, validation, test = split(molecules, run.seed)
    targets = torch.cat([molecule.y for molecule in training])
    mean, std = targets.mean().item(), targets.std().item()
    torch.manual_seed(run.seed)
    model = make_model(run.model, settings.num_layers, settings.most_parameters)
    batches = batches_of(training, model, settings.batch_size, run.seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.learning_rate, weight_decay=1e-4)
    epochs = max(1, round(settings.steps * settings.batch_size / len(training)))
    steps = epochs * len(batches)
    warm = min(100, steps // 4) + 1

    def factor(step: int) -> float:
        return min((step + 1) / warm, 0.5 * (1 + math.cos(math.pi * step / steps)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    lowest, best_epoch, best, start = math.inf, 0, {}, time.process_time()
    for epoch in range(1, epochs + 1):
        if isinstance(batches.batch_sampler, SizeBucketSampler):
            batches.batch_sampler.set_epoch(epoch)
        model.train()
        for batch in batches:
            loss = (model(batch) - (batch.y - mean) / std).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        found = error(model, validation, mean, std)
        if found < lowest:
            lowest, best_epoch = found, epoch
            best = {name: value.clone() for name, value in model.state_dict().items()}
    seconds = time.process_time() - start
    model.load_state_dict(best)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "epochs": epochs,
        "best_epoch": best_epoch,
        "validation": lowest,
        "test": error(model, test, mean, std),
        "test_of_mean": (torch.cat([molecule.y for molecule in test]) - mean).square().mean().sqrt().item(),
        "seconds": seconds,
    }


def read_rows(path: Path, settings: Settings) -> list[dict[str, Any]]:
    """The recorded runs with these settings."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    return [row for row in rows if row["settings"] == asdict(settings)]


def add_row(path: Path, row: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def chosen(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of each seed the run with the lowest validation error."""
    for seed in sorted({row["seed"] for row in rows}):
        yield min((row for row in rows if row["seed"] == seed), key=lambda row: row["validation"])


def table(rows: list[dict[str, Any]], settings: Settings) -> str:
    """Test errors of every model on every data set of which it has run all seeds."""
    seeds = sorted({row["seed"] for row in rows})

    def cell(name: str, found: list[dict[str, Any]]) -> str:
        errors = [row[name] for row in chosen(found)]
        if len(errors) < len(seeds) or not errors:
            return "-"
        return f"{statistics.mean(errors):.3f}" + (f" ± {statistics.stdev(errors):.3f}" if len(errors) > 1 else "")

    lines = [f"| model | parameters | {' | '.join(TARGETS)} | minutes |", f"|---|---:|{'---:|' * 4}"]
    for model in MODELS:
        found = [row for row in rows if row["model"] == model]
        if found:
            by_data = [[row for row in found if row["data"] == data] for data in TARGETS]
            complete = [some for some in by_data if len(list(chosen(some))) == len(seeds)]
            seconds = [statistics.mean(row["seconds"] for row in some) for some in complete]
            cells = " | ".join(cell("test", some) for some in by_data)
            lines.append(f"| {model} | {found[0]['parameters']:,} | {cells} | {sum(seconds) / 60:.1f} |")
    cells = [cell("test_of_mean", [row for row in rows if row["data"] == data]) for data in TARGETS]
    lines.append(f"| the mean of the training set | 0 | {' | '.join(cells)} | - |")
    epochs_of = {row["data"]: row["epochs"] for row in rows}
    epochs = " and ".join(f"{epochs_of[data]} epochs of {data}" for data in TARGETS if data in epochs_of)
    rates = " or ".join(f"{rate:g}" for rate in sorted({row["learning_rate"] for row in rows}))
    told = (
        f"RMSE on the test molecules, mean ± standard deviation over seeds {seeds}. "
        f"At most {settings.most_parameters:,} parameters, {settings.num_layers} layers, {epochs}, "
        f"batches of {settings.batch_size}, learning rate {rates}; the minutes train one seed on all of a row. "
        f"{'; '.join(sorted({row['hardware'] for row in rows}))}."
    )
    return "\n".join([*lines, "", told, ""])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[1e-3])
    parser.add_argument("--parameters", type=int, default=50_000, help="at most")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1000, help="of training, to whole epochs")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--folder", type=Path, help="of the CSV files of the package gauche")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write", type=Path, help="a Markdown file with a place for the table")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    settings = Settings(options.parameters, options.layers, options.steps, options.batch_size)
    origin = {
        "commit": commit(),
        "versions": {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__},
        "hardware": hardware(torch.device("cpu")),
    }
    for data in options.data:
        asked = [
            Run(data, model, seed, rate)
            for model in options.models
            for seed in options.seeds
            for rate in options.learning_rates
        ]
        recorded = [Run(*(row[key] for key in KEYS)) for row in read_rows(options.results, settings)]
        missing = [run for run in asked if run not in recorded]
        if missing and options.folder is None:
            parser.error(f"{len(missing)} runs on {data} are not recorded: give the --folder of its CSV file")
        molecules = load(options.folder, data) if missing else []
        for run in missing:
            figures = train(molecules, run, settings)
            print(f"{asdict(run)}: validation {figures['validation']:.3f}, {figures['seconds']:.0f} s", flush=True)
            add_row(options.results, {**asdict(run), **figures, "settings": asdict(settings), **origin})
    found = table(read_rows(options.results, settings), settings)
    print(found)
    if options.write is not None:
        insert(options.write, found)


if __name__ == "__main__":
    main()
