"""torch's activation and optimizer classes, which RL-Zoo passes, as functions and as factories of optax."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import flax.linen as nn
import optax
import torch as th
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

from sbx_flappy.common.validation import suggest
from sbx_flappy.functional import optimizers
from sbx_flappy.functional.networks import Activation

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

#: torch's class with the argument that makes it ``flax.linen.gelu`` with its default arguments
TANH_GELU = functools.partial(th.nn.GELU, approximate="tanh")


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
    if isinstance(activation_fn, functools.partial) and activation_fn.func is th.nn.GELU:
        return nn.gelu if activation_fn.keywords == TANH_GELU.keywords else ACTIVATIONS[th.nn.GELU]
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
