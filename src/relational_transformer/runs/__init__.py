"""Runs that survive: what an experiment tells the trainer, the trainer, and folders, checkpoints and sessions of runs.

Nothing here knows what is trained.
"""

from .progress import Progress
from .run_folder import RunFolder
from .session import train, train_together
from .task import Task
from .trainer import Trainer

__all__ = ["Progress", "RunFolder", "Task", "Trainer", "train", "train_together"]
