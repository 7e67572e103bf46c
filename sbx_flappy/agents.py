"""The trained agents that come with the package, in RL-Zoo's layout: a folder of log folders ``ALGO/ENV_ID``."""

import importlib.resources
import os
from typing import Any

from huggingface_sb3 import EnvironmentName
from rl_zoo3.utils import get_latest_run_id
from stable_baselines3 import PPO as TorchPPO

from sbx_flappy import PPO
from sbx_flappy.common.files import is_ours

#: Where RL-Zoo's commands look for agents when they are not told
FOLDER = "rl-trained-agents"


def find_agent(algo: str, env_name: EnvironmentName) -> tuple[str, str]:
    """
    Return the folder and the algorithm under which an agent is found that the command does not say the folder of.

    The first of: ``rl-trained-agents`` in the working folder, the agents of this package under the same algorithm, and under
    "ppo". If there is none, RL-Zoo's default, which RL-Zoo may fill from its hub.

    :param algo: RL-Zoo's name of the algorithm
    :param env_name: RL-Zoo's form of the environment's id
    """
    installed = str(importlib.resources.files("sbx_flappy.rl_trained_agents"))
    names = [algo, "ppo"] if algo == "ppo_jax" else [algo]
    for folder in (FOLDER, installed):
        for name in names:
            if get_latest_run_id(os.path.join(folder, name), env_name):
                return folder, name
    return FOLDER, algo


class EitherPPO:
    """What "ppo" names where agents are played: this package's PPO for its own files, torch SB3's for all others."""

    @staticmethod
    def load(path: str, *args: Any, **kwargs: Any) -> Any:
        """Return the model of a file, see ``PPO.load``."""
        return (PPO if is_ours(path) else TorchPPO).load(path, *args, **kwargs)
