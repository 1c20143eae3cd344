"""The line that tells how far a run is."""

from relational_transformer.commands.terminal.training import LiveLine


def test_without_a_terminal_a_line_is_printed_now_and_then_and_when_the_test_begins(capsys):
    line = LiveLine("bfs")
    with line:
        for done in (0.0, 0.01, 0.5, 0.97, 0.99, 1.0, 1.0):
            line.show(done, "loss 0.5", [True, False])
    printed = capsys.readouterr().err.splitlines()
    assert [text.split()[0] for text in printed] == ["0%", "50%", "97%", "100%"]
    assert ["testing" in text for text in printed] == [False, False, False, True]
    assert all("1 of 2 seeds failed" in text for text in printed)
