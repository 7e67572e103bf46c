"""Many games behind Stable-Baselines3's VecEnv, played as one array program."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from sbx_flappy.envs.batch import FlappyBatch
from sbx_flappy.envs.gym_env import FlappyBirdEnv
from sbx_flappy.envs.native_game import NativeGame, SharedGame, StepResult

logger = logging.getLogger("sbx_flappy")

MONITORS = ("stable_baselines3.common.monitor.Monitor",)
#: gymnasium's, and RL-Zoo's, which takes its place as soon as RL-Zoo is imported
TIME_LIMITS = ("gymnasium.wrappers.common.TimeLimit", "rl_zoo3.gym_patches.PatchedTimeLimit")
#: The wrappers that FlappyVecEnv knows, in the order in which they may occur, outermost first
KNOWN_WRAPPERS = (
    MONITORS,
    TIME_LIMITS,
    ("gymnasium.wrappers.common.OrderEnforcing",),
    ("gymnasium.wrappers.common.PassiveEnvChecker",),
)


class FlappyVecEnv(DummyVecEnv):
    """
    A ``DummyVecEnv`` whose games play together in one array program: the same results from the same seeds, many times faster.

    The envs are real ones, wrappers included: ``get_attr``, ``set_attr``, ``env_method``, ``env_is_wrapped``, ``render`` and
    ``envs`` mean what they mean in ``DummyVecEnv``. A step of a running episode is played by the batch alone. The step that
    ends an episode, and every reset, goes through the env's wrappers, to which its game hands what the batch has played; so
    the ``episode`` in the info and the monitor's file are SB3's own.

    With anything else than the native engine, the same arguments for all envs, and gymnasium's own wrappers under at most one
    ``Monitor``, the envs are stepped one by one as ``DummyVecEnv`` does it, and a line of the log says why.

    Differences: an info is made anew at each step instead of copied, and an invalid action is found before any game moves.

    :param env_fns: functions that return an env each, as ``make_vec_env(..., vec_env_cls=FlappyVecEnv)`` has them; or the
        number of envs, which are then made of ``env_id`` and wrapped in a ``Monitor``
    :param env_id: one of the ids of this package
    :param env_kwargs: arguments for ``gymnasium.make``
    :raises ValueError: if there are functions as well as arguments for the env
    """

    def __init__(
        self, env_fns: int | Sequence[Callable[[], gym.Env]], env_id: str = "FlappyBird-v0", **env_kwargs: Any
    ) -> None:
        if isinstance(env_fns, (int, np.integer)):
            env_fns = [lambda: Monitor(gym.make(env_id, **env_kwargs))] * int(env_fns)
        elif isinstance(env_fns, str):
            raise TypeError(f"The number of envs comes first: FlappyVecEnv(4, {env_fns!r}).")
        elif env_kwargs:
            raise ValueError(f"`env_kwargs` {sorted(env_kwargs)} need a number of envs; functions make their envs themselves.")
        super().__init__(list(env_fns))
        self._batch: FlappyBatch | None = None
        reason = find_obstacle(self.envs)
        if reason is None:
            self._share_games()
        else:
            logger.warning("FlappyVecEnv steps its envs one by one: %s.", reason)

    def _share_games(self) -> None:
        """Put the envs' games into one batch."""
        options = self.envs[0].unwrapped.game.options  # type: ignore[attr-defined]
        self._batch = batch = FlappyBatch(self.num_envs, *options)
        self._games = [SharedGame(batch, number, options) for number in range(self.num_envs)]
        for env, game in zip(self.envs, self._games, strict=True):
            alone = env.unwrapped.game  # type: ignore[attr-defined]
            if alone.started:
                game.np_random = alone.np_random
                batch.set_game(game.game, alone.state)
            env.unwrapped.game = game  # type: ignore[attr-defined]
        self.buf_obs[None] = batch.observations  # type: ignore[index]
        self._shared_envs = list(self.envs)
        stacks = [wrappers_of(env) for env in self.envs]
        self._monitors: list[Any] = [wrapper for stack in stacks for wrapper in stack if name_of(wrapper) in MONITORS]
        self._limits: list[Any] = [wrapper for stack in stacks for wrapper in stack if name_of(wrapper) in TIME_LIMITS]

    def step_wait(self) -> VecEnvStepReturn:
        """Play a step, see ``DummyVecEnv``."""
        if self._batch is None or self.envs != self._shared_envs or any(monitor.needs_reset for monitor in self._monitors):
            return super().step_wait()
        observations, rewards, terminated, scores = self._batch.step(self.actions)
        self.buf_rews[:] = rewards
        self.buf_dones[:] = terminated
        for game, limit in enumerate(self._limits):
            if limit._elapsed_steps + 1 >= limit._max_episode_steps:
                self.buf_dones[game] = True
        self.buf_infos = [{"score": score, "TimeLimit.truncated": False} for score in scores.tolist()]
        self._count_steps(rewards.tolist(), self.buf_dones.tolist())
        ended = np.flatnonzero(self.buf_dones)
        if len(ended):
            for game in ended.tolist():
                played = (observations[game].copy(), float(rewards[game]), bool(terminated[game]), False)
                self._end_episode(game, (*played, {"score": int(scores[game])}))
            self._start_episodes(ended)
        return observations.copy(), self.buf_rews.copy(), self.buf_dones.copy(), self.buf_infos

    def _count_steps(self, rewards: list[float], dones: list[bool]) -> None:
        """Do in the wrappers what their ``step`` does in a running episode."""
        for limit, done in zip(self._limits, dones, strict=bool(self._limits)):
            if not done:
                limit._elapsed_steps += 1
        for monitor, reward, done in zip(self._monitors, rewards, dones, strict=bool(self._monitors)):
            if not done:
                monitor.rewards.append(reward)
                monitor.total_steps += 1

    def _end_episode(self, game: int, played: StepResult) -> None:
        """Take the last step of an episode through the env's wrappers."""
        self._games[game].played = played
        observation, self.buf_rews[game], terminated, truncated, info = self.envs[game].step(self.actions[game])
        info["TimeLimit.truncated"] = truncated and not terminated
        info["terminal_observation"] = observation
        self.buf_infos[game] = info

    def _start_episodes(self, games: np.ndarray) -> None:
        """Start games together, and then tell their envs."""
        assert self._batch is not None
        for game in games.tolist():
            self._batch.set_generator(game, self.envs[game].unwrapped.np_random)
        self._batch.start(games)
        for game in games.tolist():
            self._games[game].restarted = True
            _, self.reset_infos[game] = self.envs[game].reset()


