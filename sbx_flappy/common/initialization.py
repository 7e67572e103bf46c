"""How a policy's network comes to its variables: shapes, torch SB3's order, and initial values."""

from collections.abc import Callable
from typing import Any

import flax
import jax
import numpy as np
from gymnasium import spaces

from sbx_flappy.common import programs, state_dicts
from sbx_flappy.common.arrays import qr
from sbx_flappy.common.random import new_key
from sbx_flappy.functional.initializers import ORTHOGONAL_GAINS, initialize
from sbx_flappy.functional.networks import ActorCritic
from sbx_flappy.functional.types import PyTree, Variables

EXTRACTORS = ("features_extractor", "vf_features_extractor")


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


def find_shapes(network: ActorCritic, observation_space: spaces.Space) -> PyTree:
    """Return the tree of a network's parameters as shapes, in the order in which the network creates them."""
    shapes: dict[tuple[str, ...], jax.ShapeDtypeStruct] = {}

    def init(observations: PyTree) -> None:  # what eval_shape itself returns is sorted by name
        params = init_module(network, jax.random.key(0), observations)["params"]
        for path, leaf in state_dicts.iterate(params):
            shapes[path] = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)

    jax.eval_shape(init, example_observations(observation_space))
    return state_dicts.build(shapes)


def torch_order(shapes: PyTree) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the parameters in the order in which torch SB3 creates them."""
    parts = ("log_std", *EXTRACTORS, "mlp_extractor", "action_net", "value_net")
    nets = ("policy_net", "value_net")

    def rank(path: tuple[str, ...]) -> tuple[int, int]:
        return parts.index(path[0]), nets.index(path[1]) if path[0] == "mlp_extractor" else 0

    return tuple(sorted((path for path, _ in state_dicts.iterate(shapes)), key=rank))


def initial_variables(
    network: ActorCritic,
    shapes: PyTree,
    observation_space: spaces.Space,
    ortho_init: bool,
    own_extractor: bool,
    action_bias_init: Any = None,
) -> Variables:
    """
    Return initial parameters as SB3 chooses them; modules that are not of this package initialize themselves.

    :param network: actor and critic
    :param shapes: of its parameters
    :param observation_space: the policy's
    :param ortho_init: whether kernels are orthogonal, with SB3's gains
    :param own_extractor: whether the features extractor is one of this package, whose layers start as torch's do
    :param action_bias_init: biases of the action layer, or None for zeros
    :raises ValueError: if those are not as many finite numbers as the layer has outputs
    """
    rng = np.random.default_rng(new_key())
    params: dict[str, PyTree] = {}
    state: dict[str, PyTree] = {}
    for name, tree in shapes.items():
        gain = ORTHOGONAL_GAINS[name] if ortho_init and name in ORTHOGONAL_GAINS else None
        if name in EXTRACTORS and not own_extractor:
            variables = _init_extractor(network, name, observation_space)
            tree = variables.pop("params", {})
            state.update({collection: {**state.get(collection, {}), name: leaf} for collection, leaf in variables.items()})
            params[name] = tree if gain is None else initialize(rng, tree, gain, qr)
        elif name == "log_std":
            params[name] = np.full(tree.shape, network.log_std_init, np.float32)
        else:
            params[name] = initialize(rng, tree, gain, qr)
    if action_bias_init is not None:
        params["action_net"]["bias"] = _initial_action_bias(action_bias_init, params["action_net"]["bias"].shape)
    return Variables(params, state)


def _init_extractor(network: ActorCritic, name: str, observation_space: spaces.Space) -> PyTree:
    extractor = getattr(network, name)
    init = jax.jit(lambda key, observations: init_module(extractor, key, network.preprocess(observations)))
    return dict(init(programs.as_key(new_key()), example_observations(observation_space)))


def _initial_action_bias(action_bias_init: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        bias = np.asarray(action_bias_init, np.float32)
    except (TypeError, ValueError):
        bias = np.full((), np.nan)
    if bias.shape != shape or not np.all(np.isfinite(bias)):
        raise ValueError(f"`action_bias_init` must be {shape[0]} finite numbers, got {action_bias_init!r}.")
    return bias
