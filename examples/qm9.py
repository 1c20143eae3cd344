"""QM9: a property of small molecules, from their bonds and distances. The paper names it as the model's next step.

    python examples/qm9.py --folder data/QM9 --target gap --device cuda

PyTorch Geometric downloads QM9 (130,831 molecules) into the folder when it is not there. On a machine without a
network, bring the folder, or just its `raw` files, from one that has it: what is missing is said, with the command that
gets it.

Every pair of atoms has an edge vector, made of their bond and their distance; the model is `MoleculeRegressor`, trained
on the absolute error, and the parameters that do best on validation are tested. The test error is printed in the unit
of the target, beside that of always answering with the mean.

No run on the whole of QM9 is recorded, so there is no score to expect here. The tests run this program on made-up
molecules in the format of QM9 (tests/examples/test_qm9.py).
"""

import argparse
import copy
import time
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.loader import DataLoader

from relational_transformer.molecules import (
    TARGETS,
    MoleculeRegressor,
    Molecules,
    Target,
    find_target,
    load_qm9,
    split_indices,
)


def targets_of(loader: DataLoader, target: Target) -> Tensor:
    return torch.cat([batch.y[:, target.column] for batch in loader])


@torch.no_grad()
def mean_absolute_error(model: MoleculeRegressor, loader: DataLoader, target: Target, device: str) -> float:
    errors = [(model(Molecules.of(batch).to(device)).cpu() - batch.y[:, target.column]).abs() for batch in loader]
    return torch.cat(errors).mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=Path("data/QM9"), help="where QM9 is, or will be downloaded to")
    parser.add_argument("--target", choices=list(TARGETS), default="gap")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--size", type=int, default=128, help="channels of an atom; an edge has half of them")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0, help="of the split and of the parameters")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="save the model into this folder")
    arguments = parser.parse_args()

    target, device = find_target(arguments.target), arguments.device
    try:
        dataset = load_qm9(arguments.folder)
    except ValueError as error:
        parser.error(str(error))
    training, validation, test = (
        DataLoader(dataset[indices], arguments.batch_size, shuffle=number == 0)
        for number, indices in enumerate(split_indices(len(dataset), arguments.seed))
    )
    torch.manual_seed(arguments.seed)
    model = MoleculeRegressor(
        node_size=arguments.size,
        edge_size=arguments.size // 2,
        head_size=arguments.size // 8,
        node_hidden_size=2 * arguments.size,
        num_layers=arguments.layers,
        readout="sum" if target.extensive else "mean",
    ).to(device)
    model.set_scale(targets_of(training, target))
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, arguments.learning_rate, total_steps=arguments.epochs * len(training), pct_start=0.05
    )

    best, best_error, started = copy.deepcopy(model.state_dict()), float("inf"), time.perf_counter()
    for epoch in range(1, arguments.epochs + 1):
        model.train()
        for batch in training:
            wanted = batch.y[:, target.column].to(device)
            loss = (model(Molecules.of(batch).to(device)) - wanted).abs().mean() / model.std
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        error = mean_absolute_error(model.eval(), validation, target, device)
        if error < best_error:
            best, best_error = copy.deepcopy(model.state_dict()), error
        seconds = time.perf_counter() - started
        print(f"epoch {epoch:4d}   validation error {error:.4f} {target.unit}   {seconds:.0f} s", flush=True)

    model.load_state_dict(best)
    error = mean_absolute_error(model, test, target, device)
    of_mean = (targets_of(test, target) - model.mean.cpu()).abs().mean().item()
    print(f"test error of {arguments.target}: {error:.4f} {target.unit} (of the mean: {of_mean:.4f} {target.unit})")
    if arguments.out:
        model.save_pretrained(arguments.out)


if __name__ == "__main__":
    main()
