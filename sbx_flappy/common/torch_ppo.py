"""Torch SB3's PPO on this package's settings: it also takes the ``policy_kwargs`` that SB3's does not know."""

from collections.abc import Mapping
from typing import Any

import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common.policies import ActorCriticCnnPolicy

from sbx_flappy.common.torch_extractors import ScaledFlattenExtractor, ScaledNatureCNN

#: SB3's default layers after a features extractor that is no NatureCNN
_NET_ARCH = {"pi": [64, 64], "vf": [64, 64]}


def translate(policy_class: type, policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return ``policy_kwargs`` that torch SB3's policy takes and that make the same network.

    :param policy_class: torch SB3's policy
    :param policy_kwargs: with ``obs_center``, ``obs_scale`` and NatureCNN's ``layers``, or without
    """
    kwargs = dict(policy_kwargs)
    arguments = dict(kwargs.get("features_extractor_kwargs") or {})
    own = {name: kwargs.pop(name) for name in ("obs_center", "obs_scale") if name in kwargs}
    if not own and "layers" not in arguments:
        return kwargs
    is_cnn = issubclass(policy_class, ActorCriticCnnPolicy)
    kwargs.setdefault("net_arch", [] if is_cnn else _NET_ARCH)
    kwargs["features_extractor_class"] = ScaledNatureCNN if is_cnn else ScaledFlattenExtractor
    kwargs["features_extractor_kwargs"] = {**arguments, **own}
    return kwargs


class TorchPPO(sb3.PPO):
    """
    ``stable_baselines3.PPO``, which also takes ``obs_center``, ``obs_scale``, ``action_bias_init`` and NatureCNN's ``layers``
    in ``policy_kwargs``, for comparisons on equal settings. What it saves, ``stable_baselines3.PPO`` loads.
    """

    def _setup_model(self) -> None:
        bias = self.policy_kwargs.pop("action_bias_init", None)  # counts at the start only
        self.policy_kwargs = translate(self.policy_class, self.policy_kwargs)
        super()._setup_model()
        if bias is not None:
            with th.no_grad():
                self.policy.action_net.bias.copy_(th.as_tensor(bias))  # type: ignore[operator]