def name_of(wrapper: gym.Env) -> str:
    """Return the full name of a wrapper's class."""
    return f"{type(wrapper).__module__}.{type(wrapper).__qualname__}"


def wrappers_of(env: gym.Env) -> list[gym.Wrapper]:
    """Return an env's wrappers, outermost first."""
    wrappers = []
    while isinstance(env, gym.Wrapper):
        wrappers.append(env)
        env = env.env
    return wrappers


def find_obstacle(envs: Sequence[gym.Env]) -> str | None:
    """
    Return why the envs' games cannot be played in one batch, in words, or None if they can.

    :param envs: with their wrappers
    """
    for env in envs:
        obstacle = _find_obstacle_in(env)
        if obstacle is not None:
            return obstacle
    if len({tuple(map(name_of, wrappers_of(env))) for env in envs}) > 1:
        return "they have different wrappers"
    if len({env.unwrapped.game.options for env in envs}) > 1:  # type: ignore[attr-defined]
        return "they have different arguments"
    return None


def _find_obstacle_in(env: gym.Env) -> str | None:
    """Return what about an env is not known here, or None."""
    base = env.unwrapped
    if type(base) is not FlappyBirdEnv or type(base.game) is not NativeGame:
        return f"{base} is no native game (engine='native'), or belongs to another FlappyVecEnv"
    if base.render_mode == "human":
        return "a window shows every frame"
    position = 0
    for wrapper in wrappers_of(env):
        while position < len(KNOWN_WRAPPERS) and name_of(wrapper) not in KNOWN_WRAPPERS[position]:
            position += 1
        if position == len(KNOWN_WRAPPERS) or "step" in vars(wrapper):
            return f"{name_of(wrapper)} is not known here, or not in this place"
        position += 1
    return None
