"""The ids of the environments, and their time limits."""

import inspect
from typing import Any

import gymnasium as gym

# Importing upstream's package registers its own FlappyBird-v0. It does so only once: ours stays, whatever the order
# of the user's imports.
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv as UpstreamEnv
from gymnasium.vector import SyncVectorEnv, VectorEnv

from sbx_flappy.envs.constants import EPISODE_FRAMES, GAMES
from sbx_flappy.envs.gym_env import FlappyBirdEnv
from sbx_flappy.envs.vector_env import FlappyVectorEnv, check_arguments

#: The ids, each with the kind of its observations and the version of its game
ENV_IDS = {
    f"{name}-{version}": (obs_type, version)
    for name, obs_type in (("FlappyBird", "pixels"), ("FlappyBirdFeatures", "features"))
    for version in GAMES
}
_OURS = frozenset(inspect.signature(FlappyBirdEnv).parameters)
_UPSTREAMS = frozenset(inspect.signature(UpstreamEnv).parameters)


class FlappyBirdV0:
    """
    The maker of ``FlappyBird-v0``, an id that upstream's package has too: this package's env, or upstream's.

    A call with an argument that only upstream's env knows gets upstream's env, with upstream's defaults for the others, so
    that scripts written for it keep working. One difference remains: gymnasium gives it this id's time limit, 10,000 steps,
    which for upstream's env are 10,000 frames. ``max_episode_steps=-1`` removes it.

    :raises ValueError: if arguments that only one of the two knows are mixed with some that only the other knows
    """

    metadata = FlappyBirdEnv.metadata  # where gymnasium.make looks for the render modes

    def __call__(self, **kwargs: Any) -> gym.Env:
        """Return the env that knows the arguments."""
        upstream_only = sorted((_UPSTREAMS - _OURS) & kwargs.keys())
        ours_only = sorted((_OURS - _UPSTREAMS) & kwargs.keys())
        if upstream_only and ours_only:
            raise ValueError(
                f"Only flappy-bird-gymnasium's FlappyBird-v0 takes {upstream_only}, and only sbx_flappy's takes {ours_only}: "
                "leave out one of the two groups."
            )
        return UpstreamEnv(**kwargs) if upstream_only else FlappyBirdEnv(**kwargs)


make_flappy_bird_v0 = FlappyBirdV0()


def make_vector_env(
    num_envs: int = 1, max_episode_steps: int | None = None, autoreset_mode: Any = "NextStep", **kwargs: Any
) -> VectorEnv:
    """
    Make many envs for ``gymnasium.make_vec``.

    They are one array program, or gymnasium's loop over single envs where there is none: with ``engine="pygame"``,
    ``render_mode="human"`` or ``"rgb_array_list"``, and upstream's own env. The parameters are those of
    :class:`FlappyVectorEnv`, and of :class:`FlappyBirdV0` in place of ``FlappyBirdEnv``.
    """
    num_envs, limit = check_arguments(num_envs, max_episode_steps, kwargs)
    native = kwargs.get("engine", "native") == "native" and kwargs.get("render_mode") not in ("human", "rgb_array_list")
    if native and not (_UPSTREAMS - _OURS) & kwargs.keys():
        return FlappyVectorEnv(num_envs, limit, autoreset_mode, **kwargs)
    collects = kwargs.get("render_mode") == "rgb_array_list"
    if collects:
        kwargs["render_mode"] = "rgb_array"

    def make() -> gym.Env:
        env: gym.Env = gym.wrappers.OrderEnforcing(make_flappy_bird_v0(**kwargs))
        env = env if limit is None else gym.wrappers.TimeLimit(env, limit)
        return gym.wrappers.RenderCollection(env) if collects else env

    return SyncVectorEnv([make] * num_envs, autoreset_mode=autoreset_mode)


def register_envs() -> None:
    """
    Register ``FlappyBird-v0``, ``-v1``, ``FlappyBirdFeatures-v0`` and ``-v1``, replacing any envs that have these ids.

    Every episode is truncated after 40,000 frames: 10,000 steps of the v0 ids and 20,000 of the v1 ids.
    """
    for env_id, (obs_type, version) in ENV_IDS.items():
        game = GAMES[version]
        gym.registry.pop(env_id, None)  # otherwise gymnasium warns of a second registration
        if env_id == "FlappyBird-v0":
            # No arguments here, which would look like the user's: the env's defaults are this game.
            entry_point, arguments = f"{__name__}:make_flappy_bird_v0", {}
        else:
            entry_point, arguments = "sbx_flappy.envs.gym_env:FlappyBirdEnv", {"obs_type": obs_type, **game}
        gym.register(
            env_id,
            entry_point,
            max_episode_steps=EPISODE_FRAMES // game["frame_skip"],
            kwargs=arguments,
            vector_entry_point=f"{__name__}:make_vector_env",
        )
    _keep_v0_current()


def _keep_v0_current() -> None:
    """
    Keep gymnasium from calling the v0 ids out of date.

    gymnasium takes a higher version for the successor of a lower one, and warns the users of the lower one. Here they are
    two games, so "-v1" is entered as a part of the name.
    """
    for env_id, spec in gym.registry.items():
        if env_id in ("FlappyBird-v1", "FlappyBirdFeatures-v1"):
            spec.name, spec.version = env_id, None
