"""Optimizers with torch's arithmetic, where that of optax differs."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from sbx_flappy.functional.types import PyTree


class AmsgradState(NamedTuple):
    """
    State of :func:`scale_by_amsgrad`, with optax's names.

    :param count: int32, steps so far
    :param mu: first moments
    :param nu: second moments
    :param nu_max: the largest second moments so far
    """

    count: jax.Array  # type: ignore[assignment]
    mu: PyTree
    nu: PyTree
    nu_max: PyTree


def scale_by_amsgrad(b1: float, b2: float, eps: float) -> optax.GradientTransformation:
    """
    Scale gradients as AMSGrad does, https://openreview.net/forum?id=ryQu7f-RZ.

    As in torch, the largest moment is found before the bias is corrected; optax finds it afterwards.

    :param b1: decay of the first moment
    :param b2: decay of the second moment
    :param eps: added to the denominator
    """

    def init(params: PyTree) -> AmsgradState:
        mu, nu, nu_max = (jax.tree.map(jnp.zeros_like, params) for _ in range(3))
        return AmsgradState(jnp.zeros([], jnp.int32), mu, nu, nu_max)

    def update(gradients: PyTree, state: AmsgradState, params: PyTree | None = None) -> tuple[PyTree, AmsgradState]:
        count = state.count + 1
        mu = jax.tree.map(lambda m, g: b1 * m + (1.0 - b1) * g, state.mu, gradients)
        nu = jax.tree.map(lambda n, g: b2 * n + (1.0 - b2) * g * g, state.nu, gradients)
        nu_max = jax.tree.map(jnp.maximum, state.nu_max, nu)
        first, second = 1.0 - b1**count, jnp.sqrt(1.0 - b2**count)
        updates = jax.tree.map(lambda m, n: (m / first) / (jnp.sqrt(n) / second + eps), mu, nu_max)
        return updates, AmsgradState(count, mu, nu, nu_max)

    return optax.GradientTransformation(init, update)


def adam(
    learning_rate: Any, b1: float, b2: float, eps: float, weight_decay: float = 0.0, amsgrad: bool = False
) -> optax.GradientTransformation:
    """
    Return torch's Adam, whose ``weight_decay`` is added to the gradient (AdamW's is not).

    :param learning_rate: step size
    :param b1: decay of the first moment
    :param b2: decay of the second moment
    :param eps: added to the denominator
    :param weight_decay: share of the parameters that is added to the gradient
    :param amsgrad: whether the largest second moment so far counts
    """
    scale = scale_by_amsgrad(b1, b2, eps) if amsgrad else optax.scale_by_adam(b1=b1, b2=b2, eps=eps)
    return optax.chain(_decay(weight_decay), scale, optax.scale_by_learning_rate(learning_rate))


def sgd(
    learning_rate: Any, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
) -> optax.GradientTransformation:
    """
    Return torch's SGD.

    :param learning_rate: step size
    :param momentum: decay of the sum of gradients
    :param nesterov: whether to look ahead
    :param weight_decay: share of the parameters that is added to the gradient
    """
    trace = optax.trace(decay=momentum, nesterov=nesterov) if momentum else optax.identity()
    return optax.chain(_decay(weight_decay), trace, optax.scale_by_learning_rate(learning_rate))


def rmsprop(
    learning_rate: Any,
    decay: float,
    eps: float,
    momentum: float = 0.0,
    centered: bool = False,
    tf_like: bool = False,
    weight_decay: float = 0.0,
) -> optax.GradientTransformation:
    """
    Return torch's RMSprop: the learning rate scales what momentum has summed up, not what it sums up (as in optax).

    :param learning_rate: step size
    :param decay: of the second moment
    :param eps: added to the denominator
    :param momentum: decay of the sum of steps
    :param centered: whether the variance, not the second moment, scales the gradient
    :param tf_like: as TensorFlow's: eps is inside of the root, and the second moment starts at one
    :param weight_decay: share of the parameters that is added to the gradient
    """
    kind = optax.scale_by_stddev if centered else optax.scale_by_rms
    scale = kind(decay=decay, eps=eps, eps_in_sqrt=tf_like, initial_scale=1.0 if tf_like else 0.0)
    trace = optax.trace(decay=momentum) if momentum else optax.identity()
    return optax.chain(_decay(weight_decay), scale, trace, optax.scale_by_learning_rate(learning_rate))


def _decay(weight_decay: float) -> optax.GradientTransformation:
    return optax.add_decayed_weights(weight_decay) if weight_decay else optax.identity()
