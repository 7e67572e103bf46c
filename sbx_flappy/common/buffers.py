"""Rollout buffers: SB3's, with advantages by a compiled program, and how an update reads them."""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common import buffers as sb3_buffers

from sbx_flappy.common import programs
from sbx_flappy.common.arrays import to_host
from sbx_flappy.functional.types import Rollout


class RolloutBuffer(sb3_buffers.RolloutBuffer):
    """
    SB3's rollout buffer, in NumPy arrays ``[n_steps, n_envs, ...]`` that keep the dtype of the observations.

    Advantages and returns come from one compiled program instead of a loop in Python.
    """

    def compute_returns_and_advantage(self, last_values: th.Tensor | np.ndarray, dones: np.ndarray) -> None:
        """
        Fill ``advantages`` and ``returns``, see ``functional.gae``.

        :param last_values: values of the observations after the last step, ``[n_envs]`` or ``[n_envs, 1]``
        :param dones: whether the last step ended an episode, ``[n_envs]``
        """
        last_values = np.asarray(to_host(last_values), np.float32).reshape(-1)
        dones = np.asarray(dones, np.float32)
        results = programs.gae(
            self.rewards, self.values, self.episode_starts, last_values, dones, float(self.gamma), float(self.gae_lambda)
        )
        self.advantages, self.returns = (np.array(result) for result in results)


class DictRolloutBuffer(RolloutBuffer, sb3_buffers.DictRolloutBuffer):
    """The same for dictionaries of observations."""


#: SB3's own classes and those that do the same here
BUFFERS = {
    sb3_buffers.RolloutBuffer: RolloutBuffer,
    sb3_buffers.DictRolloutBuffer: DictRolloutBuffer,
}


def buffer_class_for(observation_space: spaces.Space, rollout_buffer_class: Any) -> Any:
    """
    Return the class of the rollout buffer.

    :param observation_space: the environment's
    :param rollout_buffer_class: the user's choice, or None
    :raises TypeError: if that is not a rollout buffer
    """
    if rollout_buffer_class is None:
        return DictRolloutBuffer if isinstance(observation_space, spaces.Dict) else RolloutBuffer
    if not (isinstance(rollout_buffer_class, type) and issubclass(rollout_buffer_class, sb3_buffers.RolloutBuffer)):
        raise TypeError(f"`rollout_buffer_class` must be a subclass of SB3's RolloutBuffer, got {rollout_buffer_class!r}.")
    return BUFFERS.get(rollout_buffer_class, rollout_buffer_class)


def samples_as_sb3(buffer: sb3_buffers.RolloutBuffer) -> bool:
    """Return whether a buffer's minibatches are plain samples of its arrays, so that an update may read those at once."""
    standard = (sb3_buffers.RolloutBuffer, sb3_buffers.DictRolloutBuffer)
    same = [[getattr(type(buffer), name) is getattr(cls, name) for name in ("get", "_get_samples")] for cls in standard]
    return any(all(row) for row in same)


def to_rollout(source: Any, action_space: spaces.Space) -> Rollout:
    """
    Return the arrays of a buffer, or of one of its samples, flattened.

    :param source: a buffer or ``RolloutBufferSamples``
    :param action_space: the environment's
    """
    is_buffer = isinstance(source, sb3_buffers.RolloutBuffer)
    names = ("values", "log_probs") if is_buffer else ("old_values", "old_log_prob")
    n_leading = 2 if is_buffer and not source.generator_ready else 1

    def flatten(array: Any) -> np.ndarray:
        array = np.asarray(to_host(array))
        return array.reshape(-1, *array.shape[n_leading:])

    observations = source.observations
    if isinstance(observations, dict):
        observations = {key: flatten(value) for key, value in observations.items()}
    else:
        observations = flatten(observations)
    actions = flatten(source.actions)
    if isinstance(action_space, spaces.Discrete):
        actions = actions.reshape(-1)
    vectors = (getattr(source, name) for name in (*names, "advantages", "returns"))
    return Rollout(observations, actions, *(flatten(vector).reshape(-1) for vector in vectors))


def draw_order(buffer: sb3_buffers.RolloutBuffer) -> np.ndarray:
    """
    Return the order of the samples in an epoch, int32 ``[n_steps * n_envs]``, as indices into :func:`to_rollout`.

    It is the order in which SB3's buffer would give them, from the same generator.

    :param buffer: a full buffer
    """
    order = np.random.permutation(buffer.buffer_size * buffer.n_envs)
    if not buffer.generator_ready:  # SB3 counts along time first, the arrays along environments
        order = (order % buffer.buffer_size) * buffer.n_envs + order // buffer.buffer_size
    return order.astype(np.int32)
