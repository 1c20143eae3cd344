"""The configuration of a run of the lobster experiment: model, protocol and seeds."""

from dataclasses import dataclass, field
from typing import Any, get_args

from relational_transformer.fleet.adam import CONSTANT, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.fleet import check_seeds
from relational_transformer.fleet.precision import Precision
from relational_transformer.reading import make
from relational_transformer.runs.task import config_as_dict

from .protocol import LobsterProtocol
from .settings import SETTINGS, ModelName, Settings


@dataclass(frozen=True)
class LobsterConfig:
    """One fleet: `seeds` of one model. Besides these fields only the device and the kernels' switch change the numbers
    of a run; the result names both.

    >>> config = LobsterConfig("gcn", SETTINGS["gcn"], LobsterProtocol(weighted=True), seeds=(0, 1, 2))
    >>> LobsterConfig.from_dict(config.as_dict()) == config
    True
    """

    model: ModelName
    settings: Settings
    protocol: LobsterProtocol
    seeds: tuple[int, ...]
    precision: Precision = "tf32"
    compile: CompileMode = "auto"
    schedule: Schedule = CONSTANT
    task: str = field(default="lobster", init=False)

    def __post_init__(self) -> None:
        if self.model not in SETTINGS:
            raise ValueError(f"there is no lobster model {self.model!r}; the models are {', '.join(SETTINGS)}")
        if type(self.settings) is not type(SETTINGS[self.model]):
            raise ValueError(f"{self.model} needs {type(SETTINGS[self.model]).__name__}, got {self.settings!r}")
        for name, choices in (("precision", get_args(Precision)), ("compile", get_args(CompileMode))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        check_seeds(self.seeds)

    def as_dict(self) -> dict[str, Any]:
        """The configuration as `config.json` has it. Attention to all nodes is left out, so that runs from before there
        was a choice can be resumed."""
        content = config_as_dict(self)
        if content["settings"].get("attention") == "all":
            del content["settings"]["attention"]
        return content

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "LobsterConfig":
        """The configuration of a dictionary that `as_dict` made, also after a round trip through JSON."""
        try:
            return make(content, LobsterConfig)
        except ValueError as error:
            raise ValueError(f"this is not the configuration of a lobster run ({error})") from None
