"""
Memory stays flat in long trainings and over many loads.

Run as a module, this file is the process that is measured, undisturbed by other tests: it prints its resident memory, in
bytes, after a warm-up and at the end.
"""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import psutil
import pytest
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from sbx_flappy import PPO

ROOT = Path(__file__).parents[2]
#: Large enough for a rollout, or a model, that is kept in each iteration or load to show: 64 kB, 1.5 MB and 166 kB
VECTOR = spaces.Box(-1.0, 1.0, (1000,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 36, 8), np.uint8)
#: Convolutions, whose steps are dispatched one by one, and which cost little here
SMALL_CNN = {"features_extractor_kwargs": {"features_dim": 4}, "net_arch": []}


class ShortEpisodes(gym.Env[np.ndarray, np.int64]):
    """Episodes of 10 steps that do nothing; a time limit ends every other one."""

    def __init__(self, observation_space: spaces.Box) -> None:
        self.observation_space, self.action_space = observation_space, spaces.Discrete(2)
        self.observation = np.zeros(observation_space.shape, observation_space.dtype)
        self.n_steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation, {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.n_steps += 1
        return self.observation, float(action), self.n_steps % 20 == 0, self.n_steps % 20 == 10, {}


def resident() -> int:
    """Return the resident memory of this process, in bytes."""
    return psutil.Process().memory_info().rss


class Measure(BaseCallback):
    """Notes the resident memory after some iterations."""

    def __init__(self, warm_up: int) -> None:
        super().__init__()
        self.warm_up, self.n_rollouts, self.after_warm_up = warm_up, 0, 0

    def _on_rollout_start(self) -> None:
        if self.n_rollouts == self.warm_up:
            self.after_warm_up = resident()
        self.n_rollouts += 1

    def _on_step(self) -> bool:
        return True


def make_model(observation_space: spaces.Box = VECTOR, **kwargs: Any) -> PPO:
    """Return a small model: two environments, and iterations of 16 steps in three minibatches, the last one smaller."""
    env = make_vec_env(lambda: ShortEpisodes(observation_space), 2)
    policy = "CnnPolicy" if observation_space is IMAGE else "MlpPolicy"
    policy_kwargs = SMALL_CNN if observation_space is IMAGE else {"net_arch": [64]}
    settings: dict[str, Any] = {
        "n_steps": 8,
        "batch_size": 6,
        "n_epochs": 2,
        "policy_kwargs": policy_kwargs,
        "seed": 0,
        **kwargs,
    }
    with pytest.warns(UserWarning, match="truncated mini-batch"):
        return PPO(policy, env, **settings)


def learn(n_iterations: int, warm_up: int, **kwargs: Any) -> tuple[int, int]:
    """Return the resident memory in a training."""
    measure = Measure(warm_up)
    make_model(**kwargs).learn(16 * n_iterations, callback=measure)
    assert measure.n_rollouts == n_iterations
    return measure.after_warm_up, resident()


def load(n_loads: int, warm_up: int, **kwargs: Any) -> tuple[int, int]:
    """Return the resident memory while a model that has learned is loaded and asked for an action."""
    file = io.BytesIO()
    make_model(**kwargs).learn(16).save(file)
    env = make_vec_env(lambda: ShortEpisodes(VECTOR), 2)
    after_warm_up = 0
    for i in range(n_loads):
        if i == warm_up:
            after_warm_up = resident()
        file.seek(0)
        PPO.load(file, env=env).predict(VECTOR.sample())
    return after_warm_up, resident()


#: One run each: in one compiled program, step by step with and without a stop of the update, and loads
RUNS: dict[str, Callable[[], tuple[int, int]]] = {
    "2,000 iterations": lambda: learn(2000, 300),
    "600 iterations of convolutions": lambda: learn(600, 200, observation_space=IMAGE),
    "600 iterations of convolutions with target_kl": lambda: learn(600, 200, observation_space=IMAGE, target_kl=1e-3),
    "200 loads": lambda: load(200, 20),
}


@pytest.mark.fault(31)
@pytest.mark.expensive
@pytest.mark.parametrize("name", RUNS)
def test_memory_grows_by_less_than_5_percent(name: str) -> None:
    command = [sys.executable, "-m", "tests.ppo.test_long_runs", name]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=900).stdout
    after_warm_up, at_the_end = map(int, printed.split()[-2:])
    assert at_the_end < 1.05 * after_warm_up, f"{after_warm_up / 2**20:.0f} MiB became {at_the_end / 2**20:.0f} MiB"


if __name__ == "__main__":
    print(*RUNS[sys.argv[1]]())
