"""
Time ``train()`` of this package against torch SB3's, alternating, on random frames.

Each runs in a process of its own: the idle threads of one framework would slow the other down.

    python benchmarks/train.py --channels 1 --rounds 5

The settings are those of FlappyBird-v0 in hyperparams/ppo.yml: 8 environments, 128 steps, minibatches of 256, 4 epochs.
"""

import argparse
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection

import gymnasium as gym
import numpy as np
import stable_baselines3 as sb3
from gymnasium import spaces
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv

from sbx_flappy import PPO


class RandomFrames(gym.Env):
    """Noise for observations; nothing to learn, nothing to wait for."""

    def __init__(self, channels: int) -> None:
        self.observation_space = spaces.Box(0, 255, (channels, 84, 84), np.uint8)
        self.action_space = spaces.Discrete(2)

    def _frame(self) -> np.ndarray:
        return self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self._frame(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        return self._frame(), float(self.np_random.random()), self.np_random.random() < 0.05, False, {}


def make_model(cls: type, channels: int, features_dim: int) -> sb3.PPO:
    """Return a model with a full rollout buffer."""
    env = DummyVecEnv([lambda: RandomFrames(channels)] * 8)
    policy_kwargs = {"features_extractor_kwargs": {"features_dim": features_dim}}
    settings = {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "learning_rate": 2.5e-4, "clip_range": 0.1, "ent_coef": 0.01}
    model = cls("CnnPolicy", env, policy_kwargs=policy_kwargs, seed=0, device="cpu", **settings)
    model.set_logger(Logger(folder=None, output_formats=[]))
    _, callback = model._setup_learn(10**6)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, 128)
    return model


def seconds(model: sb3.PPO) -> float:
    """Return how long one ``train()`` takes."""
    start = time.perf_counter()
    model.train()
    return time.perf_counter() - start


def work(connection: Connection, ours: bool, channels: int, features_dim: int) -> None:
    """Time a ``train()`` whenever asked to; the first one, which compiles, goes before."""
    model = make_model(PPO if ours else sb3.PPO, channels, features_dim)
    seconds(model)
    connection.send("ready")
    while connection.recv():
        connection.send(seconds(model))


def start_worker(ours: bool, channels: int, features_dim: int) -> Connection:
    """Return the line to a worker process that is ready."""
    here, there = multiprocessing.Pipe()
    args = (there, ours, channels, features_dim)
    multiprocessing.get_context("spawn").Process(target=work, args=args, daemon=True).start()
    here.recv()
    return here


def ask(worker: Connection) -> float:
    """Return how long one ``train()`` of a worker takes."""
    worker.send(True)
    return worker.recv()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels", type=int, default=1, help="channels of a frame (default: 1)")
    parser.add_argument("--features-dim", type=int, default=256, help="units after the convolutions (default: 256)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of each (default: 5)")
    args = parser.parse_args()
    workers = [start_worker(ours, args.channels, args.features_dim) for ours in (True, False)]
    times = [[ask(worker) for worker in workers] for _ in range(args.rounds)]
    for worker in workers:
        worker.send(False)
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(row[0] / row[1] for row in times)
    print(f"train() on 1,024 frames of {args.channels}x84x84, 4 epochs: sbx_flappy {ours:.2f} s, torch SB3 {theirs:.2f} s")
    print(f"ratio sbx_flappy / torch SB3: {ratio:.2f} (median of {args.rounds} pairs)")


if __name__ == "__main__":
    main()
