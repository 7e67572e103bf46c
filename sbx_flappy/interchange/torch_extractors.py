"""
Features extractors in torch for what this package has beyond SB3's.

These are layers of the CNN, centre and scale of observations, and the networks of ``flapjax_extractors``. An exported model
holds these classes by value, so that torch SB3 opens it where this package is not installed. So this file imports nothing but
torch, NumPy, Gymnasium and SB3.
"""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, FlattenExtractor, NatureCNN
from torch import nn
from torch.nn import functional as F


class ScaledFlattenExtractor(FlattenExtractor):
    """
    Flattens ``(observations - obs_center) * obs_scale``, float32 ``[B, ...]`` to ``[B, features_dim]``.

    :param observation_space: the policy's, a Box
    :param obs_center: what is taken off, a number or one per entry
    :param obs_scale: what it is multiplied with then
    """

    obs_center: th.Tensor
    obs_scale: th.Tensor

    def __init__(self, observation_space: spaces.Box, obs_center: Any = 0.0, obs_scale: Any = 1.0) -> None:
        super().__init__(observation_space)
        # Not persistent: the state dict has the names of SB3's own extractor
        self.register_buffer("obs_center", th.as_tensor(np.asarray(obs_center, np.float32)), persistent=False)
        self.register_buffer("obs_scale", th.as_tensor(np.asarray(obs_scale, np.float32)), persistent=False)

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """Return the features, float32 ``[B, features_dim]``."""
        return self.flatten((observations - self.obs_center) * self.obs_scale)


class ScaledNatureCNN(NatureCNN):
    """
    SB3's NatureCNN over ``(observations - obs_center) * obs_scale``, with convolutions of one's choice.

    :param observation_space: images, channels first
    :param features_dim: number of features
    :param normalized_image: whether to skip the check that the space holds uint8 images with values in 0..255
    :param layers: output channels, kernel size and stride of each convolution
    :param obs_center: what is taken off, a number or one per entry
    :param obs_scale: what it is multiplied with then
    """

    obs_center: th.Tensor
    obs_scale: th.Tensor
    convolution: type[nn.Conv2d] = nn.Conv2d

    def __init__(
        self,
        observation_space: spaces.Box,
        features_dim: int = 512,
        normalized_image: bool = False,
        layers: Any = ((32, 8, 4), (64, 4, 2), (64, 3, 1)),
        obs_center: Any = 0.0,
        obs_scale: Any = 1.0,
    ) -> None:
        # NatureCNN's own constructor makes its own convolutions, for which the images may be too small
        BaseFeaturesExtractor.__init__(self, observation_space, features_dim)
        if not is_image_space(observation_space, check_channels=False, normalized_image=normalized_image):
            raise ValueError(f"Images are needed, got the observation space {observation_space}.")
        self.register_buffer("obs_center", th.as_tensor(np.asarray(obs_center, np.float32)), persistent=False)
        self.register_buffer("obs_scale", th.as_tensor(np.asarray(obs_scale, np.float32)), persistent=False)
        modules: list[nn.Module] = []
        channels = observation_space.shape[0]
        for features, kernel_size, stride in layers:
            modules += [self.convolution(channels, features, kernel_size, stride), nn.ReLU()]
            channels = features
        self.cnn = nn.Sequential(*modules, nn.Flatten())
        with th.no_grad():
            n_flatten = self.cnn(th.zeros(1, *observation_space.shape)).shape[1]
        self.linear = nn.Sequential(nn.Linear(n_flatten, features_dim), nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """Return the features, float32 ``[B, features_dim]``."""
        return super().forward((observations - self.obs_center) * self.obs_scale)


class SameConv2d(nn.Conv2d):
    """A convolution over images ``[B, C, H, W]`` with a border of zeros as Flax's ``padding="SAME"`` makes it."""

    def forward(self, input: th.Tensor) -> th.Tensor:
        """Return the convolved images."""
        padding: list[int] = []
        for size, kernel_size, stride in zip(input.shape[2:], self.kernel_size, self.stride, strict=True):
            total = max((-(-size // stride) - 1) * stride + kernel_size - size, 0)
            padding = [total // 2, total - total // 2, *padding]  # torch pads the last axis first
        return super().forward(F.pad(input, padding))


class FlapJaxCNN(ScaledNatureCNN):
    """The blog's network for pixels, with the parameters of :class:`ScaledNatureCNN`."""

    convolution = SameConv2d

    def __init__(self, observation_space: spaces.Box, features_dim: int = 256, **kwargs: Any) -> None:
        super().__init__(observation_space, features_dim, **kwargs)


class FlapJaxMlp(ScaledFlattenExtractor):
    """
    The blog's dense layer with ReLU over what :class:`ScaledFlattenExtractor` returns.

    :param observation_space: the policy's
    :param features_dim: number of units
    :param kwargs: ``obs_center`` and ``obs_scale``
    """

    def __init__(self, observation_space: spaces.Box, features_dim: int = 512, **kwargs: Any) -> None:
        super().__init__(observation_space, **kwargs)
        self.linear = nn.Sequential(nn.Linear(self.features_dim, features_dim), nn.ReLU())
        self._features_dim = features_dim

    def forward(self, observations: th.Tensor) -> th.Tensor:
        """Return the features, float32 ``[B, features_dim]``."""
        return self.linear(super().forward(observations))
