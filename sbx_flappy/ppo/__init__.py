"""Proximal Policy Optimization."""

from sbx_flappy.ppo.policies import CnnPolicy, MlpPolicy, MultiInputPolicy
from sbx_flappy.ppo.ppo import PPO

__all__ = ["PPO", "CnnPolicy", "MlpPolicy", "MultiInputPolicy"]
