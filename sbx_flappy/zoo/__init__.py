"""
RL-Zoo with the JAX PPO, in two ways.

As a plug-in of RL-Zoo's own commands: importing this package puts the JAX PPO under "ppo", so
``python -m rl_zoo3.train --algo ppo --env FlappyBird-v0 --gym-packages sbx_flappy.zoo -conf hyperparams/ppo.yml`` trains it,
where ``--gym-packages sbx_flappy`` trains torch SB3's on the same environments.

As a command line, ``sbx-flappy`` or ``python -m sbx_flappy.zoo``: RL-Zoo's commands with the JAX PPO as "ppo_jax" next to
torch SB3's "ppo", so that both stand in one log folder and in one plot. See :mod:`sbx_flappy.zoo.cli`.
"""

from typing import Any

from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sbx_flappy.envs.registration import ENV_IDS
from sbx_flappy.envs.vec_env import FlappyVecEnv
from sbx_flappy.ppo import PPO


def register_algorithms(ppo: Any) -> None:
    """
    Put the JAX PPO under "ppo_jax" and the given one under "ppo", in the tables that all of RL-Zoo's modules share.

    :param ppo: what "ppo" names
    """
    ALGOS["ppo"] = ppo
    ALGOS["ppo_jax"] = PPO
    HYPERPARAMS_SAMPLER["ppo_jax"] = HYPERPARAMS_SAMPLER["ppo"]
    HYPERPARAMS_CONVERTER["ppo_jax"] = HYPERPARAMS_CONVERTER["ppo"]


# RL-Zoo imports --gym-packages after its parser has fixed the choices of --algo: the plug-in takes a name that is among them.
register_algorithms(ppo=PPO)


def choose_vec_env(vec_env_class: Any, env_id: str) -> Any:
    """
    Return the VecEnv of a run: FlappyVecEnv in place of ``DummyVecEnv``, RL-Zoo's default, for one of our ids.

    :param vec_env_class: RL-Zoo's choice
    :param env_id: the environment's id
    """
    return FlappyVecEnv if vec_env_class is DummyVecEnv and env_id in ENV_IDS else vec_env_class


_rl_zoos_create_envs = ExperimentManager.create_envs


def create_envs(manager: ExperimentManager, *args: Any, **kwargs: Any) -> VecEnv:
    """Create the environments of a run, see RL-Zoo's method, in the VecEnv of :func:`choose_vec_env`."""
    manager.vec_env_class = choose_vec_env(manager.vec_env_class, manager.env_name.gym_id)
    return _rl_zoos_create_envs(manager, *args, **kwargs)


ExperimentManager.create_envs = create_envs  # type: ignore[method-assign, assignment]
