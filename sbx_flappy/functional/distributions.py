"""Probability distributions over actions, with the arithmetic of SB3's (which is that of torch's)."""

import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from flax import struct

from sbx_flappy.functional.types import ExplorationNoise

#: Keeps gSDE's variance and the logarithm of the squashing correction away from zero, as SB3's does
EPSILON = 1e-6
HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


class Distribution(Protocol):
    """What the algorithm asks of a distribution over a batch of actions."""

    def sample(self, noise: Any) -> jax.Array:
        """
        Return random actions.

        :param noise: float32 ``[B, n]``, one number per output of the action layer, of the kind that each class names;
            for gSDE the exploration matrices
        """

    def mode(self) -> jax.Array:
        """Return the most likely actions."""

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Return the log-probabilities (or log-densities) of actions, float32 ``[B]``."""

    def entropy(self) -> jax.Array | None:
        """Return the entropies, float32 ``[B]``, or None where no closed form is known."""


@struct.dataclass
class Categorical:
    """
    One discrete action. Its noise is exponential: the smallest waiting time, in units of the rates, wins.

    :param logits: float32 ``[B, n]``, not normalized
    """

    logits: jax.Array

    def sample(self, noise: jax.Array) -> jax.Array:
        """Return random actions."""
        return jnp.argmax(self.logits - jnp.log(noise), axis=-1)

    def mode(self) -> jax.Array:
        """Return the most likely actions."""
        return jnp.argmax(self.logits, axis=-1)

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Return the log-probabilities of actions, float32 ``[B]``."""
        log_probs = jax.nn.log_softmax(self.logits)
        return jnp.take_along_axis(log_probs, actions[..., None].astype(jnp.int32), axis=-1)[..., 0]

    def entropy(self) -> jax.Array:
        """Return the entropies, float32 ``[B]``."""
        log_probs = jax.nn.log_softmax(self.logits)
        # A logit of minus infinity has probability zero: 0 * log(0) counts as 0
        log_probs = jnp.maximum(log_probs, jnp.finfo(log_probs.dtype).min)
        return -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)


@struct.dataclass
class MultiCategorical:
    """
    Several discrete actions, of possibly unequal sizes, independent of each other. Their noise is exponential.

    :param logits: float32 ``[B, sum(action_dims)]``
    :param action_dims: the size of each
    """

    logits: jax.Array
    action_dims: tuple[int, ...] = struct.field(pytree_node=False)

    def _split(self, outputs: jax.Array) -> list[jax.Array]:
        return jnp.split(outputs, [sum(self.action_dims[: i + 1]) for i in range(len(self.action_dims) - 1)], axis=-1)

    def _parts(self) -> list[Categorical]:
        return [Categorical(part) for part in self._split(self.logits)]

    def sample(self, noise: jax.Array) -> jax.Array:
        """Return random actions."""
        parts = zip(self._parts(), self._split(noise), strict=True)
        return jnp.stack([part.sample(part_noise) for part, part_noise in parts], axis=-1)

    def mode(self) -> jax.Array:
        """Return the most likely actions."""
        return jnp.stack([part.mode() for part in self._parts()], axis=-1)

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Return the log-probabilities of actions, float32 ``[B]``."""
        return jnp.stack([part.log_prob(actions[..., i]) for i, part in enumerate(self._parts())], axis=-1).sum(-1)

    def entropy(self) -> jax.Array:
        """Return the entropies, float32 ``[B]``."""
        return jnp.stack([part.entropy() for part in self._parts()], axis=-1).sum(-1)


@struct.dataclass
class Bernoulli:
    """
    Several binary actions. Their noise is uniform between 0 and 1.

    :param logits: float32 ``[B, n]``
    """

    logits: jax.Array

    def sample(self, noise: jax.Array) -> jax.Array:
        """Return random actions."""
        return (noise < jax.nn.sigmoid(self.logits)).astype(jnp.float32)

    def mode(self) -> jax.Array:
        """Return the most likely actions."""
        return jnp.round(jax.nn.sigmoid(self.logits))

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Return the log-probabilities of actions, float32 ``[B]``."""
        return self._log_likelihood(actions.astype(jnp.float32)).sum(-1)

    def entropy(self) -> jax.Array:
        """Return the entropies, float32 ``[B]``."""
        return -self._log_likelihood(jax.nn.sigmoid(self.logits)).sum(-1)

    def _log_likelihood(self, targets: jax.Array) -> jax.Array:
        return targets * jax.nn.log_sigmoid(self.logits) + (1.0 - targets) * jax.nn.log_sigmoid(-self.logits)


