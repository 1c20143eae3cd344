"""`rt train sokoban` and `rt play sokoban`."""

import os
import pty
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from relational_transformer.cli import main
from relational_transformer.runs import RunFolder
from relational_transformer.sokoban import Recipe, SokobanConfig, load_agent, load_levels
from relational_transformer.sokoban.chance import test_noise as noise_of_test
from relational_transformer.sokoban.evaluation import Player, solved_levels
from relational_transformer.sokoban.game import keyboard
from relational_transformer.sokoban.game.rules import TIME_LIMIT
from relational_transformer.sokoban.splits import remember_folder
from tests.sokoban.small import LONG_CORRIDOR, ROOMS, write_levels

SMALL = ["--size", "16", "--num-layers", "1", "--games", "4", "--steps", "480", "--report-interval", "240"]
QUICK = [*SMALL, "--size-classes", "3", "--compile", "off", "--device", "cpu"]
NUM_LEVELS = 5


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    """A run of the seeds 3 and 4 through the command line, and its levels."""
    folder = tmp_path_factory.mktemp("command")
    levels = write_levels(folder / "levels", LONG_CORRIDOR * NUM_LEVELS)
    out, seeds = folder / "run", ["--seeds", "2", "--first-seed", "3"]
    assert main(["train", "sokoban", *seeds, "--levels", levels, *QUICK, "--out", str(out)]) == 0
    return out, levels


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> str:
    """A run on generated levels that has only begun."""
    folder = RunFolder(tmp_path_factory.mktemp("begun") / "run")
    with folder.opened(SokobanConfig("rt", Recipe(), test_levels=3).as_dict()):
        return str(folder.path)


def test_training_leaves_a_whole_run_folder(trained):
    folder = RunFolder(trained[0])
    result = folder.read_result()
    assert result is not None
    assert [row["seed"] for row in result["seeds"]] == [3, 4]
    assert result["levels"]["test"] == NUM_LEVELS
    assert trained[1] not in folder.config.read_text() + folder.result.read_text()
    assert result["config"]["task"] == "sokoban"
    assert result["config"]["recipe"]["learning_rate"] == 3.2e-5  # of four games
    assert result["config"]["recipe"]["size_classes"] == 3
    assert len(folder.read_metrics()) == 2
    assert folder.curves.stat().st_size > 1_000


def test_an_agent_of_a_run_plays(trained, tmp_path, capsys):
    run, levels = trained
    arguments = ["play", "sokoban", str(run), "--levels", levels, "--seed", "4", "--gif", str(tmp_path / "game.gif")]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed.count("##########\n") >= 8
    assert "of 120" in printed
    assert (tmp_path / "game.gif").read_bytes().startswith(b"GIF89a")


def test_an_agent_plays_the_games_that_it_was_scored_by(trained, capsys):
    run, folder = trained
    result, levels = RunFolder(run).read_result(), load_levels(folder, "test")
    assert result is not None
    ends = []
    for row in result["seeds"]:
        agent = load_agent(run, row["seed"])
        noise = noise_of_test(row["seed"], TIME_LIMIT, NUM_LEVELS)
        player = Player(dict(agent.named_parameters()), noise)
        expected = solved_levels(agent, [player], levels)[0].tolist()
        seed = [] if row["seed"] == 3 else ["--seed", str(row["seed"])]  # by default the first
        for level, solved in enumerate(expected):
            assert main(["play", "sokoban", str(run), *seed, "--level", str(level)]) == 0
            ends.append(capsys.readouterr().out.splitlines()[-1])
            assert ("solved" in ends[-1]) == solved
        assert row["test"] == pytest.approx(sum(expected) / NUM_LEVELS)
    assert len(set(ends)) > NUM_LEVELS, "chance must be another in every game"


