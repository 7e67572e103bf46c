"""
Encode the values of a model's state as plain JSON and arrays, and decode them, without pickles.

JSON's own kinds of values stay as they are. A value of another kind becomes an object with one key, "$" and the name of its
kind, which holds the value's parts. Decoding imports and calls only what is listed in this module's tables and in ``names``.
"""

import collections
import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from sbx_flappy.saving.names import get_name, get_object

#: Dtypes that an array may have, by NumPy's kinds: bool, integers, floating point
KINDS = "biuf"
#: The largest array that a file may describe as one number in many places, in bytes
MAX_FILLED = 2**28
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class EncodingError(TypeError):
    """Raised for a value that has no plain form."""


class DecodingError(ValueError):
    """Raised for what is not the plain form of a value."""


class Kind(NamedTuple):
    """
    How values of one kind are encoded and decoded.

    :param types: the exact types of the values
    :param take: returns a value's parts, which are of known kinds
    :param make: returns the value of these parts; raises any exception for other parts
    """

    types: tuple[type, ...]
    take: Callable[[Any], Any]
    make: Callable[[Any], Any]


def _make_float(text: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise ValueError(text)
    return float(text)


def _make_filled(parts: list[Any]) -> np.ndarray:
    shape, dtype, value = parts
    shape, dtype = tuple(map(int, shape)), np.dtype(dtype)
    if dtype.kind not in KINDS or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > MAX_FILLED:
        raise ValueError(f"an array {shape} of {dtype}")
    return np.full(shape, value, dtype)


def _make_generator(state: dict[str, Any]) -> np.random.Generator:
    name = state["bit_generator"]
    if name not in BIT_GENERATORS:
        raise ValueError(name)
    positions = (state["state"].get("pos", 0), state.get("buffer_pos", 0))  # NumPy trusts them
    if not all(type(position) is int and 0 <= position <= limit for position, limit in zip(positions, (624, 4), strict=True)):
        raise ValueError(f"the positions {positions}")
    bit_generator = getattr(np.random, name)()
    bit_generator.state = state
    return np.random.Generator(bit_generator)


def _with_generator(space: Any, generator: Any) -> Any:
    if generator is not None and not isinstance(generator, np.random.Generator):
        raise TypeError(generator)
    space._np_random = generator
    return space


def _make_box(parts: list[Any]) -> spaces.Box:
    low, high, dtype, generator = parts
    return _with_generator(spaces.Box(low, high, low.shape, np.dtype(dtype).type), generator)


def _make_multi_discrete(parts: list[Any]) -> spaces.MultiDiscrete:
    nvec, start, dtype, generator = parts
    space = spaces.MultiDiscrete(nvec, np.dtype(dtype).type, start=start)
    return _with_generator(space, generator)


def _make_running_mean_std(parts: list[Any]) -> RunningMeanStd:
    running = RunningMeanStd()
    running.mean, running.var, running.count = parts
    return running


def _check_schedule(schedule: FloatSchedule) -> FloatSchedule:
    if type(schedule.value_schedule) not in (ConstantSchedule, LinearSchedule) and not _is_zoo_schedule(
        schedule.value_schedule
    ):
        raise TypeError(schedule)
    return schedule


def _is_zoo_schedule(value: Any) -> bool:
    return (type(value).__module__, type(value).__name__) == ("rl_zoo3.utils", "SimpleLinearSchedule")


def _make_zoo_schedule(initial_value: float) -> Any:
    return importlib.import_module("rl_zoo3.utils").SimpleLinearSchedule(initial_value)


#: Every kind that is neither JSON's nor an array, by its name in files
TAGS: dict[str, Kind] = {
    "$tuple": Kind((tuple,), list, tuple),
    "$deque": Kind((collections.deque,), lambda d: [d.maxlen, list(d)], lambda parts: collections.deque(parts[1], parts[0])),
    "$dict": Kind((), lambda d: [list(item) for item in d.items()], lambda items: dict(map(tuple, items))),
    "$float": Kind((), repr, _make_float),
    "$filled": Kind((), lambda a: [list(a.shape), a.dtype.str, a.flat[0].item()], _make_filled),
    "$scalar": Kind((), lambda x: [x.dtype.str, x.item()], lambda parts: np.dtype(parts[0]).type(parts[1])),
    "$tensor": Kind((th.Tensor,), lambda t: t.detach().cpu().numpy(), lambda array: th.from_numpy(np.array(array))),
    "$generator": Kind((np.random.Generator,), lambda g: g.bit_generator.state, _make_generator),
    "$box": Kind((spaces.Box,), lambda s: [s.low, s.high, s.dtype.str, s._np_random], _make_box),
    "$discrete": Kind(
        (spaces.Discrete,),
        lambda s: [int(s.n), int(s.start), s._np_random],
        lambda parts: _with_generator(spaces.Discrete(parts[0], start=parts[1]), parts[2]),
    ),
    "$multi_discrete": Kind(
        (spaces.MultiDiscrete,), lambda s: [s.nvec, s.start, s.dtype.str, s._np_random], _make_multi_discrete
    ),
    "$multi_binary": Kind(
        (spaces.MultiBinary,),
        lambda s: [list(s.n) if isinstance(s.n, (tuple, list, np.ndarray)) else int(s.n), s._np_random],
        lambda parts: _with_generator(spaces.MultiBinary(parts[0]), parts[1]),
    ),
    "$dict_space": Kind(
        (spaces.Dict,),
        lambda s: [list(map(list, s.spaces.items())), s._np_random],
        lambda parts: _with_generator(spaces.Dict([tuple(item) for item in parts[0]]), parts[1]),
    ),
    "$running_mean_std": Kind((RunningMeanStd,), lambda r: [r.mean, r.var, r.count], _make_running_mean_std),
    "$schedule": Kind((FloatSchedule,), lambda s: s.value_schedule, lambda value: _check_schedule(FloatSchedule(value))),
    "$constant_schedule": Kind((ConstantSchedule,), lambda s: s.val, lambda val: ConstantSchedule(float(val))),
    "$linear_schedule": Kind(
        (LinearSchedule,), lambda s: [s.start, s.end, s.end_fraction], lambda parts: LinearSchedule(*map(float, parts))
    ),
    "$rl_zoo_linear_schedule": Kind((), lambda s: s.initial_value, _make_zoo_schedule),
}
_TAG_OF = {cls: tag for tag, kind in TAGS.items() for cls in kind.types}


class Encoder:
    """Turns values into JSON and arrays. An array or tensor that is met twice is kept once."""

    def __init__(self) -> None:
        #: The arrays met so far, of which the JSON holds the places
        self.arrays: list[np.ndarray] = []
        self._seen: dict[int, tuple[th.Tensor, Any]] = {}

    def __call__(self, value: Any, path: str) -> Any:
        """
        Return a value as JSON has it.

        :param value: a nest of what :data:`TAGS` lists, of arrays and tensors, and of JSON's own kinds
        :param path: what the value is called in an error
        :raises EncodingError: for any other value; the message has its path
        """
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self(item, f"{path}[{i}]") for i, item in enumerate(value)]
        if kind in (dict, collections.OrderedDict) and all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self(item, f"{path}[{key!r}]") for key, item in value.items()}
        if isinstance(value, (np.ndarray, jax.Array)):
            return self._encode_array(np.asarray(value), path)
        if isinstance(value, th.Tensor):
            return self._encode_tensor(value, path)
        tag = _tag_of(value)
        if tag is not None:
            return {tag: self(TAGS[tag].take(value), path)}
        name = get_name(value)
        if name is None:
            raise EncodingError(f"{path}: {value!r:.200}")
        return {"$name": name}

    def _encode_tensor(self, tensor: th.Tensor, path: str) -> Any:
        if id(tensor) not in self._seen:  # the tensor itself is kept, so that no other one gets its id
            self._seen[id(tensor)] = tensor, {"$tensor": self._encode_array(TAGS["$tensor"].take(tensor), path)}
        return self._seen[id(tensor)][1]

    def _encode_array(self, array: np.ndarray, path: str) -> Any:
        if array.dtype.kind not in KINDS:
            raise EncodingError(f"{path}: an array of {array.dtype}")
        if 1 < array.size and array.nbytes <= MAX_FILLED and _is_filled(array):
            return {"$filled": TAGS["$filled"].take(array)}
        self.arrays.append(array)
        return {"$array": len(self.arrays) - 1}


