"""Flappy Bird as a Gymnasium environment: one game."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded

from sbx_flappy.arguments import check_choice
from sbx_flappy.envs.constants import FLAP, GAME_FPS, NO_FLAP
from sbx_flappy.envs.game import Game, ResumableGame
from sbx_flappy.envs.native_game import NativeGame
from sbx_flappy.envs.options import GameOptions
from sbx_flappy.envs.pygame_game import make_pygame_game
from sbx_flappy.envs.rules import GameState
from sbx_flappy.envs.saved_game import SavedGame
from sbx_flappy.envs.window import may_have_display

#: What makes a game of its options and the render mode, by the name of the engine
ENGINES: dict[str, Callable[[GameOptions, str | None], Game]] = {"native": NativeGame, "pygame": make_pygame_game}


def check_action(action: Any) -> int:
    """
    Return an action as an int.

    :raises ValueError: if it is not a single 0 or 1
    """
    array = np.asarray(action)
    if array.shape == () and array.dtype.kind in "biu" and array in (NO_FLAP, FLAP):
        return int(array)
    raise ValueError(f"The action must be a single integer, {NO_FLAP} (no flap) or {FLAP} (flap), got {action!r}.")


class FlappyBirdEnv(gym.Env[np.ndarray, int]):
    """
    Flappy Bird. The action is 0 (no flap) or 1 (flap), repeated for all the frames of a step.

    - Reward: upstream's, summed over the frames of the step. A frame gives 0.1, or 1 when a pipe is passed, or -0.5 above the
      screen, or -1 at the crash that ends the game; the later in this list takes the place of the earlier.
    - ``info["score"]``: pipes passed in this episode.
    - The env itself never truncates; ``gymnasium.make`` adds the ids' time limits.
    - ``render_mode`` never changes an observation. "human" shows every frame with the score, at 30 frames a second;
      "rgb_array" returns the last frame of the step without it, (512, 288, 3), uint8. ``metadata["render_fps"]`` is the number
      of steps per second at which a recording of one frame per step plays at the game's speed, rounded.

    The defaults are those of ``FlappyBird-v0``.

    Differences from upstream's env: no lidar, frame skip, a cool-down of flaps, a wider gap by default; a reset with a seed
    starts the game like that of a new env, ground and wings included, so that a seed determines all that follows.

    :param obs_type: "pixels": (84, 84, 1), uint8, the maximum of the last two frames of the step (see :class:`FrameSkip`);
        "features": upstream's 12 normalised numbers of the last frame, float32
    :param frame_skip: frames per step
    :param flap_cooldown: frames from a flap to the next possible one (see :class:`FlapCooldown`); 0: no cool-down
    :param pipe_gap: height of the gap between two pipes, in pixels
    :param engine: what plays the game. "native": this package's rules and renderer, equal to upstream's in every number and
        every pixel of an observation, and about ten times faster; "pygame": upstream's env
    :param render_mode: None, "human" or "rgb_array"
    :param bird_color: "yellow", "blue" or "red"
    :param pipe_color: "green" or "red"
    :param background: "day", "night" or None (plain gray)
    :raises ValueError: if an argument is not one of these
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
        check_choice("engine", engine, tuple(ENGINES))
        check_choice("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        game_options = GameOptions(obs_type, frame_skip, flap_cooldown, pipe_gap, bird_color, pipe_color, background)
        self.render_mode = render_mode
        self.metadata = self._own_metadata(game_options.frame_skip)
        self.game = ENGINES[engine](game_options, render_mode)
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
        :param options: must be empty
        :raises ValueError: if it is not
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
        :raises TypeError: if it is not
        :raises ValueError: if it holds values that no game has, or a random generator of another kind than the env's. An
            error leaves the game unchanged.
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
        """
        Return the game, if its state can be saved.

        :raises NotImplementedError: if the engine has no such games
        """
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
        """
        Check that there was a reset.

        :param method: that needs one, for the message
        :raises gymnasium.error.ResetNeeded: before the first reset
        """
        if not self._started:
            raise ResetNeeded(f"Cannot call env.{method}() before env.reset().")

    def close(self) -> None:
        """Close this env's window, if it has one; other envs go on. An env may be closed twice."""
        self.game.close()
