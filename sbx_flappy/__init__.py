"""
PPO in JAX that is Stable-Baselines3's PPO in everything a user sees, and Flappy Bird as a Gymnasium environment.

Importing the package registers the environments. The rest is imported when it is first asked for, so that the worker
processes of a ``SubprocVecEnv``, which only play, start without JAX.
"""

from typing import TYPE_CHECKING, Any

from sbx_flappy.envs.registration import register_envs
from sbx_flappy.saving.moved import find_moved_modules

if TYPE_CHECKING:
    from sbx_flappy.common.flapjax_extractors import FlapJaxCNN, FlapJaxMlp
    from sbx_flappy.envs.vec_env import FlappyVecEnv
    from sbx_flappy.ppo import PPO

__version__ = "0.1.0"
__all__ = ["PPO", "FlapJaxCNN", "FlapJaxMlp", "FlappyVecEnv", "__version__"]

find_moved_modules()
register_envs()


def __getattr__(name: str) -> Any:
    if name == "PPO":
        from sbx_flappy.ppo import PPO

        return PPO
    if name == "FlappyVecEnv":
        from sbx_flappy.envs.vec_env import FlappyVecEnv

        return FlappyVecEnv
    if name in ("FlapJaxCNN", "FlapJaxMlp"):
        from sbx_flappy.common import flapjax_extractors

        return getattr(flapjax_extractors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
