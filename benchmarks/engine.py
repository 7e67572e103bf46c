"""
Agent steps per second on one core: upstream's pygame game, the native game alone, and many native games together.

Each row plays random actions (a flap in one of four steps), new games included. The single envs are gymnasium.make's, with its
standard wrappers; the others are FlappyVecEnv's, with SB3's Monitor. Each row has its own process, all on one core, and one
of them works at a time; every row is measured in each round, so that all see the same load of the machine. The table shows the
best round by the clock on the wall, and by the processor's time.

    python benchmarks/engine.py --env FlappyBird-v0 --seconds 1 --rounds 5
"""

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from multiprocessing import get_context
from typing import Any

import gymnasium as gym
import numpy as np

from sbx_flappy.envs import FlappyVecEnv
from sbx_flappy.envs.registration import ENV_IDS

N_ENVS = (8, 64, 256, 1024)
FLAPS = 0.25


def single_steps(env_id: str, engine: str) -> Callable[[], object]:
    """Return a function that plays one step of one game."""
    env = gym.make(env_id, engine=engine)
    env.reset(seed=0)
    actions = iter((np.random.default_rng(0).random(1_000_000) < FLAPS).astype(int).tolist())

    def step() -> None:
        _, _, terminated, truncated, _ = env.step(next(actions))
        if terminated or truncated:
            env.reset()

    return step


def vector_steps(env_id: str, n_envs: int) -> Callable[[], object]:
    """Return a function that plays one step of many games."""
    env = FlappyVecEnv(n_envs, env_id)
    env.seed(0)
    env.reset()
    actions = (np.random.default_rng(0).random((997, n_envs)) < FLAPS).astype(np.int64)
    count = iter(range(10**9))
    return lambda: env.step(actions[next(count) % len(actions)])


def choose_core() -> None:
    """Keep a new process on the last core that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@cache
def steps(make: Callable[..., Callable[[], object]], *arguments: Any) -> Callable[[], object]:
    """Return the function that plays a step, made once in each process."""
    return make(*arguments)


def steps_per_second(seconds: float, *arguments: Any) -> np.ndarray:
    """Return calls per second: by the clock on the wall, by the processor's time."""
    step = steps(*arguments)
    calls, start, processor_start = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < seconds:
        step()
        calls += 1
    return calls / np.array([time.perf_counter() - start, time.process_time() - processor_start])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=list(ENV_IDS), default="FlappyBird-v0")
    parser.add_argument("--seconds", type=float, default=1.0, help="per row and round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    rows: list[tuple[str, int, Callable[..., Callable[[], object]], str | int]] = [
        ("pygame engine", 1, single_steps, "pygame"),
        ("native, single", 1, single_steps, "native"),
        *((f"FlappyVecEnv({n_envs})", n_envs, vector_steps, n_envs) for n_envs in N_ENVS),
    ]
    with ExitStack() as stack:
        processes = [stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"), initializer=choose_core)) for _ in rows]

        def measure(seconds: float) -> list[np.ndarray]:
            """Return agent steps per second of each row, one after the other."""
            return [
                n_envs * process.submit(steps_per_second, seconds, make, args.env, argument).result()
                for process, (_, n_envs, make, argument) in zip(processes, rows, strict=True)
            ]

        measure(0.1)  # all have begun before the first is measured
        best = np.max([measure(args.seconds) for _ in range(args.rounds)], axis=0)
    print(f"{args.env}, agent steps per second on one core\n{'':<20}{'wall clock':>12}{'processor':>12}{'ratio':>8}")
    for (name, *_), (wall, processor) in zip(rows, best, strict=True):
        print(f"{name:<20}{wall:>12,.0f}{processor:>12,.0f}{wall / best[0, 0]:>8.0f}")


if __name__ == "__main__":
    main()
