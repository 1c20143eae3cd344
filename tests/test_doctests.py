"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import relational_transformer

MODULES = [module.name for module in pkgutil.walk_packages(relational_transformer.__path__, "relational_transformer.")]
WITH_EXAMPLE = (
    "RelationalAttention",
    "RelationalTransformer",
    "RelationalTransformerLayer",
    "causal_mask",
    "relational_attention",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.skip(f"needs an extra: {error}")
    torch.manual_seed(0)
    result = doctest.testmod(module, extraglobs={"torch": torch}, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples of {name} fail: see the captured output"


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_layer_shows_how_it_is_used(name: str):
    assert ">>> " in getattr(relational_transformer, name).__doc__
