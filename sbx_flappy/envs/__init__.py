"""Flappy Bird as Gymnasium environments."""

import os

# pygame greets whoever imports it, unless this is set before.
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

from sbx_flappy.envs.gym_env import FlappyBirdEnv
from sbx_flappy.envs.registration import register_envs
from sbx_flappy.envs.wrappers import FlapCooldown, FrameSkip

__all__ = ["FlapCooldown", "FlappyBirdEnv", "FrameSkip", "register_envs"]
