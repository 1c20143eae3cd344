"""The page: one HTML file with its data, its style and its scripts inside, which may load nothing."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import jinja2

import relational_transformer
from relational_transformer.clrs.checks import check_count, check_name
from relational_transformer.clrs.classes import CLASS_OF, TITLES
from relational_transformer.clrs.feature import Location, ProtocolName, Spec, Stage, Type
from relational_transformer.clrs.spec import spec_of

from .explanations import EXPLANATIONS, words_of
from .packing import Packer
from .run import TrainedRun
from .scene import MOST_BYTES, MOST_BYTES_OF_SMALL, SMALL, make_scene

SCRIPTS = (
    "data.js", "stage.js", "words.js", "marks.js", "tags.js", "graph.js", "array.js", "intervals.js", "strings.js",
    "plane.js", "matrix.js", "attention.js", "strips.js", "choice.js", "inside.js", "tooltip.js", "panel.js",
    "timeline.js", "player.js", "page.js",
)  # fmt: skip
"""In the order in which they are put together; what one defines, later ones use."""


def make_page(
    task: str,
    runs: Sequence[TrainedRun] = (),
    *,
    nodes: Sequence[int] = (16,),
    seed: int = 3,
    protocol: ProtocolName = "paper",
    layers: tuple[int, ...] | None = None,
) -> str:
    """The page of an algorithm, as text.

    Args:
        task: one of the thirty algorithms.
        runs: trained runs of it, to be shown beside the truth.
        nodes: a size, or several, for an example of each.
        seed: of the examples.
        protocol: the form of the data, where there is no run to say it.
        layers: whose attention is kept, from 1; by default all that there is room for.
    """
    check_name(task)
    others = [run for run in runs if run.config.task != task]
    if others:
        raise ValueError(f"{others[0].name} is a run of {others[0].config.task}, and the page is about {task}")
    if not nodes:
        raise ValueError("nodes must name at least one size")
    for size in nodes:
        check_count(size, "number of nodes")
    forms: list[ProtocolName] = [run.protocol for run in runs] or [protocol]
    spec: Spec = {name: feature for form in forms for name, feature in spec_of(task, protocol=form).items()}
    packer = Packer()
    most = MOST_BYTES_OF_SMALL if max(nodes) <= SMALL else MOST_BYTES
    room = most // max(1, len(runs) * len(nodes))
    scenes = [make_scene(packer, task, size, seed, runs, forms[0], layers, room) for size in nodes]
    facts = {
        "task": task,
        "title": TITLES[task],
        "view": EXPLANATIONS[task].view,
        "options": EXPLANATIONS[task].options,
        "features": [_describe(task, spec, name) for name in spec],
        "runs": [{"name": run.name, "about": run.about} for run in runs],
        "scenes": scenes,
    }
    return render(task, facts, packer.text(), bool(runs))


def render(task: str, facts: dict[str, Any], data: str, has_runs: bool) -> str:
    """The page of these facts and data."""
    script = "(() => {\n'use strict';\n" + "\n".join(map(_read, SCRIPTS)) + "\n})();\n"
    style = _read("page.css")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(_read("page.html")).render(
        title=TITLES[task],
        task=task,
        kind=CLASS_OF[task],
        about=EXPLANATIONS[task].about,
        has_runs=has_runs,
        style=style,
        script=script,
        style_digest=_digest(style),
        script_digest=_digest(script),
        facts=as_json(facts),
        data=data,
        version=relational_transformer.__version__,
    )


def as_json(value: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin a comment.

    >>> as_json({"name": "</script><!--"})
    '{"name":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)  # and all but ASCII is escaped
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _describe(task: str, spec: Spec, name: str) -> dict[str, Any]:
    feature, explanation = spec[name], EXPLANATIONS[task]
    is_constant = name in ("pred_h", "pred") and explanation.options.get("order") is None
    is_phase = feature.location == Location.GRAPH and feature.type != Type.SCALAR
    return {
        "name": name,
        "stage": feature.stage,
        "location": feature.location,
        "type": Type.POINTER
        if feature.type in (Type.SHOULD_BE_PERMUTATION, Type.PERMUTATION_POINTER)
        else feature.type,
        "words": words_of(task, name),
        "classes": explanation.classes.get(name, ()),
        "flags": explanation.flags.get(name, ()),
        "shown": name in explanation.shown or feature.stage == Stage.OUTPUT or is_phase,
        "constant": is_constant,
    }


def _read(name: str) -> str:
    return resources.files("relational_transformer.look.html").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a Content-Security-Policy names an element by that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
