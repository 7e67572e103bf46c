"""
The state of one layer of an environment: an env, a wrapper of an env, or a wrapper of a VecEnv.

Of the layers that are known here the state holds what changes while they run. A layer may say itself what its state is, in
plain nested containers: an env or a wrapper by ``get_plain_state()`` and ``set_plain_state(state)``, an env also by
``get_state()`` and ``set_state(state)``. Of any other wrapper or env the state holds all attributes, if these are plain.
"""

import collections
import copy
import time
import types
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

from sbx_flappy.envs.layers import get_class_path

State = dict[str, Any]

#: What changes in the layers that are known, by the names of their classes
KNOWN_LAYERS: dict[str, tuple[str, ...]] = {
    "stable_baselines3.common.vec_env.vec_normalize.VecNormalize": (
        *("obs_rms", "ret_rms", "returns", "old_obs", "old_reward", "training", "norm_reward"),
    ),
    "stable_baselines3.common.vec_env.vec_monitor.VecMonitor": (
        *("episode_count", "episode_returns", "episode_lengths", "t_start"),
    ),
    "stable_baselines3.common.vec_env.vec_transpose.VecTransposeImage": (),
    "stable_baselines3.common.vec_env.vec_extract_dict_obs.VecExtractDictObs": (),
    "stable_baselines3.common.vec_env.vec_check_nan.VecCheckNan": ("_user_warned",),
    "stable_baselines3.common.monitor.Monitor": (
        *("rewards", "needs_reset", "episode_returns", "episode_lengths", "episode_times", "total_steps"),
        *("current_reset_info", "t_start"),
    ),
    "gymnasium.wrappers.common.TimeLimit": ("_elapsed_steps",),
    "gymnasium.wrappers.common.OrderEnforcing": ("_has_reset",),
    "gymnasium.wrappers.common.PassiveEnvChecker": (
        *("checked_reset", "checked_step", "checked_render", "checked_data_reuse", "close_called"),
    ),
}
#: Attributes of layers that are not known here which no step changes
SETTINGS = (
    *("env", "venv", "spec", "metadata", "render_mode", "class_attributes", "obs_spaces", "num_envs"),
    *("_saved_kwargs", "_cached_spec", "_metadata", "_ezpickle_args", "_ezpickle_kwargs"),
)
#: Attributes of these kinds are settings too, whatever their names
CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, type, np.ufunc, np.dtype, EnvSpec)
NUMBERS = frozenset({bool, int, float})
PLAIN = frozenset({type(None), bool, int, float, str, bytes})


def copy_plain(value: Any, name: str) -> Any:
    """
    Return a copy of a nest of plain containers, numbers, arrays, NumPy generators and SB3's running means.

    :param value: the nest
    :param name: what it is called in an error
    :raises ValueError: if there is anything else in it
    """
    kind = type(value)
    if kind in PLAIN or isinstance(value, np.generic):
        return value
    if kind in (list, tuple, collections.deque):
        if NUMBERS.issuperset(map(type, value)):  # the returns of thousands of episodes
            return copy.copy(value)
        values = [copy_plain(entry, name) for entry in value]
        return collections.deque(values, value.maxlen) if kind is collections.deque else kind(values)
    if kind in (dict, collections.OrderedDict):
        return {key: copy_plain(entry, name) for key, entry in value.items()}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return np.array(value)
    if kind in (np.random.Generator, RunningMeanStd):
        return copy.deepcopy(value)
    raise ValueError(
        f"The state of the environment cannot be saved: {name} is of {kind}. Remove what creates it, let {name} hold only "
        "plain numbers and arrays, or give the environment `get_state()` and `set_state(state)`."
    )


class Generators:
    """The random generators of one env, each of them once, however many attributes hold it."""

    def __init__(self) -> None:
        self._originals: list[np.random.Generator] = []

    def number(self, generator: np.random.Generator | None) -> int | None:
        """Return a generator's number."""
        if generator is None:
            return None
        for number, known in enumerate(self._originals):
            if known is generator:
                return number
        self._originals.append(generator)
        return len(self._originals) - 1

    def copies(self) -> list[np.random.Generator]:
        """Return them in the state in which they are."""
        return copy.deepcopy(self._originals)


