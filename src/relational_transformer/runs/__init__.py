"""Runs that survive: folders, checkpoints, provenance and sessions. Nothing here knows what is trained."""

from .run_folder import RunFolder

__all__ = ["RunFolder"]
