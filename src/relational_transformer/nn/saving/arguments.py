"""A constructor's arguments to JSON and back."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from relational_transformer.reading import make

PLACE = ("device", "dtype")
"""Arguments for the device and dtype of parameters. They are not saved, but given when a model is loaded."""


def saved_parameters(cls: type) -> dict[str, inspect.Parameter]:
    """The parameters of a constructor whose arguments are saved, by name."""
    parameters = inspect.signature(cls).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in PLACE}


def as_json(module: nn.Module) -> dict[str, Any]:
    """The arguments that a module was made with, which it has kept as attributes.

    A dataclass becomes an object; one that is the default is left out, and versions without it load the model.
    """
    parameters, name = saved_parameters(type(module)), type(module).__name__
    if {parameter.kind for parameter in parameters.values()} & {
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    }:
        raise TypeError(f"to be saved, {name} must name all arguments it takes, without * and **")
    lost = [key for key in parameters if not hasattr(module, key)]
    if lost:
        raise TypeError(f"to be saved, {name} must keep as attributes its arguments {', '.join(lost)}")
    arguments = {}
    for key, parameter in parameters.items():
        value = getattr(module, key)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            arguments[key] = value
        elif value != parameter.default:
            arguments[key] = dataclasses.asdict(value)
    return arguments


def from_json(cls: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for a constructor: tuples for lists, and dataclasses for the objects that stand for them.

    If an object does not fit its dataclass, a ValueError names the place.
    """
    parameters = saved_parameters(cls)
    made = {}
    for key, value in arguments.items():
        made[key] = tuple(value) if isinstance(value, list) else value  # JSON knows lists alone
        kind = _dataclass_of(parameters[key]) if key in parameters else None
        if kind is not None and isinstance(value, dict):
            try:
                made[key] = make(value, kind)
            except ValueError as error:
                raise ValueError(f"in {key}, {error}") from None
    return made


def _dataclass_of(parameter: inspect.Parameter) -> type | None:
    """The dataclass that a parameter takes, known by its default or its annotation."""
    if dataclasses.is_dataclass(parameter.default):
        return type(parameter.default)
    annotation = parameter.annotation
    return annotation if isinstance(annotation, type) and dataclasses.is_dataclass(annotation) else None
