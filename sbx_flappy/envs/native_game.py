"""The native engine behind :class:`~.gym_env.FlappyBirdEnv`: a game of its own, or one of a batch that plays together."""

from collections.abc import Container
from operator import index
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from sbx_flappy.envs import constants as c
from sbx_flappy.envs import rules, single_rules
from sbx_flappy.envs.batch import FlappyBatch, set_generator_states
from sbx_flappy.envs.rendering.bird_tables import BIRD_MIN_Y
from sbx_flappy.envs.rendering.renderer import Frames, Renderer
from sbx_flappy.envs.rendering.sprites import N_WINGS, draw_frame, load_sprites, rotation_index
from sbx_flappy.envs.rules import GameState
from sbx_flappy.envs.window import HumanWindow

StepResult = tuple[np.ndarray, float, bool, bool, dict[str, Any]]


class GameOptions(NamedTuple):
    """What makes a game the one it is, in the order of :class:`~.batch.FlappyBatch`'s arguments."""

    obs_type: str
    frame_skip: int
    flap_cooldown: int
    pipe_gap: int
    bird_color: str
    pipe_color: str
    background: str | None

    @property
    def colors(self) -> tuple[str, str, str | None]:
        """The options of the sprites."""
        return self.bird_color, self.pipe_color, self.background


class SavedGame(NamedTuple):
    """
    All that a game remembers: plain numbers and dicts, which can be pickled.

    :param state: the game
    :param generator: state of the bit generator from which it draws its gaps
    """

    state: GameState
    generator: dict[str, Any]


#: The numbers that a game can remember; `terminated` is a bool
_NUMBERS: dict[str, Container[int]] = {
    # The highest flap is followed by 9 frames, each a pixel slower, up to the turn.
    "player_y": range(c.PLAYER_FLAP_MIN_Y - sum(range(10)), c.PLAYER_GROUNDED_Y + 1),
    "velocity": range(c.PLAYER_FLAP_VEL_Y, c.PLAYER_MAX_VEL_Y + 1),
    "rotation": range(c.PLAYER_MIN_ROT, c.PLAYER_FLAP_ROT + 1, c.PLAYER_VEL_ROT),
    "wing": range(N_WINGS),
    "wing_next": range(4),
    "loop_iter": range(c.LOOP_PERIOD),
    "ground_x": range(4 - c.GROUND_PERIOD, 1, 4),
    "pipe_x": frozenset(rules.lattice_tenths().tolist()),
    "pipe_gap_index": range(c.N_GAPS),
    "score": range(2**31),
    "cooldown": range(2**31),
}


def check_saved_game(saved: Any) -> SavedGame:
    """
    Return a saved game, made of Python's own numbers.

    :raises TypeError: if it is not a :class:`SavedGame`
    :raises ValueError: if a game cannot remember what it holds
    """
    parts = (saved.state, saved.generator) if isinstance(saved, SavedGame) else ()
    if not parts or not isinstance(parts[0], GameState) or not isinstance(parts[1], dict):
        raise TypeError(f"A state is what `get_state()` returns, SavedGame(GameState(...), {{...}}), got {saved!r}.")
    return saved._replace(state=GameState(*map(_check_field, GameState._fields, saved.state)))


def _check_field(name: str, value: Any) -> Any:
    """
    Return a field of a game's state as a bool, an int, or a tuple of ints.

    :raises ValueError: if no game has such a field
    """
    if name == "terminated":
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise ValueError(f"The state's `terminated` must be a bool, got {value!r}.")
    is_pipes = name in ("pipe_x", "pipe_gap_index")
    try:
        numbers = tuple(int(index(number)) for number in (value if is_pipes else (value,)))
    except TypeError:
        numbers = ()
    if len(numbers) != (c.N_PIPES if is_pipes else 1) or any(number not in _NUMBERS[name] for number in numbers):
        expected = f"{c.N_PIPES} numbers, one per pipe," if is_pipes else "a number"
        raise ValueError(f"The state's `{name}` must be {expected} as in what `get_state()` returns, got {value!r}.")
    return numbers if is_pipes else numbers[0]


def make_observation_space(obs_type: str) -> gym.spaces.Box:
    """
    Return the space of the observations.

    :param obs_type: "pixels" or "features"
    """
    if obs_type == "pixels":
        return gym.spaces.Box(0, 255, (c.FRAME_SIZE, c.FRAME_SIZE, 1), np.uint8)
    return gym.spaces.Box(-1.0, 1.0, (c.N_FEATURES,), np.float32)


class NativeGame:
    """One game, see :class:`~.batch.FlappyBatch` for what a step is. The arguments are those of ``FlappyBirdEnv``."""

    np_random: np.random.Generator

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        self.options = GameOptions(**options)
        self.observation_space = make_observation_space(self.options.obs_type)
        self.window = HumanWindow(lambda: self.draw(show_score=True)) if render_mode == "human" else None
        self.state = single_rules.init((0, 0, 0))  # as newly made; until the first reset
        self.started = False
        self._renderer: Renderer | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """
        Start a new game with ``np_random``; ``{"fresh": True}`` starts it as newly made.

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
            self._renderer = Renderer(1, self.options.pipe_gap, *self.options.colors)
        out = np.empty((c.FRAME_SIZE, c.FRAME_SIZE, 1), dtype=np.uint8)
        self._renderer.draw_frames(_to_frames(states), np.array([len(states) - 1]), out[None])
        return out

    def draw(self, show_score: bool) -> np.ndarray:
        """Return the last frame at full size, uint8 ``[512, 288, 3]``."""
        return draw_frame(self.state, load_sprites(*self.options.colors), self.options.pipe_gap, show_score)

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

        :raises TypeError, ValueError: if it is nothing of the kind, see :func:`check_saved_game`; the game is as before then
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
    bird = [[int(rotation_index(state.rotation)) * N_WINGS + state.wing] for state in states]
    pipe_key = [
        [[int(rules.lattice_index(x)) * c.N_GAPS + gap] for x, gap in zip(state.pipe_x, state.pipe_gap_index, strict=True)]
        for state in states
    ]
    ground_x = [[state.ground_x] for state in states]
    return Frames(*(np.array(values, dtype=np.int32) for values in (player_y, bird, pipe_key, ground_x)))


class SharedGame:
    """
    One game of a batch, which is stepped as a whole by whoever made it.

    What the batch has played for this game is handed out by the next ``step`` or ``reset``. Without that, the game can be
    played on its own, as :class:`NativeGame` plays.

    :param batch: the games
    :param game: number of this one
    :param options: of all of them
    """

    def __init__(self, batch: FlappyBatch, game: int, options: GameOptions) -> None:
        self.batch, self.game, self.options = batch, game, options
        self.observation_space = make_observation_space(options.obs_type)
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
        alone = NativeGame(**self.options._asdict())
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
