"""Flappy Bird as Gymnasium environments."""

import os
from typing import TYPE_CHECKING, Any

# Without this, importing pygame prints a greeting.
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

from sbx_flappy.envs.gym_env import FlappyBirdEnv
from sbx_flappy.envs.registration import register_envs
from sbx_flappy.envs.wrappers import FlapCooldown, FrameSkip

if TYPE_CHECKING:
    from sbx_flappy.envs.vec_env import FlappyVecEnv

__all__ = ["FlapCooldown", "FlappyBirdEnv", "FlappyVecEnv", "FrameSkip", "register_envs"]


def __getattr__(name: str) -> Any:
    if name == "FlappyVecEnv":  # brings SB3 and torch, which an env alone does not need
        from sbx_flappy.envs.vec_env import FlappyVecEnv

        return FlappyVecEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
