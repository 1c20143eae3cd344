"""Every public name shows how it is used, and the examples in docstrings run and print what they say."""

import doctest
import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest
import torch

import relational_transformer

PACKAGE = "relational_transformer"
MODULES = [module.name for module in pkgutil.walk_packages(relational_transformer.__path__, f"{PACKAGE}.")]
ROOMS = [
    PACKAGE,
    *(
        module.name
        for module in pkgutil.iter_modules(relational_transformer.__path__, f"{PACKAGE}.")
        if module.ispkg and module.name != f"{PACKAGE}.commands"  # what users call there is `rt`, which has --help
    ),
]


def load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"needs an extra: {error}")


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str):
    torch.manual_seed(0)
    result = doctest.testmod(load(name), extraglobs={"torch": torch}, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples of {name} fail: see the captured output"


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_class_and_function_shows_how_it_is_used(room: str):
    """Constants and type aliases cannot: they are explained where they are defined."""
    module = load(room)
    public = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    silent = [
        name
        for name, thing in public.items()
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and ">>> " not in (inspect.getdoc(thing) or "")
    ]
    assert not silent, f"without an example in their docstring: {', '.join(silent)}"
