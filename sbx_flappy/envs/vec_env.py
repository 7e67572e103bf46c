"""Many games behind Stable-Baselines3's VecEnv, played as one array program."""

import logging
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from sbx_flappy.envs.batch import FlappyBatch
from sbx_flappy.envs.gym_env import FlappyBirdEnv
from sbx_flappy.envs.layers import get_class_path, get_wrappers
from sbx_flappy.envs.native_game import NativeGame, SharedGame, StepResult

logger = logging.getLogger("sbx_flappy")

MONITOR = "stable_baselines3.common.monitor.Monitor"
TIME_LIMIT = "gymnasium.wrappers.common.TimeLimit"
ORDER_ENFORCING = "gymnasium.wrappers.common.OrderEnforcing"
#: The wrappers that FlappyVecEnv knows, in the order in which they may occur, outermost first
KNOWN_WRAPPERS = (MONITOR, TIME_LIMIT, ORDER_ENFORCING, "gymnasium.wrappers.common.PassiveEnvChecker")


class FlappyVecEnv(DummyVecEnv):
    """
    A ``DummyVecEnv`` whose games play together in one array program: the same results, many times faster.

    The envs are real ones, wrappers included: ``get_attr``, ``set_attr``, ``env_method``, ``env_is_wrapped``, ``render`` and
    ``envs`` mean what they mean in ``DummyVecEnv``. A step of a running episode is played by the batch alone. The step that
    ends an episode, and every reset, goes through the env's wrappers, to which its game hands what the batch has played; so
    the ``episode`` in the info and the monitor's file are SB3's own.

    This needs the native engine, the same arguments for all envs, and only gymnasium's own wrappers under at most one
    ``Monitor``. Otherwise the envs are stepped one by one, as in ``DummyVecEnv``, and a line of the log says why. The same
    happens as soon as ``step`` or ``reset`` of an env or a wrapper is replaced, or a wrapper is added or removed.

    Differences: each step makes new infos instead of copying them, and an invalid action is found before any game moves.
    Methods that are replaced in a wrapper's class, instead of in one wrapper, are called only at the ends of episodes. After
    an exception at the end of an episode, the games that were to start need a reset.

    :param env_fns: functions that return an env each, as ``make_vec_env(..., vec_env_cls=FlappyVecEnv)`` passes them; or the
        number of envs, which are then made from ``env_id`` and wrapped in a ``Monitor``
    :param env_id: one of the ids of this package
    :param env_kwargs: arguments for ``gymnasium.make``
    :raises ValueError: if there are both functions and arguments for the env
    """

    def __init__(
        self, env_fns: int | Sequence[Callable[[], gym.Env]], env_id: str = "FlappyBird-v0", **env_kwargs: Any
    ) -> None:
        if isinstance(env_fns, (int, np.integer)):
            env_fns = [lambda: Monitor(gym.make(env_id, **env_kwargs))] * int(env_fns)
        elif isinstance(env_fns, str):
            raise TypeError(f"The number of envs comes first: FlappyVecEnv(4, {env_fns!r}).")
        elif env_kwargs:
            raise ValueError(f"`env_kwargs` {sorted(env_kwargs)} need a number of envs: functions pass their own arguments.")
        super().__init__(list(env_fns))
        self._batch: FlappyBatch | None = None
        reason = find_obstacle(self.envs)
        if reason is None:
            self._share_games()
        else:
            logger.warning("FlappyVecEnv steps its envs one by one: %s.", reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.num_envs} x {self.envs[0]}>"

    def _share_games(self) -> None:
        """Put the envs' games into one batch."""
        options = self.envs[0].unwrapped.game.options  # type: ignore[attr-defined]
        self._batch = batch = FlappyBatch(self.num_envs, options)
        self._games = [SharedGame(batch, number) for number in range(self.num_envs)]
        for env, game in zip(self.envs, self._games, strict=True):
            alone = env.unwrapped.game  # type: ignore[attr-defined]
            if alone.started:
                game.np_random = alone.np_random
                batch.set_game(game.game, alone.state)
            env.unwrapped.game = game  # type: ignore[attr-defined]
        self.buf_obs[None] = batch.observations  # type: ignore[index]
        self._watch = StackWatch(self.envs)
        self._is_changed = self._is_begun = False
        wrappers = [wrapper for env in self.envs for wrapper in get_wrappers(env)]
        self._monitors: list[Any] = [wrapper for wrapper in wrappers if get_class_path(wrapper) == MONITOR]
        self._limits: list[Any] = [wrapper for wrapper in wrappers if get_class_path(wrapper) == TIME_LIMIT]
        self._order_enforcers: list[Any] = [wrapper for wrapper in wrappers if get_class_path(wrapper) == ORDER_ENFORCING]

    def step_wait(self) -> VecEnvStepReturn:
        """Play a step, see ``DummyVecEnv``."""
        if self._batch is None or not self._may_play_together():
            return super().step_wait()
        observations, rewards, terminated, scores = self._batch.step(self.actions)
        self.buf_rews[:] = rewards
        self.buf_dones[:] = terminated
        self.buf_infos = [{"score": score, "TimeLimit.truncated": False} for score in scores.tolist()]
        self._count_steps(rewards.tolist())
        ended = np.flatnonzero(self.buf_dones)
        if len(ended):
            for game in ended.tolist():
                played = (observations[game].copy(), float(rewards[game]), bool(terminated[game]), False)
                self._end_episode(game, (*played, {"score": int(scores[game])}))
            self._start_episodes(ended)
        return observations.copy(), self.buf_rews.copy(), self.buf_dones.copy(), self.buf_infos

    def _may_play_together(self) -> bool:
        """Return whether a step of the envs would be a step of their games and no more."""
        is_changed = not self._watch.is_intact(self.envs)
        if is_changed and not self._is_changed:
            logger.warning("FlappyVecEnv steps its envs one by one: an env, a wrapper, or a `step` or `reset` was replaced.")
        self._is_changed = is_changed
        # Games may have begun below wrappers that have not, which then have something to say.
        self._is_begun = self._is_begun or (
            all(enforcer._has_reset for enforcer in self._order_enforcers)
            and all(limit._elapsed_steps is not None for limit in self._limits)
        )
        return not is_changed and self._is_begun and not any(monitor.needs_reset for monitor in self._monitors)

    def _count_steps(self, rewards: list[float]) -> None:
        """Find the episodes to be truncated; do in the other envs' wrappers what their ``step`` does in a running episode."""
        dones = self.buf_dones.tolist()
        for game, limit in enumerate(self._limits):
            elapsed = limit._elapsed_steps + 1
            if elapsed >= limit._max_episode_steps:
                self.buf_dones[game] = dones[game] = True
            elif not dones[game]:
                limit._elapsed_steps = elapsed
        for monitor, reward, done in zip(self._monitors, rewards, dones, strict=bool(self._monitors)):
            if not done:
                monitor.rewards.append(reward)
                monitor.total_steps += 1

    def _end_episode(self, game: int, played: StepResult) -> None:
        """Take the last step of an episode through the env's wrappers."""
        self._games[game].played = played
        try:
            observation, self.buf_rews[game], terminated, truncated, info = self.envs[game].step(self.actions[game])
        finally:
            self._games[game].played = None  # an exception may have kept it
        info["TimeLimit.truncated"] = truncated and not terminated
        info["terminal_observation"] = observation
        self.buf_infos[game] = info

    def _start_episodes(self, games: np.ndarray) -> None:
        """Start games together, and then tell their envs."""
        assert self._batch is not None
        for game in games.tolist():
            self._batch.set_generator(game, self.envs[game].unwrapped.np_random)
        self._batch.start(games)
        untold = games.tolist()
        try:
            while untold:
                self._games[untold[0]].restarted = True
                _, self.reset_infos[untold[0]] = self.envs[untold[0]].reset()
                untold.pop(0)
        finally:
            for game in untold:  # after an exception
                self._games[game].restarted = False
                self._batch.end(game)


