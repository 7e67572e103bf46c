"""
Between torch's state dicts and the trees of Flax and optax.

The parameter tree has torch SB3's names already (see ``functional.networks``), so a state dict is a matter of layout:
kernels are transposed, and torch names a shared features extractor three times.
"""

import collections
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch as th

from sbx_flappy.functional.types import PyTree, Variables

#: torch's names of what layers keep besides parameters, by collection and Flax's name
_STATE_NAMES = {("batch_stats", "mean"): "running_mean", ("batch_stats", "var"): "running_var"}
_LEAF_NAMES = {"kernel": "weight", "scale": "weight", "embedding": "weight"}


def torch_name(path: tuple[str, ...]) -> str:
    """Return torch's name of a parameter, for its path in the tree."""
    return ".".join((*path[:-1], _LEAF_NAMES.get(path[-1], path[-1])))


def to_torch_layout(path: tuple[str, ...], array: np.ndarray) -> np.ndarray:
    """Return a parameter in torch's layout: ``[O, I]`` of a dense, ``[O, I, H, W]`` of a convolutional kernel."""
    if path[-1] != "kernel":
        return array
    return array.transpose(3, 2, 0, 1) if array.ndim == 4 else array.T


def from_torch_layout(path: tuple[str, ...], array: np.ndarray) -> np.ndarray:
    """Return a parameter in Flax's layout, the inverse of :func:`to_torch_layout`."""
    if path[-1] != "kernel":
        return array
    return array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T


