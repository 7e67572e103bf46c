"""All that a training needs, besides the model itself, to go on as if it had never stopped."""

import random
import time
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sbx_flappy.saving.env_state import copy_plain, get_env_state

State = dict[str, Any]

VERSION = 1
#: The model's counters, and what it keeps of the environment from one iteration to the next
ATTRIBUTES = (
    *("num_timesteps", "_total_timesteps", "_num_timesteps_at_start", "_episode_num", "_n_updates"),
    *("_current_progress_remaining", "_last_obs", "_last_episode_starts", "_last_original_obs"),
    *("ep_info_buffer", "ep_success_buffer"),
)


def generator_states() -> State:
    """Return the states of the global generators: Python's, NumPy's and torch's, from which JAX's keys are drawn."""
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": th.get_rng_state().numpy()}


def set_generator_states(states: State) -> None:
    """
    Let the global generators go on from these states.

    :param states: what :func:`generator_states` returned
    """
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    if not 0 <= states["numpy"][2] <= 624:  # NumPy trusts it
        raise ValueError("The state of NumPy's generator is damaged.")
    np.random.set_state(tuple(states["numpy"]))
    th.set_rng_state(th.from_numpy(np.array(states["torch"], np.uint8)))


def take(model: OnPolicyAlgorithm, generators: State) -> State:
    """
    Return the state of a training between two iterations.

    :param model: it has been trained before
    :param generators: the states of the global generators when the next iteration begins
    :raises ValueError: if the environment's state cannot be saved
    """
    assert model.env is not None
    return {
        "version": VERSION,
        "attributes": {name: copy_plain(getattr(model, name), f"`{name}`") for name in ATTRIBUTES},
        "elapsed": (time.time_ns() - model.start_time) / 1e9,
        "generators": generators,
        "action_space": _own_generator(model.action_space),
        "env": get_env_state(model.env),
    }


def put_back(model: OnPolicyAlgorithm, state: State) -> None:
    """
    Set a model's counters and buffers.

    :param model: the model, parameters and optimizer of which are those of the same moment
    :param state: what :func:`take` returned
    :raises ValueError: if it was saved by another version of this package
    """
    if state.get("version") != VERSION:
        raise ValueError(f"The state for going on is of version {state.get('version')}, this package reads {VERSION}.")
    for name in ATTRIBUTES:
        setattr(model, name, copy_plain(state["attributes"][name], f"`{name}`"))
    model.action_space._np_random = copy_plain(state["action_space"], "`action_space`")


def _own_generator(space: spaces.Space) -> np.random.Generator | None:
    return copy_plain(space._np_random, "`action_space`")
