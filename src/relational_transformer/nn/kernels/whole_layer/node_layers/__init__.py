"""Transformer layers that read nodes alone: all layers of a step as one kernel, one thread block a graph.

The nodes stay in shared memory from the first layer to the last. Phases that a relational layer has too are its own, in
the folders beside this one, compiled with `READ_EDGES 0`.
"""

from .inference import NodeInference
from .trajectory import NodeTrajectory

__all__ = ["NodeInference", "NodeTrajectory"]
