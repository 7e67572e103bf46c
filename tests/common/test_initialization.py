"""Initial variables: a program for each network by value, also where a features extractor is the user's own."""

from typing import Any

import flax.linen as nn

from sbx_flappy import PPO
from sbx_flappy.common.features_extractors import BaseFeaturesExtractor
from tests.compilation import compilations


class OwnExtractor(BaseFeaturesExtractor):
    """A dense layer, which Flax initializes."""

    features_dim: int = 8

    @nn.compact
    def __call__(self, observations: Any) -> Any:
        return nn.relu(nn.Dense(self.features_dim)(observations))


def make_model(features_dim: int) -> PPO:
    settings = {"features_extractor_class": OwnExtractor, "features_extractor_kwargs": {"features_dim": features_dim}}
    return PPO("MlpPolicy", "CartPole-v1", policy_kwargs={**settings, "net_arch": [4]}, device="cpu", seed=0)


def test_an_equal_model_with_an_own_extractor_compiles_nothing() -> None:
    make_model(8)
    with compilations() as names:
        make_model(8)
    assert names == []
    with compilations() as names:
        make_model(9)
    assert "jit(init_extractor)" in names
