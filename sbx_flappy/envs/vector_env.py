"""Many games behind Gymnasium's own vector API, played as one array program."""

import inspect
from copy import deepcopy
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from sbx_flappy.envs.batch import FlappyBatch, Snapshot
from sbx_flappy.envs.gym_env import FlappyBirdEnv
from sbx_flappy.envs.native_game import NativeGame, SharedGame

#: What SyncVectorEnv.step and .reset return
VectorStep = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
#: What FlappyVectorEnv.call takes from a single env; the rest of its attributes depend on what it has played
SETTINGS = ("action_space", "metadata", "observation_space", "render_mode")


class SavedGames(NamedTuple):
    """
    All that a :class:`FlappyVectorEnv` remembers; everything can be pickled.

    :param batch: the games
    :param elapsed: steps since each game's start
    :param started: whether each game was ever started
    :param done: whether each game ended in the last step, and is to be started
    :param seeds: each game's last seed
    """

    batch: Snapshot
    elapsed: np.ndarray
    started: np.ndarray
    done: np.ndarray
    seeds: list[int | None]


def check_arguments(num_envs: Any, max_episode_steps: Any, others: dict[str, Any]) -> tuple[int, int | None]:
    """
    Return the number of games and the time limit, None where there is none.

    :param num_envs: number of games
    :param max_episode_steps: the time limit; None or -1: there is none
    :param others: arguments of the single envs
    :raises ValueError: if a number is too small, or the number of games is not an integer
    :raises TypeError: if the time limit is not an integer, or if there are arguments of gymnasium's own vector envs
    """
    own = {name for env in (SyncVectorEnv, AsyncVectorEnv) for name in inspect.signature(env).parameters} - {"autoreset_mode"}
    theirs = sorted(own & others.keys())
    if theirs:
        raise TypeError(
            f"FlappyVectorEnv has no {theirs}, which SyncVectorEnv or AsyncVectorEnv has: pass them with "
            "gymnasium.make_vec(..., vectorization_mode='sync', vector_kwargs={...}), or leave them out."
        )
    if not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
        raise ValueError(f"`num_envs` must be an integer of at least 1, got {num_envs!r}.")
    if max_episode_steps is None:
        return int(num_envs), None
    if not isinstance(max_episode_steps, (int, np.integer)):
        raise TypeError(f"`max_episode_steps` must be an integer or None, got {max_episode_steps!r}.")
    if max_episode_steps < 1 and max_episode_steps != -1:
        raise ValueError(f"`max_episode_steps` must be at least 1, or -1 or None for no limit, got {max_episode_steps!r}.")
    return int(num_envs), None if max_episode_steps == -1 else int(max_episode_steps)


class FlappyVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """
    ``gymnasium.vector.SyncVectorEnv`` over ``gymnasium.make``'s single envs, as one array program.

    The same seeds give the same results, in every autoreset mode. ``gymnasium.make_vec("FlappyBird-v0", num_envs=64)`` makes
    one. Differences:

    - the actions of all games are checked, also of those that are only restarted in this step;
    - ``reset`` leaves the caller's ``options`` unchanged; ``SyncVectorEnv`` removes the ``reset_mask`` from them;
    - there are no single envs: no ``envs``, no ``set_attr``, and ``call`` and ``get_attr`` know the names that
      :meth:`call` lists. :meth:`get_state` and :meth:`set_state` save and restore all games with their time limits.

    :param num_envs: number of games
    :param max_episode_steps: an episode is truncated after so many steps; None or -1: never
    :param autoreset_mode: "NextStep", "SameStep" or "Disabled", or gymnasium's ``AutoresetMode``
    :param env_kwargs: arguments of :class:`~.gym_env.FlappyBirdEnv`; no "human" render mode, no engine but "native"
    :raises ValueError: if an argument is not one of these
    :raises TypeError: if it is one of ``SyncVectorEnv``'s, such as ``copy``, or if ``max_episode_steps`` is not an integer
    """

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        **env_kwargs: Any,
    ) -> None:
        super().__init__()
        num_envs, self.max_episode_steps = check_arguments(num_envs, max_episode_steps, env_kwargs)
        template = FlappyBirdEnv(**env_kwargs)
        if not isinstance(template.game, NativeGame) or template.render_mode == "human":
            template.close()
            raise ValueError("FlappyVectorEnv needs engine='native', and no render_mode='human'.")
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.render_mode = template.render_mode
        self.metadata = {**template.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = template.observation_space, template.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._settings = {name: getattr(template, name) for name in SETTINGS}
        self._batch = FlappyBatch(num_envs, template.game.options)
        self._games = [SharedGame(self._batch, game) for game in range(num_envs)]
        self._elapsed = np.zeros(num_envs, dtype=np.int64)
        self._started = np.zeros(num_envs, dtype=bool)
        self._done = np.zeros(num_envs, dtype=bool)
        self._seeds: list[int | None] = [None] * num_envs

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """The games' random generators, a tuple."""
        self._seed_games([None] * self.num_envs, np.arange(self.num_envs))
        return tuple(self._batch.generator(game) for game in range(self.num_envs))

    @property
    def np_random_seed(self) -> Any:
        """The games' seeds, a tuple."""
        self._seed_games([None] * self.num_envs, np.arange(self.num_envs))
        return tuple(self._seeds)

    def _seed_games(self, seeds: list[int | None], games: np.ndarray) -> None:
        """Give new random generators to the games that have a seed here, and to those that have no generator."""
        for game in games.tolist():
            if seeds[game] is not None or self._seeds[game] is None:
                generator, self._seeds[game] = seeding.np_random(seeds[game])
                self._batch.set_generator(game, generator)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """
        Start new games, all or those of ``options["reset_mask"]``, and return the observations of all.

        :param seed: the first game's, to which the others add 1, 2, ...; or a seed or None for each
        :param options: ``reset_mask`` is a bool array ``[num_envs]``; there are no others
        :raises ValueError: if there are not as many seeds as games, or if there are other options
        """
        seeds: list[int | None] = [None] * self.num_envs
        if seed is not None:
            seeds = [seed + game for game in range(self.num_envs)] if isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"`seed` must be an integer or a list of {self.num_envs}, one per game, got {len(seeds)}.")
        options = dict(options or {})
        mask = self._check_mask(options.pop("reset_mask", None))
        if options:
            raise ValueError(f"`options` may hold a 'reset_mask' and nothing else, got {options!r}.")
        self._seed_games(seeds, np.flatnonzero(mask))
        seeded = np.array([seed is not None for seed in seeds])
        self._batch.start(np.flatnonzero(mask & seeded), fresh=True)
        self._batch.start(np.flatnonzero(mask & ~seeded))
        self._elapsed[mask] = 0
        self._started[mask] = True
        self._done[mask] = False
        return self._batch.observations.copy(), self._score_info(np.zeros(self.num_envs, dtype=np.int64), mask)

    def _check_mask(self, mask: Any) -> np.ndarray:
        """Return which games to start: all if there is no mask."""
        if mask is None:
            return np.ones(self.num_envs, dtype=bool)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise TypeError(f"`options['reset_mask']` must be a numpy array of bools, got {mask!r}.")
        if mask.shape != (self.num_envs,) or not np.any(mask):
            raise ValueError(f"`options['reset_mask']` must have {self.num_envs} entries, one of them True, got {mask!r}.")
        return mask

    def step(self, actions: np.ndarray) -> VectorStep:
        """
        Play a step, and start the games that have ended as ``autoreset_mode`` says.

        :param actions: 0 or 1, integers ``[num_envs]``
        :raises ValueError: if the actions are not
        :raises gymnasium.error.ResetNeeded: before the first reset, and after the end of a game with "Disabled"
        """
        if not self._started.all():
            raise ResetNeeded("Cannot call step() before reset().")
        idle = self._done if self.autoreset_mode is AutoresetMode.NEXT_STEP and self._done.any() else None
        if idle is None and self._done.any():
            raise ResetNeeded(f"Games {np.flatnonzero(self._done).tolist()} are over: reset them with 'reset_mask'.")
        observations, rewards, terminated, scores = self._batch.step(actions, idle=idle)
        rewards, scores = rewards.copy(), scores.astype(np.int64)
        self._elapsed += 1
        truncated = np.zeros_like(terminated) if self.max_episode_steps is None else self._elapsed >= self.max_episode_steps
        if idle is not None:
            self._start(np.flatnonzero(idle))
            rewards[idle], terminated[idle], truncated[idle], scores[idle] = 0.0, False, False, 0
        self._done = terminated | truncated
        infos: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP and self._done.any():
            infos = self._final_info(observations, scores)
            scores = np.where(self._done, 0, scores)
            self._start(np.flatnonzero(self._done))
            self._done = np.zeros_like(self._done)
        infos.update(self._score_info(scores, np.ones(self.num_envs, dtype=bool)))
        return observations.copy(), rewards, terminated, truncated, infos

    def _start(self, games: np.ndarray) -> None:
        """Start new games without seeds."""
        self._batch.start(games)
        self._elapsed[games] = 0

    def _score_info(self, scores: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        """Return the info of the games of a mask."""
        return {"score": np.where(mask, scores, 0), "_score": mask.copy()}

    def _final_info(self, observations: np.ndarray, scores: np.ndarray) -> dict[str, Any]:
        """Return what gymnasium keeps of the games that have ended in this step."""
        done = self._done
        final = np.full(self.num_envs, None, dtype=object)
        for game in np.flatnonzero(done):
            final[game] = observations[game].copy()
        info = self._score_info(scores, done)
        return {"final_obs": final, "_final_obs": done.copy(), "final_info": info, "_final_info": done.copy()}

    def render(self) -> tuple[Any, ...]:
        """Return each game's last frame, (512, 288, 3), uint8, with "rgb_array"."""
        if self.render_mode is None:
            gym.logger.warn("render() shows nothing with render_mode=None: make the envs with 'rgb_array'.")
            return (None,) * self.num_envs
        if not self._started.all():
            raise ResetNeeded("Cannot call render() before reset().")
        return tuple(self._batch.render(game) for game in range(self.num_envs))

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """
        Return what each game's method returns, or each game's attribute, as ``SyncVectorEnv`` does.

        :param name: "render"; "get_state"; "set_state", which gives all games the same state, and leaves the time limits as
            they are; "np_random", "np_random_seed", or one of :data:`SETTINGS`, as copies
        :raises AttributeError: if the name is another one
        """
        if name in ("np_random", "np_random_seed"):
            return getattr(self, name)
        if name == "render":
            return self.render(*args, **kwargs)
        if name in self._settings:
            return tuple(deepcopy(self._settings[name]) for _ in range(self.num_envs))
        if name not in ("get_state", "set_state"):
            raise AttributeError(
                f"FlappyVectorEnv has no single envs whose {name!r} could be read or called: make the envs with "
                "gymnasium.make_vec(..., vectorization_mode='sync')."
            )
        if name == "get_state" and not self._started.all():
            raise ResetNeeded("Cannot call get_state() before reset().")
        self._seed_games([None] * self.num_envs, np.arange(self.num_envs))
        return tuple(getattr(game, name)(*args, **kwargs) for game in self._games)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return each game's attribute, see :meth:`call`."""
        return self.call(name)

    def get_state(self) -> SavedGames:
        """Return all that is remembered of all games, to go on from it later."""
        self._seed_games([None] * self.num_envs, np.arange(self.num_envs))
        arrays = (self._elapsed.copy(), self._started.copy(), self._done.copy())
        return SavedGames(self._batch.get_state(), *arrays, list(self._seeds))

    def set_state(self, saved: SavedGames) -> None:
        """
        Go on from a state: the same actions lead to the same results.

        :param saved: what :meth:`get_state` returned, here or in another env made with the same arguments
        :raises TypeError: if it is not
        :raises ValueError: if it is of another number of games, or of another kind of observations or random generators
        """
        if not isinstance(saved, SavedGames):
            raise TypeError(f"The state must be the SavedGames that `get_state()` returns, got {saved!r}.")
        self._seed_games([None] * self.num_envs, np.arange(self.num_envs))
        self._batch.set_state(saved.batch)
        self._elapsed, self._started, self._done = saved.elapsed.copy(), saved.started.copy(), saved.done.copy()
        self._seeds = list(saved.seeds)
