"""Random graphs: Erdos-Renyi, its acyclic kind, and four loosely connected communities.

A graph is a float64 matrix [N, N]; 0 means no edge. The probability of an edge is drawn for every graph from
`chances`, all equally likely; if there is only one, nothing is drawn.
"""

import math

import numpy as np

from relational_transformer.clrs.compiled import compiled, entry
from relational_transformer.clrs.samples.random import coin, fill_bernoulli, fill_uniform, next_below, shuffle

COMMUNITIES = 4
# Between communities, edges are rare.
BRIDGE_CHANCE = 0.01

Chances = tuple[float, ...]


def _coins(chances: Chances) -> np.ndarray:
    return np.stack([coin(chance) for chance in chances])


@compiled
def _fill_edges(stream, coins, edges):
    """Choose a coin, then throw it for every edge."""
    fill_bernoulli(stream, coins[next_below(stream, len(coins))], edges.reshape(-1))


@compiled
def _permute(graph, order, permuted):
    size = graph.shape[0]
    for i in range(size):
        for j in range(size):
            permuted[i, j] = graph[order[i], order[j]]


@compiled
def _shuffled(stream, size):
    order = np.arange(size)
    shuffle(stream, order)
    return order


@entry
def _fill_undirected(stream, coins, weighted, graphs, sources, draw_sources):
    size = graphs.shape[1]
    edges = np.empty((size, size), np.int8)
    weights = np.ones((size, size))
    for example in range(len(graphs)):
        graph = graphs[example]
        _fill_edges(stream, coins, edges)
        if weighted:
            fill_uniform(stream, weights.reshape(-1))
        for i in range(size):
            for j in range(i, size):
                weight = 0.0
                if edges[i, j] * edges[j, i] == 1:
                    weight = math.sqrt(weights[i, j] * weights[j, i] + 1e-3) if weighted else 1.0
                graph[i, j] = weight
                graph[j, i] = weight
        if draw_sources:
            sources[example] = next_below(stream, size)


@entry
def _fill_directed(stream, coins, graphs):
    for example in range(len(graphs)):
        _fill_edges(stream, coins, graphs[example])


@entry
def _fill_acyclic(stream, coins, weighted, graphs, sources, draw_sources):
    size = graphs.shape[1]
    edges = np.empty((size, size), np.int8)
    weights = np.empty((size, size))
    for example in range(len(graphs)):
        _fill_edges(stream, coins, edges)
        for i in range(size):
            edges[i, : i + 1] = 0
        graph = graphs[example]
        _permute(edges, _shuffled(stream, size), graph)
        if weighted:
            fill_uniform(stream, weights.reshape(-1))
            for i in range(size):
                for j in range(size):
                    graph[i, j] *= weights[i, j]
        if draw_sources:
            sources[example] = next_below(stream, size)


@entry
def _fill_communities(stream, coins, rare_coin, graphs):
    size = graphs.shape[1]
    share = size // COMMUNITIES
    graph = np.empty((size, size))
    bridges = np.empty((size, size), np.int8)
    for example in range(len(graphs)):
        graph[:] = 0.0
        inside = coins[next_below(stream, len(coins))]
        for community in range(COMMUNITIES):
            first = community * share
            last = first + share if community < COMMUNITIES - 1 else size
            block = np.empty((last - first, last - first), np.int8)
            fill_bernoulli(stream, inside, block.reshape(-1))
            for i in range(last - first):
                for j in range(last - first):
                    graph[first + i, first + j] = block[i, j]
        fill_bernoulli(stream, rare_coin, bridges.reshape(-1))
        for i in range(size):
            for j in range(size):
                # Bridges lead from earlier communities to later ones, so that they close no new cycles; inside a
                # community they toggle an edge.
                forward = min(i // share, COMMUNITIES - 1) <= min(j // share, COMMUNITIES - 1)
                if bridges[i, j] == 1 and forward:
                    graph[i, j] = 1.0 - graph[i, j]
        _permute(graph, _shuffled(stream, size), graphs[example])


def _empty(count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    return np.empty((count, size, size)), np.empty(count, np.int64)


def directed(stream, count, length, chances: Chances):
    """Directed: every edge (and self-loop) by one coin."""
    graphs, _ = _empty(count, length)
    _fill_directed(stream, _coins(chances), graphs)
    return (graphs,)


def undirected(stream, count, length, chances: Chances):
    """Undirected: an edge where both of two coins say so."""
    graphs, sources = _empty(count, length)
    _fill_undirected(stream, _coins(chances), False, graphs, sources, False)
    return (graphs,)


def undirected_from_source(stream, count, length, chances: Chances):
    """Like `undirected`, and a node to start from."""
    graphs, sources = _empty(count, length)
    _fill_undirected(stream, _coins(chances), False, graphs, sources, True)
    return graphs, sources


def weighted(stream, count, length, chances: Chances):
    """Like `undirected`, with weights sqrt(u v + 0.001), u, v ~ U[0, 1]."""
    graphs, sources = _empty(count, length)
    _fill_undirected(stream, _coins(chances), True, graphs, sources, False)
    return (graphs,)


def weighted_from_source(stream, count, length, chances: Chances):
    """Like `weighted`, and a node to start from."""
    graphs, sources = _empty(count, length)
    _fill_undirected(stream, _coins(chances), True, graphs, sources, True)
    return graphs, sources


def acyclic(stream, count, length, chances: Chances):
    """A directed graph with edges from earlier to later nodes only, the nodes then shuffled."""
    graphs, sources = _empty(count, length)
    _fill_acyclic(stream, _coins(chances), False, graphs, sources, False)
    return (graphs,)


def acyclic_weighted_from_source(stream, count, length, chances: Chances):
    """Like `acyclic`, with weights U[0, 1] and a node to start from."""
    graphs, sources = _empty(count, length)
    _fill_acyclic(stream, _coins(chances), True, graphs, sources, True)
    return graphs, sources


def communities(stream, count, length, chances: Chances):
    """Four directed communities, rare edges from one to a later one, the nodes then shuffled."""
    graphs, _ = _empty(count, length)
    _fill_communities(stream, _coins(chances), coin(BRIDGE_CHANCE), graphs)
    return (graphs,)
