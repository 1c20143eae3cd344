"""Runs that can be killed and resumed: the contract of a task, the trainer, run folders, checkpoints and sessions.

Nothing here knows what is trained.
"""

from .progress import Progress
from .run_folder import RunFolder
from .session import train, train_together
from .task import Task
from .trainer import Trainer

__all__ = ["Progress", "RunFolder", "Task", "Trainer", "train", "train_together"]
