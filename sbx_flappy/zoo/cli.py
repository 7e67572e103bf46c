"""The command line ``sbx-flappy``: RL-Zoo's commands and this package's own."""

import argparse
import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import rl_zoo3.train
from huggingface_sb3 import EnvironmentName
from stable_baselines3 import PPO as TorchPPO

from sbx_flappy.envs.window import NoDisplayError
from sbx_flappy.report import report
from sbx_flappy.zoo import register_algorithms
from sbx_flappy.zoo.agents import FOLDER, EitherPPO, find_agent
from sbx_flappy.zoo.demo import DemoManager
from sbx_flappy.zoo.evaluation import evaluate
from sbx_flappy.zoo.exp_manager import SettingsManager
from sbx_flappy.zoo.export import export

PROG = "sbx-flappy"


def run_script(command: str, arguments: list[str]) -> None:
    """Run one of RL-Zoo's commands. Its scripts read ``sys.argv`` themselves; the plots are imported only when asked for."""
    sys.argv = [f"{PROG} {command}", *arguments]
    if command == "record_video":
        # It has no function to call and no --gym-packages: run in this process, it sees our environments and algorithms.
        runpy.run_module("rl_zoo3.record_video", run_name="__main__")
    else:
        module = "rl_zoo3.plots" if "plot" in command else f"rl_zoo3.{command}"
        getattr(importlib.import_module(module), command)()


def name_agent(command: str, arguments: list[str]) -> list[str]:
    """
    Return a command's arguments with the folder in which a trained agent lies, where they name none.

    :param command: one that plays an agent
    :param arguments: of the command line
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-f", "--folder")
    parser.add_argument("-o", "--output-folder")
    parser.add_argument("--algo", default="ppo")
    parser.add_argument("--env", default="CartPole-v1", type=EnvironmentName)
    args, _ = parser.parse_known_args(arguments)
    if args.folder is not None:
        return arguments
    folder, algo = find_agent(args.algo, args.env)
    videos = ["-o", "videos"] if command == "record_video" and args.output_folder is None and folder != FOLDER else []
    return [*arguments, "-f", folder, "--algo", algo, *videos]


def demo(arguments: list[str]) -> None:
    """Train the JAX PPO, print its score before and after, record a video, and say where all of it lies."""
    parser = argparse.ArgumentParser(
        prog=f"{PROG} demo",
        description="Train the JAX PPO, print its score before and after, and film it. Further options go to train.",
    )
    parser.add_argument("--env", default="FlappyBird-v0", help="environment ID")
    parser.add_argument("-f", "--log-folder", default="logs", help="Log folder")
    parser.add_argument("-tb", "--tensorboard-log", help="Tensorboard log dir (default: tensorboard in the log folder)")
    parser.add_argument("--video-length", default="500", help="Length of the video, in timesteps")
    args, others = parser.parse_known_args(arguments)
    agent = ["--algo", "ppo_jax", "--env", args.env, "-f", args.log_folder]
    tensorboard = args.tensorboard_log or str(Path(args.log_folder, "tensorboard"))
    runs: list[DemoManager] = []

    def start(*others: Any, **kwargs: Any) -> DemoManager:
        runs.append(DemoManager(*others, **kwargs))
        return runs[-1]

    rl_zoo3.train.ExperimentManager = start  # type: ignore[assignment, attr-defined]
    run_script("train", [*agent, "-tb", tensorboard, "--eval-freq", "-1", *others])
    folder = Path(runs[0].save_path)
    if runs[0].after is None:  # the training was interrupted, and has said how it goes on
        return
    run_script("record_video", [*agent, "--exp-id", folder.name.rpartition("_")[2], "-n", args.video_length, "--no-render"])

    print(f"\nBefore training: {runs[0].before}\nAfter training:  {runs[0].after}")
    print(f"Model:           {folder / args.env}.zip\nTensorBoard:     {tensorboard}")
    print(*(f"Video:           {video}" for video in sorted(folder.glob("videos/*"))), sep="\n")


COMMANDS = {
    "train": "train an agent, resume it (-i) or search for settings (-optimize)",
    "enjoy": "watch a trained agent",
    "record_video": "film a trained agent",
    "evaluate": "measure the score of a trained agent over many episodes",
    "plot_train": "plot the reward during training",
    "all_plots": "plot the evaluations of several algorithms and print their table",
    "plot_from_file": "plot what all_plots saved, of two runs or more per algorithm",
    "export": "write a trained agent for torch SB3 or as an ONNX file",
    "report": "write a page of a training run, or of several side by side",
    "demo": "train the JAX PPO, print its score before and after, and film it",
}


def main() -> None:
    """The command line ``sbx-flappy``."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="RL-Zoo's commands with the JAX PPO: --algo ppo_jax; --algo ppo is torch SB3's.",
        epilog=f"Each command has its own help: {PROG} train --help",
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, description in COMMANDS.items():
        commands.add_parser(name, help=description, add_help=False)
    command = parser.parse_args(sys.argv[1:2]).command
    arguments = sys.argv[2:]
    plays = command in ("enjoy", "record_video", "evaluate")
    register_algorithms(ppo=EitherPPO if plays else TorchPPO)
    rl_zoo3.train.ExperimentManager = SettingsManager  # type: ignore[attr-defined]
    if command == "demo":
        demo(arguments)
    elif command == "evaluate":
        evaluate(arguments, f"{PROG} evaluate")
    elif command == "export":
        export(arguments, f"{PROG} export")
    elif plays:
        try:
            run_script(command, name_agent(command, arguments))
        except NoDisplayError as e:
            raise SystemExit(f"{PROG} {command}: error: {e}") from None
    elif command == "report":
        report(arguments, f"{PROG} report")
    else:
        run_script(command, arguments)
