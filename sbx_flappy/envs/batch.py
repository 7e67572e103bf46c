"""N games as one array program: what an agent's step is, for the vectorised envs and the single one."""

from typing import Any, NamedTuple

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding

from sbx_flappy.envs import constants as c
from sbx_flappy.envs import rules
from sbx_flappy.envs.options import Colors, GameOptions
from sbx_flappy.envs.rendering.bird_tables import N_PHASES
from sbx_flappy.envs.rendering.renderer import Renderer, ground_phase
from sbx_flappy.envs.rendering.sprites import draw_frame, load_sprites
from sbx_flappy.envs.saved_game import set_generator_states


class Snapshot(NamedTuple):
    """
    All that a batch remembers; arrays are copies, and everything can be pickled.

    :param state: the games
    :param observations: the last observations
    :param generators: state of each game's bit generator
    """

    state: rules.GameState
    observations: np.ndarray
    generators: list[dict[str, Any]]


def _draw_first_frames(colors: Colors, pipe_gap: int) -> np.ndarray:
    """Return the first frame of a game at each phase of the ground, on which alone it depends: uint8 ``[6, 84, 84, 1]``."""
    state = rules.init(np.zeros((c.N_PIPES, N_PHASES), dtype=np.int32), ground_x=-4 * np.arange(N_PHASES))
    frames = np.zeros((N_PHASES, c.FRAME_SIZE, c.FRAME_SIZE, 1), dtype=np.uint8)
    Renderer(N_PHASES, colors, pipe_gap).draw(state, frames)
    return frames


