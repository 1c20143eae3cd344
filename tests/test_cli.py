"""`rt`: what it prints and with which status it ends. Most tests use a stand-in for a command."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from dataclasses import dataclass, is_dataclass
from types import ModuleType

import pytest

import relational_transformer
from relational_transformer import cli, commands
from relational_transformer.commands import Command

pytest.importorskip("tyro")


@dataclass(frozen=True)
class GreetArguments:
    """Greet somebody."""

    name: str
    """Who is greeted."""
    times: int = 1
    """How often."""


@dataclass(frozen=True)
class GreetLoudlyArguments:
    """Greet everybody."""

    volume: int
    """How loud."""


@pytest.fixture
def greet(monkeypatch: pytest.MonkeyPatch):
    """Make `rt greet` the only command; the test says what it does with its arguments."""

    def install(run) -> None:
        module = ModuleType("relational_transformer.commands.greet")
        module.GreetArguments, module.run = GreetArguments, run
        monkeypatch.setitem(sys.modules, module.__name__, module)
        variant = ModuleType("relational_transformer.commands.greet_loudly")
        variant.GreetLoudlyArguments, variant.run = GreetLoudlyArguments, run
        monkeypatch.setitem(sys.modules, variant.__name__, variant)
        loudly = Command("shout hello", "rt greet loudly --volume 11")
        offered = {"greet": Command("say hello", "rt greet --name Ada", variants={"loudly": loudly})}
        monkeypatch.setattr(commands, "available", lambda: offered)

    return install


def raising(error: BaseException):
    def run(arguments: GreetArguments) -> None:
        raise error

    return run


def test_a_command_receives_its_arguments_as_its_dataclass(greet):
    received = []
    greet(received.append)
    assert cli.main(["greet", "--name", "Ada", "--times", "3"]) == 0
    assert received == [GreetArguments("Ada", 3)]


def test_a_variant_of_a_command_has_a_command_line_of_its_own(greet):
    received = []
    greet(received.append)
    assert cli.main(["greet", "loudly", "--volume", "11"]) == 0
    assert received == [GreetLoudlyArguments(11)]


def test_help_of_a_command_names_its_variants_and_help_of_a_variant_is_its_own(greet, capsys):
    greet(raising(AssertionError("help must not run anything")))
    assert cli.main(["--help"]) == 0
    assert "rt greet loudly --volume 11" in capsys.readouterr().out
    for arguments, expected in (
        (["greet", "--help"], "rt greet loudly --help: shout hello."),
        (["greet", "loudly", "--help"], "How loud."),
    ):
        assert cli.main(arguments) == 0
        assert expected in capsys.readouterr().out


def test_help_has_a_line_with_an_example_for_every_command(greet, capsys):
    greet(raising(AssertionError("help must not run anything")))
    assert cli.main(["--help"]) == 0
    assert any("greet" in line and "rt greet --name Ada" in line for line in capsys.readouterr().out.splitlines())


def test_help_of_a_command_explains_its_arguments(greet, capsys):
    greet(raising(AssertionError("help must not run anything")))
    assert cli.main(["greet", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "Greet somebody." in printed
    assert "Who is greeted" in printed
    assert "rt greet --name Ada" in printed


def test_help_fits_into_a_terminal_of_100_columns(monkeypatch, capsys):
    pytest.importorskip("optuna")
    monkeypatch.setenv("COLUMNS", "100")
    words: list[list[str]] = [[]]
    for name, one in commands.COMMANDS.items():
        words += [[name], *([name, variant] for variant in one.variants)]
    for command in words:
        assert cli.main([*command, "--help"]) == 0
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= 100
        assert "│" + " " * 98 + "│" not in printed


def test_help_has_the_text_of_a_field_in_one_paragraph_and_no_default_that_is_none(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["evaluate", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "(with --hints, of its validation and test sets)." in " ".join(printed.replace("│", "").split())
    assert "None" not in printed


@pytest.mark.parametrize(
    ("words", "groups"),
    [
        (["train"], {"run": "seeds decay", "protocol": "train-examples", "model": "processor hint-mode"}),
        (["train", "lobster"], {"run": "seeds decay"}),
        (["train", "qm9"], {"run": "seeds decay", "model": "num-layers gradient-clip"}),
        (["train", "sokoban"], {"run": "seeds decay", "agent": "size edge-hidden-sizes"}),
        (["reproduce"], {"engine": "engine checkpoint-seconds"}),
        (["tune"], {"engine": "engine checkpoint-seconds"}),
    ],
)
def test_help_has_a_box_with_one_sentence_for_each_group_of_options(monkeypatch, capsys, words, groups):
    if words == ["tune"]:
        pytest.importorskip("optuna")
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main([*words, "--help"]) == 0
    boxes, box = {}, []
    for line in capsys.readouterr().out.splitlines():
        text = line.strip("╭╮╰╯│─- ")
        if re.fullmatch(r"(\w+ )?options", text):
            box = boxes.setdefault(text, [])
        elif text:
            box.append(text)
    assert boxes.keys() == {"options", *(f"{name} options" for name in groups)}
    for name, own in groups.items():
        sentence, *options = boxes[f"{name} options"]
        assert re.match(r"[A-Z].*\.$", sentence)
        for option in own.split():
            assert any(line.startswith((f"{option} ", f"{option},")) for line in options)


def test_no_command_at_all_shows_the_help_and_fails(greet, capsys):
    greet(raising(AssertionError))
    assert cli.main([]) == 2
    assert "rt greet --name Ada" in capsys.readouterr().err


def test_version_is_that_of_the_package(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"relational-attention {relational_transformer.__version__}\n"


def test_a_wrong_command_lists_the_right_ones(greet, capsys):
    greet(raising(AssertionError))
    assert cli.main(["great"]) == 2
    assert capsys.readouterr().err == "rt: there is no command 'great'; the commands are: greet\n"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--name", "Ada", "--tines", "3"], "unrecognized options: --tines, 3; did you mean --times?"),
        (["--name", "Ada", "--times", "three"], "--times: expected a whole number, got 'three'"),
        (["--name", "Ada", "--times"], "missing value for argument '--times'"),
        (["--times", "3"], "--name is missing: who is greeted"),
        (["--tyro-print-completion", "dos"], "Shell should be one `bash`, `zsh`, `tcsh`, or `fish`, but got dos"),
    ],
)
def test_words_that_cannot_be_read_are_one_line_that_points_to_the_help(greet, capsys, arguments, line: str):
    greet(raising(AssertionError("must not run")))
    assert cli.main(["greet", *arguments]) == 2
    assert capsys.readouterr().err == f"rt: {line} (rt greet --help explains the arguments)\n"


def test_a_line_about_long_words_with_strange_letters_is_short_and_plain(greet, capsys):
    greet(raising(AssertionError("must not run")))
    assert cli.main(["greet", "--name", "Ada", "--times", "\x1b[31m\n" + "9" * 10_000]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("rt: --times: expected a whole number")
    assert printed.endswith("(rt greet --help explains the arguments)\n")
    assert len(printed) < 1_100
    assert printed[:-1].isprintable()


def run_rt(*arguments: str, **options) -> subprocess.CompletedProcess:
    program = [sys.executable, "-m", "relational_transformer", *arguments]
    return subprocess.run(program, stderr=subprocess.PIPE, text=True, **options)


def test_python_m_is_the_command():
    finished = run_rt("--version", stdout=subprocess.PIPE)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == f"relational-attention {relational_transformer.__version__}\n"


@pytest.mark.parametrize("buffered", ["", "1"])
def test_output_that_nobody_reads_ends_the_command_in_silence(monkeypatch: pytest.MonkeyPatch, buffered: str):
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        finished = run_rt("--help", stdout=writer)
    finally:
        os.close(writer)
    assert (finished.returncode, finished.stderr) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_output_that_cannot_be_written_is_one_line(monkeypatch: pytest.MonkeyPatch, buffered: str):
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)
    with open("/dev/full", "w") as full:
        finished = run_rt("--help", stdout=full)
    assert finished.returncode == 2
    assert finished.stderr.count("\n") == 1
    assert "no space left on device" in finished.stderr


def test_a_broken_pipe_of_something_else_is_not_hidden(greet):
    greet(raising(BrokenPipeError(32, "Broken pipe")))
    with pytest.raises(BrokenPipeError):
        cli.main(["greet", "--name", "Ada"])


@pytest.mark.parametrize(("code", "status"), [(None, 0), (0, 0), (1, 1), ("no more", 1)])
def test_a_command_that_exits_gives_its_status(greet, code, status: int):
    greet(raising(SystemExit(code)))
    assert cli.main(["greet", "--name", "Ada"]) == status


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("there is no algorithm 'bsf';\n  the names are: bfs, dfs"),
         "rt: there is no algorithm 'bsf'; the names are: bfs, dfs\n"),
        (FileNotFoundError(2, "No such file or directory", "runs/bfs"), "rt: there is no file or folder 'runs/bfs'\n"),
        (PermissionError(13, "Permission denied", "/runs"), "rt: permission denied ('/runs')\n"),
        (OSError(28, "No space left on device"), "rt: no space left on device\n"),
        (FileNotFoundError("runs/bfs has no config.json"), "rt: runs/bfs has no config.json\n"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory\nframe 0"),
         "rt: there is not enough memory for this (DefaultCPUAllocator: can't allocate memory)\n"),
        (ModuleNotFoundError("No module named 'optuna.samplers'", name="optuna.samplers"),
         "rt: this needs optuna.samplers: pip install '.[tune]' in a checkout\n"),
        (ModuleNotFoundError("No module named 'torch_geometric'", name="torch_geometric"),
         "rt: this needs torch_geometric: pip install '.[pyg]' in a checkout\n"),
        (ModuleNotFoundError("fast data needs numba: pip install '.[clrs]' in a checkout"),
         "rt: fast data needs numba: pip install '.[clrs]' in a checkout\n"),
    ],
)  # fmt: skip
def test_a_users_mistake_is_one_line_and_status_two(greet, capsys, error: Exception, line: str):
    greet(raising(error))
    assert cli.main(["greet", "--name", "Ada"]) == 2
    assert capsys.readouterr().err == line


def test_a_mistake_shows_its_traceback_when_asked(greet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RT_TRACEBACK", "1")
    greet(raising(ValueError("wrong")))
    with pytest.raises(ValueError, match="wrong"):
        cli.main(["greet", "--name", "Ada"])


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes differ"), ModuleNotFoundError("No module named 'typo'", name="typo")]
)
def test_an_error_of_ours_is_not_dressed_up(greet, error: Exception):
    greet(raising(error))
    with pytest.raises(type(error)):
        cli.main(["greet", "--name", "Ada"])


@pytest.mark.parametrize(
    ("stop", "line"),
    [(KeyboardInterrupt(), "rt: stopped\n"), (KeyboardInterrupt("saved in runs/bfs"), "rt: saved in runs/bfs\n")],
)
def test_ctrl_c_ends_with_status_130(greet, capsys, stop: KeyboardInterrupt, line: str):
    greet(raising(stop))
    assert cli.main(["greet", "--name", "Ada"]) == 130
    assert capsys.readouterr().err == line


def test_without_tyro_one_sentence_names_the_extra(greet, capsys, monkeypatch: pytest.MonkeyPatch):
    greet(raising(AssertionError("must not run")))
    monkeypatch.setitem(sys.modules, "tyro", None)
    assert cli.main(["greet", "--name", "Ada"]) == 2
    assert capsys.readouterr().err == "rt: this needs tyro: pip install '.[train]' in a checkout\n"


def test_help_imports_neither_torch_nor_tyro():
    program = (
        "import sys; from relational_transformer.cli import main; assert main(['--help']) == 0; "
        "sys.exit(', '.join({'torch', 'tyro', 'numba'} & sys.modules.keys()) or 0)"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith("rt: ")


def test_every_file_of_a_command_is_listed_and_has_arguments_and_run():
    names = {module.name for module in pkgutil.iter_modules(commands.__path__) if not module.ispkg}
    parts = {name for name in names if name.partition("_")[0] in names - {name}}  # train_run belongs to train
    for name in names - parts:
        assert name in commands.COMMANDS, f"commands/{name}.py is not in commands.COMMANDS, so that rt cannot find it"
    offered = commands.available()
    files = [*offered, *(f"{name}_{variant}" for name, command in offered.items() for variant in command.variants)]
    for name in files:
        module = importlib.import_module(f"relational_transformer.commands.{name}")
        arguments = getattr(module, f"{name.title().replace('_', '')}Arguments")
        assert is_dataclass(arguments)
        assert not arguments.__doc__.startswith(arguments.__name__), f"{arguments.__name__} has no docstring for --help"
        assert callable(module.run)