def gaussian_log_prob(actions: jax.Array, mean: jax.Array, std: jax.Array) -> jax.Array:
    """Return the summed log-density ``[B]`` of independent Gaussians, all arguments float32 ``[B, A]``."""
    return jnp.sum(-((actions - mean) ** 2) / (2.0 * std**2) - jnp.log(std) - HALF_LOG_2_PI, axis=-1)


def gaussian_entropy(std: jax.Array) -> jax.Array:
    """Return the summed entropy ``[B]`` of independent Gaussians, ``std`` float32 ``[B, A]``."""
    return jnp.sum(0.5 + HALF_LOG_2_PI + jnp.log(std), axis=-1)


@struct.dataclass
class DiagGaussian:
    """
    Continuous actions with a standard deviation that does not depend on the state. Their noise is standard normal.

    :param mean: float32 ``[B, A]``
    :param log_std: float32 ``[A]``
    """

    mean: jax.Array
    log_std: jax.Array

    def _std(self) -> jax.Array:
        return jnp.broadcast_to(jnp.exp(self.log_std), self.mean.shape)

    def sample(self, noise: jax.Array) -> jax.Array:
        """Return random actions."""
        return self.mean + self._std() * noise

    def mode(self) -> jax.Array:
        """Return the most likely actions."""
        return self.mean

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Return the log-densities of actions, float32 ``[B]``."""
        return gaussian_log_prob(actions, self.mean, self._std())

    def entropy(self) -> jax.Array:
        """Return the entropies, float32 ``[B]``."""
        return gaussian_entropy(self._std())


def sde_std(log_std: jax.Array, action_dim: int, use_expln: bool) -> jax.Array:
    """
    Return gSDE's positive standard deviations.

    :param log_std: float32 ``[L, A]``, or ``[L, 1]`` where the actions share one
    :param action_dim: A
    :param use_expln: exp(x) below zero, log(x + 1) + 1 above, which grows more slowly
    :return: float32 ``[L, A]``
    """
    std = jnp.exp(log_std)
    if use_expln:
        positive = jnp.where(log_std > 0, log_std, 0.0) + EPSILON
        std = jnp.where(log_std <= 0, jnp.exp(jnp.where(log_std <= 0, log_std, 0.0)), jnp.log1p(positive) + 1.0)
    return jnp.broadcast_to(std, (log_std.shape[0], action_dim))


@struct.dataclass
class StateDependentNoise:
    """
    Continuous actions with generalized State-Dependent Exploration, https://arxiv.org/abs/2005.05719.

    :param mean: float32 ``[B, A]``
    :param std: float32 ``[L, A]``, see :func:`sde_std`
    :param latent: the features that the noise depends on, float32 ``[B, L]``; no gradient flows through them
    :param squash_output: whether tanh bounds the actions
    """

    mean: jax.Array
    std: jax.Array
    latent: jax.Array
    squash_output: bool = struct.field(pytree_node=False)

    def _scale(self) -> jax.Array:
        latent = jax.lax.stop_gradient(self.latent)
        return jnp.sqrt((latent**2) @ (self.std**2) + EPSILON)

    def _squash(self, actions: jax.Array) -> jax.Array:
        return jnp.tanh(actions) if self.squash_output else actions

    def sample(self, noise: ExplorationNoise) -> jax.Array:
        """Return random actions."""
        latent = jax.lax.stop_gradient(self.latent)
        if len(latent) == 1 or len(latent) != len(noise.matrices):
            return self._squash(self.mean + latent @ noise.matrix)
        return self._squash(self.mean + jnp.einsum("nl,nla->na", latent, noise.matrices))

    def mode(self) -> jax.Array:
        """Return the most likely actions."""
        return self._squash(self.mean)

    def log_prob(self, actions: jax.Array) -> jax.Array:
        """Return the log-densities of actions, float32 ``[B]``."""
        if not self.squash_output:
            return gaussian_log_prob(actions, self.mean, self._scale())
        eps = jnp.finfo(actions.dtype).eps
        bounded = jnp.clip(actions, -1.0 + eps, 1.0 - eps)
        unsquashed = 0.5 * (jnp.log1p(bounded) - jnp.log1p(-bounded))
        correction = jnp.sum(jnp.log(1.0 - jnp.tanh(unsquashed) ** 2 + EPSILON), axis=-1)
        return gaussian_log_prob(unsquashed, self.mean, self._scale()) - correction

    def entropy(self) -> jax.Array | None:
        """Return the entropies, float32 ``[B]``, or None if tanh bounds the actions."""
        return None if self.squash_output else gaussian_entropy(self._scale())
