"""
Same seed, same weights, on one machine, whatever the VecEnv; models with neighbouring seeds play other games.

Run as a module, this file is the other process of a test: it prints the weights of a training.
"""

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from sbx_flappy import PPO, FlappyVecEnv
from sbx_flappy.common.seeding import first_env_seed

ROOT = Path(__file__).parents[2]
VEC_ENVS: dict[str, Any] = {"DummyVecEnv": DummyVecEnv, "SubprocVecEnv": SubprocVecEnv, "FlappyVecEnv": FlappyVecEnv}
CARTPOLE, FEATURES, PIXELS = "CartPole-v1", "FlappyBirdFeatures-v0", "FlappyBird-v0"
#: Games that are over within the 96 steps of a training
LIMIT = {CARTPOLE: {}, FEATURES: {"max_episode_steps": 12}, PIXELS: {"max_episode_steps": 12}}


def train(env_id: str, n_envs: int, vec_env: str = "DummyVecEnv", seed: int | None = 1) -> PPO:
    """Return a model after two iterations of 96 steps; only the model has a seed."""
    package = "" if env_id == CARTPOLE else "sbx_flappy:"  # which other processes import
    env = make_vec_env(package + env_id, n_envs, vec_env_cls=VEC_ENVS[vec_env], env_kwargs=LIMIT[env_id])
    policy, policy_kwargs = "MlpPolicy", None
    if env_id == PIXELS:
        policy, policy_kwargs = "CnnPolicy", {"features_extractor_kwargs": {"features_dim": 16}}
    kwargs: dict[str, Any] = {"n_steps": 96 // n_envs, "batch_size": 32, "n_epochs": 2, "policy_kwargs": policy_kwargs}
    model = PPO(policy, env, seed=seed, **kwargs).learn(192)
    env.close()
    return model


def weights(*args: Any, **kwargs: Any) -> str:
    """Return the parameters of a training, as the hash of their bytes."""
    return hashlib.sha256(train(*args, **kwargs).policy.parameters_to_vector().tobytes()).hexdigest()


# --- same seed --------------------------------------------------------------------------------------------------------


@pytest.mark.fault(34)
@pytest.mark.parametrize("n_envs", [1, 8])
def test_same_seed_gives_the_same_weights_and_another_seed_others(n_envs: int) -> None:
    first, same, other = (train(CARTPOLE, n_envs, seed=seed).policy.parameters_to_vector() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert np.mean(first != other) > 0.9


@pytest.mark.expensive
@pytest.mark.parametrize("n_envs", [1, 8])
@pytest.mark.parametrize(
    ("env_id", "vec_envs"),
    [
        (CARTPOLE, ["DummyVecEnv", "SubprocVecEnv"]),
        (FEATURES, ["DummyVecEnv", "SubprocVecEnv", "FlappyVecEnv"]),
        (PIXELS, ["DummyVecEnv", "SubprocVecEnv", "FlappyVecEnv"]),
    ],
)
def test_every_vec_env_gives_the_same_weights(env_id: str, vec_envs: list[str], n_envs: int) -> None:
    results = {weights(env_id, n_envs, vec_env) for vec_env in ["DummyVecEnv", *vec_envs]}
    assert len(results) == 1


@pytest.mark.fault(34)
@pytest.mark.expensive
@pytest.mark.parametrize(
    ("env_id", "n_envs", "vec_env"),
    [(CARTPOLE, 1, "DummyVecEnv"), (CARTPOLE, 8, "SubprocVecEnv"), (FEATURES, 8, "FlappyVecEnv"), (PIXELS, 8, "FlappyVecEnv")],
)
def test_two_processes_give_the_same_weights(env_id: str, n_envs: int, vec_env: str) -> None:
    results = {weights(env_id, n_envs, vec_env)}
    for _ in range(2):
        command = [sys.executable, "-m", "tests.ppo.test_reproducibility", env_id, str(n_envs), vec_env]
        results.add(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()[-1])
    assert len(results) == 1


def test_what_was_drawn_before_does_not_matter() -> None:
    first = weights(FEATURES, 8, "FlappyVecEnv")
    np.random.random(3)
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, seed=4).learn(16)
    assert weights(FEATURES, 8, "FlappyVecEnv") == first


# --- neighbouring seeds -----------------------------------------------------------------------------------------------


def env_seeds(seed: int, n_envs: int, algorithm: Any = PPO, **kwargs: Any) -> list[int]:
    """Return the seeds that a model gives to its environments, from what they know after the first reset."""
    env = make_vec_env(CARTPOLE, n_envs, seed=77)
    assert isinstance(env, DummyVecEnv)
    model = algorithm("MlpPolicy", VecNormalize(env), n_steps=8, batch_size=8, seed=seed, device="cpu", **kwargs)
    model.env.reset()
    return [single.unwrapped.np_random_seed for single in env.envs]


@pytest.mark.fault(34)
def test_env_seeds_of_neighbouring_models_do_not_meet() -> None:
    n_envs = 8
    seeds = [env_seeds(seed, n_envs) for seed in range(6)]
    assert seeds[0] == env_seeds(0, n_envs, sb3.PPO) == list(range(8))  # seed 0 plays torch SB3's games
    assert seeds[1] == list(range(65536, 65536 + 8))
    assert len({seed for row in seeds for seed in row}) == 6 * n_envs
    theirs = [env_seeds(seed, n_envs, sb3.PPO) for seed in (1, 2)]
    assert len(set(theirs[0]) & set(theirs[1])) == n_envs - 1  # what this is about


@pytest.mark.parametrize("start", [0, 1, 250, 2**16 - 40, 2**20, 2**31 - 20, 2**32 - 60])
def test_sixty_four_envs_of_fifty_neighbouring_seeds_do_not_meet(start: int) -> None:
    seeds = [first_env_seed(seed) + i for seed in range(start, start + 50) for i in range(64)]
    assert len(set(seeds)) == 50 * 64


def test_every_seed_is_met_once() -> None:
    """The low and the high half of 32 bits change places: 0x0000ABCD becomes 0xABCD0000, and back."""
    assert first_env_seed(0xABCD) == 0xABCD0000
    for seed in (0, 1, 0xABCD, 0x12345678, 0xFFFFFFFF):
        assert first_env_seed(first_env_seed(seed)) == seed
        assert first_env_seed(cast(int, np.int64(seed))) == first_env_seed(seed)


def first_gaps(seed: int, n_envs: int = 8) -> list[tuple[int, ...]]:
    """Return the next gaps of a model's games, enough to tell games apart."""
    env = FlappyVecEnv(n_envs, FEATURES)
    PPO("MlpPolicy", env, n_steps=8, batch_size=8, seed=seed)
    env.reset()
    return [tuple(single.unwrapped.np_random.integers(0, 8, 20)) for single in env.envs]


def test_games_of_neighbouring_seeds_are_other_games() -> None:
    games = [game for seed in range(5) for game in first_gaps(seed)]
    assert len(set(games)) == len(games) == 40
    assert first_gaps(3) == games[24:32]


def test_set_random_seed_without_a_seed_leaves_the_games_alone() -> None:
    env = DummyVecEnv([lambda: gym.make(CARTPOLE)])
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8)
    env.seed(5)
    model.set_random_seed(None)
    assert env._seeds == [5]
    model.set_random_seed(2)
    assert env._seeds == [2 * 65536]
    PPO("MlpPolicy", CARTPOLE, n_steps=8, batch_size=8, seed=2**32 - 1).learn(8)  # NumPy's largest


if __name__ == "__main__":
    print(weights(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
