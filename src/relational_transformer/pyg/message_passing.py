"""PyG's base class of convolutions where PyG is installed, and a plain module where it is not.

PyG's tools ask `isinstance(module, MessagePassing)`: `to_hetero` to see that a module leads from one type of nodes to
another. Nothing of what the class does is used, and without PyG nothing is missing.
"""

import warnings
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:

    class MessagePassing(nn.Module):
        def __init__(self, aggr: str | None = None) -> None: ...

else:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # PyG 2.8 calls torch.jit.script when it is imported
            from torch_geometric.nn.conv import MessagePassing
    except ModuleNotFoundError:

        class MessagePassing(nn.Module):
            """What stands for PyG's class."""

            def __init__(self, aggr: str | None = None) -> None:
                super().__init__()
