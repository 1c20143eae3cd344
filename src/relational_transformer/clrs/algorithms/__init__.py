"""All thirty algorithms by name. Each file holds one class of the paper's table."""

from importlib import import_module

from relational_transformer.clrs.algorithm import Algorithm
from relational_transformer.clrs.classes import CLASS_OF, AlgorithmClass

FILES = {of: "searching" if of is AlgorithmClass.SEARCH else of.name.lower() for of in AlgorithmClass}


def implementation_of(name: str) -> Algorithm:
    """The implementation of an algorithm: its sampler and its trace. Its file is imported at the first use of one of
    its algorithms.

    >>> implementation_of("bellman_ford").shortest
    1
    """
    file = FILES[CLASS_OF[name]]
    algorithms: dict[str, Algorithm] = getattr(import_module(f".{file}", __name__), file.upper())
    return algorithms[name]
