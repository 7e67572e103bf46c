"""Flappy Bird as a Gymnasium environment: one game."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from sbx_flappy.envs.constants import (
    BACKGROUNDS,
    BIRD_COLORS,
    FLAP,
    GAME_FPS,
    GLIDE,
    MAX_PIPE_GAP,
    MIN_PIPE_GAP,
    OBS_TYPES,
    PIPE_COLORS,
)
from sbx_flappy.envs.native_game import NativeGame, SavedGame
from sbx_flappy.envs.rules import GameState
from sbx_flappy.envs.window import ShowInWindow, may_have_display
from sbx_flappy.envs.wrappers import (
    FlapCooldown,
    FrameSkip,
    PixelObservation,
    UpstreamGame,
    check_integer,
)


class Game(Protocol):
    """What the env asks of an engine: a game whose steps are the agent's. Every :class:`gymnasium.Env` has these."""

    np_random: np.random.Generator

    @property
    def observation_space(self) -> Any:
        """The space of the observations."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game with ``np_random``; ``{"fresh": True}`` starts it as newly made."""

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


def make_pygame_game(
    obs_type: str,
    frame_skip: int,
    flap_cooldown: int,
    pipe_gap: int,
    render_mode: str | None,
    bird_color: str,
    pipe_color: str,
    background: str | None,
) -> Game:
    """Return upstream's game under the wrappers. The arguments are those of :class:`FlappyBirdEnv`."""
    game = UpstreamGame(pipe_gap, bird_color, pipe_color, background)
    env: gym.Env = PixelObservation(game) if obs_type == "pixels" else game
    if render_mode == "human":
        env = ShowInWindow(env, lambda: game.draw(show_score=True))
    env = FlapCooldown(env, flap_cooldown)
    return FrameSkip(env, frame_skip, max_pool=obs_type == "pixels")


ENGINES: dict[str, Callable[..., Game]] = {"native": NativeGame, "pygame": make_pygame_game}


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """:raises ValueError: if a value is none of the choices"""
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_action(action: Any) -> int:
    """
    Return an action as an int.

    :raises ValueError: if it is not a single 0 or 1
    """
    array = np.asarray(action)
    if array.shape == () and array.dtype.kind in "biu" and array in (GLIDE, FLAP):
        return int(array)
    raise ValueError(f"The action must be a single integer, {GLIDE} (glide) or {FLAP} (flap), got {action!r}.")


