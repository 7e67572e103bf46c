"""
The names that classes and functions have in saved models.

A name says what something is and not where it lies, so that files outlive every move. A row may change its location; a row is
never renamed or taken out.
"""

import functools
import importlib
from typing import Any

_TORCH_ACTIVATIONS = (
    *("CELU", "ELU", "GELU", "Hardtanh", "LeakyReLU", "LogSigmoid", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softplus"),
    *("Softsign", "Tanh"),
)
_FLAX_ACTIVATIONS = (
    *("celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid", "relu"),
    *("relu6", "selu", "sigmoid", "silu", "soft_sign", "softplus", "swish", "tanh"),
)
#: optax's factories that take a learning rate; an installed optax may lack some of them
_OPTAX_FACTORIES = (
    *("adabelief", "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamaxw", "adamw", "adan", "amsgrad", "fromage"),
    *("lamb", "lars", "lbfgs", "lion", "noisy_sgd", "novograd", "optimistic_adam", "optimistic_adam_v2"),
    *(
        "optimistic_gradient_descent",
        "radam",
        "rmsprop",
        "rprop",
        "scale_by_learning_rate",
        "scale_by_rprop",
        "sgd",
        "sign_sgd",
    ),
    *("signum", "sm3", "yogi"),
)

#: The names in files, each with module and attribute
NAMES: dict[str, str] = {
    **{f"torch.nn.{name}": f"torch.nn:{name}" for name in (*_TORCH_ACTIVATIONS, "Identity")},
    **{f"torch.optim.{name}": f"torch.optim:{name}" for name in ("Adam", "AdamW", "SGD", "RMSprop")},
    "sb3.RMSpropTFLike": "stable_baselines3.common.sb2_compat.rmsprop_tf_like:RMSpropTFLike",
    "sb3.FlattenExtractor": "stable_baselines3.common.torch_layers:FlattenExtractor",
    "sb3.NatureCNN": "stable_baselines3.common.torch_layers:NatureCNN",
    "sb3.CombinedExtractor": "stable_baselines3.common.torch_layers:CombinedExtractor",
    "sb3.RolloutBuffer": "stable_baselines3.common.buffers:RolloutBuffer",
    "sb3.DictRolloutBuffer": "stable_baselines3.common.buffers:DictRolloutBuffer",
    "MlpPolicy": "sbx_flappy.common.policies:ActorCriticPolicy",
    "CnnPolicy": "sbx_flappy.common.policies:ActorCriticCnnPolicy",
    "MultiInputPolicy": "sbx_flappy.common.policies:MultiInputActorCriticPolicy",
    "FlattenExtractor": "sbx_flappy.common.features_extractors:FlattenExtractor",
    "NatureCNN": "sbx_flappy.common.features_extractors:NatureCNN",
    "CombinedExtractor": "sbx_flappy.common.features_extractors:CombinedExtractor",
    "FlapJaxCNN": "sbx_flappy.common.flapjax_extractors:FlapJaxCNN",
    "FlapJaxMlp": "sbx_flappy.common.flapjax_extractors:FlapJaxMlp",
    "RolloutBuffer": "sbx_flappy.common.buffers:RolloutBuffer",
    "DictRolloutBuffer": "sbx_flappy.common.buffers:DictRolloutBuffer",
    **{f"flax.linen.{name}": f"flax.linen:{name}" for name in _FLAX_ACTIVATIONS},
    **{f"optax.{name}": f"optax:{name}" for name in _OPTAX_FACTORIES},
}

#: Dotted paths, which files held in place of names before there were any, with the names
ALIASES: dict[str, str] = {
    **{f"torch.nn.modules.activation.{name}": f"torch.nn.{name}" for name in _TORCH_ACTIVATIONS},
    "torch.nn.modules.linear.Identity": "torch.nn.Identity",
    **{f"torch.optim.{name.lower()}.{name}": f"torch.optim.{name}" for name in ("Adam", "AdamW", "SGD", "RMSprop")},
    "stable_baselines3.common.sb2_compat.rmsprop_tf_like.RMSpropTFLike": "sb3.RMSpropTFLike",
    "stable_baselines3.common.torch_layers.FlattenExtractor": "sb3.FlattenExtractor",
    "stable_baselines3.common.torch_layers.NatureCNN": "sb3.NatureCNN",
    "stable_baselines3.common.torch_layers.CombinedExtractor": "sb3.CombinedExtractor",
    "stable_baselines3.common.buffers.RolloutBuffer": "sb3.RolloutBuffer",
    "stable_baselines3.common.buffers.DictRolloutBuffer": "sb3.DictRolloutBuffer",
    "sbx_flappy.common.policies.ActorCriticPolicy": "MlpPolicy",
    "sbx_flappy.common.policies.ActorCriticCnnPolicy": "CnnPolicy",
    "sbx_flappy.common.policies.MultiInputActorCriticPolicy": "MultiInputPolicy",
    "sbx_flappy.common.features_extractors.FlattenExtractor": "FlattenExtractor",
    "sbx_flappy.common.features_extractors.NatureCNN": "NatureCNN",
    "sbx_flappy.common.features_extractors.CombinedExtractor": "CombinedExtractor",
    "sbx_flappy.common.flapjax_extractors.FlapJaxCNN": "FlapJaxCNN",
    "sbx_flappy.common.flapjax_extractors.FlapJaxMlp": "FlapJaxMlp",
    "sbx_flappy.common.buffers.RolloutBuffer": "RolloutBuffer",
    "sbx_flappy.common.buffers.DictRolloutBuffer": "DictRolloutBuffer",
}


@functools.cache
def _named_objects() -> dict[str, Any]:
    """Return classes and functions by name, those that are installed."""
    found = {}
    for name, location in NAMES.items():
        module, _, attribute = location.partition(":")
        value = getattr(importlib.import_module(module), attribute, None)
        if value is not None:
            found[name] = value
    return found


def get_object(name: Any) -> Any:
    """
    Return the class or function that a name in a file means.

    :param name: one of :data:`NAMES` or :data:`ALIASES`
    :raises KeyError: if it is neither, or not in the installed version of its package
    """
    if not isinstance(name, str):
        raise KeyError(name)
    return _named_objects()[ALIASES.get(name, name)]


def get_name(value: Any) -> str | None:
    """Return the name that a class or function has in files, or None if it has none."""
    return next((name for name, known in _named_objects().items() if known is value), None)
