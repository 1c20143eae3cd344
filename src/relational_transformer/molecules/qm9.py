"""QM9: 130,831 small molecules with nineteen properties, through PyTorch Geometric's own data set class."""

import contextlib
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from relational_transformer.nn.checks import check_positive, shown

if TYPE_CHECKING:
    from torch_geometric.datasets import QM9

EVALUATION_MOLECULES = 10_000
MOST_MOLECULES = 10**9


class Target(NamedTuple):
    """A property of a molecule: its column in `y`, its unit, and whether it grows with the molecule.

    >>> find_target("gap")
    Target(column=4, unit='eV', extensive=False, meaning='gap between the two')
    """

    column: int
    unit: str
    extensive: bool
    meaning: str


TARGETS: dict[str, Target] = {
    "mu": Target(0, "D", False, "dipole moment"),
    "alpha": Target(1, "a0^3", True, "isotropic polarisability"),
    "homo": Target(2, "eV", False, "energy of the highest occupied orbital"),
    "lumo": Target(3, "eV", False, "energy of the lowest unoccupied orbital"),
    "gap": Target(4, "eV", False, "gap between the two"),
    "r2": Target(5, "a0^2", True, "electronic spatial extent"),
    "zpve": Target(6, "eV", True, "zero point vibrational energy"),
    "u0": Target(7, "eV", True, "internal energy at 0 K"),
    "u": Target(8, "eV", True, "internal energy at 298.15 K"),
    "h": Target(9, "eV", True, "enthalpy at 298.15 K"),
    "g": Target(10, "eV", True, "free energy at 298.15 K"),
    "cv": Target(11, "cal/(mol K)", True, "heat capacity at 298.15 K"),
    "u0_atom": Target(12, "eV", True, "atomisation energy at 0 K"),
    "u_atom": Target(13, "eV", True, "atomisation energy at 298.15 K"),
    "h_atom": Target(14, "eV", True, "atomisation enthalpy at 298.15 K"),
    "g_atom": Target(15, "eV", True, "atomisation free energy at 298.15 K"),
    "a": Target(16, "GHz", False, "first rotational constant"),
    "b": Target(17, "GHz", False, "second rotational constant"),
    "c": Target(18, "GHz", False, "third rotational constant"),
}
"""The properties in the order and units of PyG's QM9. The atomisation energies are the energies `u0` ... `g` less what
the atoms have on their own, which is nearly all of them."""


def find_target(name: str) -> Target:
    """The target of this name.

    >>> find_target("u0_atom").column, find_target("u0_atom").unit
    (12, 'eV')
    """
    if not isinstance(name, str) or name not in TARGETS:
        raise ValueError(f"no target of QM9 is called {shown(name)}; there are {', '.join(TARGETS)}")
    return TARGETS[name]


def load_qm9(folder: Path | str) -> "QM9":
    """PyG's QM9 in `folder`, downloaded there and processed if it is not: minutes once, seconds from then on.

    The raw files are `gdb9.sdf`, `gdb9.sdf.csv` and `uncharacterized.txt` where RDKit is installed, and `qm9_v3.pt`
    otherwise; put them into `folder/raw` by hand on a machine that cannot download. Nothing is unpickled.

    Each molecule has `x` [N, 11], `edge_index` [2, E], `edge_attr` [E, 4] (single, double, triple, aromatic),
    `pos` [N, 3] in ångström and `y` [1, 19], the columns of `TARGETS`.

    >>> molecule = load_qm9("data/QM9")[0]  # doctest: +SKIP
    """
    try:
        from torch_geometric.datasets import QM9
    except ModuleNotFoundError:
        message = "QM9 needs PyTorch Geometric: pip install '.[pyg]' in a checkout"
        raise ModuleNotFoundError(message, name="torch_geometric") from None
    if not isinstance(folder, str | Path):
        raise ValueError(f"folder must be a string or a path, got {shown(folder)}")
    folder = Path(folder).expanduser()
    try:
        # What PyG says of its progress is no result of the program; and where a file cannot be read without unpickling,
        # PyG warns and then unpickles it: the warning is made an error, so that it does not get so far.
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.filterwarnings("error", message="Weights only load failed")
            return QM9(str(folder))
    except UserWarning as error:
        raise ValueError(f"{folder} holds a file that is more than plain tensors, and is not loaded: {error}") from None
    except OSError as error:
        fetch = f"from torch_geometric.datasets import QM9; QM9('{folder.name}')"
        raise ValueError(
            f"QM9 is not in {folder} and cannot be downloaded ({error}): "
            f'where there is a network, run `python -c "{fetch}"`, and bring the folder here'
        ) from error


def split_indices(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Which molecules are for training, validation and test, drawn by `seed`.

    Validation and test have 10,000 each, or a tenth each where there are fewer than 100,000.

    >>> [len(part) for part in split_indices(130_831)], [len(part) for part in split_indices(50)]
    ([110831, 10000, 10000], [40, 5, 5])
    """
    check_positive(count=count)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        # Of a longer one torch would take the last 32 bits alone.
        raise ValueError(f"seed must be an integer from 0 to 2^32 - 1, got {shown(seed)}")
    each = min(EVALUATION_MOLECULES, count // 10)
    if each < 1:
        raise ValueError(f"at least 10 molecules are needed to have some to test on, got count={count}")
    if count > MOST_MOLECULES:
        raise ValueError(f"count must be at most {MOST_MOLECULES}, got {shown(count)}")
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    validation, test, training = order.split([each, each, count - 2 * each])
    return training, validation, test
