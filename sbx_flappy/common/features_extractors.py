"""
Features extractors in Flax, with the names and arguments of ``stable_baselines3.common.torch_layers``.

One of your own is a :class:`BaseFeaturesExtractor` too: Flax infers the sizes, so ``__call__`` alone says what it does.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from sbx_flappy.functional.networks import ConvolutionStack, Mlp

#: (features, kernel size, stride) of the convolutions of Mnih et al., Nature 518 (2015), pages 529-533
NATURE_CNN = ((32, 8, 4), (64, 4, 2), (64, 3, 1))

NOT_AN_IMAGE = (
    "You should use NatureCNN only with images not with {}\n"
    "(you are probably using `CnnPolicy` instead of `MlpPolicy` or `MultiInputPolicy`)\n"
    "If you are using a custom environment,\nplease check it using our env checker:\n"
    "https://stable-baselines3.readthedocs.io/en/master/common/env_checker.html.\n"
    "If you are using `VecNormalize` or already normalized channel-first images "
    "you should pass `normalize_images=False`: \n"
    "https://stable-baselines3.readthedocs.io/en/master/guide/custom_env.html"
)


class BaseFeaturesExtractor(nn.Module):
    """
    Base class of features extractors: preprocessed observations to features, float32 ``[B, features_dim]``.

    Images arrive channels first, ``[B, C, H, W]``, dictionaries as dictionaries.
    """

    def __call__(self, observations: Any) -> jax.Array:
        raise NotImplementedError

    @classmethod
    def for_space(cls, observation_space: spaces.Space, **kwargs: Any) -> "BaseFeaturesExtractor":
        """
        Return an extractor for a space; override it to derive arguments from the space or to refuse it.

        :param observation_space: the policy's
        :param kwargs: ``features_extractor_kwargs``
        """
        arguments: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in kwargs.items()
        }
        return cls(**arguments)


class FlattenExtractor(BaseFeaturesExtractor):
    """Flattens observations."""

    def __call__(self, observations: jax.Array) -> jax.Array:
        return observations.reshape(observations.shape[0], -1)


class NatureCNN(BaseFeaturesExtractor):
    """
    The network of the DQN paper, Mnih et al., "Human-level control through deep reinforcement learning", Nature 518 (2015).

    :param features_dim: number of features
    :param normalized_image: whether to skip the check that the space holds uint8 images with values in 0..255
    """

    features_dim: int = 512
    normalized_image: bool = False

    def setup(self) -> None:
        self.cnn = ConvolutionStack(NATURE_CNN)
        self.linear = Mlp((self.features_dim,), nn.relu)

    def __call__(self, observations: jax.Array) -> jax.Array:
        return self.linear(self.cnn(observations))

    @classmethod
    def for_space(cls, observation_space: spaces.Space, **kwargs: Any) -> "BaseFeaturesExtractor":
        assert isinstance(observation_space, spaces.Box), (
            "NatureCNN must be used with a gym.spaces.Box ",
            f"observation space, not {observation_space}",
        )
        normalized_image = kwargs.get("normalized_image", False)
        assert is_image_space(observation_space, normalized_image=normalized_image), NOT_AN_IMAGE.format(observation_space)
        return super().for_space(observation_space, **kwargs)


class Extractors(nn.Module):
    """
    One NatureCNN per image of a dictionary; everything else is flattened; the results are concatenated.

    :param keys: the dictionary's, in the order of the space
    :param image_keys: those that hold images
    :param cnn_output_dim: features of each image
    """

    keys: tuple[str, ...]
    image_keys: tuple[str, ...]
    cnn_output_dim: int

    @nn.compact
    def __call__(self, observations: dict[str, jax.Array]) -> jax.Array:
        features = []
        for key in self.keys:
            extractor = NatureCNN(self.cnn_output_dim, name=key) if key in self.image_keys else FlattenExtractor()
            features.append(extractor(observations[key]))
        return jnp.concatenate(features, axis=1)


class CombinedExtractor(BaseFeaturesExtractor):
    """
    Features of a dictionary of observations, see :class:`Extractors`.

    :param keys: the dictionary's, in the order of the space
    :param image_keys: those that hold images
    :param cnn_output_dim: features of each image
    :param normalized_image: whether any Box with three dimensions counts as an image
    """

    keys: tuple[str, ...] = ()
    image_keys: tuple[str, ...] = ()
    cnn_output_dim: int = 256
    normalized_image: bool = False

    def setup(self) -> None:
        self.extractors = Extractors(self.keys, self.image_keys, self.cnn_output_dim)

    def __call__(self, observations: dict[str, jax.Array]) -> jax.Array:
        return self.extractors(observations)

    @classmethod
    def for_space(cls, observation_space: spaces.Space, **kwargs: Any) -> "BaseFeaturesExtractor":
        assert isinstance(observation_space, spaces.Dict), (
            f"CombinedExtractor must be used with a gym.spaces.Dict observation space, not {observation_space} "
            "(you are probably using `MultiInputPolicy` instead of `MlpPolicy` or `CnnPolicy`)"
        )
        normalized = kwargs.get("normalized_image", False)
        subspaces = observation_space.spaces
        images = tuple(key for key, space in subspaces.items() if is_image_space(space, normalized_image=normalized))
        return super().for_space(observation_space, keys=tuple(subspaces), image_keys=images, **kwargs)


def make_features_extractor(cls: Any, observation_space: spaces.Space, kwargs: dict[str, Any]) -> nn.Module:
    """
    Return a features extractor of a Flax class.

    :param cls: a :class:`BaseFeaturesExtractor`, or any ``flax.linen.Module``
    :param observation_space: the policy's
    :param kwargs: ``features_extractor_kwargs``
    :raises TypeError: for any other class, or for arguments that it does not take
    """
    if isinstance(cls, type) and issubclass(cls, BaseFeaturesExtractor):
        return cls.for_space(observation_space, **kwargs)
    if isinstance(cls, type) and issubclass(cls, nn.Module):
        names = {field.name for field in dataclasses.fields(cls)}
        given = {"observation_space": observation_space} if "observation_space" in names else {}
        return cls(**given, **kwargs)
    raise TypeError(f"`features_extractor_class` must be a class of flax.linen.Module, got {cls!r}.")
