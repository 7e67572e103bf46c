"""Environments of every kind of space, and pairs of our PPO and torch SB3's with the same parameters and rollout."""

from typing import Any

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from sbx_flappy import PPO

IMAGE = spaces.Box(0, 255, (1, 36, 40), np.uint8)  # unequal sides expose a swap of height and width
OBSERVATIONS: dict[str, spaces.Space] = {
    "vector": spaces.Box(-1.0, 1.0, (5,), np.float32),
    "matrix": spaces.Box(-1.0, 1.0, (3, 2), np.float64),
    "image": IMAGE,
    "discrete": spaces.Discrete(6),
    "multi_discrete": spaces.MultiDiscrete([3, 5]),
    "multi_binary": spaces.MultiBinary(4),
    "dict": spaces.Dict({"vector": spaces.Box(-1.0, 1.0, (4,)), "image": IMAGE, "number": spaces.Discrete(3)}),
}
ACTIONS: dict[str, spaces.Space] = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(np.array([-2.0, 0.5], np.float32), np.array([1.0, 3.0], np.float32)),
    "multi_discrete": spaces.MultiDiscrete([2, 4, 3]),
    "multi_binary": spaces.MultiBinary(3),
}


class RandomEnv(gym.Env):
    """Random observations and rewards; episodes end by death or by a time limit, at random."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, truncate: float = 0.1) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.truncate = truncate

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(np.asarray(action, self.action_space.dtype))
        terminated, truncated = self.np_random.random(2) < (0.1, self.truncate)
        return self.observation_space.sample(), float(self.np_random.normal()), bool(terminated), bool(truncated), {}


def make_env(observations: str = "vector", actions: str = "discrete", n_envs: int = 2) -> DummyVecEnv:
    """Return random environments with the named spaces."""
    env = DummyVecEnv([lambda: RandomEnv(OBSERVATIONS[observations], ACTIONS[actions]) for _ in range(n_envs)])
    env.seed(0)
    return env


def policy_for(observations: str) -> str:
    """Return the name of the policy for the named observation space."""
    return {"image": "CnnPolicy", "dict": "MultiInputPolicy"}.get(observations, "MlpPolicy")


class Recorder(Logger):
    """A logger that keeps what is recorded and writes nothing."""

    def __init__(self) -> None:
        super().__init__(folder=None, output_formats=[])


def make_pair(observations: str = "vector", actions: str = "discrete", **kwargs: Any) -> tuple[PPO, sb3.PPO]:
    """
    Return our model and torch SB3's with the same parameters and the same filled rollout buffer.

    :param observations: name of the observation space
    :param actions: name of the action space
    :param kwargs: arguments of PPO
    """
    kwargs = {"n_steps": 24, "batch_size": 16, "n_epochs": 3, "gamma": 0.9, "gae_lambda": 0.8, "seed": 1, **kwargs}
    policy = policy_for(observations)
    theirs = sb3.PPO(policy, make_env(observations, actions), device="cpu", **kwargs)
    theirs.set_logger(Recorder())
    _, callback = theirs._setup_learn(10_000)
    assert theirs.env is not None
    assert theirs.collect_rollouts(theirs.env, callback, theirs.rollout_buffer, theirs.n_steps)
    # A policy that differs from the one that acted: its ratios are not all one
    with th.no_grad():
        for parameter in theirs.policy.parameters():
            parameter.add_(0.02 * th.randn_like(parameter))

    ours = PPO(policy, make_env(observations, actions), **kwargs)
    ours.set_logger(Recorder())
    ours._setup_learn(10_000)
    ours.policy.load_state_dict(theirs.policy.state_dict())
    copy_rollout(theirs.rollout_buffer, ours.rollout_buffer)
    return ours, theirs


def copy_rollout(source: Any, target: Any) -> None:
    """Copy the arrays of a full, unread buffer into another."""
    names = ("observations", "actions", "rewards", "returns", "episode_starts", "values", "log_probs", "advantages")
    for name in names:
        value = getattr(source, name)
        copied = {k: v.copy() for k, v in value.items()} if isinstance(value, dict) else value.copy()
        setattr(target, name, copied)
    target.pos, target.full, target.generator_ready = source.pos, True, False


def train_both(ours: PPO, theirs: sb3.PPO, seed: int = 3) -> None:
    """Run one ``train()`` of each with the same order of the samples."""
    for model in (ours, theirs):
        np.random.seed(seed)
        model.train()
