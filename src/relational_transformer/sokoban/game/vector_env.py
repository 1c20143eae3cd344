"""The environment as a Gymnasium `VectorEnv`, for agents and tools that use this interface."""

from typing import Any

import numpy as np
import torch

from .environment import Environment
from .levels import Levels
from .observation import CORE_SIZE, FACTOR_SIZE, Observation
from .rules import ACTIONS, REWARD_SOLVED

try:
    from gymnasium import spaces
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError:
    message = "the environment for Gymnasium needs it: pip install '.[rl]' in a checkout"
    raise ModuleNotFoundError(message, name="gymnasium") from None

Arrays = dict[str, np.ndarray]


class SokobanVectorEnv(VectorEnv[Arrays, np.ndarray, np.ndarray]):
    """Many games of Sokoban by WMG's rules. Levels are drawn at random with replacement.

    Observations are dicts of arrays: `core` [B, 11], `factors` [B, F, 39], `present` [B, F] (see `Observation`).
    A game that ends, solved or out of time, is `terminated`; no game is truncated. The next game begins in the same
    step. The last observation is in `infos["final_obs"]`, and `infos["solved"]` says which games were solved.

    >>> from relational_transformer.sokoban import generate_levels
    >>> games = SokobanVectorEnv(generate_levels(10, seed=0), num_envs=4)
    >>> observation, infos = games.reset(seed=0)
    >>> observation, rewards, terminated, truncated, infos = games.step(games.action_space.sample())
    >>> observation["core"].shape, rewards.shape
    ((4, 11), (4,))
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, levels: Levels, num_envs: int, device: torch.device | str = "cpu") -> None:
        if num_envs < 1:
            raise ValueError(f"at least one game is needed, got num_envs={num_envs}")
        self.num_envs = num_envs
        self.levels = levels.to(device)
        num_factors = levels.open_cells - 1
        self.single_observation_space = spaces.Dict(
            {
                "core": spaces.Box(-1.0, 1.0 + REWARD_SOLVED, (CORE_SIZE,), np.float32),
                "factors": spaces.Box(-1.0, 1.0, (num_factors, FACTOR_SIZE), np.float32),
                "present": spaces.MultiBinary(num_factors),
            }
        )
        self.single_action_space = spaces.Discrete(len(ACTIONS))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._environment: Environment | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Begin all games. Levels are drawn with `seed`; without it, the random numbers of the last seed continue."""
        super().reset(seed=seed)
        self._environment = Environment(self.levels, self._draw_levels())
        return _arrays(self._environment.observe()), {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[Arrays, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:  # fmt: skip
        """Make one action in every game."""
        if self._environment is None:
            raise ValueError("reset the environment before its first step")
        outcome = self._environment.step(torch.as_tensor(actions, device=self.levels.agent.device).long())
        done = outcome.done.cpu().numpy()
        infos: dict[str, Any] = {"solved": outcome.solved.cpu().numpy(), "_solved": done}
        if done.any():
            infos |= {"final_obs": _final(_arrays(self._environment.observe()), done), "_final_obs": done}
            self._environment.restart(outcome.done, self._draw_levels())
        observation = _arrays(self._environment.observe())
        rewards = outcome.board.reward.cpu().numpy().astype(np.float64)
        return observation, rewards, done, np.zeros_like(done), infos

    def _draw_levels(self) -> torch.Tensor:
        drawn = self.np_random.integers(len(self.levels), size=self.num_envs)
        return torch.from_numpy(drawn).to(self.levels.agent.device)


def _arrays(observation: Observation) -> Arrays:
    core, factors, present = (tensor.cpu().numpy() for tensor in observation)
    return {"core": core, "factors": factors, "present": present.astype(np.int8)}


def _final(observation: Arrays, done: np.ndarray) -> np.ndarray:
    """The last observations of the games that are done, one dict each; None for the others."""
    final = np.full(len(done), None, dtype=object)
    for number in done.nonzero()[0]:
        final[number] = {name: array[number] for name, array in observation.items()}
    return final
