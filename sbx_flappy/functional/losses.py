"""The terms of PPO's loss, https://arxiv.org/abs/1707.06347, as functions of plain arrays ``[B]``."""

import jax
import jax.numpy as jnp

from sbx_flappy.functional.types import Array


def clamp(x: Array, low: float | Array, high: float | Array) -> jax.Array:
    """
    Return ``x`` within bounds. Its gradient is 1 on the bounds too, as torch's is (``jnp.clip`` has a half there).

    :param x: any shape
    :param low: lower bound
    :param high: upper bound
    """
    return jnp.where(x < low, low, jnp.where(x > high, high, x))


def normalize(advantages: Array) -> jax.Array:
    """
    Return advantages with mean 0 and (unbiased) standard deviation 1.

    :param advantages: float32 ``[B]``; a single one is returned as it is
    """
    advantages = jnp.asarray(advantages)
    if advantages.shape[0] < 2:
        return advantages
    return (advantages - advantages.mean()) / (advantages.std(ddof=1) + 1e-8)


def clipped_surrogate(ratio: Array, advantages: Array, clip_range: float | Array) -> jax.Array:
    """
    Return the policy's loss, the negative of equation (7).

    :param ratio: new over old probability of the actions, float32 ``[B]``
    :param advantages: float32 ``[B]``
    :param clip_range: epsilon
    """
    clipped = clamp(ratio, 1.0 - clip_range, 1.0 + clip_range)
    return -jnp.minimum(advantages * ratio, advantages * clipped).mean()


def value_loss(values: Array, old_values: Array, returns: Array, clip_range_vf: float | Array | None) -> jax.Array:
    """
    Return the mean squared error of the critic.

    :param values: new estimates, float32 ``[B]``
    :param old_values: estimates at the time of the rollout, float32 ``[B]``
    :param returns: float32 ``[B]``
    :param clip_range_vf: how far an estimate may move from the old one before it stops counting; depends on the scale
        of the rewards. None: any distance
    """
    if clip_range_vf is not None:
        values = old_values + clamp(values - old_values, -clip_range_vf, clip_range_vf)
    return jnp.square(returns - values).mean()


def entropy_loss(entropy: Array | None, log_probs: Array) -> jax.Array:
    """
    Return the negative mean entropy.

    :param entropy: float32 ``[B]``, or None where the distribution has no closed form
    :param log_probs: log-probabilities of the actions, the stand-in then, float32 ``[B]``
    """
    return -jnp.mean(-log_probs if entropy is None else entropy)


def approx_kl(log_ratio: Array) -> jax.Array:
    """
    Estimate the reverse KL divergence of the new policy from the old, http://joschu.net/blog/kl-approx.html.

    :param log_ratio: new minus old log-probability of the actions, float32 ``[B]``
    """
    return jnp.mean((jnp.exp(log_ratio) - 1.0) - log_ratio)


def clip_fraction(ratio: Array, clip_range: float | Array) -> jax.Array:
    """Return the share of samples whose ratio ``[B]`` lies outside of the clip range."""
    return jnp.mean((jnp.abs(ratio - 1.0) > clip_range).astype(jnp.float32))
