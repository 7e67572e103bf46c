"""
Make the figures of docs/flapjax.md and the animation of README.md.

``python docs/figures.py preprocessing`` and ``python docs/figures.py cartpole`` make those of docs/flapjax.md, and
``python docs/figures.py flappy`` the animation. Each writes PNG files, or a GIF, to docs/images, or to the folder that ``-o``
names.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import matplotlib

matplotlib.use("Agg")  # into files, without a screen

import cv2
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from stable_baselines3.common.monitor import load_results

import sbx_flappy
from sbx_flappy import PPO
from sbx_flappy.envs.constants import (
    FLAP,
    FRAME_SIZE,
    GAMES,
    NO_FLAP,
    PIPE_WIDTH,
    PLAYER_HEIGHT,
    PLAYER_X,
    SCREEN_HEIGHT,
    SCREEN_WIDTH,
)
from sbx_flappy.envs.pygame_game import UpstreamGame
from sbx_flappy.envs.wrappers import FlapCooldown, PixelObservation
from sbx_flappy.zoo.evaluation import SEED

GAME = GAMES["v0"]
AGENT = Path(__file__).parents[1] / "rl-trained-agents" / "ppo" / "FlappyBird-v0_1" / "FlappyBird-v0.zip"
#: Steps of the agent before the first picture: the first pipe is near the bird then
N_STEPS = 20
DPI = 100


def choose(features: np.ndarray) -> int:
    """Return the action of a player by hand: flap when the bird gets near the lower pipe that it is to pass next."""
    pipes = features[:9].reshape(3, 3) * (
        SCREEN_WIDTH,
        SCREEN_HEIGHT,
        SCREEN_HEIGHT,
    )  # left end, lower end of the upper one, ...
    bottom = next(bottom for left, _, bottom in pipes if left + PIPE_WIDTH > PLAYER_X)
    return FLAP if features[9] * SCREEN_HEIGHT + PLAYER_HEIGHT > bottom - 45 else NO_FLAP


def play(n_steps: int, seed: int = 0) -> tuple[list[int], list[np.ndarray]]:
    """
    Play upstream's game frame by frame, each action for as many frames as an agent's step has.

    :param n_steps: steps of the agent
    :param seed: of the game
    :return: the actions, and all the frames, uint8 ``(512, 288, 3)``
    """
    game = FlapCooldown(UpstreamGame(pipe_gap=GAME["pipe_gap"]), GAME["flap_cooldown"])
    features, _ = game.reset(seed=seed)
    actions, frames = [], [game.render()]
    for _ in range(n_steps):
        actions.append(choose(features))
        for _ in range(GAME["frame_skip"]):
            features, *_ = game.step(actions[-1])
            frames.append(game.render())
    return actions, frames


def observe(actions: list[int], seed: int = 0) -> list[np.ndarray]:
    """Return what ``FlappyBird-v0`` shows for these actions, each uint8 ``(84, 84, 1)``."""
    env = gym.make("FlappyBird-v0")
    observations = [env.reset(seed=seed)[0]]
    return observations + [env.step(action)[0] for action in actions]


class Still(gym.Env):
    """
    An environment that shows one frame.

    :param frame: uint8 ``(512, 288, 3)``
    """

    def __init__(self, frame: np.ndarray) -> None:
        self.frame = frame

    def render(self) -> Any:
        """Return the frame."""
        return self.frame


def to_gray(frame: np.ndarray) -> np.ndarray:
    """Return a frame as the environment's wrapper makes it: 84x84 by area, then gray; uint8 ``(84, 84)``."""
    return PixelObservation(Still(frame)).observe()[..., 0]


def show(axes: Axes, image: np.ndarray, title: str) -> None:
    """Draw an image's pixels as squares, with its size below."""
    gray = {"cmap": "gray", "vmin": 0, "vmax": 255} if image.ndim == 2 else {}
    axes.imshow(image, interpolation="nearest", **gray)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(" x ".join(map(str, image.shape)), fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])


def row(images: list[np.ndarray], titles: list[str]) -> Figure:
    """Return a figure of images side by side."""
    ratios = [image.shape[1] / image.shape[0] for image in images]  # so that all are equally high
    figure, axes = plt.subplots(
        1, len(images), figsize=(2.4 * sum(ratios), 2.9), dpi=DPI, layout="constrained", width_ratios=ratios
    )
    for ax, image, title in zip(axes, images, titles, strict=True):
        show(ax, image, title)
    return figure


