"""Resuming: all that a training needs, besides the model itself, to go on as if it had never stopped."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm

from sbx_flappy.saving.env_state import get_env_state, set_env_state
from sbx_flappy.saving.layer_state import State, copy_plain

VERSION = 1
#: The model's counters, and what it keeps of the environment from one iteration to the next
ATTRIBUTES = (
    *("num_timesteps", "_total_timesteps", "_num_timesteps_at_start", "_episode_num", "_n_updates"),
    *("_current_progress_remaining", "_last_obs", "_last_episode_starts", "_last_original_obs"),
    *("ep_info_buffer", "ep_success_buffer"),
)


def get_generator_states() -> State:
    """Return the states of the global generators: Python's, NumPy's and torch's, from which JAX's keys are drawn."""
    return {"python": random.getstate(), "numpy": np.random.get_state(), "torch": th.get_rng_state().numpy()}


def set_generator_states(states: State) -> None:
    """
    Let the global generators go on from these states.

    :param states: what :func:`get_generator_states` returned
    :raises ValueError: if they are damaged
    """
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    if not 0 <= states["numpy"][2] <= 624:  # NumPy trusts it
        raise ValueError("The state of NumPy's generator is damaged.")
    np.random.set_state(tuple(states["numpy"]))
    th.set_rng_state(th.from_numpy(np.array(states["torch"], np.uint8)))


class Resumption:
    """
    The point at which a training can be resumed.

    A state can be taken, and gone back to, between two iterations only. An algorithm tells its object when an iteration begins
    (:meth:`begin_rollout`) and ends (:meth:`end_iteration`), and lets ``learn`` set itself up within :meth:`continuing`.
    """

    def __init__(self) -> None:
        #: The state that the next ``learn`` goes on from
        self.pending: State | None = None
        #: Whether an iteration has begun and its update has not ended
        self.is_within_iteration = False
        # States of the global generators with which the next iteration begins, where they are not the current ones
        self._generators: State | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the next ``learn(..., reset_num_timesteps=False)`` goes on where the training was saved."""
        return self.pending is not None

    def drop(self, reason: str = "", verbose: int = 0) -> None:
        """
        Let the next ``learn`` start from a reset environment.

        :param reason: for the message; without a reason, nothing is printed
        :param verbose: the model's verbosity level: 0 for no message
        """
        if self.is_pending and verbose >= 1 and reason:
            print(f"The training does not resume where it was saved: {reason}.")
        self.pending = None

    @contextmanager
    def continuing(self, model: BaseAlgorithm) -> Iterator[None]:
        """
        Enclose the set-up of ``learn``, so that the training goes on from the pending state, if there is one.

        :param model: its parameters and optimizer are those of the same moment
        :raises ValueError: if the state is of another version of this package, or of another environment
        """
        state, self._generators, self.is_within_iteration = self.pending, None, False
        if state is not None:
            _restore(model, state)
        yield
        if state is not None:
            model.start_time = time.time_ns() - int(state["elapsed"] * 1e9)
            model._num_timesteps_at_start = state["attributes"]["_num_timesteps_at_start"]
            self._generators, self.pending = state["generators"], None

    @contextmanager
    def begin_rollout(self) -> Iterator[None]:
        """
        Enclose what happens at the beginning of a rollout, before its first step.

        Within it a state can still be taken. The state has the generators as they are on entering, even if random numbers are
        drawn before the state is taken.
        """
        if self._generators is not None:
            set_generator_states(self._generators)
        self._generators = get_generator_states()
        yield
        self._generators, self.is_within_iteration = None, True

    def end_iteration(self) -> None:
        """Note that the update has ended, or that no update follows."""
        self.is_within_iteration = False

    def get_state(self, model: BaseAlgorithm) -> State:
        """
        Return the state of a training, plain containers and arrays.

        :param model: the model that trains
        :raises ValueError: within an iteration, before any training, or if the environment's state cannot be saved
        """
        if self.pending is not None:
            return self.pending
        if self.is_within_iteration:
            raise ValueError(
                "A training can only be resumed between two iterations, and this one is within an iteration: save with "
                "sbx_flappy.common.callbacks.ResumableCheckpointCallback, or after `learn`."
            )
        if model.env is None or model._last_obs is None:
            raise ValueError("There is no training to resume yet: call `learn` first.")
        return {
            "version": VERSION,
            "attributes": {name: copy_plain(getattr(model, name), f"`{name}`") for name in ATTRIBUTES},
            "elapsed": (time.time_ns() - model.start_time) / 1e9,
            "generators": self._generators or get_generator_states(),
            "action_space": copy_plain(model.action_space._np_random, "`action_space`"),
            "env": get_env_state(model.env),
        }

    def rewind(self, model: BaseAlgorithm, state: State) -> None:
        """
        Go back to the beginning of an iteration that was interrupted before its update.

        ``learn(..., reset_num_timesteps=False)`` and ``save(..., resumable=True)`` go on from there.

        :param model: the model that trains
        :param state: of :meth:`get_state`, from the iteration's beginning
        """
        _restore(model, state)
        self.pending, self.is_within_iteration = state, False


def _restore(model: BaseAlgorithm, state: State) -> None:
    """
    Set the state of a model's environment, its counters and its buffers.

    :raises ValueError: if the state is of another environment, or of another version of this package
    """
    assert model.env is not None
    set_env_state(model.env, state["env"])
    if state.get("version") != VERSION:
        raise ValueError(f"The saved training has version {state.get('version')}, but this package reads version {VERSION}.")
    for name in ATTRIBUTES:
        setattr(model, name, copy_plain(state["attributes"][name], f"`{name}`"))
    model.action_space._np_random = copy_plain(state["action_space"], "`action_space`")
