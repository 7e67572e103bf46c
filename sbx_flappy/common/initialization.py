"""How a policy's network comes to its variables: shapes, torch SB3's order, and initial values."""

import contextvars
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import flax
import jax
import numpy as np
import torch as th
from gymnasium import spaces

from sbx_flappy.common import programs, state_dicts
from sbx_flappy.common.action_distributions import draw_exploration_noise
from sbx_flappy.common.seeding import new_key
from sbx_flappy.functional.networks import ActorCritic
from sbx_flappy.functional.types import Array, ExplorationNoise, PyTree, Variables

EXTRACTORS = ("features_extractor", "vf_features_extractor")
#: The parts of the parameter tree, in the order in which torch SB3 makes them; log_std comes first in a state dict
PARTS = ("log_std", *EXTRACTORS, "mlp_extractor", "action_net", "value_net")

#: The gain of each part's orthogonal initialization, SB3's (and OpenAI Baselines')
ORTHOGONAL_GAINS = {
    "features_extractor": float(np.sqrt(2)),
    "vf_features_extractor": float(np.sqrt(2)),
    "mlp_extractor": float(np.sqrt(2)),
    "action_net": 0.01,
    "value_net": 1.0,
}


def example_observations(space: Any) -> PyTree:
    """Return one observation of a space, zeros, as a batch ``[1, ...]``."""
    if isinstance(space, spaces.Dict):
        return {key: example_observations(subspace) for key, subspace in space.spaces.items()}
    return np.zeros((1, *space.shape), space.dtype)


def init_module(module: Any, key: jax.Array, inputs: PyTree) -> PyTree:
    """Return all the variables of a module by collection; what it draws besides parameters counts for nothing here."""
    return module.init({"params": key, "dropout": key}, inputs)


def find_features_dim(extractor: Any, preprocess: Callable[[PyTree], PyTree], observation_space: spaces.Space) -> int:
    """
    Return the number of features that an extractor outputs.

    :param extractor: a features extractor
    :param preprocess: what observations pass before it
    :param observation_space: the policy's
    :raises ValueError: if it returns something else, or if layers with a training mode were given none
    """
    name = f"`features_extractor_class` {type(extractor).__name__}"

    def apply(key: jax.Array, observations: PyTree) -> Any:
        inputs = preprocess(observations)
        return extractor.apply(init_module(extractor, key, inputs), inputs)

    try:
        features = jax.eval_shape(apply, jax.random.key(0), example_observations(observation_space))
    except (flax.errors.InvalidRngError, flax.errors.ModifyScopeVariableError) as e:
        raise ValueError(
            f"{name} has a layer in training mode when it should not learn: give its `__call__` an argument `train: bool = "
            f"False`, and pass `deterministic=not train` to Dropout, `use_running_average=not train` to BatchNorm. {e}"
        ) from e
    shape: Any = getattr(features, "shape", ())
    if len(shape) != 2 or shape[0] != 1:
        raise ValueError(f"{name} must return one array [B, features], got {features} for B = 1.")
    return shape[1]


#: The most parameters that a network may have, where a file says how large it is
_limit: contextvars.ContextVar[float] = contextvars.ContextVar("limit", default=math.inf)


@contextmanager
def limit_parameters(n_parameters: int) -> Iterator[None]:
    """
    Refuse larger networks: a file that describes a huge one is refused before it takes memory.

    :param n_parameters: as many as the file holds
    """
    token = _limit.set(n_parameters)
    try:
        yield
    finally:
        _limit.reset(token)


def find_shapes(network: ActorCritic, observation_space: spaces.Space) -> PyTree:
    """
    Return the tree of a network's parameters as shapes, in the order in which the network creates them.

    :param network: actor and critic
    :param observation_space: the policy's
    :raises ValueError: if there are more than :func:`limit_parameters` allows
    """
    shapes: dict[tuple[str, ...], jax.ShapeDtypeStruct] = {}

    def init(observations: PyTree) -> None:  # what eval_shape itself returns is sorted by name
        params = init_module(network, jax.random.key(0), observations)["params"]
        for path, leaf in state_dicts.iterate(params):
            shapes[path] = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)

    jax.eval_shape(init, example_observations(observation_space))
    n_parameters = sum(math.prod(leaf.shape) for leaf in shapes.values())
    if n_parameters > _limit.get():
        raise ValueError(f"The network has {n_parameters} parameters, but the file holds fewer.")
    return state_dicts.build(shapes)


