"""The rule of the house: a room imports only from rooms above it (docs/architecture.md)."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "relational_transformer"
REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / PACKAGE

ROOMS = (
    "files",
    "reading",
    "nn",
    "pyg",
    "molecules",
    "clrs",
    "processors",
    "reasoning",
    "training",
    "lobster",
    "sokoban",
    "tuning",
    "sweeps",
    "reports",
    "commands",
    "cli",
)
FILES = sorted(SOURCE.rglob("*.py"))
EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def room_of(path: Path) -> str:
    """The room a file is in; the package's own `__init__.py` is in none."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, anywhere in it: `a.b.c` for `from a.b import c`."""
    inside = (PACKAGE, *path.relative_to(SOURCE).parts[:-1])
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
    return str(path.relative_to(SOURCE))


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
    if room in ("files", "reading"):
        declared = set()
    elif room == "nn":
        declared = {"torch"} | ({"triton"} if "kernels" in path.parts else set())
        declared |= {"pretrained.py": {"safetensors"}, "hub.py": {"huggingface_hub"}}.get(path.name, set())
    elif room == "clrs":
        declared = {"numpy"} | packages_of("clrs")
    else:
        declared = {"torch", "numpy"} | packages_of(*(extra for extra in EXTRAS if extra not in ("dev", "all")))
    undeclared = outside_roots(path) - declared
    assert not undeclared, f"{identify(path)} imports {sorted(undeclared)}, which {room} may not, or pyproject lacks"


@pytest.mark.parametrize("path", [path for path in FILES if room_of(path) == "clrs"], ids=identify)
def test_clrs_imports_no_room_that_knows_torch(path: Path):
    assert set(imported_rooms(path)) <= {"files", "reading", "clrs"}


def test_the_data_needs_no_torch():
    program = f"import sys, {PACKAGE}.clrs; print('torch' in sys.modules)"
    assert run_python(program) == "False"


def test_base_install_needs_torch_and_numpy_alone():
    """The public names load, and a layer runs, where every package of an extra is missing.

    What torch needs for itself (jinja2) is there in any install.
    """
    missing = packages_of(*EXTRAS) - {"relational_transformer", "networkx", "jinja2"}
    assert {"numba", "tyro", "optuna", "matplotlib", "triton"} <= missing
    program = f"""
import sys
sys.modules.update(dict.fromkeys({sorted(missing)}))  # None: importing it raises ModuleNotFoundError
import torch, {PACKAGE} as package, {PACKAGE}.clrs
for name in package.__all__:
    getattr(package, name)
layer = package.RelationalTransformerLayer(node_size=8, edge_size=4, num_heads=2, head_size=4, node_hidden_size=8)
print(list(layer(torch.randn(3, 8), torch.randn(3, 3, 4)).edges.shape))
"""
    assert run_python(program) == "[3, 3, 4]"


OPERATORS = SOURCE / "nn" / "kernels" / "seeds.py"
"""Torch's compiler wants an operator where `torch.func.grad` wants an autograd function."""


def reads_is_compiling(path: Path) -> bool:
    """Whether a file has the name `is_compiling` anywhere in its code."""
    nodes = ast.walk(ast.parse(path.read_text(), str(path)))
    return any("is_compiling" in (getattr(node, key, None) for key in ("id", "attr", "name")) for node in nodes)


def test_layers_do_the_same_whether_they_are_compiled_or_not():
    readers = {path for path in FILES if room_of(path) == "nn" and reads_is_compiling(path)}
    assert readers == {OPERATORS}


def kernel_internals(path: Path) -> set[str]:
    """What a file imports from the files in `nn/kernels` past what the folder offers."""
    from relational_transformer.nn import kernels

    inside = f"{PACKAGE}.nn.kernels."
    return {
        name for name in imports(path) if name.startswith(inside) and name.removeprefix(inside) not in kernels.__all__
    }


OUTSIDE_KERNELS = [path for path in FILES if "kernels" not in path.parts and room_of(path) != "training"]
"""The trainer is not held to the rule yet: it still lays out the kernels' weights itself."""


@pytest.mark.parametrize("path", OUTSIDE_KERNELS, ids=identify)
def test_nothing_outside_the_kernels_imports_their_internals(path: Path):
    assert not kernel_internals(path)


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


def test_rules_of_kernels_are_broken_by_their_internals_and_by_asking_for_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    wrong = tmp_path / "wrong.py"
    for line, broken in (
        ("from relational_transformer.nn.kernels import enabled", set()),
        ("from relational_transformer.nn import kernels", set()),
        ("from relational_transformer.nn.kernels import dispatch", {"dispatch"}),
        ("from relational_transformer.nn.kernels.dispatch import on_hopper", {"dispatch.on_hopper"}),
        ("import relational_transformer.nn.kernels.tiles", {"tiles"}),
    ):
        wrong.write_text(line)
        assert kernel_internals(wrong) == {f"{PACKAGE}.nn.kernels.{name}" for name in broken}
    for line in ("from torch.compiler import is_compiling", "import torch\ntorch.compiler.is_compiling()"):
        wrong.write_text(line)
        assert reads_is_compiling(wrong)
