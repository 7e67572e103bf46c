"""
The compiled programs: where the stateful half of the package meets the pure one.

Each is compiled once per network by value (not per policy), so that the tenth model of a search, or the two hundredth
that is loaded, compiles nothing.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sbx_flappy.common.memory import keep_freed_memory
from sbx_flappy.common.torch_classes import OptimizerSpec
from sbx_flappy.functional import gae as gae_module
from sbx_flappy.functional import networks, update
from sbx_flappy.functional.convolution import compiler_options
from sbx_flappy.functional.distributions import sde_std
from sbx_flappy.functional.networks import ActorCritic, apply
from sbx_flappy.functional.types import Array, ExplorationNoise, LossCoefficients, Metrics, PyTree, Rollout, Variables


class Program:
    """
    A function that is compiled when it is first called, not when it is imported: a backend that has started its threads
    must not be forked, and may not have been chosen yet.

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
        return self._compiled(*args, **kwargs)

    def n_compiled(self) -> int:
        """Return how many programs the function was compiled into so far."""
        return self._compiled._cache_size()


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


@program("network", "optimizer", "normalize_advantage")
def minibatch_step(
    state: update.TrainState,
    rollout: Rollout,
    indices: jax.Array,
    coefficients: LossCoefficients,
    network: ActorCritic,
    optimizer: OptimizerSpec,
    normalize_advantage: bool,
) -> tuple[update.TrainState, Metrics]:
    """Take one optimizer step on the samples at ``indices``, int32 ``[B]``, see ``functional.update``."""
    # Without the barrier XLA gathers the samples again in each of the loops that read them
    batch = jax.lax.optimization_barrier(update.take(rollout, indices))
    return update.minibatch_step(state, batch, network, optimizer.make(), coefficients, normalize_advantage)


@program("network", "optimizer", "normalize_advantage", "batch_size")
def scan_update(
    state: update.TrainState,
    rollout: Rollout,
    order: jax.Array,
    coefficients: LossCoefficients,
    network: ActorCritic,
    optimizer: OptimizerSpec,
    normalize_advantage: bool,
    batch_size: int,
) -> tuple[update.TrainState, Metrics]:
    """Take all the steps of an update at once, see ``functional.update``."""
    step = functools.partial(
        update.minibatch_step,
        network=network,
        optimizer=optimizer.make(),
        coefficients=coefficients,
        normalize_advantage=normalize_advantage,
    )
    return update.scan_update(state, rollout, order, batch_size, step)


@dataclasses.dataclass(frozen=True)
class Update:
    """
    An update of parameters and optimizer with a rollout, in one of three ways that compute the same.

    Each takes a train state on the device and returns the new one, with the metrics of each epoch, ``[n_minibatches]``
    on the host, up to the step that stopped it.

    :param network: actor and critic
    :param optimizer: by value
    :param normalize_advantage: whether advantages are normalized within a minibatch
    :param coefficients: weights and clip ranges
    """

    network: ActorCritic
    optimizer: OptimizerSpec
    normalize_advantage: bool
    coefficients: LossCoefficients

    def _step(self, state: update.TrainState, rollout: Rollout, indices: np.ndarray) -> tuple[update.TrainState, Metrics]:
        static = (self.network, self.optimizer, self.normalize_advantage)
        return minibatch_step(state, rollout, indices, self.coefficients, *static)

    def in_one_program(
        self, state: update.TrainState, rollout: Rollout, orders: Iterable[np.ndarray], batch_size: int
    ) -> tuple[update.TrainState, list[Metrics]]:
        """
        Take all steps in one compiled loop: best for small networks, and on a GPU.

        :param rollout: the whole rollout, on the device
        :param orders: the samples' order in each epoch, int32 ``[T * N]``
        :param batch_size: B; a last, smaller minibatch holds the rest
        """
        drawn, generator_states = [], []
        for order in orders:
            drawn.append(order)
            generator_states.append(np.random.get_state())
        static = (self.network, self.optimizer, self.normalize_advantage, batch_size)
        state, metrics = scan_update(state, rollout, np.array(drawn), self.coefficients, *static)
        metrics = jax.device_get(metrics)
        epochs = _until_stopped([jax.tree.map(lambda leaf: leaf[i], metrics) for i in range(len(drawn))])  # noqa: B023
        # SB3 draws the order of an epoch when it begins, so that those not begun leave no trace
        np.random.set_state(generator_states[len(epochs) - 1])
        return state, epochs

    def in_steps(
        self, state: update.TrainState, rollout: Rollout, orders: Iterable[np.ndarray], batch_size: int
    ) -> tuple[update.TrainState, list[Metrics]]:
        """
        Take the steps one by one: inside of a compiled loop XLA's convolutions are many times slower on a CPU.

        :param rollout: the whole rollout, on the device
        :param orders: the samples' order in each epoch, int32 ``[T * N]``
        :param batch_size: B; a last, smaller minibatch holds the rest
        """
        minibatches = (
            ((rollout, order[start : start + batch_size]) for start in range(0, len(order), batch_size)) for order in orders
        )
        return self._run(state, minibatches)

    def on_samples(
        self, state: update.TrainState, epochs: Iterable[Iterable[Rollout]]
    ) -> tuple[update.TrainState, list[Metrics]]:
        """
        Take the steps one by one on minibatches that a buffer of the user's own made.

        :param epochs: minibatches of each epoch, on the host
        """
        whole = (((batch, np.arange(len(batch.returns), dtype=np.int32)) for batch in epoch) for epoch in epochs)
        return self._run(state, whole)

    def _run(
        self, state: update.TrainState, epochs: Iterable[Iterable[tuple[Rollout, np.ndarray]]]
    ) -> tuple[update.TrainState, list[Metrics]]:
        """Let the steps run ahead of Python; whether one stopped the update is asked when the next is under way."""
        may_stop = self.coefficients.target_kl is not None
        steps: list[list[Metrics]] = []
        for epoch in epochs:
            steps.append([])
            for rollout, indices in epoch:
                before = state.status
                state, metrics = self._step(state, rollout, indices)
                steps[-1].append(metrics)
                if may_stop and int(before) != update.RUNNING:
                    break
            if may_stop and int(state.status) != update.RUNNING:
                break
        fetched = jax.device_get(steps)
        return state, _until_stopped([jax.tree.map(lambda *leaves: np.array(leaves), *epoch) for epoch in fetched])


def _until_stopped(epochs: list[Metrics]) -> list[Metrics]:
    """Return metrics without the steps after the one that stopped the update."""
    kept = []
    for epoch in epochs:
        stopped = np.flatnonzero(epoch.status != update.RUNNING)
        n_steps = stopped[0] + 1 if len(stopped) else len(epoch.status)
        kept.append(jax.tree.map(lambda leaf: leaf[:n_steps], epoch))  # noqa: B023
        if len(stopped):
            break
    return kept
