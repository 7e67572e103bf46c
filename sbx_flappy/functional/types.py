"""Containers of arrays that the pure core passes around. T is time, N environments, B a minibatch."""

from typing import Any, NamedTuple

import jax
import numpy as np

#: Any nest of arrays: a network's parameters, an optimizer's state, a dictionary of observations
PyTree = Any
#: On the device, or on the host on its way there or back
Array = jax.Array | np.ndarray


class Variables(NamedTuple):
    """
    All that a network's layers keep.

    :param params: the parameters, which learn
    :param state: Flax's other collections by name, such as the running averages of ``flax.linen.BatchNorm``
    """

    params: PyTree
    state: PyTree


class Rollout(NamedTuple):
    """
    What an update needs of a rollout, flattened over time and environments (or a minibatch of it).

    :param observations: ``[T * N, ...]``, any dtype, or a dictionary of such arrays
    :param actions: ``[T * N]`` int for one discrete action, otherwise ``[T * N, A]``
    :param old_values: float32 ``[T * N]``
    :param old_log_probs: float32 ``[T * N]``
    :param advantages: float32 ``[T * N]``
    :param returns: float32 ``[T * N]``
    """

    observations: PyTree
    actions: Array
    old_values: Array
    old_log_probs: Array
    advantages: Array
    returns: Array


class LossCoefficients(NamedTuple):
    """
    The numbers of PPO's loss and step that may change from one update to the next, with SB3's names.

    They are traced, so that a schedule never compiles anything again; ``None`` switches a term off.
    """

    clip_range: float
    clip_range_vf: float | None
    ent_coef: float
    vf_coef: float
    max_grad_norm: float
    target_kl: float | None


#: Whether an update goes on: values of ``Metrics.status`` and ``TrainState.status``
RUNNING, KL_EXCEEDED, NOT_FINITE = 0, 1, 2


class Metrics(NamedTuple):
    """
    What one minibatch reports: float32 scalars, or arrays ``[n_epochs, n_minibatches]`` of a whole update.

    :param status: int32, the status of :class:`~sbx_flappy.functional.update.TrainState` after the step
    """

    policy_gradient_loss: Array
    value_loss: Array
    entropy_loss: Array
    clip_fraction: Array
    approx_kl: Array
    loss: Array
    status: Array


class ExplorationNoise(NamedTuple):
    """
    The noise matrices of generalized State-Dependent Exploration, https://arxiv.org/abs/2005.05719.

    :param matrix: float32 ``[L, A]`` for a batch of another size than the number of environments
    :param matrices: float32 ``[N, L, A]``, one per environment
    """

    matrix: Array
    matrices: Array
