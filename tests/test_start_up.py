"""What starts with the package: no thread that a fork would break, and no JAX in a process that only plays."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from sbx_flappy import PPO

ROOT = Path(__file__).parents[1]

IMPORTS_ALONE = """
import os, sys
n_threads = lambda: len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
import sbx_flappy, gymnasium
gymnasium.make("sbx_flappy:FlappyBirdFeatures-v0").reset()
assert "jax" not in sys.modules, "an environment needs no JAX"
import jax, flax.linen, optax, torch, stable_baselines3.common.on_policy_algorithm
before = n_threads()
from sbx_flappy import PPO, FlappyVecEnv
import sbx_flappy.zoo
assert n_threads() == before, "importing starts threads"
"""


@pytest.mark.fault(35)
def test_importing_starts_no_threads_and_playing_needs_no_jax() -> None:
    result = subprocess.run([sys.executable, "-c", IMPORTS_ALONE], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


@pytest.mark.fault(35)
def test_environments_in_processes_start_after_jax_has_and_are_not_forked() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, seed=0).learn(8)  # JAX's threads are running
    env = make_vec_env("CartPole-v1", 2, vec_env_cls=SubprocVecEnv)
    assert isinstance(env, SubprocVecEnv)
    assert {type(process).__name__ for process in env.processes} <= {"ForkServerProcess", "SpawnProcess"}
    model = PPO("MlpPolicy", env, n_steps=4, batch_size=8, seed=0).learn(8)
    assert model.predict(np.zeros((2, 4), np.float32))[0].shape == (2,)
    env.close()
