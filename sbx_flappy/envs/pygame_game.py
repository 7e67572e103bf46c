"""The pygame engine behind :class:`~.gym_env.FlappyBirdEnv`: upstream's own game under wrappers."""

from itertools import cycle
from typing import Any, SupportsFloat

import cv2
import gymnasium as gym
import numpy as np
import pygame
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv as UpstreamEnv

from sbx_flappy.envs.constants import DEFAULT_PIPE_GAP, N_FEATURES, SCREEN_HEIGHT, SCREEN_WIDTH
from sbx_flappy.envs.options import Colors, GameOptions
from sbx_flappy.envs.window import ShowInWindow
from sbx_flappy.envs.wrappers import FlapCooldown, FrameSkip, Outcome, PixelObservation


def make_pygame_game(options: GameOptions, render_mode: str | None = None) -> gym.Env:
    """
    Return upstream's game under the wrappers.

    :param options: of the game
    :param render_mode: None, "human" or "rgb_array"
    """
    game = UpstreamGame(options.pipe_gap, options.colors)
    pixels = options.obs_type == "pixels"
    env: gym.Env = PixelObservation(game) if pixels else game
    if render_mode == "human":
        env = ShowInWindow(env, lambda: game.draw(show_score=True))
    env = FlapCooldown(env, options.flap_cooldown)
    return FrameSkip(env, options.frame_skip, max_pool=pixels)


class UpstreamGame(gym.Wrapper):
    """
    Upstream's game, frame by frame, observed as 12 numbers.

    Differences from the env that it wraps:

    - it draws on request only, and the same frames whatever the task's ``render_mode``;
    - ``close`` never quits pygame, on which other envs of the process depend;
    - a reset with a seed starts the game like that of a new env. Upstream keeps the ground's position and the cycle of the
      wings over a reset, so that one seed gives several games. A reset without a seed keeps them, as upstream does.

    The frames are upstream's own: ``_draw_surface`` on another surface, with sprites copied to the surface's pixel format. The
    12 numbers are those of the last frame; at a crash upstream reads them before it stops the bird.

    :param pipe_gap: height of the gap between two pipes, in pixels
    :param colors: of the sprites; None: a yellow bird, green pipes, by day
    """

    def __init__(self, pipe_gap: int = DEFAULT_PIPE_GAP, colors: Colors | None = None) -> None:
        self.game = UpstreamEnv(
            use_lidar=False,
            pipe_gap=pipe_gap,
            **(colors or Colors())._asdict(),
            render_mode="rgb_array",  # upstream loads its sprites only with a render mode; this one never draws by itself
        )
        super().__init__(self.game)
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (N_FEATURES,), np.float32)
        self.game._surface = pygame.Surface((SCREEN_WIDTH, SCREEN_HEIGHT), 0, 32)
        self._convert_sprites()
        self._features: np.ndarray = np.zeros(N_FEATURES)
        # What the surface shows: None if it is older than the game, otherwise whether the score is on it.
        self._drawn_score: bool | None = None

    def _convert_sprites(self) -> None:
        """
        Copy the two large sprites to the surface's pixel format, in which a frame is drawn ten times faster.

        ``Surface.convert`` would need a display.
        """
        for name in ("background", "base"):
            sprite = self.game._images[name]
            if sprite is not None:
                self.game._images[name] = pygame.Surface(sprite.get_size(), 0, 32)
                self.game._images[name].blit(sprite, (0, 0))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """
        Start a new game.

        :param options: ``{"fresh": True}`` resets ground and wings, as a seed does, but keeps the random generator
        """
        if seed is not None or (options or {}).get("fresh"):
            self.game._ground["x"] = 0
            self.game._player_idx_gen = cycle([0, 1, 2, 1])
        self._features, info = self.game.reset(seed=seed)
        self._drawn_score = None
        return self.observe(), info

    def advance(self, action: Any) -> Outcome:
        """Play a frame."""
        self._features, reward, terminated, truncated, info = self.game.step(action)
        self._drawn_score = None
        return reward, terminated, truncated, info

    def observe(self) -> np.ndarray:
        """Return the 12 numbers, float32."""
        return self._features.astype(np.float32)

    def step(self, action: Any) -> tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play a frame and observe it."""
        reward, terminated, truncated, info = self.advance(action)
        return self.observe(), reward, terminated, truncated, info

    def draw(self, show_score: bool) -> pygame.Surface:
        """Return the surface with the last frame on it."""
        if self._drawn_score is not show_score:
            self.game._draw_surface(show_score=show_score, show_rays=False)
            self._drawn_score = show_score
        return self.game._surface

    def render(self) -> np.ndarray:
        """
        Return the last frame without the score, as upstream does: (512, 288, 3), uint8, a new array.

        The surface's memory holds rows of blue, green, red and an idle byte, so one pass over it does.
        """
        pixels = pygame.surfarray.pixels2d(self.draw(show_score=False))
        rows = pixels.T.view(np.uint8).reshape(SCREEN_HEIGHT, SCREEN_WIDTH, 4)
        return cv2.cvtColor(rows, cv2.COLOR_BGRA2RGB)

    def close(self) -> None:
        """Do nothing: what the game holds is memory, freed with it."""
