"""``policy_kwargs`` for torch SB3's policies from ours, and back where torch SB3 knows no such argument."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle
import flax.linen as nn
import optax
import torch as th

from sbx_flappy.common.features_extractors import NATURE_CNN, TORCH_EXTRACTORS, FlattenExtractor, NatureCNN, check_layers
from sbx_flappy.common.flapjax_extractors import FlapJaxCNN, FlapJaxMlp
from sbx_flappy.common.policies import ActorCriticPolicy
from sbx_flappy.common.preprocessing import is_scaled
from sbx_flappy.common.torch_classes import ACTIVATIONS, TANH_GELU
from sbx_flappy.interchange import torch_extractors
from sbx_flappy.saving.moved import MOVED

# Permanently and not for one call: SB3's callbacks save an exported model as well
cloudpickle.register_pickle_by_value(torch_extractors)

#: The torch classes for what our extractors take beyond SB3's, and for those that SB3 does not have
SCALED: dict[Any, type] = {
    FlattenExtractor: torch_extractors.ScaledFlattenExtractor,
    NatureCNN: torch_extractors.ScaledNatureCNN,
    FlapJaxCNN: torch_extractors.FlapJaxCNN,
    FlapJaxMlp: torch_extractors.FlapJaxMlp,
}


def to_torch_kwargs(policy: ActorCriticPolicy, policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return ``policy_kwargs`` with which torch SB3's policy of the same name makes the same network and optimizer.

    :param policy: the policy
    :param policy_kwargs: those that it was made with; ``action_bias_init``, which counts at the start only, is left out
    :raises ValueError: naming the argument that has no counterpart in torch
    """
    kwargs = {name: value for name, value in policy_kwargs.items() if name not in ("action_bias_init", *_OWN)}
    if "activation_fn" in kwargs:
        kwargs["activation_fn"] = to_torch_activation(kwargs["activation_fn"])
    if not isinstance(policy.optimizer_class, type):
        kwargs["optimizer_class"], kwargs["optimizer_kwargs"] = to_torch_optimizer(
            policy.optimizer_class, policy.optimizer_kwargs
        )
    kwargs.update(_to_torch_extractor(policy, policy_kwargs))
    return kwargs


_OWN = ("obs_center", "obs_scale")


