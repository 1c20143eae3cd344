"""The rule of the house: a room imports only from rooms above it (docs/architecture.md)."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_type_hints

import pytest

PACKAGE = "relational_transformer"
REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / PACKAGE

ROOMS = (
    "files",
    "reading",
    "bounds",
    "passwords",
    "nn",
    "fleet",
    "runs",
    "regression",
    "pyg",
    "molecules",
    "clrs",
    "processors",
    "reasoning",
    "training",
    "analysis",
    "lobster",
    "sokoban",
    "tasks",
    "tuning",
    "sweeps",
    "look",
    "reports",
    "command_line",
    "commands",
    "cli",
    "__main__",
)
FILES = sorted(SOURCE.rglob("*.py"))
OTHERS = sorted(path for folder in ("benchmarks", "examples", "docs") for path in (REPOSITORY / folder).rglob("*.py"))
MOST_FILES = 15
"""In one folder of the package."""
MOST_IMPORTED = 100
"""By a training command; it may only shrink."""
KERNELS = f"{PACKAGE}.nn.kernels"
READ_INTERNALS_OF_KERNELS = {"benchmarks/launches.py"}
"""Files that do not keep to the interface of `nn/kernels`: this one counts the launches inside. None may be added."""
EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def room_of(path: Path) -> str:
    """The room a file is in; the package's own `__init__.py` is in none."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, anywhere in it: `a.b.c` for `from a.b import c`."""
    inside = (PACKAGE, *path.relative_to(SOURCE).parts[:-1]) if path.is_relative_to(SOURCE) else ()
    for statement in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            start = inside[: len(inside) - statement.level + 1] if statement.level else ()
            module = ".".join([*start, *([statement.module] if statement.module else [])])
            yield from (f"{module}.{alias.name}" for alias in statement.names)


def imported_rooms(path: Path) -> Iterator[str]:
    """The rooms a file imports from. What the package re-exports at the top comes from `nn`."""
    for name in imports(path):
        root, *rest = name.split(".")
        if root == PACKAGE and rest and rest != ["__version__"]:
            yield rest[0] if rest[0] in ROOMS else "nn"


def past_the_interface_of_kernels(path: Path) -> set[str]:
    """What a file imports of `nn/kernels`, or takes of it as `kernels.name`, that is not in its `__all__`."""
    nodes = ast.walk(ast.parse(path.read_text(), str(path)))
    attributes = (node for node in nodes if isinstance(node, ast.Attribute))
    taken = {f"{KERNELS}.{node.attr}" for node in attributes if ast.unparse(node.value) == "kernels"}
    taken |= {name for name in imports(path) if name.startswith(f"{KERNELS}.")}
    return taken - {f"{KERNELS}.{name}" for name in names_in_all(SOURCE / "nn" / "kernels" / "__init__.py")}


def names_in_all(path: Path) -> list[str]:
    """The public names of a module."""
    assignments = (line for line in ast.parse(path.read_text(), str(path)).body if isinstance(line, ast.Assign))
    return next(ast.literal_eval(line.value) for line in assignments if ast.unparse(line.targets[0]) == "__all__")


def outside_roots(path: Path) -> set[str]:
    """The third-party packages a file imports."""
    return {name.partition(".")[0] for name in imports(path)} - sys.stdlib_module_names - {PACKAGE}


def packages_of(*extras: str) -> set[str]:
    """Import names of what these extras install."""
    names = (requirement.partition(">=")[0].partition("[")[0] for extra in extras for requirement in EXTRAS[extra])
    return {name.strip().replace("-", "_").lower() for name in names}


def run_python(program: str) -> str:
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def identify(path: Path) -> str:
    return str(path.relative_to(SOURCE if path.is_relative_to(SOURCE) else REPOSITORY))


def test_rooms_are_documented_in_their_order():
    rows = re.findall(r"^\| (`[^|]*`) \|", (REPOSITORY / "docs" / "architecture.md").read_text(), re.MULTILINE)
    table = [name for row in rows[: rows.index("`cli.py`, `__main__.py`") + 1] for name in re.findall(r"`(\w+)", row)]
    assert tuple(table) == ROOMS


