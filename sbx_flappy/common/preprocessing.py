"""
From raw observations to what a features extractor takes, with SB3's rules (``stable_baselines3.common.preprocessing``).

Every preprocessor is hashable by value, so that two policies on equal spaces share their compiled programs.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from sbx_flappy.functional.types import Array

Preprocessor = Callable[[Any], Any]
Constant = float | tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class ToFloat:
    """
    ``(observations - center) * scale`` as float32, ``[B, ...]`` to ``[B, ...]``.

    :param center: what is taken off, a number or nested tuples that broadcast to an observation
    :param scale: what it is multiplied with then
    """

    center: Constant = 0.0
    scale: Constant = 1.0

    def __call__(self, observations: Array) -> jax.Array:
        """Return scaled observations, float32 ``[B, ...]``."""
        x = jnp.asarray(observations).astype(jnp.float32)
        if self.center != 0.0:
            x = x - jnp.asarray(self.center, jnp.float32)
        return x if self.scale == 1.0 else x * jnp.asarray(self.scale, jnp.float32)


@dataclasses.dataclass(frozen=True)
class ScaleImage:
    """Pixels 0..255 to 0..1, then as :class:`ToFloat`: uint8 ``[B, C, H, W]`` to float32 of the same shape."""

    center: Constant = 0.0
    scale: Constant = 1.0

    def __call__(self, observations: Array) -> jax.Array:
        """Return scaled images, float32 ``[B, C, H, W]``."""
        return ToFloat(self.center, self.scale)(jnp.asarray(observations).astype(jnp.float32) / 255.0)


@dataclasses.dataclass(frozen=True)
class OneHot:
    """
    Integers to concatenated one-hot codes, ``[B]`` or ``[B, len(sizes)]`` to float32 ``[B, sum(sizes)]``.

    :param sizes: number of values of each integer
    """

    sizes: tuple[int, ...]

    def __call__(self, observations: Array) -> jax.Array:
        """Return one-hot codes, float32 ``[B, sum(sizes)]``."""
        integers = jnp.asarray(observations).reshape(-1, len(self.sizes))
        return jnp.concatenate([jax.nn.one_hot(integers[:, i], size) for i, size in enumerate(self.sizes)], axis=-1)


@dataclasses.dataclass(frozen=True)
class PerKey:
    """
    Each entry of a dictionary by its own preprocessor.

    :param items: (key, preprocessor) in the order of the space
    """

    items: tuple[tuple[str, Preprocessor], ...]

    def __call__(self, observations: Mapping[str, Array]) -> dict[str, jax.Array]:
        """Return a dictionary of preprocessed observations."""
        return {key: preprocess(observations[key]) for key, preprocess in self.items}


def as_constant(value: Any, name: str, space: spaces.Space) -> Constant:
    """
    Return numbers as something hashable.

    :param value: a number, or nested lists or arrays of numbers
    :param name: the argument's name, for the error
    :param space: with the shape that they must broadcast to
    :raises ValueError: if they are not finite numbers, or not of that shape
    """
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError) as e:
        raise ValueError(f"`{name}` must be a number or nested lists of numbers, got {value!r}") from e
    if not np.all(np.isfinite(array)):
        raise ValueError(f"`{name}` must be finite, got {value!r}")
    if array.ndim and not _broadcasts(array.shape, space.shape):
        raise ValueError(f"`{name}` must be one number or of the observations' shape {space.shape}, got shape {array.shape}.")
    return _as_tuples(array.tolist())


def is_scaled(center: Any, scale: Any) -> bool:
    """
    Return whether observations are changed by them.

    :param center: see :class:`ToFloat`
    :param scale: see :class:`ToFloat`
    """
    return bool(np.any(np.asarray(center) != 0.0) or np.any(np.asarray(scale) != 1.0))


def _broadcasts(shape: tuple[int, ...], target: Any) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _as_tuples(value: Any) -> Constant:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else float(value)


def check_start(space: spaces.Space, name: str) -> None:
    """
    Check that a space starts at 0.

    :param space: Discrete or MultiDiscrete
    :param name: "action" or "observation", for the error
    :raises ValueError: if it starts at another number than 0
    """
    if np.any(np.asarray(getattr(space, "start", 0)) != 0):
        raise ValueError(f"The {name} space {space} does not start at 0; shift it with a wrapper.")


def check_supported(space: Any) -> None:
    """
    Check that a policy can take a space.

    :param space: an environment's observation space
    :raises NotImplementedError: if it is of a kind, or holds one, that no policy takes
    """
    supported = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    nested = (spaces.Dict, spaces.Tuple)  # SB3 itself refuses those inside of others
    for part in space.spaces.values() if isinstance(space, spaces.Dict) else [space]:
        if isinstance(part, spaces.Space) and not isinstance(part, (*supported, *nested)):
            raise NotImplementedError(f"{part} observation space is not supported")


def make_preprocessor(space: spaces.Space, normalize_images: bool = True, center: Any = 0.0, scale: Any = 1.0) -> Preprocessor:
    """
    Return the preprocessor of an observation space.

    :param space: Box, Discrete, MultiDiscrete, MultiBinary or Dict of these
    :param normalize_images: whether pixels 0..255 become 0..1
    :param center: see :class:`ToFloat`, for Box spaces
    :param scale: see :class:`ToFloat`, for Box spaces
    :raises NotImplementedError: for any other space
    :raises ValueError: for a space without entries, and for a center or scale that it has no use for
    """
    if (space.shape is not None and 0 in space.shape) or (isinstance(space, spaces.Dict) and not space.spaces):
        raise ValueError(f"The observation space {space} has no entries.")
    if isinstance(space, spaces.Box):
        kind = ScaleImage if normalize_images and is_image_space(space) else ToFloat
        return kind(as_constant(center, "obs_center", space), as_constant(scale, "obs_scale", space))
    if is_scaled(center, scale):
        raise ValueError(f"`obs_center` and `obs_scale` are for Box observation spaces, not for {space}.")
    if isinstance(space, spaces.Dict):
        return PerKey(tuple((key, make_preprocessor(sub, normalize_images)) for key, sub in space.spaces.items()))
    return _make_integer_preprocessor(space)


def _make_integer_preprocessor(space: spaces.Space) -> Preprocessor:
    if isinstance(space, spaces.Discrete):
        check_start(space, "observation")
        return OneHot((int(space.n),))
    if isinstance(space, spaces.MultiDiscrete):
        check_start(space, "observation")
        if space.nvec.ndim != 1:
            raise NotImplementedError(f"A MultiDiscrete observation space must have one dimension, got {space}; flatten it.")
        return OneHot(tuple(int(n) for n in space.nvec))
    if isinstance(space, spaces.MultiBinary):
        return ToFloat()
    raise NotImplementedError(f"{space} observation space is not supported")
