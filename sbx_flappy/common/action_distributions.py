"""From an action space to a distribution, the counterpart of SB3's ``make_proba_distribution``."""

import dataclasses

import jax
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_action_dim

from sbx_flappy.common.preprocessing import check_start
from sbx_flappy.functional import distributions
from sbx_flappy.functional.types import ExplorationNoise


@dataclasses.dataclass(frozen=True)
class DistributionSpec:
    """
    How the network's outputs become a distribution; hashable by value.

    :param action_dims: sizes of the discrete actions, or the number of the others
    :param kind: the class of the distribution
    :param use_expln: of gSDE
    :param squash_output: of gSDE
    """

    kind: type
    action_dims: tuple[int, ...]
    use_expln: bool = False
    squash_output: bool = False

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the action layer."""
        return sum(self.action_dims)

    def log_std_shape(self, latent_dim: int, full_std: bool) -> tuple[int, ...] | None:
        """
        Return the shape of the learned log standard deviations, None for discrete actions.

        :param latent_dim: number of inputs of the action layer
        :param full_std: of gSDE: whether each action has its own
        """
        if self.kind is distributions.DiagGaussian:
            return (self.n_outputs,)
        if self.kind is distributions.StateDependentNoise:
            return (latent_dim, self.n_outputs if full_std else 1)
        return None

    def draw_noise(self, n_rows: int) -> np.ndarray:
        """
        Return what :meth:`Distribution.sample` needs for new actions, float32 ``[n_rows, n_outputs]``.

        It comes from torch's global generator, in the way in which torch's own distributions draw it: with the same seed and
        the same parameters, actions are torch SB3's.

        :param n_rows: number of observations
        """
        if self.kind is distributions.Bernoulli:
            return th.rand(n_rows, self.n_outputs).numpy()
        if self.kind is distributions.DiagGaussian:
            return th.randn(n_rows, self.n_outputs).numpy()
        return th.cat([th.empty(n_rows, n).exponential_(1) for n in self.action_dims], dim=1).numpy()

    def __call__(self, mean_actions: jax.Array, log_std: jax.Array | None, latent: jax.Array) -> distributions.Distribution:
        """
        Return the distribution over actions.

        :param mean_actions: output of the action layer (means or logits), float32 ``[B, A]``
        :param log_std: the learned log standard deviations, or None for discrete actions
        :param latent: input of the action layer, float32 ``[B, L]``
        """
        if self.kind is distributions.MultiCategorical:
            return distributions.MultiCategorical(mean_actions, self.action_dims)
        if log_std is None:
            return self.kind(mean_actions)
        if self.kind is distributions.DiagGaussian:
            return distributions.DiagGaussian(mean_actions, log_std)
        std = distributions.sde_std(log_std, self.n_outputs, self.use_expln)
        return distributions.StateDependentNoise(mean_actions, std, latent, self.squash_output)


def draw_exploration_noise(log_std_shape: tuple[int, ...], n_actions: int, n_envs: int) -> ExplorationNoise:
    """
    Return standard normal exploration matrices for gSDE, drawn as torch SB3 draws them.

    :param log_std_shape: ``[L, A]`` or ``[L, 1]``
    :param n_actions: A
    :param n_envs: N
    """
    shape = (log_std_shape[0], n_actions)
    matrix = th.randn(shape).numpy()
    return ExplorationNoise(matrix, th.randn(n_envs, *shape).numpy())


def make_distribution_spec(
    action_space: spaces.Space, use_sde: bool = False, use_expln: bool = False, squash_output: bool = False
) -> DistributionSpec:
    """
    Return how an action space's distribution is made.

    :param action_space: Box, Discrete, MultiDiscrete or MultiBinary
    :param use_sde: whether continuous actions explore by gSDE
    :param use_expln: of gSDE
    :param squash_output: of gSDE
    :raises ValueError: for a space of more dimensions than SB3's algorithms take, without entries, or one that starts at
        another number than 0
    :raises NotImplementedError: for any other space
    """
    if isinstance(action_space, spaces.Box):
        if get_action_dim(action_space) == 0:
            raise ValueError(f"The action space {action_space} has no entries.")
        kind = distributions.StateDependentNoise if use_sde else distributions.DiagGaussian
        return DistributionSpec(kind, (get_action_dim(action_space),), use_expln, squash_output)
    if isinstance(action_space, spaces.Discrete):
        check_start(action_space, "action")
        return DistributionSpec(distributions.Categorical, (int(action_space.n),))
    if isinstance(action_space, spaces.MultiDiscrete):
        check_start(action_space, "action")
        if action_space.nvec.ndim != 1:
            raise ValueError(f"Multi-dimensional {action_space} action space is not supported. You can flatten it instead.")
        return DistributionSpec(distributions.MultiCategorical, tuple(int(n) for n in action_space.nvec))
    if isinstance(action_space, spaces.MultiBinary):
        return DistributionSpec(distributions.Bernoulli, (get_action_dim(action_space),))
    raise NotImplementedError(
        f"Error: probability distribution, not implemented for action space of type {type(action_space)}. "
        "Must be of type Gym Spaces: Box, Discrete, MultiDiscrete or MultiBinary."
    )
