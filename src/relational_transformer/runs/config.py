"""What the configurations of all tasks have in common."""

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any, ClassVar, Self, get_args

from relational_transformer.fleet.adam import Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import check_seeds
from relational_transformer.fleet.precision import Precision
from relational_transformer.reading import make


class RunConfig:
    """The base of a configuration: a frozen dataclass that has these fields, and others that change the numbers of a
    run.

    >>> from relational_transformer.lobster import SETTINGS, LobsterConfig, LobsterProtocol
    >>> LobsterConfig("gcn", SETTINGS["gcn"], LobsterProtocol(), seeds=(0, 0))
    Traceback (most recent call last):
    ValueError: seeds must be different numbers from 0 to 2^63 - 1, got [0, 0]

    Attributes (of a class):
        called: what is configured, as an error says it.
        later_settings: settings that older runs did not have, with the values that `config.json` leaves out.
    """

    called: ClassVar[str] = "a training run"
    later_settings: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    task: Any
    model: Any
    seeds: tuple[int, ...]
    precision: Precision
    compile: CompileMode
    schedule: Schedule

    def __post_init__(self) -> None:
        for name, choices in (("precision", get_args(Precision)), ("compile", get_args(CompileMode))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        check_seeds(self.seeds)

    def as_dict(self) -> dict[str, Any]:
        """The fields for `config.json`, by which a run is recognised: without a constant schedule and usual values of
        `later_settings`, which older runs did not have."""
        content = asdict(self)  # pyright: ignore[reportArgumentType]
        if self.schedule.is_constant:
            del content["schedule"]
        settings = content.get("settings", {})
        for name, usual in self.later_settings.items():
            if name in settings and settings[name] == usual:
                del settings[name]
        return content

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """The configuration of a dictionary that `as_dict` made, also after a round trip through JSON."""
        try:
            return make(content, cls)
        except ValueError as error:
            raise ValueError(f"this is not the configuration of {cls.called} ({error})") from None