def torch_order(shapes: PyTree) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the parameters in the order in which torch SB3 creates them."""
    nets = ("policy_net", "value_net")

    def rank(path: tuple[str, ...]) -> tuple[int, int]:
        return PARTS.index(path[0]), nets.index(path[1]) if path[0] == "mlp_extractor" else 0

    return tuple(sorted((path for path, _ in state_dicts.iterate(shapes)), key=rank))


def initial_variables(
    network: ActorCritic,
    shapes: PyTree,
    observation_space: spaces.Space,
    ortho_init: bool,
    own_extractor: bool,
    action_bias_init: Any = None,
) -> tuple[Variables, ExplorationNoise | None]:
    """
    Return initial parameters as SB3 chooses them, and gSDE's first exploration matrices, standard normal.

    Layers are torch's, made and drawn in torch SB3's order, so that the same seed gives torch SB3's parameters. Modules that
    are not of this package initialize themselves.

    :param network: actor and critic
    :param shapes: of its parameters
    :param observation_space: the policy's
    :param ortho_init: whether kernels are orthogonal, with SB3's gains
    :param own_extractor: whether the features extractor is one of this package, whose layers start as torch's do
    :param action_bias_init: biases of the action layer, or None for zeros
    :raises ValueError: if those are not as many finite numbers as the layer has outputs
    """
    params: dict[str, PyTree] = {}
    state: dict[str, PyTree] = {}
    noise: ExplorationNoise | None = None
    for name in (name for name in PARTS if name in shapes):
        if name in EXTRACTORS and not own_extractor:
            variables = dict(init_extractor(network, name, new_key(), example_observations(observation_space)))
            params[name] = variables.pop("params", {})
            state.update({collection: {**state.get(collection, {}), name: tree} for collection, tree in variables.items()})
        elif name == "log_std":
            params[name] = np.full(shapes[name].shape, network.log_std_init, np.float32)
        else:
            params[name] = _map_layers(_new_layer, shapes[name])
        if name == "action_net" and len(shapes.get("log_std", np.zeros(0)).shape) == 2:
            noise = draw_exploration_noise(shapes["log_std"].shape, network.action_dim, n_envs=1)
    for name in _orthogonal_order(params) if ortho_init else ():
        params[name] = _map_layers(functools.partial(_orthogonal_layer, gain=ORTHOGONAL_GAINS[name]), params[name])
    if action_bias_init is not None:
        params["action_net"]["bias"] = check_action_bias(action_bias_init, params["action_net"]["bias"].shape)
    return Variables(params, state), noise


def _orthogonal_order(params: PyTree) -> list[str]:
    """Return the parts whose kernels become orthogonal, in SB3's order: extractors that are not shared come last."""
    heads, extractors = ["mlp_extractor", "action_net", "value_net"], [name for name in EXTRACTORS if name in params]
    names = heads + extractors if "vf_features_extractor" in params else extractors + heads
    return [name for name in names if name in params]


def _map_layers(function: Callable[[PyTree], PyTree], tree: PyTree) -> PyTree:
    """Apply a function to all the dense and convolutional layers of a tree, in torch's order, and to nothing else."""
    if not isinstance(tree, Mapping):
        return tree
    if getattr(tree.get("kernel"), "ndim", 0) in (2, 4):
        return function(tree)
    return {name: _map_layers(function, branch) for name, branch in tree.items()}


def _new_layer(shapes: PyTree) -> PyTree:
    """Return a layer's parameters as torch draws them, in Flax's layout."""
    *size, n_inputs, n_outputs = shapes["kernel"].shape
    layer: Any = th.nn.Conv2d(n_inputs, n_outputs, tuple(size)) if size else th.nn.Linear(n_inputs, n_outputs)
    kernel, bias = (layer.weight.detach().numpy(), layer.bias.detach().numpy())
    return {"kernel": state_dicts.from_torch_layout(("kernel",), kernel), "bias": bias}


def _orthogonal_layer(layer: PyTree, gain: float) -> PyTree:
    """Return a layer with an orthogonal kernel, https://arxiv.org/abs/1312.6120, and biases of zero."""
    kernel = th.from_numpy(np.array(state_dicts.to_torch_layout(("kernel",), np.asarray(layer["kernel"])), order="C"))
    th.nn.init.orthogonal_(kernel, gain=gain)
    new = {"kernel": np.array(state_dicts.from_torch_layout(("kernel",), kernel.numpy()))}
    return {name: new.get(name, np.zeros(leaf.shape, np.float32)) for name, leaf in layer.items()}


@programs.program("network", "name")
def init_extractor(network: ActorCritic, name: str, key: Array, observations: PyTree) -> PyTree:
    """
    Return the initial variables of a features extractor by collection.

    :param network: actor and critic
    :param name: one of :data:`EXTRACTORS`
    :param key: data of a key, uint32 ``[2]``
    :param observations: raw observations ``[B, ...]``
    """
    return init_module(getattr(network, name), programs.as_key(key), network.preprocess(observations))


def check_action_bias(action_bias_init: Any, shape: tuple[int, ...]) -> np.ndarray:
    """
    Return initial biases of an action layer as float32.

    :param action_bias_init: what the user gave
    :param shape: of the layer's biases
    :raises ValueError: if they are not finite numbers of this shape
    """
    try:
        bias = np.asarray(action_bias_init, np.float32)
    except (TypeError, ValueError):
        bias = np.full((), np.nan)
    if bias.shape != shape or not np.all(np.isfinite(bias)):
        raise ValueError(f"`action_bias_init` must be {shape[0]} finite numbers, got {action_bias_init!r}.")
    return bias
