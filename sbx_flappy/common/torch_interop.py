"""
Between torch's names, layouts and classes and those of Flax and optax.

The parameter tree has torch SB3's names already (see ``functional.networks``), so a state dict is a matter of layout:
kernels are transposed, and torch names a shared features extractor three times.
"""

import collections
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch as th
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from sbx_flappy.common.validation import suggest
from sbx_flappy.functional import optimizers
from sbx_flappy.functional.networks import Activation
from sbx_flappy.functional.types import PyTree

#: torch's activation classes and the functions that they are
ACTIVATIONS: dict[type[th.nn.Module], Activation] = {
    th.nn.Tanh: nn.tanh,
    th.nn.ReLU: nn.relu,
    th.nn.ELU: nn.elu,
    th.nn.LeakyReLU: nn.leaky_relu,
    th.nn.GELU: functools.partial(nn.gelu, approximate=False),
    th.nn.SiLU: nn.silu,
    th.nn.Sigmoid: nn.sigmoid,
    th.nn.Softplus: nn.softplus,
    th.nn.SELU: nn.selu,
    th.nn.CELU: nn.celu,
    th.nn.ReLU6: nn.relu6,
    th.nn.Hardtanh: nn.hard_tanh,
    th.nn.LogSigmoid: nn.log_sigmoid,
    th.nn.Softsign: nn.soft_sign,
    th.nn.Identity: lambda x: x,
}


def get_activation(activation_fn: Any) -> Activation:
    """
    Return an activation as a function of arrays.

    :param activation_fn: a function (``flax.linen.relu``) or torch's class (``torch.nn.ReLU``)
    :raises ValueError: for a torch class without a counterpart here
    :raises TypeError: for anything else
    """
    if isinstance(activation_fn, type) and activation_fn in ACTIVATIONS:
        return ACTIVATIONS[activation_fn]
    if isinstance(activation_fn, type) and issubclass(activation_fn, th.nn.Module):
        raise ValueError(
            f"`activation_fn` {activation_fn.__name__} has no counterpart here; "
            f"pass a function such as flax.linen.relu, or one of {sorted(cls.__name__ for cls in ACTIVATIONS)}."
        )
    if isinstance(activation_fn, (type, th.nn.Module)) or not callable(activation_fn):
        raise TypeError(f"`activation_fn` must be a function of arrays or a class of torch.nn, got {activation_fn!r}.")
    return activation_fn


def _weight_decay(kwargs: dict[str, Any], default: float = 0.0) -> dict[str, Any]:
    return {"weight_decay": float(kwargs.pop("weight_decay", default))}


def _moments(kwargs: dict[str, Any]) -> dict[str, Any]:
    b1, b2 = kwargs.pop("betas", (0.9, 0.999))
    return {"b1": float(b1), "b2": float(b2), "eps": float(kwargs.pop("eps", 1e-8))}


