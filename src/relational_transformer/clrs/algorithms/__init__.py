"""All thirty algorithms by name. Each file holds one class of the paper's table."""

from relational_transformer.clrs.algorithm import Algorithm
from relational_transformer.clrs.algorithms.divide_and_conquer import DIVIDE_AND_CONQUER
from relational_transformer.clrs.algorithms.dynamic_programming import DYNAMIC_PROGRAMMING
from relational_transformer.clrs.algorithms.geometry import GEOMETRY
from relational_transformer.clrs.algorithms.graphs import GRAPHS
from relational_transformer.clrs.algorithms.greedy import GREEDY
from relational_transformer.clrs.algorithms.searching import SEARCHING
from relational_transformer.clrs.algorithms.sorting import SORTING
from relational_transformer.clrs.algorithms.strings import STRINGS

IMPLEMENTATIONS: dict[str, Algorithm] = {
    **DIVIDE_AND_CONQUER,
    **DYNAMIC_PROGRAMMING,
    **GEOMETRY,
    **GRAPHS,
    **GREEDY,
    **SEARCHING,
    **SORTING,
    **STRINGS,
}
