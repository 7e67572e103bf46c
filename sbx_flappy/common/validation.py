"""Errors that name the argument and the remedy, raised before anything runs."""

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

from sbx_flappy.arguments import check_integer as check_integer

#: The largest finite float32
MAX = float(np.finfo(np.float32).max)

F = TypeVar("F", bound=Callable[..., Any])


def suggest(name: str, known: list[str]) -> str:
    """Return " Did you mean ...?" for a name that resembles a known one, otherwise the list of those known."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean '{close[0]}'?" if close else f" Known: {', '.join(known)}."


def check_keywords(init: F) -> F:
    """Let a constructor suggest the right name when it gets a keyword that it does not take."""
    known = [name for name in inspect.signature(init).parameters if name != "self" and not name.startswith("_")]

    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            if name not in known and not name.startswith("_"):
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument '{name}'.{suggest(name, known)}"
                )
        init(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]


def check_number(name: str, value: Any, low: float = -MAX, high: float = MAX) -> None:
    """
    Check a number.

    :raises ValueError: if a value is not a number between ``low`` and ``high``, by default any finite one
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not low <= value <= high:
        bounds = " between 0 and 1" if (low, high) == (0.0, 1.0) else " of at least 0" if low == 0.0 else ""
        raise ValueError(f"`{name}` must be a {'' if bounds else 'finite '}number{bounds}, got {value!r}.")


def check_finite(what: str, value: Any, n_steps: int | None = None) -> None:
    """
    Check that numbers are finite.

    :param what: "observations" or "rewards"
    :param value: an array, or a dictionary of arrays
    :param n_steps: time steps of training so far, for the message
    :raises ValueError: if a number is NaN or infinite
    """
    for key, array in value.items() if isinstance(value, dict) else [("", value)]:
        array = np.asarray(array)  # the last observation of an episode may be a plain integer
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            where = f" under the key {key!r}" if key else ""
            if n_steps is None:
                raise ValueError(f"Got {what} that are NaN or infinite{where}.")
            raise ValueError(
                f"The environment returned {what} that are NaN or infinite{where} after {n_steps} time steps. "
                "The parameters are those of the last update. Wrap the environment in SB3's `VecCheckNan` to find the cause."
            )


def check_shape(observations: Any, space: spaces.Space) -> None:
    """
    Check the shape of a batch of observations.

    :param observations: a batch of them, or a dictionary of batches
    :param space: the policy's
    :raises ValueError: if they are not a batch of observations of the space
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(observations, Mapping) or not set(space.spaces) <= set(observations):
            raise ValueError(
                f"Error: Expected a dictionary with the keys {list(space.spaces)}, got {_describe(observations)}."
            )
        for key, subspace in space.spaces.items():
            check_shape(observations[key], subspace)
    elif isinstance(space, (spaces.Box, spaces.MultiBinary)) and np.shape(observations)[1:] != space.shape:
        raise ValueError(
            f"Error: Unexpected observation shape {tuple(np.shape(observations))} for {type(space).__name__} environment, "
            f"please use (n_env, {', '.join(map(str, space.shape))}) for the observation shape."
        )


def _describe(observations: Any) -> str:
    return f"the keys {list(observations)}" if isinstance(observations, Mapping) else f"a {type(observations).__name__}"
