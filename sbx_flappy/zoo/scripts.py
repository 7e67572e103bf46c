"""RL-Zoo's own commands, run in this process so that they see this package's environments, algorithms and agents."""

import argparse
import importlib
import runpy
import sys
from typing import Any, TypeVar

import rl_zoo3.train
from huggingface_sb3 import EnvironmentName
from rl_zoo3.exp_manager import ExperimentManager

from sbx_flappy.envs.window import NoDisplayError
from sbx_flappy.zoo.agents import FOLDER, find_agent
from sbx_flappy.zoo.exp_manager import SettingsManager

Manager = TypeVar("Manager", bound=ExperimentManager)


def run_script(arguments: list[str], prog: str) -> None:
    """
    Run one of RL-Zoo's commands, which read ``sys.argv`` themselves.

    :param arguments: of the command line
    :param prog: the command's name, for its help; its last word is RL-Zoo's name of the command
    """
    command = prog.split()[-1]
    sys.argv = [prog, *arguments]
    if command == "record_video":  # it has no function to call
        runpy.run_module("rl_zoo3.record_video", run_name="__main__")
    else:
        module = "rl_zoo3.plots" if "plot" in command else f"rl_zoo3.{command}"  # plots are slow to import
        getattr(importlib.import_module(module), command)()


def run_training(arguments: list[str], prog: str, manager_class: type[Manager]) -> Manager:
    """
    Run RL-Zoo's ``train`` with a manager of one's own, and return that manager.

    :param arguments: of the command line
    :param prog: the command's name, for its help
    :param manager_class: what takes the place of RL-Zoo's ``ExperimentManager``
    """
    managers: list[Manager] = []

    def make_manager(*args: Any, **kwargs: Any) -> Manager:
        managers.append(manager_class(*args, **kwargs))
        return managers[-1]

    rl_zoo3.train.ExperimentManager = make_manager  # type: ignore[assignment, attr-defined]
    run_script(arguments, prog)
    return managers[-1]


def train(arguments: list[str], prog: str) -> None:
    """
    Train, resume or search for settings, with this package's settings where the command names none.

    :param arguments: of the command line
    :param prog: the command's name, for its help
    """
    run_training(arguments, prog, SettingsManager)


def play(arguments: list[str], prog: str) -> None:
    """
    Run a command that plays a trained agent: one of this package's where the command names no folder.

    :param arguments: of the command line
    :param prog: the command's name, for its help
    :raises SystemExit: with a message, if there is no display to show the game on
    """
    try:
        run_script(name_agent(arguments, records=prog.endswith("record_video")), prog)
    except NoDisplayError as e:
        raise SystemExit(f"{prog}: error: {e}") from None


def name_agent(arguments: list[str], records: bool) -> list[str]:
    """
    Return a command's arguments, with the folder of a trained agent where they name none.

    :param arguments: of the command line of one that plays an agent
    :param records: whether it writes a video, which does not go into the folder of an installed agent
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
    videos = ["-o", "videos"] if records and args.output_folder is None and folder != FOLDER else []
    return [*arguments, "-f", folder, "--algo", algo, *videos]
