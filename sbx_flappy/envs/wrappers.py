"""
Upstream's game, and the wrappers that make the tasks of it.

A step of a task plays several frames, of which an observation needs two at most. So the wrappers below can be driven in two
halves, :class:`FrameByFrame`: ``advance`` plays a frame, ``observe`` looks at it, and a frame that nobody looks at is never
drawn. On an env that only has ``step``, :class:`FrameSkip` and :class:`FlapCooldown` work as well.
"""

from itertools import cycle
from typing import Any, Protocol, SupportsFloat, runtime_checkable

import cv2
import gymnasium as gym
import numpy as np
import pygame
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv as UpstreamEnv
from gymnasium.utils import RecordConstructorArgs

from sbx_flappy.envs.constants import (
    FLAP,
    FRAME_SIZE,
    GLIDE,
    GRAY_WEIGHTS,
    N_FEATURES,
    SCREEN_HEIGHT,
    SCREEN_WIDTH,
)

#: Reward, terminated, truncated and info of one frame
Outcome = tuple[SupportsFloat, bool, bool, dict[str, Any]]


@runtime_checkable
class FrameByFrame(Protocol):
    """An env whose ``step`` comes in two halves."""

    def advance(self, action: Any) -> Outcome:
        """Play a frame and return all that ``step`` returns but the observation."""

    def observe(self) -> Any:
        """Return the observation of the frame played last."""


class StepByStep:
    """
    Any env as a :class:`FrameByFrame` one.

    :param env: an env that only has ``step``
    """

    def __init__(self, env: gym.Env) -> None:
        self.env = env
        self.observation: Any = None

    def advance(self, action: Any) -> Outcome:
        """Step the env and keep its observation."""
        self.observation, reward, terminated, truncated, info = self.env.step(action)
        return reward, terminated, truncated, info

    def observe(self) -> Any:
        """Return the observation of the last step."""
        return self.observation


def frame_by_frame(env: gym.Env) -> FrameByFrame:
    """
    Return the two halves of an env's ``step``.

    Only the outermost env is asked: a wrapper without the two halves may change what its ``step`` returns.
    """
    return env if isinstance(env, FrameByFrame) else StepByStep(env)


def check_integer(name: str, value: Any, low: int, high: int | None = None, reason: str = "") -> int:
    """
    Return the value as an int.

    :param reason: why the bounds are what they are, for the message
    :raises ValueError: if it is not an integer from ``low`` to ``high``
    """
    bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        raise ValueError(f"`{name}` must be an integer {bounds}{reason}, got {value!r}.")
    return int(value)


