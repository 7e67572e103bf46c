"""Generalized advantage estimation."""

import jax
import jax.numpy as jnp


def gae(
    rewards: jax.Array,
    values: jax.Array,
    episode_starts: jax.Array,
    last_values: jax.Array,
    dones: jax.Array,
    gamma: float,
    gae_lambda: float,
) -> tuple[jax.Array, jax.Array]:
    """
    Estimate advantages and returns of a rollout, https://arxiv.org/abs/1506.02438, equations (11), (12) and (16).

    An episode that ends, by death or by a time limit, cuts the trace. The value that a time limit hides is expected in
    ``rewards`` already (``gamma * V(terminal_observation)``, as SB3 adds it).

    :param rewards: float32 ``[T, N]``
    :param values: the critic's estimates at the same steps, float32 ``[T, N]``
    :param episode_starts: 1 where a step is the first of an episode, float32 ``[T, N]``
    :param last_values: estimates of the observations after the last step, float32 ``[N]``
    :param dones: 1 where the last step ended an episode, float32 ``[N]``
    :param gamma: discount factor
    :param gae_lambda: trade-off between bias and variance
    :return: advantages and returns, float32 ``[T, N]``
    """
    next_values = jnp.concatenate([values[1:], last_values[None]])
    next_non_terminal = 1.0 - jnp.concatenate([episode_starts[1:], dones[None]])
    deltas = rewards + gamma * next_values * next_non_terminal - values

    def backwards(last_advantage: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, non_terminal = step
        advantage = delta + gamma * gae_lambda * non_terminal * last_advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(backwards, jnp.zeros_like(last_values), (deltas, next_non_terminal), reverse=True)
    return advantages, advantages + values
