"""The package safetensors, imported when a file is read or written: a model that is not saved needs torch alone."""

from types import ModuleType


def import_safetensors() -> ModuleType:
    """The package, or a ModuleNotFoundError that says how to install it."""
    try:
        import safetensors.torch
    except ModuleNotFoundError:
        message = "saved models need safetensors: pip install '.[saving]' in a checkout"
        raise ModuleNotFoundError(message, name="safetensors") from None
    return safetensors