class UpstreamGame(gym.Wrapper):
    """
    Upstream's game, frame by frame, on 12 numbers. It differs from the env it wraps in this:

    - it draws on request only, and the same frames whatever the task's ``render_mode``;
    - ``close`` never quits pygame, on which other envs of the process depend;
    - a reset with a seed starts the game as newly made. Upstream keeps the ground's position and the cycle of the wings over
      a reset, so that one seed gives several games. A reset without a seed keeps them, as upstream does.

    The frames are upstream's own: ``_draw_surface`` on a surface of ours, with sprites copied to the surface's pixel format.
    The 12 numbers are those of the last frame; at a crash upstream reads them before it stops the bird.

    :param pipe_gap: height of the gap between two pipes, in pixels
    :param bird_color: "yellow", "blue" or "red"
    :param pipe_color: "green" or "red"
    :param background: "day", "night" or None (plain gray)
    """

    def __init__(
        self, pipe_gap: int = 100, bird_color: str = "yellow", pipe_color: str = "green", background: str | None = "day"
    ) -> None:
        self.game = UpstreamEnv(
            use_lidar=False,
            pipe_gap=pipe_gap,
            bird_color=bird_color,
            pipe_color=pipe_color,
            background=background,
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
        Copy the two large sprites to the surface's pixel format, which draws a frame in a tenth of the time.

        Not by ``Surface.convert``, which needs a display.
        """
        for name in ("background", "base"):
            sprite = self.game._images[name]
            if sprite is not None:
                self.game._images[name] = pygame.Surface(sprite.get_size(), 0, 32)
                self.game._images[name].blit(sprite, (0, 0))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """
        Start a new game.

        :param options: ``{"fresh": True}`` starts it as newly made, as a seed does, but keeps the random generator
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


class FrameWrapper(gym.Wrapper):
    """
    Base of the wrappers that leave an env's two halves apart.

    :param env: any env
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.frames = frame_by_frame(env)

    def advance(self, action: Any) -> Outcome:
        """Play a frame."""
        return self.frames.advance(action)

    def observe(self) -> Any:
        """Return the observation of the last frame."""
        return self.frames.observe()

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play a frame and observe it."""
        reward, terminated, truncated, info = self.advance(action)
        return self.observe(), reward, terminated, truncated, info


class PixelObservation(FrameWrapper):
    """
    Observe the rendered frame: resized to 84x84 by area, then gray, in that order; (84, 84, 1), uint8.

    Equal to gymnasium's ``ResizeObservation`` and ``GrayscaleObservation(keep_dim=True)``, bit by bit: the same call of
    OpenCV, and the same three products summed in the same order in float64.

    :param env: an env whose ``render`` returns (height, width, 3), uint8, in red, green, blue
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 255, (FRAME_SIZE, FRAME_SIZE, 1), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset the env and observe its first frame."""
        _, info = self.env.reset(seed=seed, options=options)
        return self.observe(), info

    def observe(self) -> np.ndarray:
        """Return the last frame, small and gray."""
        frame: Any = self.env.render()
        small = cv2.resize(frame, (FRAME_SIZE, FRAME_SIZE), interpolation=cv2.INTER_AREA)
        gray = small[..., 0] * GRAY_WEIGHTS[0]
        gray += small[..., 1] * GRAY_WEIGHTS[1]
        gray += small[..., 2] * GRAY_WEIGHTS[2]
        return gray.astype(np.uint8)[..., np.newaxis]


class FlapCooldown(FrameWrapper, RecordConstructorArgs):
    """
    Ignore flaps that follow a flap too soon: after a flap at frame t the next one is possible at t + ``flap_cooldown``.

    An ignored flap becomes action 0. What counts as a flap is what the player does, not what the bird makes of it: every
    action 1 that is passed on starts the cool-down, even where upstream ignores it (bird at y <= -48, far above the
    screen). So the rule depends on the actions alone, and where ``flap_cooldown`` equals the frame skip no step of the
    agent begins with a cool-down that the observation does not show. As a program on arrays, with ``wait`` = 0 at reset::

        flaps = (actions == 1) & (wait == 0)
        wait = where(flaps, max(flap_cooldown - 1, 0), max(wait - 1, 0))

    :param env: an env of which a step is one frame and action 1 a flap
    :param flap_cooldown: in frames; 0 and 1 ignore no flap, which is upstream's rule
    """

    def __init__(self, env: gym.Env, flap_cooldown: int = 4) -> None:
        RecordConstructorArgs.__init__(self, flap_cooldown=flap_cooldown)
        FrameWrapper.__init__(self, env)
        self.flap_cooldown = check_integer("flap_cooldown", flap_cooldown, 0, reason=" (0: no cool-down)")
        self._wait = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the env; the first flap is possible at once."""
        self._wait = 0
        return self.env.reset(seed=seed, options=options)

    def get_plain_state(self) -> int:
        """Return for how many frames a flap will still be ignored: what this wrapper, without the env, remembers."""
        return self._wait

    def set_plain_state(self, state: int) -> None:
        """
        Go on from a state.

        :param state: what :meth:`get_plain_state` returned
        """
        self._wait = state

    def advance(self, action: Any) -> Outcome:
        """Play a frame, without the flap if it comes too soon."""
        return self.frames.advance(self._allowed(action))

    def _allowed(self, action: Any) -> Any:
        """Return the action, or 0 in place of a flap that comes too soon."""
        waiting = self._wait > 0
        if waiting:
            self._wait -= 1
        if action != FLAP:
            return action
        if waiting:
            return GLIDE
        self._wait = max(self.flap_cooldown - 1, 0)
        return action


class FrameSkip(gym.Wrapper, RecordConstructorArgs):
    """
    Repeat each action for ``frame_skip`` frames, sum the rewards, and observe the maximum of the last two frames.

    Only frames of this very step are used, never one of an earlier step or an empty one. If the episode ends within the step
    the rest is not played, and the observation is made of those among the last two frames that were played, or of the last
    frame alone if it ended before them. So is the observation of a reset, and every one with ``frame_skip=1``.

    The info is that of the last frame played.

    :param env: any env; a :class:`FrameByFrame` one draws only the frames that are used
    :param frame_skip: frames per step
    :param max_pool: False observes the last frame alone
    """

    def __init__(self, env: gym.Env, frame_skip: int = 4, max_pool: bool = True) -> None:
        RecordConstructorArgs.__init__(self, frame_skip=frame_skip, max_pool=max_pool)
        super().__init__(env)
        self.frame_skip = check_integer("frame_skip", frame_skip, 1)
        if max_pool and not isinstance(env.observation_space, gym.spaces.Box):
            raise ValueError(f"`max_pool` needs observations of a Box space, not {env.observation_space}: use max_pool=False.")
        self.max_pool = max_pool
        self.frames = frame_by_frame(env)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play ``frame_skip`` frames, fewer at the end of an episode."""
        first_used = self.frame_skip - (2 if self.max_pool else 1)
        total, observation = 0.0, None
        for frame in range(self.frame_skip):
            reward, terminated, truncated, info = self.frames.advance(action)
            total += float(reward)
            over = terminated or truncated
            if over or frame >= first_used:
                observation = self._pool(observation, self.frames.observe())
            if over:
                break
        return observation, total, terminated, truncated, info

    def get_plain_state(self) -> None:
        """Return nothing: from one step to the next this wrapper remembers nothing."""

    def set_plain_state(self, state: None) -> None:
        """
        Do nothing, see :meth:`get_plain_state`.

        :param state: what :meth:`get_plain_state` returned
        """

    def _pool(self, earlier: Any, later: Any) -> Any:
        """Return the maximum of the step's observations so far."""
        if not self.max_pool:
            return later
        if earlier is None:
            return np.array(later)  # a copy, for an env that writes all its observations to one array
        return np.maximum(earlier, later)
