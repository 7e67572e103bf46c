"""
Time ``train()`` of this package against torch SB3's, alternating, on random frames.

Each runs in a process of its own: the idle threads of one framework would slow the other down.

    python benchmarks/train.py --rounds 5
    python benchmarks/train.py --settings ppo --whole

The settings are those of FlappyBird-v0 in hyperparams/: "blog" has 8 environments, 128 steps, minibatches of 256, 4 epochs
and SB3's NatureCNN with 256 units (--channels and --features-dim change that), "ppo" is ppo.yml. With --whole, an iteration is
timed: a rollout of FlappyVecEnv with ``train()`` after it.
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

from sbx_flappy import PPO, FlappyVecEnv
from sbx_flappy.interchange.torch_policies import CnnPolicy


class RandomFrames(gym.Env):
    """Noise for observations; nothing to learn, nothing to wait for."""

    def __init__(self, channels: int) -> None:
        self.observation_space = spaces.Box(0, 255, (channels, 84, 84), np.uint8)
        self.action_space = spaces.Discrete(2)

    def _frame(self) -> np.ndarray:
        return self.np_random.integers(0, 256, self.observation_space.shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Return a random frame."""
        super().reset(seed=seed)
        return self._frame(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Return a random frame and a random reward; every twentieth step or so ends the episode."""
        return self._frame(), float(self.np_random.random()), self.np_random.random() < 0.05, False, {}


def make_model(cls: type, args: argparse.Namespace) -> sb3.PPO:
    """Return a model with a full rollout buffer."""
    if args.settings == "ppo":
        settings = {"n_steps": 64, "batch_size": 512, "n_epochs": 3, "learning_rate": 1e-3, "gamma": 0.97, "ent_coef": 0.001}
        kwargs = {"features_dim": 128, "layers": [[16, 7, 7], [32, 2, 2]]}
        policy, scaling, n_envs = CnnPolicy, {"obs_center": 0.66, "obs_scale": 4.0}, 64
    else:
        settings = {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "learning_rate": 2.5e-4, "clip_range": 0.1}
        kwargs = {"features_dim": args.features_dim}
        policy, scaling, n_envs = "CnnPolicy", {}, 8
    env = FlappyVecEnv(n_envs) if args.whole else DummyVecEnv([lambda: RandomFrames(args.channels)] * n_envs)
    policy_kwargs = {"features_extractor_kwargs": kwargs, **scaling}
    model = cls(policy, env, policy_kwargs=policy_kwargs, seed=0, device="cpu", **settings)
    model.set_logger(Logger(folder=None, output_formats=[]))
    model._callback = model._setup_learn(10**6)[1]
    model.collect_rollouts(model.env, model._callback, model.rollout_buffer, model.n_steps)
    return model


def seconds(model: sb3.PPO, whole: bool) -> float:
    """Return how long one ``train()`` takes, or one whole iteration."""
    start = time.perf_counter()
    if whole:
        model.collect_rollouts(model.env, model._callback, model.rollout_buffer, model.n_steps)
    model.train()
    return time.perf_counter() - start


def work(connection: Connection, ours: bool, args: argparse.Namespace) -> None:
    """Time an update whenever asked to; the first one, which compiles, goes before."""
    model = make_model(PPO if ours else sb3.PPO, args)
    seconds(model, args.whole)
    connection.send("ready")
    while connection.recv():
        connection.send(seconds(model, args.whole))


def start_worker(ours: bool, args: argparse.Namespace) -> Connection:
    """Return the line to a worker process that is ready."""
    here, there = multiprocessing.Pipe()
    multiprocessing.get_context("spawn").Process(target=work, args=(there, ours, args), daemon=True).start()
    here.recv()
    return here


def ask(worker: Connection) -> float:
    """Return how long one update of a worker takes."""
    worker.send(True)
    return worker.recv()


def main() -> None:
    """Print the time of each library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", choices=["blog", "ppo"], default="blog", help="(default: blog)")
    parser.add_argument("--whole", action="store_true", help="time whole iterations instead of train() alone")
    parser.add_argument("--channels", type=int, default=1, help="channels of a frame (default: 1)")
    parser.add_argument("--features-dim", type=int, default=256, help="units after the convolutions (default: 256)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of each (default: 5)")
    args = parser.parse_args()
    if args.whole and args.channels != 1:
        parser.error("the game has one channel")
    workers = [start_worker(ours, args) for ours in (True, False)]
    times = [[ask(worker) for worker in workers] for _ in range(args.rounds)]
    for worker in workers:
        worker.send(False)
    ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(row[0] / row[1] for row in times)
    what = "an iteration" if args.whole else "train()"
    frames = f"frames of {args.channels}x84x84"
    print(f"{what}, settings '{args.settings}', {frames}: sbx_flappy {ours:.2f} s, torch SB3 {theirs:.2f} s")
    print(f"ratio sbx_flappy / torch SB3: {ratio:.2f} (median of {args.rounds} pairs)")


if __name__ == "__main__":
    main()
