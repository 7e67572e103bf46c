"""The options of a game, as one value."""

from dataclasses import dataclass
from typing import NamedTuple

from sbx_flappy.arguments import check_choice, check_integer
from sbx_flappy.envs.constants import (
    BACKGROUNDS,
    BIRD_COLORS,
    MAX_PIPE_GAP,
    MIN_PIPE_GAP,
    OBS_TYPES,
    PIPE_COLORS,
)


class Colors(NamedTuple):
    """
    The choice among upstream's sprites.

    :param bird_color: "yellow", "blue" or "red"
    :param pipe_color: "green" or "red"
    :param background: "day", "night" or None (plain gray)
    """

    bird_color: str = "yellow"
    pipe_color: str = "green"
    background: str | None = "day"


@dataclass(frozen=True)
class GameOptions:
    """
    All that distinguishes one game from another. The defaults are those of ``FlappyBird-v0``.

    :param obs_type: "pixels" or "features"
    :param frame_skip: frames per step
    :param flap_cooldown: frames from a flap to the next possible one; 0: no cool-down
    :param pipe_gap: height of the gap between two pipes, in pixels
    :param bird_color: "yellow", "blue" or "red"
    :param pipe_color: "green" or "red"
    :param background: "day", "night" or None (plain gray)
    :raises ValueError: if an option is not one of these
    """

    obs_type: str = "pixels"
    frame_skip: int = 4
    flap_cooldown: int = 4
    pipe_gap: int = 150
    bird_color: str = "yellow"
    pipe_color: str = "green"
    background: str | None = "day"

    def __post_init__(self) -> None:
        check_choice("obs_type", self.obs_type, OBS_TYPES)
        check_choice("bird_color", self.bird_color, BIRD_COLORS)
        check_choice("pipe_color", self.pipe_color, PIPE_COLORS)
        check_choice("background", self.background, BACKGROUNDS)
        self._set_integer("frame_skip", 1)
        self._set_integer("flap_cooldown", 0, reason=" (0: no cool-down)")
        reason = " (no bird gets through a smaller one, and a larger one leaves the screen)"
        self._set_integer("pipe_gap", MIN_PIPE_GAP, MAX_PIPE_GAP, reason)

    def _set_integer(self, name: str, low: int, high: int | None = None, reason: str = "") -> None:
        """Replace NumPy's integers by Python's, see :func:`~sbx_flappy.arguments.check_integer`."""
        object.__setattr__(self, name, check_integer(name, getattr(self, name), low, high, reason))

    @property
    def colors(self) -> Colors:
        """The options of the sprites."""
        return Colors(self.bird_color, self.pipe_color, self.background)