def _adam(kwargs: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    extra = {**_weight_decay(kwargs), "amsgrad": bool(kwargs.pop("amsgrad", False))}
    if any(extra.values()):
        return optimizers.adam, {**_moments(kwargs), **extra}
    return optax.adam, _moments(kwargs)


def _adamw(kwargs: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    return optax.adamw, {**_moments(kwargs), **_weight_decay(kwargs, 1e-2)}


def _sgd(kwargs: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    options = {"momentum": float(kwargs.pop("momentum", 0.0)), "nesterov": bool(kwargs.pop("nesterov", False))}
    return optimizers.sgd, {**options, **_weight_decay(kwargs)}


def _rmsprop(kwargs: dict[str, Any], tf_like: bool = False) -> tuple[Callable[..., Any], dict[str, Any]]:
    options = {
        "decay": float(kwargs.pop("alpha", 0.99)),
        "eps": float(kwargs.pop("eps", 1e-8)),
        "momentum": float(kwargs.pop("momentum", 0.0)),
        "centered": bool(kwargs.pop("centered", False)),
        "tf_like": tf_like,
    }
    return optimizers.rmsprop, {**options, **_weight_decay(kwargs)}


#: torch's optimizer classes: from their arguments to a factory of optax and its arguments
OPTIMIZERS: dict[type, Callable[[dict[str, Any]], tuple[Callable[..., Any], dict[str, Any]]]] = {
    th.optim.Adam: _adam,
    th.optim.AdamW: _adamw,
    th.optim.SGD: _sgd,
    th.optim.RMSprop: _rmsprop,
    RMSpropTFLike: functools.partial(_rmsprop, tf_like=True),
}

_ADAM = {"mu": "exp_avg", "nu": "exp_avg_sq", "nu_max": "max_exp_avg_sq"}
#: torch's names of an optimizer's moments, by the factory; other factories keep optax's names
_MOMENTS: dict[Any, dict[str, str]] = {
    optax.adam: _ADAM,
    optax.adamw: _ADAM,
    optimizers.adam: _ADAM,
    optimizers.sgd: {"trace": "momentum_buffer"},
    optimizers.rmsprop: {"nu": "square_avg", "mu": "grad_avg", "trace": "momentum_buffer"},
}

#: Arguments of torch's optimizers that change how, not what is computed
_SPEED_ONLY = ("foreach", "fused", "capturable", "differentiable")


@dataclasses.dataclass(frozen=True)
class OptimizerSpec:
    """
    An optimizer by value: what ``optax.inject_hyperparams`` makes it of.

    :param factory: a factory of optax that takes ``learning_rate``
    :param kwargs: its other arguments
    """

    factory: Callable[..., optax.GradientTransformation]
    kwargs: tuple[tuple[str, Any], ...]

    def make(self) -> optax.GradientTransformation:
        """Return the optimizer, whose state holds the learning rate and no other hyperparameter."""
        names = {name for name in inspect.signature(self.factory).parameters if name != "learning_rate"}
        return optax.inject_hyperparams(self.factory, static_args=names)(learning_rate=0.0, **dict(self.kwargs))

    @property
    def moment_names(self) -> dict[str, str]:
        """Torch's names of the moments in the optimizer's state; those not listed keep optax's."""
        return _MOMENTS.get(self.factory, {})


def get_optimizer(optimizer_class: Any, optimizer_kwargs: dict[str, Any]) -> OptimizerSpec:
    """
    Return an optimizer of optax.

    :param optimizer_class: a factory of optax (``optax.adam``) or torch's class (``torch.optim.Adam``)
    :param optimizer_kwargs: its arguments, without the learning rate
    :raises ValueError: for a torch class or an argument without a counterpart here
    """
    if not isinstance(optimizer_kwargs, Mapping):
        raise TypeError(f"`optimizer_kwargs` must be a dictionary, got {optimizer_kwargs!r}.")
    kwargs = dict(optimizer_kwargs)
    if isinstance(optimizer_class, type):
        return _spec_of_torch(optimizer_class, kwargs)
    if not callable(optimizer_class):
        raise TypeError(f"`optimizer_class` must be a class of torch.optim or a factory of optax, got {optimizer_class!r}.")
    known = list(inspect.signature(optimizer_class).parameters)
    if "learning_rate" not in known:
        raise TypeError(f"`optimizer_class` must take a `learning_rate`, as optax.adam does, got {optimizer_class!r}.")
    for name in kwargs:
        if name not in known or name == "learning_rate":
            others = [other for other in known if other != "learning_rate"]
            raise TypeError(f"`optimizer_kwargs` has the unknown name '{name}'.{suggest(name, others)}")
    return _hashable(OptimizerSpec(optimizer_class, tuple(kwargs.items())))


def _hashable(spec: OptimizerSpec) -> OptimizerSpec:
    try:
        hash(spec)
    except TypeError as e:
        raise TypeError(f"`optimizer_kwargs` must hold hashable values (tuples, not lists), got {dict(spec.kwargs)}.") from e
    return spec


def _spec_of_torch(optimizer_class: type, kwargs: dict[str, Any]) -> OptimizerSpec:
    """Return the counterpart of one of torch's optimizers; ``kwargs`` is used up."""
    if optimizer_class not in OPTIMIZERS:
        known = sorted(cls.__name__ for cls in OPTIMIZERS)
        raise ValueError(f"`optimizer_class` {optimizer_class.__name__} is unknown; pass one of {known} or optax's own.")
    factory, options = OPTIMIZERS[optimizer_class](kwargs)
    left = sorted(name for name, value in kwargs.items() if name == "lr" or (value and name not in _SPEED_ONLY))
    if left:
        raise ValueError(f"`optimizer_kwargs` {left} of {optimizer_class.__name__} have no counterpart here; leave them out.")
    return OptimizerSpec(factory, tuple(options.items()))


# --- parameters -------------------------------------------------------------------------------------------------------

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


def params_to_state_dict(
    params: PyTree, order: tuple[tuple[str, ...], ...], shared: bool
) -> "collections.OrderedDict[str, th.Tensor]":
    """
    Return parameters under torch SB3's names, in its layout and order.

    :param params: the parameter tree
    :param order: its paths in the order of torch's ``parameters()``
    :param shared: whether actor and critic share the features extractor
    """
    tensors = {path: to_tensor(path, lookup(params, path)) for path in order}
    named = [(alias, tensor) for path, tensor in tensors.items() for alias in aliases(path, shared)]
    rank = {"log_std": 0, "features_extractor": 1, "pi_features_extractor": 2, "vf_features_extractor": 3}
    named.sort(key=lambda item: rank.get(item[0][0], 4))
    return collections.OrderedDict((torch_name(path), tensor) for path, tensor in named)


def state_dict_to_params(
    state_dict: Mapping[str, Any], params: PyTree, order: tuple[tuple[str, ...], ...], shared: bool, strict: bool, owner: str
) -> PyTree:
    """
    Return the parameters of a state dict with torch SB3's names.

    :param state_dict: tensors or arrays
    :param params: the current parameters, kept where the state dict is silent and not strict
    :param order: the paths of the tree
    :param shared: whether actor and critic share the features extractor
    :param strict: whether names may neither be missing nor be unknown
    :param owner: name of the policy's class, for the error
    :raises RuntimeError: with torch's words, if names or shapes do not match
    """
    expected = {torch_name(alias): path for path in order for alias in aliases(path, shared)}
    missing = [f'"{name}"' for name in expected if name not in state_dict]
    unknown = [f'"{name}"' for name in state_dict if name not in expected]
    problems = [f"Missing key(s) in state_dict: {', '.join(missing)}. "] if strict and missing else []
    problems += [f"Unexpected key(s) in state_dict: {', '.join(unknown)}. "] if strict and unknown else []
    leaves = dict(iterate(params))
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
    return build(leaves)


# --- optimizers -------------------------------------------------------------------------------------------------------


def opt_state_to_dict(
    opt_state: PyTree, params: PyTree, order: tuple[tuple[str, ...], ...], names: Mapping[str, str]
) -> dict[int, dict[str, th.Tensor]]:
    """
    Return the state of an optimizer of optax as the ``"state"`` of a torch optimizer's state dict.

    :param opt_state: the state
    :param params: the parameters
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
    :param params: the parameters
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
    """Replace the counters and the moments in the (nested) named tuples that optax's states are."""
    structure: Any = jax.tree.structure(params)

    def visit(name: str, value: Any) -> Any:
        if name == "count":
            return function("step", value)
        if jax.tree.structure(value) == structure:
            return function(names.get(name, name), value)
        return walk(value)

    def walk(value: Any) -> Any:
        if hasattr(value, "_fields"):
            return type(value)(*[visit(name, getattr(value, name)) for name in value._fields])
        return tuple(walk(item) for item in value) if isinstance(value, tuple) else value

    return walk(opt_state)
