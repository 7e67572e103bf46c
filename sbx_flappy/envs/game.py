"""What :class:`~.gym_env.FlappyBirdEnv` asks of an engine."""

from typing import Any, Protocol, runtime_checkable

import numpy as np


class Game(Protocol):
    """What the env asks of an engine: a game whose steps are the agent's. Every :class:`gymnasium.Env` has these."""

    np_random: np.random.Generator

    @property
    def observation_space(self) -> Any:
        """The space of the observations."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game with ``np_random``; ``{"fresh": True}`` also resets ground and wings."""

    def step(self, action: int) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Play all the frames of a step."""

    def render(self) -> Any:
        """Return the last frame at full size; in a window, show it and return None."""

    def close(self) -> None:
        """Close the game's window, if it has one."""


@runtime_checkable
class ResumableGame(Protocol):
    """What :meth:`FlappyBirdEnv.get_state` and ``set_state`` ask of an engine."""

    def get_state(self) -> Any:
        """Return all that the game remembers; its ``state.terminated`` tells whether it is over."""

    def set_state(self, saved: Any) -> None:
        """Go on from what ``get_state`` returned, drawing from ``np_random``."""
