"""
Features extractors in Flax, with the names and arguments of ``stable_baselines3.common.torch_layers``.

One of your own is a :class:`BaseFeaturesExtractor` too: Flax infers the sizes, so ``__call__`` alone says what it does.
"""

import math
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from gymnasium import spaces
from stable_baselines3.common import torch_layers
from stable_baselines3.common.preprocessing import is_image_space

from sbx_flappy.common.validation import check_integer
from sbx_flappy.functional.networks import ConvolutionStack, Mlp

#: (features, kernel size, stride) of the convolutions of Mnih et al., Nature 518 (2015), pages 529-533
NATURE_CNN = ((32, 8, 4), (64, 4, 2), (64, 3, 1))

NOT_AN_IMAGE = (
    "You should use {} only with images not with {}\n"
    "(you are probably using `CnnPolicy` instead of `MlpPolicy` or `MultiInputPolicy`)\n"
    "If you are using a custom environment,\nplease check it using our env checker:\n"
    "https://stable-baselines3.readthedocs.io/en/master/common/env_checker.html.\n"
    "If you are using `VecNormalize` or already normalized channel-first images "
    "you should pass `normalize_images=False`: \n"
    "https://stable-baselines3.readthedocs.io/en/master/guide/custom_env.html"
)


def check_image_size(space: spaces.Space, layers: tuple[tuple[int, int, int], ...] = NATURE_CNN) -> None:
    """
    Check that images are large enough for convolutions without padding.

    :param space: of images, channels first
    :param layers: (features, kernel size, stride) of each convolution
    :raises ValueError: if the images are too small for the convolutions
    """
    assert space.shape is not None
    needed = 1
    for _, kernel_size, stride in reversed(layers):
        needed = (needed - 1) * stride + kernel_size
    if min(space.shape[1:]) < needed:
        raise ValueError(
            f"NatureCNN needs images of at least {needed} x {needed} pixels, channels first, got the shape {space.shape}; "
            "enlarge them or pass a `features_extractor_class` of your own."
        )


def check_layers(layers: Any) -> tuple[tuple[int, int, int], ...]:
    """
    Return the layers of a convolutional network as nested tuples.

    :param layers: three numbers for each, as :data:`NATURE_CNN`
    :raises ValueError: if they are anything else
    """
    rows = [list(row) if isinstance(row, (list, tuple)) else [] for row in layers] if isinstance(layers, (list, tuple)) else []
    if not rows or any(len(row) != 3 for row in rows):
        raise ValueError(f"`layers` must list (features, kernel size, stride) of each convolution, got {layers!r}.")
    for number in (number for row in rows for number in row):
        check_integer("layers", number)
    return tuple((row[0], row[1], row[2]) for row in rows)


class BaseFeaturesExtractor(nn.Module):
    """
    Base class of features extractors: preprocessed observations to features, float32 ``[B, features_dim]``.

    Images arrive channels first, ``[B, C, H, W]``, dictionaries as dictionaries.
    """

    def __call__(self, observations: Any) -> jax.Array:
        """Return the features of preprocessed observations."""
        raise NotImplementedError

    @classmethod
    def for_space(cls, observation_space: spaces.Space, **kwargs: Any) -> "BaseFeaturesExtractor":
        """
        Return an extractor for a space; override it to derive arguments from the space or to refuse it.

        :param observation_space: the policy's
        :param kwargs: ``features_extractor_kwargs``
        """
        return cls(**kwargs)


class FlattenExtractor(BaseFeaturesExtractor):
    """Flattens observations."""

    def __call__(self, observations: jax.Array) -> jax.Array:
        """Return observations float32 ``[B, ...]`` as ``[B, features_dim]``."""
        return observations.reshape(observations.shape[0], math.prod(observations.shape[1:]))


