"""What an actor-critic policy computes: actions, values, log-probabilities, distributions and features."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.distributions import Distribution, StateDependentNoiseDistribution

from sbx_flappy.common import programs
from sbx_flappy.common.action_distributions import DistributionSpec, draw_exploration_noise
from sbx_flappy.common.arrays import to_host, to_tensor
from sbx_flappy.common.base_policy import BaseJaxPolicy
from sbx_flappy.common.seeding import new_key
from sbx_flappy.common.validation import check_finite, check_shape
from sbx_flappy.functional.networks import ActorCritic, takes_train
from sbx_flappy.functional.types import ExplorationNoise, PyTree


class BaseActorCritic(BaseJaxPolicy):
    """
    The methods of SB3's ``ActorCriticPolicy`` that compute something, over a network in Flax.

    Observations may be given as tensors, as SB3's are, or as NumPy or JAX arrays; results come back as tensors in the
    first case and as JAX arrays otherwise. No gradient flows through tensors.
    """

    network: ActorCritic
    distribution_spec: DistributionSpec
    features_extractor: Any
    action_dist: Distribution
    use_sde: bool
    use_expln: bool

    def act(self, observations: PyTree, deterministic: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        Return actions, values and log-probabilities with one compiled call and one fetch.

        :param observations: arrays or tensors ``[B, ...]``, or a dictionary of them
        :param deterministic: Whether to sample or use deterministic actions
        :return: actions ``[B, *action_space.shape]``, values float32 ``[B, 1]``, log-probabilities float32 ``[B]``
        """
        batch = self._to_batch(observations)
        noise = self._noise(batch, deterministic)
        if self._is_learning:
            results = programs.choose(self._apply_in_training(batch), noise, deterministic)
        else:
            results = programs.act(self.network, self.variables, batch, noise, deterministic)
        actions, values, log_probs = jax.device_get(results)
        return self._to_action_space(actions), values, log_probs

    def training_key(self) -> jax.Array | None:
        """Return a new key where the network has a training mode, else None."""
        return programs.as_key(new_key()) if takes_train(self.features_extractor) else None

    @property
    def _is_learning(self) -> bool:
        """Whether layers such as Dropout and BatchNorm are to do now what they do in an update."""
        return self.training and takes_train(self.features_extractor)

    def _apply_in_training(self, observations: PyTree, method: Any = ActorCritic.__call__) -> Any:
        """Return what a method of the network returns in training mode; the layers take note of the observations."""
        results, self.network_state = programs.apply_in_training(self.network, self.variables, observations, new_key(), method)
        return results

    def _noise(self, observations: PyTree, deterministic: bool) -> Any:
        """Return what actions are drawn with: as in SB3, actions that are not random leave the generators alone."""
        if deterministic or self.use_sde:
            return self.exploration_noise
        return self.distribution_spec.draw_noise(len(jax.tree.leaves(observations)[0]))

    def _to_action_space(self, actions: np.ndarray) -> np.ndarray:
        """Return actions in the shape of the space, with torch SB3's dtypes: integers are int64, all else is float32."""
        dtype = np.int64 if np.issubdtype(actions.dtype, np.integer) else actions.dtype
        return np.asarray(actions, dtype).reshape(-1, *self.action_space.shape)  # type: ignore[misc]

    def obs_to_tensor(self, observation: Any) -> tuple[Any, bool]:
        """
        Convert an input observation to a batch of tensors, see SB3's method.

        :param observation: one observation or several; arrays of JAX and tensors will do too
        :return: the observation as tensors and whether it is vectorized or not
        """

        def to_numpy(value: Any) -> Any:
            return np.array(to_host(value)) if isinstance(value, (jax.Array, th.Tensor)) else value

        if isinstance(observation, dict):
            return super().obs_to_tensor({key: to_numpy(value) for key, value in observation.items()})
        return super().obs_to_tensor(to_numpy(observation))

    def forward(self, obs: Any, deterministic: bool = False) -> tuple[Any, Any, Any]:
        """
        Return actions, values ``[B, 1]`` and log-probabilities ``[B]``.

        :param obs: Observation
        :param deterministic: Whether to sample or use deterministic actions
        """
        return self._like(obs, self.act(obs, deterministic))

    def _to_batch(self, observations: Any) -> PyTree:
        """
        Return observations as arrays.

        :raises ValueError: if they are not a batch of observations of the policy's space
        """
        check_shape(observations, self.observation_space)
        return to_host(observations)

    def _predict(self, observation: Any, deterministic: bool = False) -> th.Tensor:
        observations = self._to_batch(observation)
        noise = self._noise(observations, deterministic)
        check_finite("observations", observations)
        actions = programs.predict_actions(self.network, self.variables, observations, noise, deterministic)
        return to_tensor(self._to_action_space(np.asarray(actions)))

    def predict_values(self, obs: Any) -> Any:
        """
        Return the estimated values, float32 ``[B, 1]``.

        :param obs: Observation
        """
        batch = self._to_batch(obs)
        if self._is_learning:
            return self._like(obs, self._apply_in_training(batch, ActorCritic.critic))
        return self._like(obs, programs.predict_values(self.network, self.variables, batch))

    def evaluate_actions(self, obs: Any, actions: Any) -> tuple[Any, Any, Any | None]:
        """
        Return values ``[B, 1]``, log-probabilities and entropies (or None) ``[B]`` of actions.

        :param obs: Observation
        :param actions: Actions, ``[B]`` for one discrete action, otherwise ``[B, A]``
        """
        actions = to_host(actions)
        if isinstance(self.action_space, spaces.Discrete):
            actions = actions.reshape(-1)
        batch = self._to_batch(obs)
        if self._is_learning:
            distribution, values = self._apply_in_training(batch)
            return self._like(obs, (values, distribution.log_prob(actions), distribution.entropy()))
        return self._like(obs, programs.evaluate_actions(self.network, self.variables, batch, actions))

    def extract_features(self, obs: Any, features_extractor: Any = None) -> Any:
        """
        Return the features, float32 ``[B, features_dim]``; if they are not shared, the actor's and the critic's.

        :param obs: Observation
        :param features_extractor: SB3's argument; here the policy's own extractor is the only one
        """
        if features_extractor is not None and features_extractor is not self.features_extractor:
            raise ValueError("`features_extractor` must be None or the policy's own.")
        batch = self._to_batch(obs)
        if self._is_learning:
            return self._like(obs, self._apply_in_training(batch, ActorCritic.features))
        return self._like(obs, programs.extract_features(self.network, self.variables, batch))

    def get_distribution(self, obs: Any) -> Distribution:
        """
        Return the distribution over actions as SB3's own object, over tensors.

        :param obs: Observation
        """
        batch = self._to_batch(obs)
        if self._is_learning:
            distribution = self._apply_in_training(batch, ActorCritic.actor)
        else:
            distribution = programs.get_distribution(self.network, self.variables, batch)
        ours = jax.tree.map(to_tensor, distribution)
        if self.use_sde:
            return self._torch_state_dependent_noise(ours)
        if isinstance(self.action_space, spaces.Box):
            return self.action_dist.proba_distribution(ours.mean, ours.log_std)
        return self.action_dist.proba_distribution(action_logits=ours.logits)

    def _torch_state_dependent_noise(self, ours: Any) -> Distribution:
        distribution = self.action_dist
        assert isinstance(distribution, StateDependentNoiseDistribution)
        assert self.exploration_noise is not None
        distribution.latent_sde_dim = ours.latent.shape[-1]
        distribution.exploration_mat = to_tensor(self.exploration_noise.matrix)
        distribution.exploration_matrices = to_tensor(self.exploration_noise.matrices)
        return distribution.proba_distribution(ours.mean, self.log_std, ours.latent)

    def reset_noise(self, n_envs: int = 1) -> None:
        """
        Sample new weights for the exploration matrix.

        :param n_envs: number of environments, each with a matrix of its own
        """
        assert self.use_sde, "reset_noise() is only available when using gSDE"
        self._keep_noise(draw_exploration_noise(self.params["log_std"].shape, self.network.action_dim, n_envs))

    def _keep_noise(self, noise: ExplorationNoise) -> None:
        """Keep exploration matrices, given as standard normal ones."""
        self.exploration_noise = programs.scale_exploration_noise(noise, self.params["log_std"], self.use_expln)

    def _like(self, obs: Any, results: Any) -> Any:
        """Return results as tensors if the observations came as tensors, otherwise as JAX arrays."""
        leaves = obs.values() if isinstance(obs, Mapping) else [obs]
        convert = to_tensor if any(isinstance(leaf, th.Tensor) for leaf in leaves) else jax.numpy.asarray
        return jax.tree.map(convert, results)