def test_a_run_is_scored_again_on_its_own_levels_and_on_others(trained, tmp_path, capsys):
    run, _ = trained
    result = RunFolder(run).read_result()
    assert result is not None
    assert main(["evaluate", "sokoban", str(run), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    for row in result["seeds"]:
        assert f"{100 * row['test']:.1f}%" in printed
        assert f"{100 * row['test_greedy']:.1f}%" in printed
    others = write_levels(tmp_path / "others")
    assert main(["evaluate", "sokoban", str(run), "--levels", others, "--device", "cpu"]) == 0
    assert "rt on sokoban, 2 levels" in capsys.readouterr().out
    (Path(trained[1]) / "valid").mkdir()
    (Path(trained[1]) / "valid" / "000.txt").write_text(ROOMS)
    assert main(["evaluate", "sokoban", str(run), "--split", "valid", "--device", "cpu"]) == 0
    assert "rt on sokoban, 2 levels" in capsys.readouterr().out
    assert main(["evaluate", str(run)]) == 2
    assert "this is a run on Sokoban: rt evaluate sokoban" in capsys.readouterr().err


def test_generated_levels_have_no_other_split(begun, capsys):
    assert main(["evaluate", "sokoban", begun, "--split", "valid"]) == 2
    assert "has no folder of levels with a split 'valid': add --levels" in capsys.readouterr().err


def test_a_run_plays_its_own_levels_and_no_others(begun, capsys):
    assert main(["play", "sokoban", begun, "--level", "3"]) == 2
    assert "there are levels 0 to 2, not 3" in capsys.readouterr().err


def test_levels_that_changed_since_a_run_are_not_taken_for_its_own(trained, tmp_path, capsys):
    run, folder = tmp_path / "run", tmp_path / "levels"
    shutil.copytree(trained[0], run)
    shutil.copytree(trained[1], folder)
    remember_folder(RunFolder(run), folder)
    (folder / "test" / "000.txt").write_text(ROOMS)
    for command in ("play", "evaluate"):
        assert main([command, "sokoban", str(run)]) == 2
        error = capsys.readouterr().err
        assert f"the test levels of {folder} are not those of the run: 2 of digest" in error
        assert error.count("\n") == 1


def test_levels_that_have_moved_are_asked_for(trained, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained[0], run)
    remember_folder(RunFolder(run), tmp_path / "old")
    for note, message in (
        (None, f"were in {tmp_path / 'old'}, which does not exist: give their folder with --levels"),
        ("{", "/.levels.json is not JSON"),
    ):
        if note is not None:
            (run / ".levels.json").write_text(note)
        for command in ("play", "evaluate"):
            assert main([command, "sokoban", str(run)]) == 2
            error = capsys.readouterr().err
            assert message in error
            assert error.count("\n") == 1


def test_moves_are_replayed(trained, capsys):
    assert main(["play", "sokoban", "--levels", trained[1], "--moves", "rrrrrr"]) == 0
    assert "#      @*#\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--moves", "rq"], "moves are the letters"),
        (["--moves", "r", "--level", "5"], "there are levels 0 to 4, not 5"),
        (["--moves", "r", "--level", "-1"], "there are levels 0 to 4, not -1"),
        (["nowhere"], "nowhere is not a run folder"),
        (["nowhere", "--moves", "r"], "not both"),
        (["--moves", "r", "--seed", "0"], "--seed and --greedy need an agent"),
        (["--moves", "r", "--greedy"], "--seed and --greedy need an agent"),
        (["--moves", "r", "--delay", "-1"], "--delay must be a finite number of at least 0, got -1"),
    ],
)
def test_mistakes_end_with_one_line(trained, capsys, arguments: list[str], message: str):
    assert main(["play", "sokoban", *arguments, "--levels", trained[1]]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1


def test_a_seed_that_was_not_trained_is_named(trained, capsys):
    assert main(["play", "sokoban", str(trained[0]), "--levels", trained[1], "--seed", "7"]) == 2
    assert "has the seeds [3, 4], not 7" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["train", "test"])
def test_levels_that_are_not_there_leave_no_run(tmp_path, capsys, missing: str):
    levels, out = write_levels(tmp_path / "levels"), tmp_path / "run"
    shutil.rmtree(tmp_path / "levels" / missing)
    assert main(["train", "sokoban", "--levels", levels, *QUICK, "--out", str(out)]) == 2
    assert "no Boxoban levels" in capsys.readouterr().err
    assert not out.exists()


def test_keys_that_come_together_are_all_heard():
    ours, theirs = os.pipe()
    for sent in (b"  \x1b[A\x1bOBn", b"Q\x1b[D"):
        os.write(theirs, sent)
    os.close(theirs)
    heard = keyboard._read(ours)
    assert [next(heard) for _ in range(8)] == [" ", " ", "up", "down", "n", "q", "left", "q"]
    os.close(ours)


@pytest.mark.slow
def test_a_person_plays_with_the_arrow_keys(trained):
    """Six steps to the right solve the corridor; q ends."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "relational_transformer.cli", "play", "sokoban", "--levels", trained[1]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm", "COLUMNS": "100"}
    game = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while b"q quit" not in shown:
        shown += os.read(ours, 4096)
    for _ in range(6):
        os.write(ours, b"\x1b[C")
        before = len(shown)
        while shown.count(b"q quit", before) == 0:
            shown += os.read(ours, 4096)
    os.write(ours, b"q")
    with suppress(OSError):  # how a terminal ends that nobody has open any more
        while more := os.read(ours, 4096):
            shown += more
    assert game.wait() == 0
    assert b"solved" in shown
    os.close(ours)
