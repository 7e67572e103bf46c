"""The layers of an env: its wrappers and the env itself."""

from typing import Any

import gymnasium as gym

#: RL-Zoo's copy of a wrapper, which takes the place of gymnasium's as soon as RL-Zoo is imported
COPIES = {"rl_zoo3.gym_patches.PatchedTimeLimit": "gymnasium.wrappers.common.TimeLimit"}


def get_class_path(layer: Any) -> str:
    """Return the full name of a layer's class, gymnasium's own for RL-Zoo's copy of it."""
    path = f"{type(layer).__module__}.{type(layer).__qualname__}"
    return COPIES.get(path, path)


def get_class_name(layer: Any) -> str:
    """Return the name of a layer's class without its module, which may be ``__main__`` in one program and not in another."""
    return get_class_path(layer).rpartition(".")[2]


def get_wrappers(env: gym.Env) -> list[gym.Wrapper]:
    """Return an env's wrappers, outermost first."""
    wrappers = []
    while isinstance(env, gym.Wrapper):
        wrappers.append(env)
        env = env.env
    return wrappers