def test_every_file_is_in_a_room():
    strangers = {room_of(path) for path in FILES} - {*ROOMS, "__init__"}
    assert not strangers, f"not a room of docs/architecture.md: {sorted(strangers)}"


@pytest.mark.parametrize("path", FILES, ids=identify)
def test_a_room_imports_only_from_rooms_above_it(path: Path):
    room = room_of(path)
    allowed = {"nn"} if room == "__init__" else set(ROOMS[: ROOMS.index(room) + 1])
    below = set(imported_rooms(path)) - allowed
    assert not below, f"{identify(path)} imports from {sorted(below)}, which {room} may not"


@pytest.mark.parametrize("path", FILES, ids=identify)
def test_every_third_party_import_is_declared_for_its_room(path: Path):
    room = room_of(path)
    if room in ("files", "reading", "bounds", "passwords"):
        declared = set()
    elif room == "nn":
        declared = {"torch"} | ({"triton"} if path.is_relative_to(SOURCE / "nn" / "kernels") else set())
        declared |= {"digest.py": {"safetensors"}, "hub.py": {"huggingface_hub"}}.get(path.name, set())
    elif room == "clrs":
        declared = {"numpy"} | packages_of("clrs")
    else:
        declared = {"torch", "numpy"} | packages_of(*(extra for extra in EXTRAS if extra not in ("dev", "all")))
    undeclared = outside_roots(path) - declared
    assert not undeclared, f"{identify(path)} imports {sorted(undeclared)}, which {room} may not, or pyproject lacks"


@pytest.mark.parametrize("path", [path for path in FILES if room_of(path) == "clrs"], ids=identify)
def test_clrs_imports_no_room_that_knows_torch(path: Path):
    assert set(imported_rooms(path)) <= {"files", "reading", "clrs"}


@pytest.mark.parametrize("path", [path for path in FILES if room_of(path) in ("fleet", "runs")], ids=identify)
def test_fleets_and_runs_know_no_experiment(path: Path):
    assert set(imported_rooms(path)) <= {"files", "reading", "bounds", "nn", "fleet", "runs"}


@pytest.mark.parametrize("folder", sorted({path.parent for path in FILES}), ids=identify)
def test_a_folder_is_small_enough_to_be_read(folder: Path):
    files = [path for path in FILES if path.parent == folder]
    assert len(files) <= MOST_FILES


def test_a_training_command_imports_few_files():
    """What `rt train bellman_ford` needs, and nothing of other experiments, sweeps or reports."""
    program = f"""
import sys, {PACKAGE}.cli, {PACKAGE}.commands.train
from {PACKAGE}.reasoning.build import build_network
from {PACKAGE}.processors.settings import TUNED
from {PACKAGE}.clrs import sample
build_network("bellman_ford", TUNED["rt"]), sample("bellman_ford", 1, 4, 0)
print(*sorted(name for name in sys.modules if name.startswith("{PACKAGE}.")))
"""
    imported = run_python(program).split()
    assert len(imported) < MOST_IMPORTED, f"{len(imported)} files: {' '.join(imported)}"
    assert not {name.split(".")[1] for name in imported} & {"lobster", "sokoban", "sweeps", "reports", "tuning"}


def test_the_data_needs_no_torch():
    program = f"import sys, {PACKAGE}.clrs; print('torch' in sys.modules)"
    assert run_python(program) == "False"


def test_kernels_are_used_through_their_interface():
    outside = [path for path in (*FILES, *OTHERS) if not path.is_relative_to(SOURCE / "nn" / "kernels")]
    reaching_inside = {
        identify(path): sorted(found) for path in outside if (found := past_the_interface_of_kernels(path))
    }
    new = {name: found for name, found in reaching_inside.items() if name not in READ_INTERNALS_OF_KERNELS}
    assert not new, f"past the interface of nn/kernels: {new}"
    done = READ_INTERNALS_OF_KERNELS - set(reaching_inside)
    assert not done, f"keep to the interface of nn/kernels now, and need no exception: {sorted(done)}"


def test_layers_import_no_triton_before_a_kernel_is_called():
    program = f"import sys, {PACKAGE}.nn; print('triton' in sys.modules)"
    assert run_python(program) == "False"