def _tag_of(value: Any) -> str | None:
    """Return the name of a value's kind, if it has one."""
    kind = type(value)
    if _is_zoo_schedule(value):
        return "$rl_zoo_linear_schedule"
    if isinstance(value, np.generic) and value.dtype.kind in KINDS:
        return "$scalar"
    return {float: "$float", dict: "$dict", collections.OrderedDict: "$dict"}.get(kind) or _TAG_OF.get(kind)


def _is_filled(array: np.ndarray) -> bool:
    """Return whether all entries are the same finite number, bit by bit."""
    if not np.isfinite(array.flat[0]) or array.dtype.itemsize > 8:
        return False
    bits = np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")
    return bool(bits[0] == bits[-1] and np.all(bits == bits[0]))


def decode(value: Any, get_array: Callable[[int], np.ndarray]) -> Any:
    """
    Return the value that an :class:`Encoder` was given.

    :param value: of JSON's kinds
    :param get_array: returns the array of a place
    :raises DecodingError: if no encoder returns such a value
    """
    if isinstance(value, list):
        return [decode(item, get_array) for item in value]
    if not isinstance(value, Mapping):
        return value
    if not any(key.startswith("$") for key in value):
        return {key: decode(item, get_array) for key, item in value.items()}
    if len(value) != 1:
        raise DecodingError(f"the keys {sorted(value)}")
    (tag, content), *_ = value.items()
    if tag == "$array":
        return get_array(content)
    if tag == "$name":
        try:
            return get_object(content)
        except KeyError as e:
            raise DecodingError(f"the name {content!r:.100}") from e
    if tag not in TAGS:
        raise DecodingError(f"the kind {tag!r:.100}")
    parts = decode(content, get_array)
    try:
        return TAGS[tag].make(parts)
    except Exception as e:  # NumPy, torch and Gymnasium raise many kinds of errors for invalid arguments
        raise DecodingError(f"not a valid {tag[1:]}: {e}") from e
