"""PPO's loss, https://arxiv.org/abs/1707.06347, and its terms as functions of plain arrays ``[B]``."""

import jax
import jax.numpy as jnp

from sbx_flappy.functional.networks import ActorCritic, apply, apply_in_training
from sbx_flappy.functional.types import RUNNING, Array, LossCoefficients, Metrics, PyTree, Rollout, Variables


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


def ppo_loss(
    params: PyTree,
    network_state: PyTree,
    key: jax.Array | None,
    network: ActorCritic,
    batch: Rollout,
    coefficients: LossCoefficients,
    normalize_advantage: bool,
) -> tuple[jax.Array, tuple[Metrics, PyTree]]:
    """
    Return PPO's loss of a minibatch, and with it what is logged and the network's other variables after it.

    :param params: the network's parameters
    :param network_state: its other variables
    :param key: for a network with a training mode, None for all others
    :param network: actor and critic
    :param batch: a minibatch
    :param coefficients: weights and clip ranges
    :param normalize_advantage: whether advantages get mean 0 and standard deviation 1 within the minibatch
    """
    variables = Variables(params, network_state)
    if key is None:
        distribution, values = apply(network, variables, batch.observations)
    else:
        (distribution, values), network_state = apply_in_training(network, variables, batch.observations, key)
    log_probs = distribution.log_prob(batch.actions)
    log_ratio = log_probs - batch.old_log_probs
    ratio = jnp.exp(log_ratio)
    advantages = normalize(batch.advantages) if normalize_advantage else jnp.asarray(batch.advantages)
    policy = clipped_surrogate(ratio, advantages, coefficients.clip_range)
    value = value_loss(values[:, 0], batch.old_values, batch.returns, coefficients.clip_range_vf)
    entropy = entropy_loss(distribution.entropy(), log_probs)
    loss = policy + coefficients.ent_coef * entropy + coefficients.vf_coef * value
    fraction = clip_fraction(ratio, coefficients.clip_range)
    metrics = Metrics(policy, value, entropy, fraction, approx_kl(log_ratio), loss, jnp.int32(RUNNING))
    return loss, (metrics, network_state)
