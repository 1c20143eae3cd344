"""Runs that can be killed and resumed: the contract of a task, the trainer, run folders, checkpoints and sessions.

Nothing here knows what is trained.
"""

from .config import RunConfig
from .progress import Progress
from .run_folder import RunFolder
from .session import train, train_together
from .steps import Steps
from .task import Optimiser, Start, Task
from .trainer import Trainer

__all__ = [
    "Optimiser",
    "Progress",
    "RunConfig",
    "RunFolder",
    "Start",
    "Steps",
    "Task",
    "Trainer",
    "train",
    "train_together",
]