def test_base_install_needs_torch_and_numpy_alone():
    """The public names and the rooms of models and tasks load, and a layer runs, where every package of an extra is
    missing.

    What torch needs for itself (jinja2) is there in any install.
    """
    missing = packages_of(*EXTRAS) - {"relational_attention", "networkx", "jinja2"}
    assert {"numba", "tyro", "optuna", "matplotlib", "triton"} <= missing
    program = f"""
import sys
sys.modules.update(dict.fromkeys({sorted(missing)}))  # None: importing it raises ModuleNotFoundError
import importlib, torch, {PACKAGE} as package
for name in package.__all__:
    getattr(package, name)
for room in {ROOMS[ROOMS.index("nn") : ROOMS.index("tuning")]}:
    importlib.import_module("{PACKAGE}." + room)
layer = package.RelationalTransformerLayer(node_size=8, edge_size=4, num_heads=2, head_size=4, node_hidden_size=8)
print(list(layer(torch.randn(3, 8), torch.randn(3, 3, 4)).edges.shape))
"""
    assert run_python(program) == "[3, 3, 4]"


def test_interface_of_kernels_is_passed_by_modules_and_by_attributes(tmp_path: Path):
    path = tmp_path / "wrong.py"
    path.write_text(
        f"from {PACKAGE}.nn import kernels\n"
        f"from {KERNELS} import enabled\n"
        f"from {KERNELS}.dispatch import current_mode\n"
        "print(kernels.use_kernels, kernels.dispatch.enabled, kernels._IMPORTED_LATER)\n"
    )
    expected = {f"{KERNELS}.{name}" for name in ("dispatch.current_mode", "dispatch", "_IMPORTED_LATER")}
    assert past_the_interface_of_kernels(path) == expected


OPERATORS = SOURCE / "nn" / "kernels" / "seeds.py"
"""Torch's compiler wants an operator where `torch.func.grad` wants an autograd function."""


def reads_is_compiling(path: Path) -> bool:
    """Whether a file has the name `is_compiling` anywhere in its code."""
    nodes = ast.walk(ast.parse(path.read_text(), str(path)))
    return any("is_compiling" in (getattr(node, key, None) for key in ("id", "attr", "name")) for node in nodes)


def test_layers_do_the_same_whether_they_are_compiled_or_not():
    readers = {path for path in FILES if room_of(path) == "nn" and reads_is_compiling(path)}
    assert readers == {OPERATORS}


def test_rule_is_broken_by_an_import_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The checks above see relative imports, imports inside functions, and names re-exported at the top."""
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "nn" / "kernels").mkdir(parents=True)
    path = tmp_path / "nn" / "kernels" / "wrong.py"
    path.write_text(
        "from ...clrs import SPECS\n"
        "from .. import attention\n"
        "def late():\n"
        "    from relational_transformer import RelationalTransformer, training\n"
        "    import relational_transformer.reports.tables\n"
        "    import scipy.sparse\n"
    )
    assert set(imported_rooms(path)) == {"clrs", "nn", "training", "reports"}
    assert outside_roots(path) == {"scipy"}


def test_asking_for_the_compiler_is_seen(tmp_path: Path):
    wrong = tmp_path / "wrong.py"
    for line in ("from torch.compiler import is_compiling", "import torch\ntorch.compiler.is_compiling()"):
        wrong.write_text(line)
        assert reads_is_compiling(wrong)


def nested_in(arguments: type) -> Iterator[type]:
    """A command's dataclass, and the dataclasses that its fields are."""
    yield arguments
    for kind in get_type_hints(arguments).values():
        if isinstance(kind, type) and is_dataclass(kind):
            yield from nested_in(kind)


def test_every_option_of_a_training_run_is_a_field_that_is_defined_once():
    pytest.importorskip("tyro")
    from relational_transformer.commands.train import TrainArguments
    from relational_transformer.fleet.adam import Schedule
    from relational_transformer.processors.settings import Settings
    from relational_transformer.training import Protocol

    kinds = list(nested_in(TrainArguments))
    assert {Protocol, Settings, Schedule} <= set(kinds), "options of a configuration are its own fields"
    names = [
        field.name for kind in kinds for field in fields(kind) if not is_dataclass(get_type_hints(kind)[field.name])
    ]
    assert sorted(names) == sorted(set(names))
