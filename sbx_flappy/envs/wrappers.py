"""
The wrappers that make tasks of a game that is played frame by frame.

A step of a task plays several frames, of which an observation needs two at most. So a step of the wrappers below comes in
two halves, :class:`FrameByFrame`: ``advance`` plays a frame, ``observe`` looks at it, and a frame that is not observed is
never drawn. On an env that only has ``step``, :class:`FrameSkip` and :class:`FlapCooldown` work as well.
"""

from typing import Any, Protocol, SupportsFloat, runtime_checkable

import cv2
import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from sbx_flappy.arguments import check_integer
from sbx_flappy.envs.constants import (
    FLAP,
    FRAME_SIZE,
    GRAY_WEIGHTS,
    NO_FLAP,
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
        """Return the last frame, small and gray, a new array."""
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
            return NO_FLAP
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
