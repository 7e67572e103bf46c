"""
The networks of the blog post "FlapJax part 3", up to the heads, as features extractors.

Policy and value are to sit directly on the shared features, as in the blog: pass ``net_arch=[]`` with them.
"""

from typing import Any, ClassVar

import flax.linen as nn
import jax
from gymnasium import spaces

from sbx_flappy.common.features_extractors import BaseFeaturesExtractor, FlattenExtractor, NatureCNN
from sbx_flappy.common.validation import check_integer
from sbx_flappy.functional.networks import Mlp


class FlapJaxCNN(NatureCNN):
    """
    The blog's network for pixels: the DQN paper's convolutions over images with a border of zeros, and 256 features.

    Flax pads by default (``padding="SAME"``): of 84x84 pixels 21x21, 11x11 and 11x11 positions are left, 7,744 numbers, where
    :class:`NatureCNN` has 20x20, 9x9 and 7x7, 3,136 numbers. Any size of image will do.

    :param features_dim: number of features
    :param normalized_image: whether to skip the check that the space holds uint8 images with values in 0..255
    :param layers: features, kernel size and stride of each convolution
    """

    padding: ClassVar[str] = "SAME"

    features_dim: int = 256


class FlapJaxMlp(BaseFeaturesExtractor):
    """
    The blog's network for CartPole: one dense layer with ReLU, which actor and critic share.

    :param features_dim: its units
    """

    features_dim: int = 512

    def setup(self) -> None:
        """Create the layers."""
        self.flatten = FlattenExtractor()
        self.linear = Mlp((self.features_dim,), nn.relu)

    def __call__(self, observations: jax.Array) -> jax.Array:
        """Return the features of observations float32 ``[B, ...]``, float32 ``[B, features_dim]``."""
        return self.linear(self.flatten(observations))

    @classmethod
    def for_space(cls, observation_space: spaces.Space, **kwargs: Any) -> "BaseFeaturesExtractor":
        """Return an extractor for any space but a dictionary, see the base class."""
        if isinstance(observation_space, spaces.Dict):
            raise ValueError(f"FlapJaxMlp takes one array, not the space {observation_space}; use CombinedExtractor.")
        check_integer("features_dim", kwargs.get("features_dim", cls.features_dim))
        return super().for_space(observation_space, **kwargs)