def _to_torch_extractor(policy: ActorCriticPolicy, policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of torch SB3's policy that say which extractor it has, as far as they are not its defaults."""
    own = policy.features_extractor_class
    classes: dict[Any, type] = {mine: theirs for theirs, mine in TORCH_EXTRACTORS.items()}
    if own not in classes and own not in SCALED:
        raise ValueError(
            f"`features_extractor_class` {own.__name__} is a Flax module and has no counterpart in torch. Write it as a "
            "torch module for stable_baselines3.PPO and set its parameters by hand, or use one of this package: "
            "FlattenExtractor, NatureCNN, CombinedExtractor, FlapJaxCNN or FlapJaxMlp."
        )
    arguments = dict(policy_kwargs.get("features_extractor_kwargs") or {})
    layers = check_layers(arguments.pop("layers", NATURE_CNN))
    scaling = {name: getattr(policy, name) for name in _OWN}
    if own in classes and layers == NATURE_CNN and not is_scaled(policy.obs_center, policy.obs_scale):
        given = {"features_extractor_class": classes[own], "features_extractor_kwargs": arguments}
        return {name: value for name, value in given.items() if name in policy_kwargs and policy_kwargs[name] is not None}
    if issubclass(own, NatureCNN):
        arguments["layers"] = layers
    # SB3 tells its NatureCNN, without dense layers by default, by its class
    return {
        "features_extractor_class": SCALED[own],
        "features_extractor_kwargs": {**arguments, **scaling},
        "net_arch": policy.net_arch,
    }


def from_torch_kwargs(policy_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return ``policy_kwargs`` for our policy, the inverse of :func:`to_torch_kwargs` for what torch SB3 does not know.

    :param policy_kwargs: those of torch SB3's policy, or our own, which stay as they are
    """
    kwargs = dict(policy_kwargs)
    for own, scaled in SCALED.items():
        if _is_same_class(kwargs.get("features_extractor_class"), scaled):
            arguments = dict(kwargs.get("features_extractor_kwargs") or {})
            kwargs["features_extractor_class"] = own
            kwargs.update({name: arguments.pop(name) for name in _OWN if name in arguments})
            kwargs["features_extractor_kwargs"] = arguments
    return kwargs


def _is_same_class(cls: Any, expected: type) -> bool:
    """Return whether it is the class, or a copy of it that a file held by value."""
    module = getattr(cls, "__module__", None)
    name = (MOVED.get(str(module), module), getattr(cls, "__qualname__", None))
    return cls is expected or name == (expected.__module__, expected.__qualname__)


def to_torch_activation(activation_fn: Any) -> Any:
    """
    Return torch's class of an activation.

    :param activation_fn: torch's class, which is returned, or a function such as ``flax.linen.relu``
    :raises ValueError: for a function without a counterpart
    """
    if isinstance(activation_fn, type) or getattr(activation_fn, "func", None) is th.nn.GELU:
        return activation_fn
    for theirs, function in [*ACTIVATIONS.items(), (TANH_GELU, nn.gelu)]:
        if _is_same_function(activation_fn, function):
            return theirs
    known = sorted(cls.__name__ for cls in ACTIVATIONS)
    raise ValueError(
        f"`activation_fn` {activation_fn!r} has no counterpart in torch; use a function of flax.linen or one of the classes "
        f"{known} of torch.nn, which work here as well."
    )


def _is_same_function(first: Any, second: Any) -> bool:
    if isinstance(first, functools.partial) and isinstance(second, functools.partial):
        return (first.func, first.args, first.keywords) == (second.func, second.args, second.keywords)
    return first is second


def _adam(options: dict[str, Any]) -> dict[str, Any]:
    return {"betas": (options.pop("b1"), options.pop("b2")), "eps": options.pop("eps")}


def _adamw(options: dict[str, Any]) -> dict[str, Any]:
    return {**_adam(options), "weight_decay": options.pop("weight_decay")}


def _sgd(options: dict[str, Any]) -> dict[str, Any]:
    momentum, nesterov = options.pop("momentum") or 0.0, options.pop("nesterov")
    return {"momentum": momentum, "nesterov": bool(nesterov and momentum)}


def _rmsprop(options: dict[str, Any]) -> dict[str, Any]:
    return {"alpha": options.pop("decay"), "eps": options.pop("eps")}


#: Factories of optax: the torch class, its arguments from the factory's, and torch's names of moments that keep optax's
FACTORIES: dict[Any, tuple[type, Callable[[dict[str, Any]], dict[str, Any]], dict[str, str]]] = {
    optax.adam: (th.optim.Adam, _adam, {}),
    optax.adamw: (th.optim.AdamW, _adamw, {}),
    optax.sgd: (th.optim.SGD, _sgd, {"trace": "momentum_buffer"}),
    optax.rmsprop: (th.optim.RMSprop, _rmsprop, {"nu": "square_avg"}),
}


def to_torch_optimizer(factory: Any, optimizer_kwargs: Mapping[str, Any]) -> tuple[type, dict[str, Any]]:
    """
    Return torch's class of an optimizer that makes the same steps, and its arguments.

    :param factory: one of optax
    :param optimizer_kwargs: its arguments, without the learning rate
    :raises ValueError: if there is none, naming the argument
    """
    if factory not in FACTORIES:
        known = sorted(known.__name__ for known in FACTORIES)
        raise ValueError(
            f"`optimizer_class` {getattr(factory, '__name__', factory)!r} has no counterpart in torch with the same steps; "
            f"use one of torch.optim's classes, which work here as well, or optax's {known}."
        )
    cls, convert, _ = FACTORIES[factory]
    defaults = {name: parameter.default for name, parameter in inspect.signature(factory).parameters.items()}
    options = {**defaults, **optimizer_kwargs}
    del options["learning_rate"]
    arguments = convert(options)
    # What is left has no counterpart, and must be switched off; an array would have no truth value, but none is hashable
    left = sorted(name for name, value in options.items() if value)
    if left:
        raise ValueError(
            f"`optimizer_kwargs` {left} of optax.{factory.__name__} have no counterpart in torch.optim.{cls.__name__}; "
            "set them to None, 0 or False, or use the torch class, which works here as well."
        )
    return cls, arguments


def torch_moment_names(factory: Any) -> dict[str, str]:
    """Return torch's names of an optimizer's moments where ``policy.optimizer.state_dict()`` has optax's."""
    return FACTORIES[factory][2] if not isinstance(factory, type) else {}