class FlappyBirdEnv(gym.Env[np.ndarray, int]):
    """
    Flappy Bird. The action is 0 (glide) or 1 (flap), repeated for all the frames of a step.

    - Reward: upstream's, summed over the frames of the step. A frame gives 0.1, or 1 when a pipe is passed, or -0.5 above the
      screen, or -1 at the crash that ends the game; the later in this list takes the place of the earlier.
    - ``info["score"]``: pipes passed in this episode.
    - The env itself never truncates; ``gymnasium.make`` adds the ids' time limits.
    - ``render_mode`` never changes an observation. "human" shows every frame with the score, at 30 frames a second;
      "rgb_array" returns the last frame of the step without it, (512, 288, 3), uint8. ``metadata["render_fps"]`` is the number
      of steps per second at which a recording of one frame per step plays at the game's speed, rounded.

    The defaults are those of ``FlappyBird-v0``.

    Differences from upstream's env: no lidar, frame skip, a cool-down of flaps, a wider gap by default; a reset with a seed
    starts the game as newly made, ground and wings included, so that a seed determines all that follows.

    :param obs_type: "pixels": (84, 84, 1), uint8, the maximum of the last two frames of the step (see :class:`FrameSkip`);
        "features": upstream's 12 normalised numbers of the last frame, float32
    :param frame_skip: frames per step
    :param flap_cooldown: frames from a flap to the next possible one (see :class:`FlapCooldown`); 0: no such rule
    :param pipe_gap: height of the gap between two pipes, in pixels
    :param engine: what plays the game. "native": rules and a renderer of ours, equal to upstream's in every number and every
        pixel of an observation, and about ten times faster; "pygame": upstream's env
    :param render_mode: None, "human" or "rgb_array"
    :param bird_color: "yellow", "blue" or "red"
    :param pipe_color: "green" or "red"
    :param background: "day", "night" or None (plain gray)
    :raises ValueError: if an argument is none of those above
    :raises RuntimeError: if ``render_mode`` is "human" and there is no display
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": GAME_FPS}

    def __init__(
        self,
        obs_type: str = "pixels",
        frame_skip: int = 4,
        flap_cooldown: int = 4,
        pipe_gap: int = 150,
        engine: str = "native",
        render_mode: str | None = None,
        bird_color: str = "yellow",
        pipe_color: str = "green",
        background: str | None = "day",
    ) -> None:
        check_choice("obs_type", obs_type, OBS_TYPES)
        check_choice("engine", engine, tuple(ENGINES))
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        check_choice("bird_color", bird_color, BIRD_COLORS)
        check_choice("pipe_color", pipe_color, PIPE_COLORS)
        check_choice("background", background, BACKGROUNDS)
        frame_skip = check_integer("frame_skip", frame_skip, 1)
        flap_cooldown = check_integer("flap_cooldown", flap_cooldown, 0, reason=" (0: no cool-down)")
        reason = " (no bird gets through a smaller one, and a larger one leaves the screen)"
        pipe_gap = check_integer("pipe_gap", pipe_gap, MIN_PIPE_GAP, MAX_PIPE_GAP, reason)
        self.render_mode = render_mode
        self.metadata = self._own_metadata(frame_skip)
        self.game = ENGINES[engine](
            obs_type=obs_type,
            frame_skip=frame_skip,
            flap_cooldown=flap_cooldown,
            pipe_gap=pipe_gap,
            render_mode=render_mode,
            bird_color=bird_color,
            pipe_color=pipe_color,
            background=background,
        )
        self.observation_space = self.game.observation_space
        self.action_space = gym.spaces.Discrete(2)  # type: ignore[assignment]
        self._started = False
        self._over = False

    def _own_metadata(self, frame_skip: int) -> dict[str, Any]:
        """
        Return the class's metadata with this instance's speed, and without "human" where there is no display.

        gymnasium's ``check_env`` makes an env for every mode that an instance offers.
        """
        modes = ["human", "rgb_array"] if self.render_mode == "human" or may_have_display() else ["rgb_array"]
        return {**self.metadata, "render_modes": modes, "render_fps": max(round(GAME_FPS / frame_skip), 1)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """
        Start a new game.

        :param seed: determines all that follows, also the games after later resets without a seed
        :param options: none are known
        :raises ValueError: if there are options
        """
        if options:
            raise ValueError(f"`options` must be empty: this env has no options for a reset, got {options!r}.")
        super().reset(seed=seed)
        self.game.np_random = self.np_random
        observation, info = self.game.reset(options={"fresh": seed is not None})
        self._started, self._over = True, False
        return observation, info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """
        Play a step.

        :param action: 0 or 1, an int, or a 0-d array of integers
        :raises ValueError: if it is another action
        :raises gymnasium.error.ResetNeeded: before the first reset and after the end of a game
        """
        self._check_started("step")
        if self._over:
            raise ResetNeeded("Cannot call env.step(): the game is over. Call env.reset() to start a new one.")
        observation, reward, terminated, truncated, info = self.game.step(check_action(action))
        self._over = terminated
        return observation, reward, terminated, truncated, info

    def get_state(self) -> Any:
        """
        Return all that the game remembers, its random generator included, as plain numbers that can be pickled.

        :raises NotImplementedError: with ``engine="pygame"``
        :raises gymnasium.error.ResetNeeded: before the first reset
        """
        game = self._resumable_game()
        self._check_started("get_state")
        return game.get_state()

    def set_state(self, state: Any) -> None:
        """
        Go on from a state: the same actions lead to the same observations, rewards and later games.

        :param state: what :meth:`get_state` returned, here or in another env with the same arguments
        :raises NotImplementedError: with ``engine="pygame"``
        :raises TypeError: if it is no such state
        :raises ValueError: if it holds what no game remembers, or a random generator of another kind than the env's. The game
            is as before after an error.
        """
        game = self._resumable_game()
        self.game.np_random = self.np_random
        game.set_state(state)
        self._started, self._over = True, state.state.terminated

    def get_plain_state(self) -> dict[str, Any]:
        """Return what :meth:`get_state` returns, and raise what it raises, as a dictionary of plain tuples and numbers."""
        saved = self.get_state()
        return {"state": tuple(saved.state), "generator": saved.generator}

    def set_plain_state(self, state: dict[str, Any]) -> None:
        """
        Go on from a state, see :meth:`set_state`.

        :param state: what :meth:`get_plain_state` returned
        """
        self.set_state(SavedGame(GameState(*state["state"]), state["generator"]))

    def _resumable_game(self) -> ResumableGame:
        """:raises NotImplementedError: if the engine cannot save its game"""
        if not isinstance(self.game, ResumableGame):
            raise NotImplementedError("Only engine='native' can save and restore a game.")
        return self.game

    def render(self) -> np.ndarray | None:
        """Return the last frame with "rgb_array"; show it again and return None with "human"."""
        if self.render_mode is None:
            gym.logger.warn("render() shows nothing with render_mode=None: make the env with 'rgb_array' or 'human'.")
            return None
        self._check_started("render")
        return self.game.render()

    def _check_started(self, method: str) -> None:
        """:raises gymnasium.error.ResetNeeded: before the first reset"""
        if not self._started:
            raise ResetNeeded(f"Cannot call env.{method}() before env.reset().")

    def close(self) -> None:
        """Close this env's window, if it has one; other envs go on. An env may be closed twice."""
        self.game.close()
