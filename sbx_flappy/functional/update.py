"""The update of PPO: minibatch steps, in one compiled loop or one by one."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from sbx_flappy.functional.losses import ppo_loss
from sbx_flappy.functional.networks import ActorCritic
from sbx_flappy.functional.types import KL_EXCEEDED, NOT_FINITE, RUNNING, LossCoefficients, Metrics, PyTree, Rollout, Variables


class TrainState(NamedTuple):
    """
    What an update changes.

    :param variables: the network's parameters and its other variables
    :param opt_state: the optimizer's state
    :param status: int32, RUNNING or why all further steps leave the others as they are
    :param key: for a network with a training mode (see ``networks.takes_train``), None for all others
    """

    variables: Variables
    opt_state: PyTree
    status: jax.Array
    key: jax.Array | None = None


def clip_grad_norm(gradients: PyTree, max_norm: float | jax.Array) -> tuple[PyTree, jax.Array]:
    """
    Scale gradients down to a global norm, with torch's arithmetic.

    :param gradients: any nest of arrays
    :param max_norm: the largest norm allowed
    :return: the gradients and their norm before
    """
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in jax.tree.leaves(gradients)))
    scale = jnp.minimum(max_norm / (norm + 1e-6), 1.0)
    return jax.tree.map(lambda gradient: gradient * scale, gradients), norm


def minibatch_step(
    state: TrainState,
    batch: Rollout,
    network: ActorCritic,
    optimizer: optax.GradientTransformation,
    coefficients: LossCoefficients,
    normalize_advantage: bool,
) -> tuple[TrainState, Metrics]:
    """
    Take one optimizer step, unless the KL divergence or a number that is not finite forbids it and all that follow.

    :param state: parameters and optimizer
    :param batch: a minibatch
    :param network: actor and critic
    :param optimizer: any optax transformation
    :param coefficients: weights and clip ranges
    :param normalize_advantage: see :func:`ppo_loss`
    """
    key, step_key = (None, None) if state.key is None else jax.random.split(state.key)
    loss = functools.partial(
        ppo_loss, network=network, batch=batch, coefficients=coefficients, normalize_advantage=normalize_advantage
    )
    params, network_state = state.variables
    gradients, (metrics, new_network_state) = jax.grad(loss, has_aux=True)(params, network_state, step_key)
    gradients, norm = clip_grad_norm(gradients, coefficients.max_grad_norm)
    status = jnp.where(jnp.isfinite(metrics.loss) & jnp.isfinite(norm), RUNNING, NOT_FINITE)
    if coefficients.target_kl is not None:
        status = jnp.where(metrics.approx_kl > 1.5 * coefficients.target_kl, KL_EXCEEDED, status)
    status = jnp.where(state.status == RUNNING, status, state.status)

    def step(params: PyTree, opt_state: PyTree) -> tuple[PyTree, PyTree]:
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    params, opt_state = jax.lax.cond(
        status == RUNNING, step, lambda params, opt_state: (params, opt_state), params, state.opt_state
    )
    # torch's layers have noted the minibatch by the time at which its KL divergence is found too large
    noted = (state.status == RUNNING) & (status != NOT_FINITE)
    network_state = jax.tree.map(lambda new, old: jnp.where(noted, new, old), new_network_state, network_state)
    return TrainState(Variables(params, network_state), opt_state, status, key), metrics._replace(status=status)


def take(rollout: Rollout, indices: jax.Array) -> Rollout:
    """Return the minibatch at ``indices``, int32 ``[B]``, of a rollout."""
    return jax.tree.map(lambda leaf: leaf[indices], rollout)


def scan_update(
    state: TrainState, rollout: Rollout, order: jax.Array, batch_size: int, step: Callable[..., tuple[TrainState, Metrics]]
) -> tuple[TrainState, Metrics]:
    """
    Take all the minibatch steps of an update in one compiled loop.

    :param state: parameters and optimizer
    :param rollout: the whole rollout
    :param order: the samples' order in each epoch, int32 ``[n_epochs, T * N]``
    :param batch_size: B; a last, smaller minibatch holds the rest
    :param step: :func:`minibatch_step` with everything but state and minibatch bound
    :return: the new state and the metrics of all steps, ``[n_epochs, n_minibatches]``
    """
    n_full = order.shape[1] // batch_size

    def run(state: TrainState, indices: jax.Array) -> tuple[TrainState, Metrics]:
        return step(state, take(rollout, indices))

    def skip(state: TrainState, indices: jax.Array) -> tuple[TrainState, Metrics]:
        nothing = dict.fromkeys(Metrics._fields, jnp.float32(0.0))
        return state, Metrics(**{**nothing, "status": state.status})

    def minibatch(state: TrainState, indices: jax.Array) -> tuple[TrainState, Metrics]:
        return jax.lax.cond(state.status == RUNNING, run, skip, state, indices)

    def epoch(state: TrainState, indices: jax.Array) -> tuple[TrainState, Metrics]:
        full = indices[: n_full * batch_size].reshape(n_full, batch_size)
        state, metrics = jax.lax.scan(minibatch, state, full)
        if indices.shape[0] > full.size:
            state, last = minibatch(state, indices[full.size :])
            metrics = jax.tree.map(lambda many, one: jnp.append(many, one), metrics, last)
        return state, metrics

    return jax.lax.scan(epoch, state, order)


def set_learning_rate(opt_state: Any, learning_rate: float | jax.Array) -> Any:
    """Return the state of an optimizer made with ``optax.inject_hyperparams``, with another learning rate."""
    hyperparams = {**opt_state.hyperparams, "learning_rate": jnp.asarray(learning_rate, jnp.float32)}
    return opt_state._replace(hyperparams=hyperparams)
