"""The native engine behind :class:`~.gym_env.FlappyBirdEnv`: a single game, or one game of a batch."""

from typing import Any

import gymnasium as gym
import numpy as np

from sbx_flappy.envs import constants as c
from sbx_flappy.envs import rules, single_rules
from sbx_flappy.envs.batch import FlappyBatch
from sbx_flappy.envs.options import GameOptions
from sbx_flappy.envs.rendering.bird_tables import BIRD_MIN_Y
from sbx_flappy.envs.rendering.renderer import Frames, Renderer
from sbx_flappy.envs.rendering.sprites import draw_frame, load_sprites, rotation_index
from sbx_flappy.envs.rules import GameState
from sbx_flappy.envs.saved_game import SavedGame, check_saved_game, set_generator_states
from sbx_flappy.envs.window import HumanWindow

StepResult = tuple[np.ndarray, float, bool, bool, dict[str, Any]]


def make_observation_space(obs_type: str) -> gym.spaces.Box:
    """
    Return the space of the observations.

    :param obs_type: "pixels" or "features"
    """
    if obs_type == "pixels":
        return gym.spaces.Box(0, 255, (c.FRAME_SIZE, c.FRAME_SIZE, 1), np.uint8)
    return gym.spaces.Box(-1.0, 1.0, (c.N_FEATURES,), np.float32)


class NativeGame:
    """
    One game, see :class:`~.batch.FlappyBatch` for what a step is.

    :param options: of the game
    :param render_mode: "human" opens a window
    :raises NoDisplayError: if "human" is asked for and there is no display
    """

    np_random: np.random.Generator

    def __init__(self, options: GameOptions, render_mode: str | None = None) -> None:
        self.options = options
        self.observation_space = make_observation_space(options.obs_type)
        self.window = HumanWindow(lambda: self.draw(show_score=True)) if render_mode == "human" else None
        self.state = single_rules.init((0, 0, 0))  # until the first reset
        self.started = False
        self._renderer: Renderer | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """
        Start a new game with ``np_random``; ``{"fresh": True}`` also resets ground and wings.

        :param seed: not used: ``np_random`` is what the game draws from
        """
        fresh = (options or {}).get("fresh")
        ground_and_wings = () if fresh else (self.state.ground_x, self.state.wing_next)
        self.state = single_rules.init(rules.draw_gaps(self.np_random, c.N_PIPES).tolist(), *ground_and_wings)
        self.started = True
        if self.window is not None:
            self.window.show()
        return self.observe(self.state), {"score": 0}

    def step(self, action: int) -> StepResult:
        """Play all the frames of a step."""
        options = self.options
        before = state = self.state
        total, n_frames = 0.0, 0
        while n_frames < options.frame_skip and not state.terminated:
            before = state
            state, reward = single_rules.step(state, action, self._draw_gap, options.pipe_gap, options.flap_cooldown)
            total, n_frames = total + reward, n_frames + 1
            self.state = state
            if self.window is not None:
                self.window.show()
        pooled = 1 < n_frames == options.frame_skip
        observation = self.observe(before, state) if pooled else self.observe(state)
        return observation, total, state.terminated, False, {"score": state.score}

    def _draw_gap(self) -> int:
        """Return the gap of a pipe that re-enters."""
        return int(rules.draw_gaps(self.np_random, 1)[0])

    def observe(self, *states: GameState) -> np.ndarray:
        """
        Return an observation, a new array: the features of the last state, or the maximum of all states' pixels.

        :param states: the last one, or the last two
        """
        if self.options.obs_type == "features":
            return rules.features(GameState(*map(np.asarray, states[-1])), self.options.pipe_gap)
        if self._renderer is None:
            self._renderer = Renderer(1, self.options.colors, self.options.pipe_gap)
        out = np.empty((c.FRAME_SIZE, c.FRAME_SIZE, 1), dtype=np.uint8)
        self._renderer.draw_frames(_to_frames(states), np.array([len(states) - 1]), out[None])
        return out

    def draw(self, show_score: bool) -> np.ndarray:
        """Return the last frame at full size, uint8 ``[512, 288, 3]``."""
        return draw_frame(self.state, load_sprites(self.options.colors), self.options.pipe_gap, show_score)

    def render(self) -> np.ndarray | None:
        """Return the last frame at full size; in a window, show it again and return None."""
        if self.window is None:
            return self.draw(show_score=False)
        self.window.blit()
        return None

    def get_state(self) -> SavedGame:
        """Return all that the game remembers."""
        return SavedGame(self.state, dict(self.np_random.bit_generator.state))

    def set_state(self, saved: SavedGame) -> None:
        """
        Go on from what :meth:`get_state` returned, here or in another env with the same options.

        :param saved: what :meth:`get_state` returned
        :raises TypeError, ValueError: if it is not, see :func:`~.saved_game.check_saved_game`; the game is unchanged
        """
        saved = check_saved_game(saved)
        set_generator_states([self.np_random], [saved.generator])
        self.state, self.started = saved.state, True

    def close(self) -> None:
        """Close the game's window, if it has one."""
        if self.window is not None:
            self.window.close()


