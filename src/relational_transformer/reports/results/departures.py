"""The differences of a run from the paper's, in words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relational_transformer.clrs.feature import ProtocolName
from relational_transformer.fleet.adam import CONSTANT
from relational_transformer.processors.settings import MODERN, find_settings
from relational_transformer.tasks import TASKS, find_task, kind_of
from relational_transformer.training.config import DEFAULTS, LATER, PROTOCOLS, Protocol, find_schedule

from .measured import Measured
from .variants import KNOWN, changes, variant_of

PAPER_PRECISION = ("fp32", "fp64")
"""The paper does not name its precision; its hardware computes in float32."""
BOXOBAN = {"train": 900_000, "test": 1_000}
"""The numbers of levels of Boxoban's unfiltered set, on which the paper's agents learn and are tested."""


def protocol_of(result: Measured) -> ProtocolName:
    """The protocol of a result, which decides the table it belongs to."""
    return "modern" if result.config.get("protocol", {}).get("data") == "modern" else "paper"


def departures_of(result: Measured) -> tuple[str, ...]:
    """The differences that make a run another experiment than the paper's, or the modern protocol's: in its data, its
    protocol, or its model."""
    kind, config = kind_of(result.task), result.config
    usual = _of_algorithm(result) if kind == "clrs" else find_task(kind).paper_values(config) if kind in TASKS else {}
    different = _of_levels(result) if "levels" in config else ()
    config = {"schedule": vars(CONSTANT), **config}  # which is left out where it is constant
    if kind == "clrs":
        config["protocol"] = {**{name: DEFAULTS[name] for name in LATER}, **config["protocol"]}
    return different + tuple(word for part, values in usual.items() for word in _in_words(config[part], values))


def other_precision(result: Measured) -> tuple[str, ...]:
    """A precision other than the paper's, which is noted but makes no other experiment."""
    precision = result.config.get("precision", "fp32")
    return () if precision in PAPER_PRECISION else (f"precision {precision}",)


def expected_protocol(variant: str, train_examples: int | None = None) -> Protocol:
    """The paper's protocol. It trained the untuned baselines on 1,000 examples as well as on 10,000."""
    paper = PROTOCOLS["paper"]
    sizes = (1_000, paper.train_examples) if variant.startswith("untuned_") else ()
    return replace(paper, train_examples=train_examples) if train_examples in sizes else paper


def _of_algorithm(result: Measured) -> dict[str, Mapping[str, Any]]:
    """The `Task.paper_values` of the paper's model that is nearest to a result."""
    variant = variant_of(result.model, result.config["settings"])
    if protocol_of(result) == "modern":
        known = variant in KNOWN or variant in MODERN
        settings = {"settings": vars(find_settings(variant, modern=True))} if known else {}
        schedule = vars(find_schedule(variant, modern=True))
        return {"protocol": vars(PROTOCOLS["modern"]), **settings, "schedule": schedule}
    protocol = expected_protocol(variant, result.config["protocol"].get("train_examples"))
    settings = {"settings": vars(KNOWN[variant])} if variant in KNOWN else {}
    return {"protocol": vars(protocol), **settings, "schedule": vars(CONSTANT)}


def _of_levels(result: Measured) -> tuple[str, ...]:
    """Departures in the levels, from the run's record of them: the name of a folder proves nothing."""
    from relational_transformer.sokoban.splits import BOXOBAN_TEST_DIGEST

    if result.config["levels"] is None:
        return (
            "levels of our own generator",
            *_in_words({"test_levels": result.config["test_levels"]}, {"test_levels": BOXOBAN["test"]}),
        )
    if result.levels is None:
        return ("levels of which nothing is recorded",)
    counts = {f"{split}_levels": result.levels.get(split) for split in BOXOBAN}
    different = _in_words(counts, {f"{split}_levels": count for split, count in BOXOBAN.items()})
    if result.levels.get("test") != BOXOBAN["test"] or result.levels.get("test_digest") == BOXOBAN_TEST_DIGEST:
        return different
    is_told = "test_digest" in result.levels
    return (*different, "test levels other than Boxoban's" if is_told else "test levels known by their number alone")


def _in_words(ours: Mapping[str, Any], usual: Mapping[str, Any]) -> tuple[str, ...]:
    """The values that differ from the usual ones, in words: `("validation interval 3,200",)`."""
    return tuple(f"{name.replace('_', ' ')} {_value(value)}" for name, value in changes(ours, usual).items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
