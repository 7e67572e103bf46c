"""The command line ``sbx-flappy``: RL-Zoo's commands and this package's own."""

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

from stable_baselines3 import PPO as TorchPPO

from sbx_flappy.report import report
from sbx_flappy.zoo import register_algorithms
from sbx_flappy.zoo.agents import EitherPPO
from sbx_flappy.zoo.demo import demo
from sbx_flappy.zoo.evaluation import evaluate
from sbx_flappy.zoo.export import export
from sbx_flappy.zoo.scripts import play, run_script, train

PROG = "sbx-flappy"


class Command(NamedTuple):
    """
    A subcommand.

    :param help: what it does, for the list of commands
    :param run: takes the rest of the command line and the command's name
    :param plays: whether it plays trained agents, so that "ppo" names this package's as well as torch SB3's
    """

    help: str
    run: Callable[[list[str], str], None]
    plays: bool = False


COMMANDS = {
    "train": Command("train an agent, resume it (-i) or search for settings (-optimize)", train),
    "enjoy": Command("watch a trained agent", play, plays=True),
    "record_video": Command("film a trained agent", play, plays=True),
    "evaluate": Command("measure the score of a trained agent over many episodes", evaluate, plays=True),
    "plot_train": Command("plot the reward during training", run_script),
    "all_plots": Command("plot the evaluations of several algorithms and print their table", run_script),
    "plot_from_file": Command("plot what all_plots saved, of two runs or more per algorithm", run_script),
    "export": Command("write a trained agent for torch SB3 or as an ONNX file", export),
    "report": Command("write a page of a training run, or of several side by side", report),
    "demo": Command("train the JAX PPO, print its score before and after, and film it", demo),
}


def main() -> None:
    """Run the subcommand that the command line names."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="RL-Zoo's commands with the JAX PPO: --algo ppo_jax; --algo ppo is torch SB3's.",
        epilog=f"Each command has its own help: {PROG} train --help",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, command in COMMANDS.items():
        subparsers.add_parser(name, help=command.help, add_help=False)
    name = parser.parse_args(sys.argv[1:2]).command
    register_algorithms(ppo=EitherPPO if COMMANDS[name].plays else TorchPPO)
    COMMANDS[name].run(sys.argv[2:], f"{PROG} {name}")
