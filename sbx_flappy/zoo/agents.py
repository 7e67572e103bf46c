"""The trained agents that come with the package, in RL-Zoo's layout: a folder of log folders ``ALGO/ENV_ID``."""

import argparse
import glob
import importlib.resources
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
from huggingface_sb3 import EnvironmentName
from rl_zoo3.utils import get_latest_run_id
from stable_baselines3 import PPO as TorchPPO

from sbx_flappy import PPO
from sbx_flappy.saving.files import is_ours

#: Where RL-Zoo's commands look for agents when they are not told
FOLDER = "rl-trained-agents"


def find_agent(algo: str, env_name: EnvironmentName) -> tuple[str, str]:
    """
    Return the folder and the algorithm under which an agent is found, where the command names no folder.

    The first of: ``rl-trained-agents`` in the working folder, the agents of this package under the same algorithm, and under
    "ppo". If there is none, RL-Zoo's default, which RL-Zoo may fill from its hub.

    :param algo: RL-Zoo's name of the algorithm
    :param env_name: RL-Zoo's form of the environment's id
    """
    installed = str(importlib.resources.files("sbx_flappy.rl_trained_agents"))
    names = [algo, "ppo"] if algo == "ppo_jax" else [algo]
    for folder in (FOLDER, installed):
        for name in names:
            if any(Path(folder, name).glob(f"{glob.escape(env_name)}_[0-9]*/*.zip")):
                return folder, name
    return FOLDER, algo


def find_model(args: argparse.Namespace, folder: str, algo: str) -> Path:
    """
    Return an agent's file, in its run's folder, as RL-Zoo's commands find it.

    :param args: ``env``, ``exp_id`` (0: the latest, -1: no folder of its own), ``load_best``, and ``load_checkpoint`` or None
    :param folder: log folder
    :param algo: RL-Zoo's name of the algorithm
    :raises ValueError: if the file does not exist
    """
    run_id = args.exp_id or get_latest_run_id(str(Path(folder, algo)), args.env)
    run = Path(folder, algo, f"{args.env}_{run_id}") if run_id > 0 else Path(folder, algo)
    steps = getattr(args, "load_checkpoint", None)
    last = f"{args.env}.zip" if steps is None else f"rl_model_{steps}_steps.zip"
    path = run / ("best_model.zip" if args.load_best else last)
    if path.is_file():
        return path
    runs = [known.name.rpartition("_")[2] for known in Path(folder, algo).glob(f"{glob.escape(args.env)}_*")]
    runs = sorted((number for number in runs if number.isdecimal()), key=int)
    known = f"the runs {', '.join(runs)}" if runs else "no run"
    raise ValueError(f"{path} does not exist. {Path(folder, algo)} has {known} of {args.env}.")


#: What is raised for arguments that the user can fix
OF_THE_USER = (ValueError, OSError, ImportError, gym.error.Error)


@contextmanager
def explaining(
    parser: argparse.ArgumentParser, what: str = "", errors: tuple[type[Exception], ...] = OF_THE_USER
) -> Iterator[None]:
    """
    Let an error that the user can fix end the command with its message.

    :param parser: the command's
    :param what: what the block does, for the message
    :param errors: the types of these errors
    :raises SystemExit: with 2
    """
    try:
        yield
    except errors as e:
        parser.error(f"{what}{e or type(e).__name__}")


class EitherPPO:
    """What "ppo" names where agents are played: this package's PPO for its own files, torch SB3's for all others."""

    @staticmethod
    def load(path: str | Path, *args: Any, **kwargs: Any) -> Any:
        """Return the model of a file, see ``PPO.load``."""
        return (PPO if is_ours(path) else TorchPPO).load(path, *args, **kwargs)
