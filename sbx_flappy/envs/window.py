"""The window in which people watch a game."""

import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pygame

from sbx_flappy.envs.constants import GAME_FPS
from sbx_flappy.envs.wrappers import FrameWrapper, Outcome

#: Drivers of SDL that show nothing. Without a display, SDL takes one of them in silence.
INVISIBLE_DRIVERS = ("dummy", "offscreen", "evdev")

NO_DISPLAY = (
    "render_mode='human' needs a display, and there is none ({reason}). Use render_mode='rgb_array' (or None), with RL-Zoo's "
    "enjoy --no-render, or set the environment variable SDL_VIDEODRIVER=dummy to play without showing anything."
)


class NoDisplayError(RuntimeError):
    """A window was asked for where nothing can show it."""


def may_have_display() -> bool:
    """Return whether the machine seems to have a display, without starting one."""
    names = ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in names)


def start_display() -> None:
    """
    Start pygame's display, unless it runs.

    :raises NoDisplayError: if it would show nothing, and not because the user has chosen so by SDL_VIDEODRIVER
    """
    was_running = pygame.display.get_init()
    try:
        pygame.display.init()
        driver = pygame.display.get_driver()
    except pygame.error as error:
        raise NoDisplayError(NO_DISPLAY.format(reason=error)) from error
    if driver in INVISIBLE_DRIVERS and not os.environ.get("SDL_VIDEODRIVER"):
        if not was_running:
            pygame.display.quit()
        raise NoDisplayError(NO_DISPLAY.format(reason=f"SDL offers only its driver {driver!r}"))


class HumanWindow:
    """
    A window that shows the frames of a game, 30 a second.

    pygame has one window per process, so the windows of several envs are one. It is closed with the last of them.

    :param draw: returns the last frame: a surface, or an array (height, width, 3), uint8
    :param fps: frames per second; 0 does not wait
    :raises NoDisplayError: if there is none
    """

    open_windows: "weakref.WeakSet[HumanWindow]" = weakref.WeakSet()

    def __init__(self, draw: Callable[[], pygame.Surface | np.ndarray], fps: int = GAME_FPS) -> None:
        start_display()
        self.draw = draw
        self.fps = fps
        self._clock = pygame.time.Clock()
        self.open_windows.add(self)

    def show(self) -> None:
        """Show the last frame for its time."""
        self.blit()
        self._clock.tick(self.fps)

    def blit(self) -> None:
        """Copy the last frame to the window, which is opened again if another env or program has closed it."""
        if self not in self.open_windows:
            return
        frame = self.draw()
        surface = frame if isinstance(frame, pygame.Surface) else pygame.surfarray.make_surface(frame.swapaxes(0, 1))
        window = pygame.display.get_surface() if pygame.display.get_init() else None
        if window is None or window.get_size() != surface.get_size():
            window = pygame.display.set_mode(surface.get_size())
        pygame.event.pump()
        window.blit(surface, (0, 0))
        pygame.display.flip()

    def close(self) -> None:
        """Close the window if no other env shows its frames in it."""
        if self in self.open_windows:
            self.open_windows.discard(self)
            if not self.open_windows:
                pygame.display.quit()


class ShowInWindow(FrameWrapper):
    """
    Show every frame of an env in a window.

    :param env: any env of which a step is one frame
    :param draw: see :class:`HumanWindow`
    """

    def __init__(self, env: gym.Env, draw: Callable[[], pygame.Surface | np.ndarray]) -> None:
        super().__init__(env)
        self.window = HumanWindow(draw)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the env and show its first frame."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.window.show()
        return observation, info

    def advance(self, action: Any) -> Outcome:
        """Play a frame and show it."""
        outcome = self.frames.advance(action)
        self.window.show()
        return outcome

    def render(self) -> None:
        """Show the last frame again, without waiting: each frame was shown for its time when it was played."""
        self.window.blit()

    def close(self) -> None:
        """Close the env, and the window."""
        super().close()
        self.window.close()
