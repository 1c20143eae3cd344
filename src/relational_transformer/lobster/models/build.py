"""Builds a model from its name and settings."""

from relational_transformer.regression.model import LayeredModel

from ..settings import BaselineSettings, ModelName, RelationalSettings, Settings
from .baselines import DenseGAT, DenseGCN, baseline_model
from .relational import relational_model


def build_model(name: ModelName, settings: Settings) -> LayeredModel:
    """The model of that name with these settings.

    >>> from ..settings import SETTINGS
    >>> sum(parameter.numel() for parameter in build_model("gat", SETTINGS["gat"]).parameters())
    136773
    """
    if name == "rt":
        assert isinstance(settings, RelationalSettings)
        return relational_model(settings)
    assert isinstance(settings, BaselineSettings)
    return baseline_model(DenseGCN if name == "gcn" else DenseGAT, settings)
