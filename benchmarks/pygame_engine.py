"""
Agent steps per second on one core: the pygame engine against the blog's order of wrappers.

The blog's order draws, resizes and grays every frame of upstream's env and then skips frames; the engine draws only the
frames that an observation is made of. Both play the same game with the same random actions, with the same observations and
rewards (tests/envs/test_envs.py), in turns, so that both see the same load of the machine.

    python benchmarks/pygame_engine.py --env FlappyBird-v0 --seconds 3 --rounds 5
"""

import argparse
import statistics
import time
from typing import Any

import gymnasium as gym
import numpy as np
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv as UpstreamEnv
from gymnasium.wrappers import AddRenderObservation, GrayscaleObservation, ResizeObservation

from sbx_flappy.envs import FlapCooldown, FlappyBirdEnv
from sbx_flappy.envs.constants import GAMES


class NaiveFrameSkip(gym.Wrapper):
    """Step the env for every frame, and return the maximum of the last two observations."""

    def __init__(self, env: gym.Env, frame_skip: int) -> None:
        super().__init__(env)
        self.frame_skip = frame_skip

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play the frames."""
        total, observations = 0.0, []
        for _ in range(self.frame_skip):
            observation, reward, terminated, truncated, info = self.env.step(action)
            observations.append(observation)
            total += float(reward)
            if terminated or truncated:
                break
        return np.max(observations[-2:], axis=0), total, terminated, truncated, info


def make_blog_env(pipe_gap: int, flap_cooldown: int, frame_skip: int) -> gym.Env:
    """Return upstream's env under gymnasium's wrappers, in the blog's order."""
    env: gym.Env = UpstreamEnv(use_lidar=False, render_mode="rgb_array", pipe_gap=pipe_gap)
    env = GrayscaleObservation(ResizeObservation(AddRenderObservation(env), (84, 84)), keep_dim=True)
    return NaiveFrameSkip(FlapCooldown(env, flap_cooldown), frame_skip)


def steps_per_second(env: gym.Env, seconds: float, seed: int) -> float:
    """Play random actions, new games included, and return the agent's steps per second."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    n_steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        _, _, terminated, truncated, _ = env.step(int(rng.random() < 0.3))
        n_steps += 1
        if terminated or truncated:
            env.reset()
    return n_steps / (time.perf_counter() - start)


def main() -> None:
    """Print one line per round, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=["FlappyBird-v0", "FlappyBird-v1"], default="FlappyBird-v0")
    parser.add_argument("--seconds", type=float, default=3.0, help="per env and round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    game = GAMES[args.env[-2:]]
    blog, ours = make_blog_env(**game), FlappyBirdEnv(engine="pygame", **game)
    rounds = []
    for seed in range(args.rounds):
        rates = steps_per_second(blog, args.seconds, seed), steps_per_second(ours, args.seconds, seed)
        rounds.append((*rates, rates[1] / rates[0]))
        print("blog's order {:7.1f}   pygame engine {:7.1f}   ratio {:5.1f}".format(*rounds[-1]))
    print("median       {:7.1f}   {:>21.1f}   ratio {:5.1f}".format(*map(statistics.median, zip(*rounds, strict=True))))


if __name__ == "__main__":
    main()
