"""Write the results of Sokoban into its guide: `python docs/tools/sokoban_results.py`, after runs were put into
`results/sokoban/` (each a folder with config.json, metrics.jsonl and result.json).

Makes the part of docs/sokoban.md between its marks, and docs/images/sokoban-curves.png.
"""

import json
from pathlib import Path
from typing import Any

from relational_transformer.commands.report import insert
from relational_transformer.reports.formats import to_markdown
from relational_transformer.reports.other_tables import sokoban
from relational_transformer.reports.results.archive import Archive
from relational_transformer.reports.results.measured import read_results
from relational_transformer.reports.results.variants import title_on
from relational_transformer.runs import RunFolder
from relational_transformer.sokoban import RECIPES
from relational_transformer.sokoban.curves import draw_comparison

REPOSITORY = Path(__file__).parents[2]
PAPER_STEPS = RECIPES["original"].steps
PICTURE = "images/sokoban-curves.png"
NOTHING = "No trained agents are recorded yet.\n"


def runs_of(results: Path) -> list[tuple[RunFolder, dict[str, Any]]]:
    """The runs of Sokoban below a folder with their results, the transformer first."""
    folders = [RunFolder(path.parent) for path in results.rglob("result.json")]
    found = [(folder, json.loads(folder.result.read_text())) for folder in folders]
    of_sokoban = [(folder, result) for folder, result in found if result["config"]["task"] == "sokoban"]
    return sorted(of_sokoban, key=lambda one: (one[1]["config"]["model"] == "rt", str(one[0].path)))


def text_of(results: Path) -> str:
    """What the guide says of the results below a folder, in Markdown."""
    runs = runs_of(results)
    if not runs:
        return NOTHING
    lines = [_told([result for _, result in runs]), "", to_markdown(sokoban(Archive(read_results(results)))), ""]
    lines += [
        "| agent | seed | steps | games solved in the best interval | test, sampled | test, most probable | "
        "test of the last | steps/s of all seeds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [line for _, result in runs for line in _rows(result)]
    hardware = sorted({result["hardware"] for _, result in runs})
    lines += ["", f"Trained on {', '.join(hardware)}; speed with compiling and without the test.", ""]
    if all(folder.metrics.is_file() for folder, _ in runs):
        lines += [f"![How the agents learned: reward and solved games against steps.]({PICTURE})", ""]
    return "\n".join(lines).rstrip() + "\n"


def draw(results: Path, path: Path) -> None:
    """The learning curves of all runs in one picture."""
    runs = {
        title_on("sokoban", result["config"]["model"]): (folder.read_metrics(), result["seeds"])
        for folder, result in runs_of(results)
    }
    draw_comparison(path, "Sokoban: how the agents learned", runs)


def _told(results: list[dict[str, Any]]) -> str:
    """How long the agents learned, and by which recipe."""
    steps = sorted({result["config"]["recipe"]["steps"] for result in results})
    equal = len({json.dumps({**result["config"], "model": ""}, sort_keys=True) for result in results}) == 1
    shares = ", ".join(f"{100 * count / PAPER_STEPS:.3g}%" for count in steps)
    counts = " and ".join(f"{count:,}" for count in steps)
    short = "" if min(steps) >= PAPER_STEPS else " Such scores tell how agents begin to learn, not what they reach."
    return (
        f"The agents learned for **{counts} steps** a seed, {shares} of the paper's ten million."
        + short
        + (" Recipe, levels and seeds of all are the same." if equal else " **Their recipes differ.**")
    )


def _rows(result: dict[str, Any]) -> list[str]:
    config = result["config"]
    steps = config["recipe"]["steps"]
    speed = steps * len(result["seeds"]) / result["seconds"]
    name = title_on("sokoban", config["model"])
    return [
        f"| {name} | {row['seed']} | {steps:,} | "
        + " | ".join(_percent(row[key]) for key in ("validation", "test", "test_greedy", "test_of_last"))
        + f" | {speed:,.0f} |"
        for row in result["seeds"]
    ]


def _percent(share: float | None) -> str:
    return "failed" if share is None else f"{100 * share:.1f}%"


def main() -> None:
    results = REPOSITORY / "results"
    insert(REPOSITORY / "docs" / "sokoban.md", text_of(results))
    if runs_of(results):
        draw(results, REPOSITORY / "docs" / PICTURE)


if __name__ == "__main__":
    main()
