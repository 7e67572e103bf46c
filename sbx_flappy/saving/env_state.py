"""
The state of a VecEnv: all that decides how its episodes go on, as a nest of plain containers, numbers and arrays.

Of the layers that are known here the state holds what changes while they run. A layer may say itself what its state is, as a
nest of plain values: an env or a wrapper by ``get_plain_state()`` and ``set_plain_state(state)``, an env also by
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
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecEnvWrapper, VecFrameStack
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

from sbx_flappy.envs.layers import get_class_name, get_class_path, get_wrappers

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


def get_env_state(env: VecEnv) -> State:
    """
    Return how a VecEnv goes on, see the module.

    :param env: ``DummyVecEnv``, ``FlappyVecEnv``, or a ``SubprocVecEnv`` of envs in :class:`ResumableEnv`, under any wrappers
    :raises ValueError: if the environment is of another kind, or if something in it is not plain; both are named
    """
    wrappers, base = _split(env)
    return {
        "chain": _describe(wrappers, base),
        "wrappers": [_read_alone(wrapper) for wrapper in wrappers],
        "seeds": list(base._seeds),
        "options": copy_plain(base._options, "`options`"),
        "reset_infos": copy_plain(list(base.reset_infos), "the info of a reset"),
        "envs": base.env_method("get_env_state") if is_remote(base) else list(map(_read_stack, base.envs)),
    }


def set_env_state(env: VecEnv, state: State) -> None:
    """
    Let a VecEnv go on from a state. It need not have been reset.

    :param env: made as the one that the state was taken of
    :param state: what :func:`get_env_state` returned
    :raises ValueError: if the numbers of environments or the wrappers differ
    """
    wrappers, base = _split(env)
    chain = _describe(wrappers, base)
    if chain != state["chain"]:
        raise ValueError(
            "The saved training belongs to another environment. Create the environment as it was, and the training resumes as "
            f"if it had never stopped.\nSaved: {_in_words(state['chain'])}\nNow:   {_in_words(chain)}"
        )
    for wrapper, layer in zip(wrappers, state["wrappers"], strict=True):
        _write_alone(wrapper, layer)
    base._seeds = list(state["seeds"])
    base._options = copy_plain(state["options"], "`options`")
    base.reset_infos = copy_plain(state["reset_infos"], "the info of a reset")
    for i, stack in enumerate(state["envs"]):
        if is_remote(base):
            base.env_method("set_env_state", stack, indices=i)
        else:
            _write_stack(base.envs[i], stack)


class ResumableEnv(gym.Wrapper):
    """
    Lets :func:`get_env_state` and :func:`set_env_state` reach an env in another process.

    It must be the outermost wrapper: ``make_vec_env(..., vec_env_cls=SubprocVecEnv, wrapper_class=ResumableEnv)``.

    :param env: the env
    """

    def get_env_state(self) -> State:
        """Return how the env goes on."""
        return _read_stack(self.env)

    def set_env_state(self, state: State) -> None:
        """Let the env go on from a state."""
        _write_stack(self.env, state)

    def get_layer_names(self) -> list[str]:
        """Return the names of the env's wrappers and its own."""
        return list(map(get_class_name, _stack(self.env)))


def is_remote(base: VecEnv) -> bool:
    """Return whether the envs are in other processes."""
    return isinstance(base, SubprocVecEnv)


def _describe(wrappers: list[VecEnvWrapper], base: Any) -> State:
    """Return what two environments must have in common for one to take over the other's state."""
    local = [] if is_remote(base) else base.envs
    return {
        "n_envs": base.num_envs,
        "wrappers": list(map(get_class_name, wrappers)),
        "envs": [list(map(get_class_name, _stack(env))) for env in local] or base.env_method("get_layer_names"),
    }


def _in_words(chain: State) -> str:
    stacks = sorted({" of ".join(stack) for stack in chain["envs"]})
    return " of ".join([*chain["wrappers"], f"{chain['n_envs']} {', '.join(stacks)}"])


def _split(env: VecEnv) -> tuple[list[VecEnvWrapper], Any]:
    """
    Return the wrappers of a VecEnv, outermost first, and what they wrap.

    :raises ValueError: if its envs cannot be reached
    """
    wrappers = []
    while isinstance(env, VecEnvWrapper):
        wrappers.append(env)
        env = env.venv
    if isinstance(env, DummyVecEnv) or (is_remote(env) and all(env.env_is_wrapped(ResumableEnv))):
        return wrappers, env
    raise ValueError(
        f"The state of a {type(env).__name__} cannot be saved or restored, because its environments cannot be reached. Use "
        "DummyVecEnv, FlappyVecEnv for the environments of this package, or SubprocVecEnv with "
        "`wrapper_class=sbx_flappy.saving.env_state.ResumableEnv`."
    )


def _stack(env: gym.Env) -> list[gym.Env]:
    """Return an env's wrappers, outermost first, and the env itself."""
    wrappers = get_wrappers(env)
    layers = [*wrappers, wrappers[-1].env if wrappers else env]
    return [layer for layer in layers if not isinstance(layer, ResumableEnv)]


# --- one env and its wrappers, whose generators may be shared -----------------------------------------------------------


class _Generators:
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


def _read_stack(env: gym.Env) -> State:
    generators = _Generators()
    layers = [_read(layer, generators) for layer in _stack(env)]
    return {"layers": layers, "generators": generators.copies()}


def _write_stack(env: gym.Env, state: State) -> None:
    generators = copy.deepcopy(state["generators"])
    for layer, layer_state in zip(_stack(env), state["layers"], strict=True):
        _write(layer, layer_state, generators)


def _read_alone(wrapper: VecEnvWrapper) -> State:
    generators = _Generators()
    return {**_read(wrapper, generators), "own_generators": generators.copies()}


def _write_alone(wrapper: VecEnvWrapper, state: State) -> None:
    _write(wrapper, state, copy.deepcopy(state["own_generators"]))


# --- one layer ----------------------------------------------------------------------------------------------------------


def _read(layer: Any, generators: _Generators) -> State:
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


def _write(layer: Any, state: State, generators: list[np.random.Generator]) -> None:
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