class NatureCNN(BaseFeaturesExtractor):
    """
    The network of the DQN paper, Mnih et al., "Human-level control through deep reinforcement learning", Nature 518 (2015).

    :param features_dim: number of features
    :param normalized_image: whether to skip the check that the space holds uint8 images with values in 0..255
    :param layers: (not in SB3) features, kernel size and stride of each convolution, for a smaller network
    """

    #: of the convolutions, see ``functional.networks.Conv2d``
    padding: ClassVar[str] = "VALID"

    features_dim: int = 512
    normalized_image: bool = False
    layers: tuple[tuple[int, int, int], ...] = NATURE_CNN

    def setup(self) -> None:
        """Create the layers, under torch SB3's names."""
        self.cnn = ConvolutionStack(self.layers, self.padding)
        self.linear = Mlp((self.features_dim,), nn.relu)

    def __call__(self, observations: jax.Array) -> jax.Array:
        """Return the features of images, float32 ``[B, C, H, W]`` to ``[B, features_dim]``."""
        return self.linear(self.cnn(observations))

    @classmethod
    def for_space(cls, observation_space: spaces.Space, **kwargs: Any) -> "BaseFeaturesExtractor":
        """Return an extractor for a space of images, see the base class."""
        assert isinstance(observation_space, spaces.Box), (
            f"{cls.__name__} must be used with a gym.spaces.Box ",
            f"observation space, not {observation_space}",
        )
        normalized_image = kwargs.get("normalized_image", False)
        assert is_image_space(observation_space, normalized_image=normalized_image), NOT_AN_IMAGE.format(
            cls.__name__, observation_space
        )
        kwargs["layers"] = check_layers(kwargs.get("layers", NATURE_CNN))
        if cls.padding == "VALID":
            check_image_size(observation_space, kwargs["layers"])
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
        """Return the features of a dictionary of observations, float32 ``[B, features_dim]``."""
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
        """Create the extractors of the keys, under torch SB3's name."""
        self.extractors = Extractors(self.keys, self.image_keys, self.cnn_output_dim)

    def __call__(self, observations: dict[str, jax.Array]) -> jax.Array:
        """Return the features of a dictionary of observations, float32 ``[B, features_dim]``."""
        return self.extractors(observations)

    @classmethod
    def for_space(cls, observation_space: spaces.Space, **kwargs: Any) -> "BaseFeaturesExtractor":
        """Return an extractor for a space of dictionaries, see the base class."""
        assert isinstance(observation_space, spaces.Dict), (
            f"CombinedExtractor must be used with a gym.spaces.Dict observation space, not {observation_space} "
            "(you are probably using `MultiInputPolicy` instead of `MlpPolicy` or `CnnPolicy`)"
        )
        normalized = kwargs.get("normalized_image", False)
        subspaces = observation_space.spaces
        images = tuple(key for key, space in subspaces.items() if is_image_space(space, normalized_image=normalized))
        for key in images:
            check_image_size(subspaces[key])
        return super().for_space(observation_space, keys=tuple(subspaces), image_keys=images, **kwargs)


#: torch SB3's features extractors, for those who pass them (RL-Zoo does)
TORCH_EXTRACTORS: dict[type, type[BaseFeaturesExtractor]] = {
    torch_layers.FlattenExtractor: FlattenExtractor,
    torch_layers.NatureCNN: NatureCNN,
    torch_layers.CombinedExtractor: CombinedExtractor,
}


def get_extractor_class(features_extractor_class: Any) -> Any:
    """
    Return a features extractor's class in Flax.

    :param features_extractor_class: a :class:`BaseFeaturesExtractor`, any ``flax.linen.Module``, or torch SB3's class
    :raises TypeError: for anything else
    """
    if isinstance(features_extractor_class, type):
        cls = TORCH_EXTRACTORS.get(features_extractor_class, features_extractor_class)
        if issubclass(cls, nn.Module):
            return cls
    raise TypeError(f"`features_extractor_class` must be a class of flax.linen.Module, got {features_extractor_class!r}.")


def make_features_extractor(cls: Any, observation_space: spaces.Space, kwargs: dict[str, Any]) -> nn.Module:
    """
    Return a features extractor.

    :param cls: a :class:`BaseFeaturesExtractor`, or any ``flax.linen.Module``
    :param observation_space: the policy's
    :param kwargs: ``features_extractor_kwargs``
    :raises TypeError: for arguments that it does not take, or that are not hashable
    """
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in kwargs.items()}
    is_base = issubclass(cls, BaseFeaturesExtractor)
    extractor = cls.for_space(observation_space, **arguments) if is_base else cls(**arguments)
    try:
        hash(extractor)
    except TypeError as e:
        raise TypeError(
            f"The fields of {cls.__name__} must be hashable (numbers, strings, tuples), because they select a compiled "
            f"program: {e}. Derive what depends on the space in `for_space`, see `BaseFeaturesExtractor`."
        ) from e
    return extractor