def preprocessing() -> dict[str, Figure]:
    """Draw the way of a frame from the game to the network."""
    actions, frames = play(N_STEPS)
    *_, before, last = frames
    small = cv2.resize(last, (FRAME_SIZE, FRAME_SIZE), interpolation=cv2.INTER_AREA)
    gray = to_gray(before), to_gray(last)
    seen = observe(actions)
    assert np.array_equal(seen[-1][..., 0], np.maximum(*gray)), "the figure shows other steps than the environment takes"
    figures = {"frame": row([last, small, gray[1]], ["the game's frame", "resized by area", "gray"])}
    trail = np.maximum(*gray) - gray[1]
    figures["maximum"] = row(
        [gray[0], gray[1], np.maximum(*gray), (255 - 255.0 / trail.max() * trail).astype(np.uint8)],
        ["frame 3 of a step", "frame 4", "maximum of both", "brighter than frame 4 (dark)"],
    )
    titles = [f"step {i}: {'flap' if action == FLAP else 'nothing'}" for i, action in enumerate(actions, 1)]
    figures["observations"] = row([image[..., 0] for image in seen[-4:]], titles[-4:])
    return figures


#: The training whose curve is drawn
CARTPOLE = (
    *("train", "--algo", "ppo_jax", "--env", "CartPole-v1", "-conf", "sbx_flappy.hyperparams.ppo_flapjax", "--seed", "0"),
    *("--eval-freq", "5000", "--eval-episodes", "20", "--verbose", "0"),
)


def cartpole() -> dict[str, Figure]:
    """Draw the learning curve of CartPole with the blog's settings, from a training that runs now."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "sbx_flappy.zoo", *CARTPOLE], cwd=folder, check=True)
        run = Path(folder, "logs", "ppo_jax", "CartPole-v1_1")
        episodes = load_results(str(run))
        evaluations = np.load(run / "evaluations.npz")
        timesteps, rewards = evaluations["timesteps"], evaluations["results"].mean(axis=1)
    print(f"{episodes['l'].sum()} steps in {episodes['t'].max():.0f} s; last evaluation: {rewards[-1]:.1f}")
    figure, axes = plt.subplots(figsize=(7, 3.2), dpi=DPI, layout="constrained")
    axes.plot(episodes["l"].cumsum(), episodes["r"], ".", color="0.7", markersize=3, label="an episode of the training")
    axes.plot(timesteps, rewards, "o-", color="tab:blue", markersize=4, label="mean of 20 deterministic episodes")
    axes.set(xlabel="time steps", ylabel="reward", ylim=(0, 520), title="CartPole-v1, the blog's settings")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    return {"cartpole": figure}


class Animation:
    """
    Frames that are shown one after the other.

    :param frames: each uint8 ``(H, W, 3)``
    :param fps: frames per second
    """

    def __init__(self, frames: list[np.ndarray], fps: float) -> None:
        self.images = [Image.fromarray(frame) for frame in frames]
        self.duration = 1000 / fps

    def savefig(self, path: Path, **_: Any) -> None:
        """Write a GIF with one palette for all frames."""
        palette = self.images[len(self.images) // 2].quantize(64)
        first, *others = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in self.images)
        first.save(path, save_all=True, append_images=others, duration=self.duration, loop=0, optimize=True)


def flappy(n_steps: int = 120) -> dict[str, Animation]:
    """Film the agent that comes with the package, in upstream's game, at half the size."""
    env = gym.make("FlappyBird-v0", engine="pygame", render_mode="rgb_array")
    model = PPO.load(AGENT, safe=True)
    observation, _ = env.reset(seed=SEED)
    frames = []
    for _ in range(n_steps):
        observation, *_, info = env.step(model.predict(observation, deterministic=True)[0])
        frames.append(np.asarray(env.render())[::2, ::2])
    print(f"{info['score']} pipes in {n_steps} steps")
    return {"flappy": Animation(frames, fps=30 / GAME["frame_skip"])}


FIGURES = {"preprocessing": preprocessing, "cartpole": cartpole, "flappy": flappy}


def main() -> None:
    """Make the figures that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=FIGURES)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "images", help="folder to write to")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    for name, figure in FIGURES[args.name]().items():
        path = args.output / f"{name}.{'gif' if isinstance(figure, Animation) else 'png'}"
        figure.savefig(path, metadata={"Software": f"sbx_flappy {sbx_flappy.__version__}"})
        print(path)


if __name__ == "__main__":
    main()
