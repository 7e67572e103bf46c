"""Errors that name the argument and the remedy, raised before anything runs."""

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

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


def check_positive_integer(name: str, value: Any) -> None:
    """
    :raises ValueError: if a value is not an integer of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"`{name}` must be an integer of at least 1, got {value!r}.")


def check_fraction(name: str, value: Any) -> None:
    """
    :raises ValueError: if a value is not a number between 0 and 1
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0.0 <= value <= 1.0:
        raise ValueError(f"`{name}` must be a number between 0 and 1, got {value!r}.")


def check_finite(what: str, value: Any, n_steps: int) -> None:
    """
    :param what: "observations" or "rewards"
    :param value: an array, or a dictionary of arrays
    :param n_steps: time steps so far, for the message
    :raises ValueError: if a number is NaN or infinite
    """
    for key, array in value.items() if isinstance(value, dict) else [("", value)]:
        if np.issubdtype(array.dtype, np.floating) and not np.all(np.isfinite(array)):
            where = f" under the key {key!r}" if key else ""
            raise ValueError(
                f"The environment returned {what} that are NaN or infinite{where} after {n_steps} time steps. "
                "The parameters are those of the last update. Wrap the environment in SB3's `VecCheckNan` to find the cause."
            )
