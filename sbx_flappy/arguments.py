"""Checks of arguments, for every room of the package."""

from typing import Any

import numpy as np


def check_integer(name: str, value: Any, low: int = 1, high: int | None = None, reason: str = "") -> int:
    """
    Return an argument as an int.

    :param name: the argument's name, for the message
    :param value: what was passed
    :param low: the smallest valid value
    :param high: the largest valid value; None: there is none
    :param reason: why the bounds are what they are, for the message
    :raises ValueError: if the value is not an integer within the bounds
    """
    bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        raise ValueError(f"`{name}` must be an integer {bounds}{reason}, got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: tuple[str | None, ...]) -> None:
    """
    Check that an argument is one of a few strings or None.

    :param name: the argument's name, for the message
    :param value: what was passed
    :param choices: the valid values
    :raises ValueError: if the value is not one of them
    """
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}.")
