"""The configuration of a run of the lobster experiment: model, protocol and seeds."""

from dataclasses import dataclass, field
from types import MappingProxyType

from relational_transformer.fleet.adam import CONSTANT, Schedule
from relational_transformer.fleet.compiling import CompileMode
from relational_transformer.fleet.precision import Precision
from relational_transformer.regression.task import RegressionConfig

from .protocol import LobsterProtocol
from .settings import SETTINGS, ModelName, Settings


@dataclass(frozen=True)
class LobsterConfig(RegressionConfig):
    """One fleet: `seeds` of one model. Besides these fields only the device and the kernels' switch change the numbers
    of a run; the result names both.

    >>> config = LobsterConfig("gcn", SETTINGS["gcn"], LobsterProtocol(weighted=True), seeds=(0, 1, 2))
    >>> LobsterConfig.from_dict(config.as_dict()) == config
    True
    """

    called = "a lobster run"
    later_settings = MappingProxyType({"attention": "all"})

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
        super().__post_init__()
