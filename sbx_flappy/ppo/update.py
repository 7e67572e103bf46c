"""The compiled programs of PPO's update, and the three ways in which they run."""

import dataclasses
import functools
from collections.abc import Iterable

import jax
import numpy as np

from sbx_flappy.common.programs import program
from sbx_flappy.common.torch_classes import OptimizerSpec
from sbx_flappy.functional import update
from sbx_flappy.functional.networks import ActorCritic
from sbx_flappy.functional.types import RUNNING, LossCoefficients, Metrics, Rollout


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
                if may_stop and int(before) != RUNNING:
                    break
            if may_stop and int(state.status) != RUNNING:
                break
        fetched = jax.device_get(steps)
        return state, _until_stopped([jax.tree.map(lambda *leaves: np.array(leaves), *epoch) for epoch in fetched])


def _until_stopped(epochs: list[Metrics]) -> list[Metrics]:
    """Return metrics without the steps after the one that stopped the update."""
    kept = []
    for epoch in epochs:
        stopped = np.flatnonzero(epoch.status != RUNNING)
        n_steps = stopped[0] + 1 if len(stopped) else len(epoch.status)
        kept.append(jax.tree.map(lambda leaf: leaf[:n_steps], epoch))  # noqa: B023
        if len(stopped):
            break
    return kept