def read_layer(layer: Any, generators: Generators) -> State:
    """
    Return the state of one layer.

    :param layer: an env, a wrapper of an env, or a wrapper of a VecEnv
    :param generators: the random generators that it shares with other layers, to which its own are added
    :raises ValueError: if something in it is not plain
    """
    state: State = {"attributes": {}, "generators": {}, "spaces": {}}
    if isinstance(layer, VecFrameStack):
        state["stacks"] = [stack.stacked_obs.copy() for stack in _stacked(layer.stacked_obs)]
        return state
    for name in _names(layer):
        value = getattr(layer, name)
        if isinstance(value, np.random.Generator):
            state["generators"][name] = generators.number(value)
        elif isinstance(value, spaces.Space):
            state["spaces"][name] = [generators.number(space._np_random) for space in _leaves(value)]
        elif name == "t_start":
            state["elapsed"] = time.time() - value
        elif not (isinstance(value, CODE) or value is getattr(layer, "env", layer)):
            state["attributes"][name] = copy_plain(value, f"{type(layer).__name__}.{name}")
    if _own_methods(layer):
        state["said"] = _ask(layer)
    return state


def write_layer(layer: Any, state: State, generators: list[np.random.Generator]) -> None:
    """
    Set the state of one layer.

    :param layer: an env, a wrapper of an env, or a wrapper of a VecEnv
    :param state: what :func:`read_layer` returned
    :param generators: the random generators of all layers
    """
    if "stacks" in state:
        for stack, stacked_obs in zip(_stacked(layer.stacked_obs), state["stacks"], strict=True):
            stack.stacked_obs = stacked_obs.copy()
    for name, value in state["attributes"].items():
        setattr(layer, name, copy_plain(value, name))
    for name, number in state["generators"].items():
        setattr(layer, name, generators[number])
    for name, numbers in state["spaces"].items():
        for space, number in zip(_leaves(getattr(layer, name)), numbers, strict=True):
            space._np_random = None if number is None else generators[number]  # type: ignore[assignment]
    if "elapsed" in state:
        layer.t_start = time.time() - state["elapsed"]
    if "checked_data_reuse" in state["attributes"]:  # it compares the first steps with what came before: here nothing
        layer._previous_data = (None, {})
    if "said" in state:
        _tell(layer, state["said"])


def _names(layer: Any) -> list[str]:
    """Return the attributes of a layer that may change."""
    if get_class_path(layer) in KNOWN_LAYERS:
        return [name for name in KNOWN_LAYERS[get_class_path(layer)] if hasattr(layer, name)]
    if _own_methods(layer):
        own = ("_np_random", "_np_random_seed", "action_space", "observation_space")
        return [name for name in own if name in vars(layer)]
    return [name for name in vars(layer) if name not in SETTINGS]


def _own_methods(layer: Any) -> tuple[str, str] | None:
    """Return the names of the methods by which a layer says what its state is, and by which it takes one, if it has them."""
    pairs = [("get_plain_state", "set_plain_state")]
    if not isinstance(layer, (gym.Wrapper, VecEnv)):  # a wrapper's own might be those of the env that it wraps
        pairs.append(("get_state", "set_state"))
    return next((pair for pair in pairs if all(callable(getattr(layer, name, None)) for name in pair)), None)


def _ask(layer: Any) -> Any:
    """
    Return what a layer says its state is.

    :raises ValueError: if it cannot say
    """
    (name, _) = _own_methods(layer) or ("", "")
    try:
        said = getattr(layer, name)()
    except (NotImplementedError, gym.error.ResetNeeded) as e:
        raise ValueError(f"The state of the environment cannot be saved: {type(layer).__name__}: {e}") from e
    return copy_plain(said, f"{type(layer).__name__}.{name}()")


def _tell(layer: Any, said: Any) -> None:
    (_, name) = _own_methods(layer) or ("", "")
    getattr(layer, name)(copy_plain(said, f"{type(layer).__name__}.{name}()"))


def _leaves(space: spaces.Space) -> Iterator[spaces.Space]:
    """Yield a space and all that it is composed of."""
    yield space
    parts = space.spaces if isinstance(space, (spaces.Dict, spaces.Tuple)) else ()
    for part in parts.values() if isinstance(parts, dict) else parts:
        yield from _leaves(part)


def _stacked(stack: StackedObservations) -> list[StackedObservations]:
    """Return the stacks of frames: one, or one for each key of a dictionary."""
    return list(stack.sub_stacked_observations.values()) if hasattr(stack, "sub_stacked_observations") else [stack]
