"""
The state of a VecEnv: all that decides how its episodes go on, in plain nested containers, numbers and arrays.

It consists of the states of its layers, see ``layer_state``.
"""

import copy
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecEnvWrapper

from sbx_flappy.envs.layers import get_class_name, get_wrappers
from sbx_flappy.saving.layer_state import Generators, State, copy_plain, read_layer, write_layer


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


def _read_stack(env: gym.Env) -> State:
    generators = Generators()
    layers = [read_layer(layer, generators) for layer in _stack(env)]
    return {"layers": layers, "generators": generators.copies()}


def _write_stack(env: gym.Env, state: State) -> None:
    generators = copy.deepcopy(state["generators"])
    for layer, layer_state in zip(_stack(env), state["layers"], strict=True):
        write_layer(layer, layer_state, generators)


def _read_alone(wrapper: VecEnvWrapper) -> State:
    generators = Generators()
    return {**read_layer(wrapper, generators), "own_generators": generators.copies()}


def _write_alone(wrapper: VecEnvWrapper, state: State) -> None:
    write_layer(wrapper, state, copy.deepcopy(state["own_generators"]))