def _to_frames(states: tuple[GameState, ...]) -> Frames:
    """Return what the renderer needs to know of the frames of one game."""
    player_y = [[max(state.player_y, BIRD_MIN_Y)] for state in states]
    bird = [[int(rotation_index(state.rotation)) * c.N_WINGS + state.wing] for state in states]
    pipe_key = [
        [[int(rules.lattice_index(x)) * c.N_GAPS + gap] for x, gap in zip(state.pipe_x, state.pipe_gap_index, strict=True)]
        for state in states
    ]
    ground_x = [[state.ground_x] for state in states]
    return Frames(*(np.array(values, dtype=np.int32) for values in (player_y, bird, pipe_key, ground_x)))


class SharedGame:
    """
    One game of a batch, which its owner steps as a whole.

    What the batch has played for this game is returned by the next ``step`` or ``reset``. Otherwise these play the game
    alone, as :class:`NativeGame` does.

    :param batch: the games
    :param game: number of this one
    """

    def __init__(self, batch: FlappyBatch, game: int) -> None:
        self.batch, self.game, self.options = batch, game, batch.options
        self.observation_space = make_observation_space(batch.options.obs_type)
        self.played: StepResult | None = None
        self.restarted = False

    @property
    def np_random(self) -> np.random.Generator:
        """The generator from which the game draws its gaps."""
        return self.batch.generator(self.game)

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        self.batch.set_generator(self.game, generator)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game, see :meth:`NativeGame.reset`, unless the batch has done so."""
        if self.restarted:
            self.restarted = False
        else:
            self.batch.start(np.array([self.game]), fresh=bool((options or {}).get("fresh")))
        return self.batch.observations[self.game].copy(), {"score": 0}

    def step(self, action: int) -> StepResult:
        """Return what the batch has played; otherwise play a step of this game alone."""
        if self.played is None:
            alone = self._take_out()
            result = alone.step(action)
            self.batch.set_game(self.game, alone.state)
            return result
        result, self.played = self.played, None
        return result

    def _take_out(self) -> NativeGame:
        """Return the same game, on its own."""
        alone = NativeGame(self.options)
        alone.np_random, alone.state = self.np_random, self.batch.get_game(self.game)
        return alone

    def render(self) -> np.ndarray:
        """Return the last frame at full size."""
        return self.batch.render(self.game)

    def get_state(self) -> SavedGame:
        """Return all that the game remembers."""
        return SavedGame(self.batch.get_game(self.game), dict(self.np_random.bit_generator.state))

    def set_state(self, saved: SavedGame) -> None:
        """Go on from what :meth:`get_state` returned, see :meth:`NativeGame.set_state`."""
        saved = check_saved_game(saved)
        set_generator_states([self.np_random], [saved.generator])
        self.batch.set_game(self.game, saved.state)

    def close(self) -> None:
        """Do nothing: what a game holds is memory."""