def iterate(tree: PyTree, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and leaf of nested dictionaries, in their own order."""
    for name, branch in tree.items():
        if isinstance(branch, Mapping):
            yield from iterate(branch, (*prefix, name))
        else:
            yield (*prefix, name), branch


def lookup(tree: PyTree, path: tuple[str, ...]) -> Any:
    """Return the leaf of nested dictionaries at a path."""
    return functools.reduce(lambda branch, name: branch[name], path, tree)


def build(leaves: Mapping[tuple[str, ...], Any]) -> PyTree:
    """Return nested dictionaries, the inverse of :func:`iterate`."""
    tree: dict[str, Any] = {}
    for path, leaf in leaves.items():
        functools.reduce(lambda branch, name: branch.setdefault(name, {}), path[:-1], tree)[path[-1]] = leaf
    return tree


def to_tensor(path: tuple[str, ...], array: Any) -> th.Tensor:
    """Return a parameter as a tensor of its own memory, in torch's layout."""
    array = np.array(to_torch_layout(path, np.asarray(array)), order="C")
    # NumPy has no bfloat16; float32 holds all of its numbers
    return th.from_numpy(array if array.dtype.kind in "biuf" else array.astype(np.float32))


def from_tensor(path: tuple[str, ...], tensor: Any, dtype: Any = jnp.float32) -> np.ndarray:
    """Return a parameter from a tensor (or array) in torch's layout."""
    array = tensor.detach().cpu().numpy() if isinstance(tensor, th.Tensor) else np.asarray(tensor)
    with np.errstate(over="ignore"):  # a number too large for the dtype becomes infinity, as in torch
        return np.array(from_torch_layout(path, array), dtype)


def aliases(path: tuple[str, ...], shared: bool) -> list[tuple[str, ...]]:
    """
    Return all the paths under which torch's policy holds a parameter.

    :param path: path in our tree
    :param shared: whether actor and critic share the features extractor
    """
    if path[0] != "features_extractor":
        return [path]
    heads = ["features_extractor", "pi_features_extractor", *(["vf_features_extractor"] if shared else [])]
    return [(head, *path[1:]) for head in heads]


def _state_name(collection: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path under which one of a layer's other variables is named: torch's words for running averages."""
    return (*path[:-1], _STATE_NAMES.get((collection, path[-1]), f"{collection}_{path[-1]}"))


def _named_paths(variables: Variables, order: tuple[tuple[str, ...], ...], shared: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Return torch's names, in torch's order, and the path of each in ``{"params": params, **state}``."""
    paths = [(path, ("params", *path)) for path in order]
    for collection, tree in variables.state.items():
        paths += [(_state_name(collection, path), (collection, *path)) for path, _ in iterate(tree)]
    named = [(alias, path) for name, path in paths for alias in aliases(name, shared)]
    rank = {"log_std": 0, "features_extractor": 1, "pi_features_extractor": 2, "vf_features_extractor": 3}
    named.sort(key=lambda item: rank.get(item[0][0], 4))
    return [(torch_name(alias), path) for alias, path in named]


def to_state_dict(
    variables: Variables, order: tuple[tuple[str, ...], ...], shared: bool
) -> "collections.OrderedDict[str, th.Tensor]":
    """
    Return parameters and running averages under torch SB3's names, in its layout and order.

    :param variables: the network's
    :param order: the paths of the parameters in the order of torch's ``parameters()``
    :param shared: whether actor and critic share the features extractor
    """
    tensors = {path: to_tensor(path, leaf) for path, leaf in iterate({"params": variables.params, **variables.state})}
    return collections.OrderedDict((name, tensors[path]) for name, path in _named_paths(variables, order, shared))


def from_state_dict(
    state_dict: Mapping[str, Any],
    variables: Variables,
    order: tuple[tuple[str, ...], ...],
    shared: bool,
    strict: bool,
    owner: str,
) -> Variables:
    """
    Return the variables of a state dict with torch SB3's names.

    :param state_dict: tensors or arrays
    :param variables: the current ones, kept where the state dict is silent and not strict
    :param order: the paths of the parameters
    :param shared: whether actor and critic share the features extractor
    :param strict: whether names may neither be missing nor be unknown
    :param owner: name of the policy's class, for the error
    :raises RuntimeError: with torch's words, if names or shapes do not match
    """
    expected = dict(_named_paths(variables, order, shared))
    missing = [f'"{name}"' for name in expected if name not in state_dict]
    unknown = [f'"{name}"' for name in state_dict if name not in expected]
    problems = [f"Missing key(s) in state_dict: {', '.join(missing)}. "] if strict and missing else []
    problems += [f"Unexpected key(s) in state_dict: {', '.join(unknown)}. "] if strict and unknown else []
    leaves = dict(iterate({"params": variables.params, **variables.state}))
    for name in (name for name in expected if name in state_dict):
        path = expected[name]
        shape = to_torch_layout(path, np.empty(leaves[path].shape)).shape
        if tuple(state_dict[name].shape) == shape:
            leaves[path] = from_tensor(path, state_dict[name], leaves[path].dtype)
        else:
            problems.append(
                f"size mismatch for {name}: copying a param with shape {th.Size(state_dict[name].shape)} from checkpoint, "
                f"the shape in current model is {th.Size(shape)}."
            )
    if problems:
        raise RuntimeError(f"Error(s) in loading state_dict for {owner}:\n\t" + "\n\t".join(problems))
    state = build(leaves)
    return Variables(state.pop("params"), state)


def opt_state_to_dict(
    opt_state: PyTree, params: PyTree, order: tuple[tuple[str, ...], ...], names: Mapping[str, str]
) -> dict[int, dict[str, th.Tensor]]:
    """
    Return the state of an optimizer of optax as the ``"state"`` of a torch optimizer's state dict.

    :param opt_state: the state
    :param params: the parameters, or a tree of their structure
    :param order: the paths of the parameters in the order of torch's ``parameters()``
    :param names: see :attr:`OptimizerSpec.moment_names`
    """
    state: dict[int, dict[str, th.Tensor]] = {i: {} for i in range(len(order))}
    for name, value in _fields(opt_state, params, names).items():
        for i, path in enumerate(order):
            state[i][name] = th.tensor(float(value)) if name == "step" else to_tensor(path, lookup(value, path))
    return state


def dict_to_opt_state(
    state: Mapping[Any, Mapping[str, Any]],
    opt_state: PyTree,
    params: PyTree,
    order: tuple[tuple[str, ...], ...],
    names: Mapping[str, str],
) -> PyTree:
    """
    Return the state of an optimizer of optax from the ``"state"`` of a torch optimizer's state dict.

    :param state: by number of the parameter
    :param opt_state: a state of the right structure
    :param params: the parameters, or a tree of their structure
    :param order: the paths of the parameters in the order of torch's ``parameters()``
    :param names: see :attr:`OptimizerSpec.moment_names`
    :raises ValueError: if it belongs to another optimizer or network
    """
    fields = [name for name in _fields(opt_state, params, names) if name != "step"]
    missing = [name for name in fields if any(name not in state.get(i, {}) for i in range(len(order)))]
    if missing:
        raise ValueError(f"The optimizer's state lacks {missing}: it belongs to another optimizer or network.")

    def restore(name: str, value: Any) -> Any:
        if name == "step":  # torch's SGD counts none
            return np.asarray(float(state.get(0, {}).get("step", 1.0)), value.dtype)
        return build({path: restore_leaf(path, state[i][name], lookup(value, path)) for i, path in enumerate(order)})

    def restore_leaf(path: tuple[str, ...], tensor: Any, leaf: Any) -> np.ndarray:
        array = from_tensor(path, tensor, leaf.dtype)
        if array.shape != leaf.shape:
            raise ValueError(f"The optimizer's state of {torch_name(path)} has the shape of another network's.")
        return array

    return _map_fields(restore, opt_state, params, names)


def _fields(opt_state: PyTree, params: PyTree, names: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def note(name: str, value: Any) -> Any:
        found[name] = value  # the innermost counter is the optimizer's own
        return value

    _map_fields(note, opt_state, params, names)
    return found


def _map_fields(function: Callable[[str, Any], Any], opt_state: PyTree, params: PyTree, names: Mapping[str, str]) -> PyTree:
    """
    Replace the counters and the moments in the (nested) named tuples that optax's states are.

    No closures that call each other: these would keep the arrays until Python looks for cycles.
    """
    if hasattr(opt_state, "_fields"):
        fields = zip(opt_state._fields, opt_state, strict=True)
        return type(opt_state)(*[_map_field(function, name, value, params, names) for name, value in fields])
    if isinstance(opt_state, tuple):
        return tuple(_map_fields(function, item, params, names) for item in opt_state)
    return opt_state


def _map_field(function: Callable[[str, Any], Any], name: str, value: Any, params: PyTree, names: Mapping[str, str]) -> PyTree:
    """Replace one field of a named tuple, see :func:`_map_fields`."""
    if name == "count":
        return function("step", value)
    structure: Any = jax.tree.structure(params)
    if jax.tree.structure(value) == structure:
        return function(names.get(name, name), value)
    return _map_fields(function, value, params, names)
