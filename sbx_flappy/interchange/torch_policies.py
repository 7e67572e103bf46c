"""
Torch SB3's policies with the ``policy_kwargs`` that this package's have beyond SB3's, for comparisons on equal settings.

``policy: sbx_flappy.interchange.torch_policies.CnnPolicy`` in RL-Zoo's settings, or the class as SB3's argument ``policy``, is
this policy for ``stable_baselines3.PPO`` and the Flax policy of the same name for ``sbx_flappy.PPO``.
"""

from typing import Any

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticCnnPolicy, ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor, NatureCNN

from sbx_flappy.common import features_extractors
from sbx_flappy.common.features_extractors import TORCH_EXTRACTORS
from sbx_flappy.common.initialization import check_action_bias
from sbx_flappy.common.preprocessing import as_constant, is_scaled
from sbx_flappy.interchange.torch_kwargs import SCALED


class MlpPolicy(ActorCriticPolicy):
    """
    SB3's policy for vectors, with further arguments.

    :param features_extractor_class: an extractor of this package too, FlapJaxMlp for example
    :param obs_center: what is taken off observations, a number or nested lists that broadcast to an observation
    :param obs_scale: what they are multiplied with then
    :param action_bias_init: initial biases of the action layer
    :raises ValueError: for one of them that does not fit the spaces, or that the features extractor does not take
    """

    default_extractor: type = FlattenExtractor

    def __init__(
        self,
        observation_space: spaces.Space,
        *args: Any,
        features_extractor_class: Any = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        obs_center: Any = 0.0,
        obs_scale: Any = 1.0,
        action_bias_init: list[float] | None = None,
        **kwargs: Any,
    ) -> None:
        extractor = features_extractor_class or self.default_extractor
        own = TORCH_EXTRACTORS.get(extractor, extractor)
        if own in SCALED:
            if own is features_extractors.NatureCNN and kwargs.get("net_arch") is None:
                kwargs["net_arch"] = []  # SB3 tells its NatureCNN, without dense layers by default, by its class
            extractor = SCALED[own]
            scaling = {"obs_center": obs_center, "obs_scale": obs_scale}
            if isinstance(observation_space, spaces.Box):
                scaling = {name: as_constant(value, name, observation_space) for name, value in scaling.items()}
            features_extractor_kwargs = {**(features_extractor_kwargs or {}), **scaling}
        elif is_scaled(obs_center, obs_scale):
            known = ", ".join(sorted(each.__name__ for each in SCALED))
            raise ValueError(f"`obs_center` and `obs_scale` are for the extractors {known}, not for {extractor.__name__}.")
        kwargs |= {"features_extractor_class": extractor, "features_extractor_kwargs": features_extractor_kwargs}
        super().__init__(observation_space, *args, **kwargs)
        if action_bias_init is not None:
            biases: Any = self.action_net.bias
            with th.no_grad():
                biases.copy_(th.as_tensor(check_action_bias(action_bias_init, tuple(biases.shape))))


class CnnPolicy(MlpPolicy, ActorCriticCnnPolicy):
    """SB3's policy for images, with the further arguments of :class:`MlpPolicy`; NatureCNN takes ``layers`` too."""

    default_extractor: type = NatureCNN
