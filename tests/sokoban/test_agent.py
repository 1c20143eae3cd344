"""The WMG agent: its size, what it is given, and what cannot reach its decisions."""

import pytest
import torch

from relational_transformer.fleet.fleet import Fleet, initialise
from relational_transformer.sokoban import Agent, Environment, parse_levels
from relational_transformer.sokoban.agent import Decision, Memo
from relational_transformer.sokoban.evaluation import no_memo
from relational_transformer.sokoban.fleet_agent import FleetAgent
from relational_transformer.sokoban.game.observation import Observation
from tests.sokoban.small import ROOMS, SETTINGS

MODELS = ("transformer", "rt")


def observe(capacity: int | None = None) -> Observation:
    levels = parse_levels(ROOMS)
    environment = Environment(levels, torch.tensor([0, 1, 1]), capacity)
    environment.step(torch.tensor([1, 2, 4]))
    return environment.observe()


def agent_that_decides(model: str) -> Agent:
    """An agent whose policy is not flat."""
    agent = initialise(lambda: Agent(model, SETTINGS), 0)
    with torch.no_grad():
        agent.policy.weight.normal_(generator=torch.Generator().manual_seed(0))
    return agent.double()


def memo(kept: bool) -> Memo:
    vector = torch.randn(3, SETTINGS.memo_size, generator=torch.Generator().manual_seed(1)).tanh()
    return Memo(vector, torch.full((3,), kept))


def assert_same(one: Decision, other: Decision) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b)


def test_parameters_are_those_of_the_published_agent():
    assert sum(parameter.numel() for parameter in Agent("transformer").parameters()) == 4_508_182


def test_relational_agent_differs_in_its_layers_alone():
    transformer, relational = (dict(Agent(model).named_parameters()) for model in MODELS)
    shared = {name: parameter.shape for name, parameter in transformer.items() if not name.startswith("layers.")}
    assert shared == {name: one.shape for name, one in relational.items() if not name.startswith("layers.")}
    # Ten layers: attention gains W_e of q, k, v with their bias; nine of them update edges.
    attention = 3 * (256 * 128 + 256)
    update = (64 * (2 * 128 + 2 * 256) + 64) + (128 * 64 + 128) + (12 * 128 + 12) + (128 * 12 + 128) + 4 * 128
    assert sum(one.numel() for one in relational.values()) == 4_508_182 + 10 * attention + 9 * update


@pytest.mark.parametrize("model", MODELS)
def test_a_new_agent_plays_every_action_alike(model: str):
    decision = Agent(model, SETTINGS)(observe(), memo(kept=True))
    assert decision.logits.shape == (3, 5)
    assert not decision.logits.any()


def test_the_last_layer_makes_of_the_core_what_the_whole_layer_does():
    agent, seen = agent_that_decides("rt"), observe(capacity=30)
    graph = agent.embed(seen, memo(kept=True))
    edges = torch.randn(graph.edges.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    last = agent.layers[-1]
    core, nothing = last(graph.nodes, edges, graph.node_mask)
    whole = last.layer(graph.nodes, edges, graph.node_mask).nodes
    assert core.shape == (3, 1, SETTINGS.size)
    assert nothing is None
    torch.testing.assert_close(core[:, 0], whole[:, 0])
    assert not torch.allclose(core[:, 0], graph.nodes[:, 0])


@pytest.mark.parametrize("model", MODELS)
def test_room_for_more_factors_changes_nothing(model: str):
    agent = agent_that_decides(model)
    assert_same(agent(observe(), memo(kept=True)), agent(observe(capacity=30), memo(kept=True)))


@pytest.mark.parametrize("model", MODELS)
def test_the_order_of_factors_changes_nothing(model: str):
    agent, seen = agent_that_decides(model), observe()
    order = torch.randperm(seen.present.shape[1], generator=torch.Generator().manual_seed(2))
    shuffled = Observation(seen.core, seen.factors[:, order], seen.present[:, order])
    assert_same(agent(seen, memo(kept=True)), agent(shuffled, memo(kept=True)))


@pytest.mark.parametrize("model", MODELS)
def test_a_memo_counts_only_where_it_is_kept(model: str):
    agent, seen = agent_that_decides(model), observe()
    forgotten = agent(seen, memo(kept=False))
    assert_same(forgotten, agent(seen, no_memo(agent, 3, torch.device("cpu"))))
    assert not torch.allclose(forgotten.value, agent(seen, memo(kept=True)).value)


def test_the_observation_holds_no_relation_and_edges_start_alike():
    """Every tensor has one node axis at most, and the first layer gets the same vector for every pair of nodes."""
    seen, agent = observe(), agent_that_decides("rt")
    assert {name: tensor.dim() for name, tensor in seen._asdict().items()} == {"core": 2, "factors": 3, "present": 2}
    edges = agent.embed(seen, memo(kept=True)).edges
    assert edges is not None
    assert edges.shape == (3, seen.present.shape[1] + 2, seen.present.shape[1] + 2, SETTINGS.edge_size)
    assert not edges.any()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("recompute", [False, True])
def test_a_fleet_decides_as_its_agents_do_and_has_their_gradients(model: str, recompute: bool):
    agents = [agent_that_decides(model) for _ in range(2)]
    with torch.no_grad():
        for parameter in agents[1].parameters():
            parameter.mul_(0.9)
    fleet = Fleet(agents, torch.device("cpu"))
    together = FleetAgent(agents[0], compiled=False)
    together.recompute = recompute
    seen, kept = observe(), memo(kept=True)
    values = fleet.values.detach().requires_grad_()
    both = together(
        together.lay_out(fleet.split(values)),
        Observation(*(tensor.expand(2, *tensor.shape) for tensor in seen)),
        Memo(*(tensor.expand(2, *tensor.shape) for tensor in kept)),
    )
    (gradient,) = torch.autograd.grad(sum(part.square().sum() for part in both), values)
    for seed, agent in enumerate(agents):
        alone = agent(seen, kept)
        assert_same(Decision(*(part[seed] for part in both)), alone)
        sum(part.square().sum() for part in alone).backward()
        for name, parameter in agent.named_parameters():
            torch.testing.assert_close(fleet.split(gradient)[name][seed], parameter.grad)


def test_unknown_models_are_named():
    with pytest.raises(ValueError, match="the agent has no model 'gru'; the models are transformer, rt"):
        Agent("gru")
