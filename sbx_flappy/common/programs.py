"""
The compiled programs: where the stateful half of the package meets the pure one.

Each is compiled once per network by value (not per policy), so that the tenth model of a search, or the two hundredth
that is loaded, compiles nothing.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from sbx_flappy.common.malloc import keep_freed_memory
from sbx_flappy.functional import gae as gae_module
from sbx_flappy.functional import networks
from sbx_flappy.functional.convolution import compiler_options
from sbx_flappy.functional.distributions import sde_std
from sbx_flappy.functional.networks import ActorCritic, apply
from sbx_flappy.functional.types import Array, ExplorationNoise, PyTree, Variables


class Program:
    """
    A function that is compiled when it is first called, not when it is imported.

    A backend that has started its threads must not be forked, and may not have been chosen yet.

    :param function: a pure function
    :param static_argnames: names of the arguments that select another program
    """

    def __init__(self, function: Callable[..., Any], static_argnames: tuple[str, ...]) -> None:
        self._function = function
        self._static_argnames = static_argnames
        functools.update_wrapper(self, function)

    @functools.cached_property
    def _compiled(self) -> Any:
        if jax.default_backend() == "cpu":
            keep_freed_memory()
        return jax.jit(self._function, static_argnames=self._static_argnames, compiler_options=compiler_options())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns; compile it first if its arguments ask for a new program."""
        return self._compiled(*args, **kwargs)


def program(*static_argnames: str) -> Callable[[Callable[..., Any]], Program]:
    """Decorate a pure function, see :class:`Program`."""
    return lambda function: Program(function, static_argnames)


def as_key(data: Array) -> jax.Array:
    """Return a key of JAX's default generator, whatever the user's settings, from its data, uint32 ``[2]``."""
    return jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")


def choose(outputs: tuple[Any, jax.Array], noise: Any, deterministic: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return actions, values and log-probabilities from a network's outputs, see :func:`act`."""
    distribution, values = outputs
    actions = distribution.mode() if deterministic else distribution.sample(noise)
    return actions, values, distribution.log_prob(actions)


@program("network", "deterministic")
def act(
    network: ActorCritic, variables: Variables, observations: PyTree, noise: Any, deterministic: bool = False
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """
    Return actions, their values, float32 ``[B, 1]``, and log-probabilities, float32 ``[B]``.

    :param network: actor and critic
    :param variables: its parameters and its other variables
    :param observations: raw observations ``[B, ...]``
    :param noise: see ``functional.distributions``; without effect if the actions are deterministic
    :param deterministic: whether to return the most likely actions
    """
    return choose(apply(network, variables, observations), noise, deterministic)


@program("network", "deterministic")
def predict_actions(
    network: ActorCritic, variables: Variables, observations: PyTree, noise: Any, deterministic: bool
) -> jax.Array:
    """Return the actions alone, see :func:`act`."""
    distribution = apply(network, variables, observations, ActorCritic.actor)
    return distribution.mode() if deterministic else distribution.sample(noise)


@program("network")
def predict_values(network: ActorCritic, variables: Variables, observations: PyTree) -> jax.Array:
    """Return the values alone, float32 ``[B, 1]``, see :func:`act`."""
    return apply(network, variables, observations, ActorCritic.critic)


@program("network")
def get_distribution(network: ActorCritic, variables: Variables, observations: PyTree) -> Any:
    """Return the distribution over actions, see :func:`act`."""
    return apply(network, variables, observations, ActorCritic.actor)


@program("network")
def extract_features(network: ActorCritic, variables: Variables, observations: PyTree) -> Any:
    """Return the features, float32 ``[B, L]``, or the actor's and the critic's if they are not shared."""
    return apply(network, variables, observations, ActorCritic.features)


@program("network")
def evaluate_actions(
    network: ActorCritic, variables: Variables, observations: PyTree, actions: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """Return values, float32 ``[B, 1]``, log-probabilities and entropies (or None), float32 ``[B]``, of actions."""
    distribution, values = apply(network, variables, observations)
    return values, distribution.log_prob(actions), distribution.entropy()


@program("network", "method")
def apply_in_training(
    network: ActorCritic, variables: Variables, observations: PyTree, key: jax.Array, method: Callable[..., Any]
) -> tuple[Any, PyTree]:
    """Return what a method of a network returns in training mode, and the network's other variables after it."""
    return networks.apply_in_training(network, variables, observations, as_key(key), method)


@program("use_expln")
def scale_exploration_noise(noise: ExplorationNoise, log_std: jax.Array, use_expln: bool) -> ExplorationNoise:
    """Return gSDE's exploration matrices from standard normal ones, see ``functional.distributions``."""
    std = sde_std(log_std, noise.matrix.shape[1], use_expln)
    return jax.tree.map(lambda matrix: std * matrix, noise)


@program()
def gae(*args: Any) -> tuple[jax.Array, jax.Array]:
    """Return advantages and returns, see ``functional.gae``."""
    return gae_module.gae(*args)
