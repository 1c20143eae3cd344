"""How fast Sokoban's agents learn one move: a task so small that learning shows within a minute on one core.

    python benchmarks/sokoban_first_moves.py --models transformer rt --learning-rates 3e-4 1e-3 --seeds 0 1

Rooms have 3 x 3 or 3 x 4 open cells, one box and one target. An agent sees a position, makes one move, and gets a
reward of 4 if it is the first of a shortest solution. The loss is that of the agent's training, with games of a single
step. Each row of the table has the probability that the agent gives to right moves in positions that it has not
learned from (two best moves count together), the entropy of its policy, and the gradient's norm at the end.
"""

import argparse
import random
from collections import deque

import torch
from torch import Tensor, nn

from relational_transformer.fleet.fleet import initialise
from relational_transformer.sokoban import Agent, AgentSettings, Environment, Levels
from relational_transformer.sokoban.evaluation import no_memo
from relational_transformer.sokoban.game.observation import Observation
from relational_transformer.sokoban.game.rules import ACTIONS, MOVES
from relational_transformer.sokoban.settings import Recipe

SIZES = {
    "small": {"size": 64, "num_layers": 8, "edge_size": 32, "edge_hidden_sizes": (16, 6), "decision_size": 256},
    "published": {},
}
ROOMS = ((3, 3), (3, 4), (4, 3))
POSITIONS_OF_A_ROOM = 6
CPU = torch.device("cpu")


def best_moves(cells: set[int], target: int) -> dict[tuple[int, int], list[int]]:
    """For every solvable position (agent, box) that is not solved: the moves that begin a shortest solution."""

    def after(position: tuple[int, int], move: int) -> tuple[int, int]:
        agent, box = position
        ahead = agent + MOVES[move]
        if ahead not in cells:
            return position
        if ahead != box:
            return ahead, box
        pushed = box + MOVES[move]
        return (ahead, pushed) if pushed in cells else position

    before: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for position in ((agent, box) for agent in cells for box in cells if agent != box):
        for move in range(1, len(MOVES)):
            if (following := after(position, move)) != position:
                before.setdefault(following, []).append(position)
    steps = {(agent, target): 0 for agent in cells if agent != target}
    queue = deque(steps)
    while queue:
        position = queue.popleft()
        for earlier in before.get(position, ()):
            if earlier not in steps:
                steps[earlier] = steps[position] + 1
                queue.append(earlier)
    return {
        position: [move for move in range(1, len(MOVES)) if steps.get(after(position, move)) == count - 1]
        for position, count in steps.items()
        if count
    }


def positions(count: int, seed: int) -> tuple[Observation, Tensor]:
    """At least `count` positions as the agent sees them, and which moves are right, [count, 5]."""
    chance = random.Random(seed)
    walls, targets, boxes, agents, right = [], [], [], [], []
    while len(agents) < count:
        height, width = chance.choice(ROOMS)
        top, left = chance.randint(1, 9 - height), chance.randint(1, 9 - width)
        cells = {row * 10 + column for row in range(top, top + height) for column in range(left, left + width)}
        target = chance.choice(sorted(cells))
        found = best_moves(cells, target)
        for agent, box in chance.sample(sorted(found), min(POSITIONS_OF_A_ROOM, len(found))):
            walls.append(~_at(cells))
            targets.append(_at({target}))
            boxes.append(_at({box}))
            agents.append(agent)
            right.append(torch.zeros(len(ACTIONS)).index_fill(0, torch.tensor(found[agent, box]), 1.0))
    levels = Levels(torch.stack(walls), torch.stack(targets), torch.stack(boxes), torch.tensor(agents))
    seen = Environment(levels, torch.arange(len(levels)), capacity=levels.open_cells - 1).observe()
    return seen, torch.stack(right)


def _at(cells: set[int]) -> Tensor:
    return torch.zeros(100, dtype=torch.bool).index_fill(0, torch.tensor(sorted(cells)), True)


def learn(agent: Agent, learning_rate: float, seed: int, arguments: argparse.Namespace) -> str:
    """Train an agent, and describe what it has learned at each report."""
    recipe = Recipe()
    (seen, right), (seen_in_test, right_in_test) = arguments.data
    adam = torch.optim.Adam(agent.parameters(), lr=learning_rate, eps=recipe.adam_epsilon)
    generator = torch.Generator().manual_seed(1000 + seed)
    shares, entropy, norm = [], 0.0, 0.0
    for update in range(1, arguments.updates + 1):
        for group in adam.param_groups:
            group["lr"] = learning_rate * min(1.0, update / max(1, arguments.warmup))
        index = torch.randint(len(right), (arguments.batch,), generator=generator)
        decision = agent(Observation(*(tensor[index] for tensor in seen)), no_memo(agent, len(index), CPU))
        log_probabilities = decision.logits.log_softmax(-1)
        action = torch.multinomial(log_probabilities.detach().exp(), 1, generator=generator)
        error = recipe.reward_scale * right[index].gather(1, action).squeeze(1) - decision.value
        entropies = -(log_probabilities.exp() * log_probabilities).sum(-1)
        chosen = log_probabilities.gather(1, action).squeeze(1)
        loss = -chosen * error.detach() + recipe.value_weight * error.square() - recipe.entropy_weight * entropies
        adam.zero_grad()
        loss.mean().backward()
        norm = float(nn.utils.clip_grad_norm_(agent.parameters(), recipe.gradient_clip))
        adam.step()
        if update % arguments.report == 0:
            with torch.no_grad():
                policy = agent(seen_in_test, no_memo(agent, len(right_in_test), CPU)).logits.softmax(-1)
            shares.append(float((policy * right_in_test).sum(-1).mean()))
            entropy = float(torch.special.entr(policy).sum(-1).mean())
    return f"{' '.join(f'{share:.3f}' for share in shares)} | {entropy:.2f} | {norm:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["transformer", "rt"], choices=["transformer", "rt"])
    parser.add_argument(
        "--edge-scales",
        nargs="+",
        type=float,
        default=[1.0],
        help="of rt: how much smaller the weights start with which edges enter queries, keys and values",
    )
    parser.add_argument("--sizes", default="small", choices=SIZES)
    parser.add_argument("--learning-rates", nargs="+", type=float, default=[3e-4])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--warmup", type=int, default=0, help="updates over which the learning rate grows")
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--report", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--positions", type=int, help="to learn from; 12,000 by default, 4,000 at published sizes")
    arguments = parser.parse_args()
    is_small = arguments.sizes == "small"
    count = arguments.positions or (12_000 if is_small else 4_000)
    arguments.data = positions(count, seed=1), positions(1_200 if is_small else 120, seed=2)
    print("| agent | edge scale | learning rate | seed | right moves at each report | entropy | gradient |")
    print("|---|---:|---:|---:|---|---:|---:|")
    for model in arguments.models:
        for scale in arguments.edge_scales if model == "rt" else [1.0]:
            settings = AgentSettings(memo_size=8, **SIZES[arguments.sizes])
            for rate in arguments.learning_rates:
                for seed in arguments.seeds:
                    agent = initialise(lambda model=model, settings=settings: Agent(model, settings), seed)
                    with torch.no_grad():
                        for name, parameter in agent.named_parameters():
                            parameter.mul_(scale if name.endswith("edge_qkv.weight") else 1.0)
                    row = learn(agent, rate, seed, arguments)
                    print(f"| {model} | {scale:g} | {rate:g} | {seed} | {row}", flush=True)


if __name__ == "__main__":
    main()