class FlappyBatch:
    """
    N games that take their steps together.

    A step repeats the actions for ``frame_skip`` frames and sums the rewards. Pixels are the maximum of the last two of these
    frames. A game that dies within the step stops there; its observation is made of those among the last two frames that
    were played, or of its last frame alone if it died before them. The observation after a reset is a single frame, and
    so is every one with ``frame_skip=1``. Each game draws its gaps from its own generator, when and in the order in which
    upstream's env draws them.

    Only what would otherwise go wrong in silence is checked here.

    :param n_envs: number of games
    :param options: of all games. With "pixels" observations are uint8 ``[n_envs, 84, 84, 1]``, with "features" float32
        ``[n_envs, 12]``
    """

    def __init__(self, n_envs: int, options: GameOptions) -> None:
        self.n_envs, self.options = n_envs, options
        self._renderer = Renderer(n_envs, options.colors, options.pipe_gap) if options.obs_type == "pixels" else None
        self._first_frames = _draw_first_frames(options.colors, options.pipe_gap) if self._renderer else None
        shape, dtype = ((c.FRAME_SIZE, c.FRAME_SIZE, 1), np.uint8) if self._renderer else ((c.N_FEATURES,), np.float32)
        self.observations: np.ndarray = np.zeros((n_envs, *shape), dtype=dtype)
        self.rewards = np.zeros(n_envs)
        self.state = rules.init(np.zeros((c.N_PIPES, n_envs), dtype=np.int32))
        self.state.terminated[:] = True  # until the first reset
        self._over = True
        self._generators: list[np.random.Generator | None] = [None] * n_envs
        self._next_gap = np.zeros(n_envs, dtype=np.int32)
        self._pooled = np.ones(n_envs, dtype=bool)

    def set_generator(self, game: int, generator: np.random.Generator) -> None:
        """
        Let a game draw from this generator from now on.

        :param game: number of the game
        :param generator: used by this game alone
        """
        self._generators[game] = generator

    def generator(self, game: int) -> np.random.Generator:
        """
        Return the generator that a game draws from, a new one if it has none.

        :param game: number of the game
        """
        generator = self._generators[game]
        if generator is None:
            self._generators[game] = generator = seeding.np_random()[0]
        return generator

    def start(self, games: np.ndarray, fresh: bool = False) -> None:
        """
        Start new games with the generators they have, and write their observations.

        :param games: numbers of the games, int ``[n]``
        :param fresh: whether ground and wings start like those of a new env; otherwise they stay where they were, as in
            upstream's ``reset``
        """
        if not len(games):
            return
        gaps = np.stack([rules.draw_gaps(self.generator(game), c.N_PIPES) for game in games], axis=-1)
        carried = (None, None) if fresh else (self.state.ground_x[games], self.state.wing_next[games])
        for field, value in zip(self.state, rules.init(gaps, *carried), strict=True):
            field[..., games] = value
        self._over = bool(np.count_nonzero(self.state.terminated))
        self._observe_games(games)

    def end(self, game: int) -> None:
        """
        Let a game be over, until it is restarted.

        :param game: number of the game
        """
        self.state.terminated[game] = self._over = True

    def step(
        self, actions: np.ndarray, idle: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """
        Play a step and return observations, rewards (float64), terminated (bool) and scores (int32), ``[n_envs, ...]``.

        Observations and rewards are the batch's own arrays, overwritten by the next step.

        :param actions: 0 or 1, integers ``[n_envs]``
        :param idle: games that are left out because they are restarted after this step, bool ``[n_envs]``; what is returned
            for them means nothing
        :raises gymnasium.error.ResetNeeded: if a game is over
        :raises ValueError: if the actions are not 0 and 1, one per game
        """
        actions = self._check(actions, idle)
        self.rewards[:] = 0
        before = state = self.state
        for _ in range(self.options.frame_skip):
            before = state
            state = self._play_frame(before, actions)
        self.state = state
        self._observe(before, state)
        return self.observations, self.rewards, state.terminated.copy(), state.score.copy()

    def _check(self, actions: np.ndarray, idle: np.ndarray | None) -> np.ndarray:
        """Return the actions as an array, or say what is wrong."""
        actions = np.asarray(actions)
        if actions.shape != (self.n_envs,) or actions.dtype.kind not in "biu" or np.count_nonzero(actions >> 1):
            raise ValueError(f"The actions must be {self.n_envs} integers, 0 (no flap) or 1 (flap), got {actions!r}.")
        if self._over or idle is not None:
            over = self.state.terminated if idle is None else self.state.terminated & ~idle
            if np.count_nonzero(over):
                raise ResetNeeded(f"Games {np.flatnonzero(over).tolist()} are over: call reset() first.")
        if idle is not None:
            self.state.terminated[idle] = self._over = True
        return actions

    def _play_frame(self, before: rules.GameState, actions: np.ndarray) -> rules.GameState:
        """Return the state one frame later, in which games that are over stay as they were; add up the rewards."""
        entering = rules.pipe_reenters(before.pipe_x)
        if np.count_nonzero(entering):  # faster than any()
            for game in np.flatnonzero(entering & ~before.terminated).tolist():
                self._next_gap[game] = rules.draw_gaps(self.generator(game), 1)[0]
        state, events = rules.step(before, actions, self._next_gap, self.options.pipe_gap, self.options.flap_cooldown)
        if self._over:
            over = before.terminated
            for new, old in zip(state, before, strict=True):
                np.copyto(new, old, where=over)
            np.add(self.rewards, events.reward, out=self.rewards, where=~over)
        else:
            self.rewards += events.reward
        self._over = bool(np.count_nonzero(state.terminated))
        return state

    def _observe(self, before: rules.GameState, state: rules.GameState) -> None:
        """
        Write the observations of all games.

        :param before: the games before the last frame
        :param state: the games after it
        """
        if self._renderer is None:
            self.observations[:] = rules.features(state, self.options.pipe_gap)
        elif self.options.frame_skip == 1:
            self._renderer.draw(state, self.observations)
        else:
            np.logical_not(before.terminated, out=self._pooled)
            self._renderer.draw_pooled(before, state, self._pooled, self.observations)

    def _observe_games(self, games: np.ndarray) -> None:
        """Write the observations of some games that have just started."""
        if self._first_frames is not None:
            self.observations[games] = self._first_frames[ground_phase(self.state.ground_x[games])]
        else:
            state = rules.GameState(*(field[..., games] for field in self.state))
            self.observations[games] = rules.features(state, self.options.pipe_gap)

    def get_game(self, game: int) -> rules.GameState:
        """
        Return the state of one game, made of Python's numbers; pipes are tuples.

        :param game: number of the game
        """
        values = (field[..., game].tolist() for field in self.state)
        return rules.GameState(*(tuple(value) if isinstance(value, list) else value for value in values))

    def set_game(self, game: int, state: rules.GameState) -> None:
        """
        Let one game go on from another state. Its observation is not updated.

        :param game: number of the game
        :param state: what :meth:`get_game` returns
        """
        for field, value in zip(self.state, state, strict=True):
            field[..., game] = value
        self._over = bool(np.count_nonzero(self.state.terminated))

    def render(self, game: int, show_score: bool = False) -> np.ndarray:
        """
        Return a game's last frame at full size, uint8 ``[512, 288, 3]``.

        :param game: number of the game
        :param show_score: whether to draw the score, as upstream does for people
        """
        return draw_frame(self.get_game(game), load_sprites(self.options.colors), self.options.pipe_gap, show_score)

    def get_state(self) -> Snapshot:
        """Return all that the batch remembers."""
        return Snapshot(
            rules.GameState(*(field.copy() for field in self.state)),
            self.observations.copy(),
            [dict(self.generator(game).bit_generator.state) for game in range(self.n_envs)],
        )

    def set_state(self, snapshot: Snapshot) -> None:
        """
        Go on from a snapshot, of this batch or of another with as many games.

        :param snapshot: what :meth:`get_state` returned
        :raises ValueError: if it is of another number of games or kind of observations or generators; nothing is changed
        """
        if len(snapshot.generators) != self.n_envs or snapshot.observations.shape != self.observations.shape:
            raise ValueError(
                f"The snapshot must hold {self.n_envs} games, with observations of shape {self.observations.shape}."
            )
        set_generator_states([self.generator(game) for game in range(self.n_envs)], snapshot.generators)
        self.state = rules.GameState(*(field.copy() for field in snapshot.state))
        self.observations[:] = snapshot.observations
        self._over = bool(np.count_nonzero(self.state.terminated))