class StackWatch:
    """
    A check, of a few microseconds, that envs still have their first wrappers, and their classes' ``step`` and ``reset``.

    :param envs: with their wrappers
    :param stacks: each env's wrappers and the env itself, as found at first
    """

    def __init__(self, envs: Sequence[gym.Env], stacks: list[list[gym.Env]] | None = None) -> None:
        self._envs = list(envs)
        self._stacks = [[*get_wrappers(env), env.unwrapped] for env in envs] if stacks is None else stacks
        self._attributes = [vars(layer) for stack in self._stacks for layer in stack]
        self._wrapper_attributes = [vars(wrapper) for stack in self._stacks for wrapper in stack[:-1]]
        self._wrapped = [layer for stack in self._stacks for layer in stack[1:]]
        self._n_attributes = -1

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """Pickle and copy the envs alone: a copy of an env's attributes would not be the attributes of its copy."""
        return StackWatch, (self._envs, self._stacks)

    def is_intact(self, envs: list[gym.Env]) -> bool:
        """
        Return whether nothing was replaced.

        :param envs: to be compared with the first ones
        """
        if envs != self._envs or list(map(itemgetter("env"), self._wrapper_attributes)) != self._wrapped:
            return False
        # Looked at more closely after a change of their number alone, which a new `step` brings with it.
        return sum(map(len, self._attributes)) == self._n_attributes or self._has_its_classes_methods()

    def _has_its_classes_methods(self) -> bool:
        """Return whether each env and each wrapper has its class's ``step`` and ``reset``; count the attributes again."""
        if any("step" in attributes or "reset" in attributes for attributes in self._attributes):
            return False
        self._n_attributes = sum(map(len, self._attributes))
        return True


def find_obstacle(envs: Sequence[gym.Env]) -> str | None:
    """
    Return why the envs' games cannot be played in one batch, in words, or None if they can.

    :param envs: with their wrappers
    """
    for env in envs:
        obstacle = _find_obstacle_in(env)
        if obstacle is not None:
            return obstacle
    if len({tuple(map(get_class_path, get_wrappers(env))) for env in envs}) > 1:
        return "they have different wrappers"
    if len({env.unwrapped.game.options for env in envs}) > 1:  # type: ignore[attr-defined]
        return "they have different arguments"
    return None


def _find_obstacle_in(env: gym.Env) -> str | None:
    """Return why an env's game cannot be played in a batch, in words, or None if it can."""
    base = env.unwrapped
    if type(base) is not FlappyBirdEnv or type(base.game) is not NativeGame:
        return f"{base} is not of the native engine, or is in another FlappyVecEnv"
    for layer in (*get_wrappers(env), base):
        replaced = sorted({"step", "reset"} & vars(layer).keys())
        if replaced:
            return f"{get_class_path(layer)} has a {' and a '.join(replaced)} of its own"
    if base.render_mode == "human":
        return "a window shows every frame"
    position = 0
    for wrapper in get_wrappers(env):
        while position < len(KNOWN_WRAPPERS) and get_class_path(wrapper) != KNOWN_WRAPPERS[position]:
            position += 1
        if position == len(KNOWN_WRAPPERS):
            return f"{get_class_path(wrapper)} is not known, or not in this place"
        position += 1
    return None
