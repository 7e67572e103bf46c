"""Our PPO as torch SB3's and back: attributes, parameters, the optimizer's moments, environment and rollout."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common import buffers as sb3_buffers
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import StateDependentNoiseDistribution

from sbx_flappy.common import buffers
from sbx_flappy.common.arrays import to_host, to_tensor
from sbx_flappy.common.base_policy import BaseJaxPolicy
from sbx_flappy.common.on_policy_algorithm import JaxOnPolicyAlgorithm, SelfJaxOnPolicyAlgorithm
from sbx_flappy.functional.types import ExplorationNoise
from sbx_flappy.interchange.torch_kwargs import to_torch_kwargs, torch_moment_names
from sbx_flappy.saving.resume import get_generator_states, set_generator_states

#: What a training writes to in place; the spaces too, because SB3's NatureCNN draws from the one that it is made for
_COPIED = (
    *("_last_obs", "_last_episode_starts", "_last_original_obs", "ep_info_buffer", "ep_success_buffer"),
    *("observation_space", "rollout_buffer_kwargs"),
)


@contextmanager
def untouched_generators() -> Iterator[None]:
    """Within it, the global random generators may be drawn from; afterwards they are as they were."""
    states = get_generator_states()
    try:
        yield
    finally:
        set_generator_states(states)


def to_torch(model: JaxOnPolicyAlgorithm, device: Any = "auto", with_rollout: bool = True) -> sb3.PPO:
    """
    Return torch SB3's PPO with everything that a model has, also during a training.

    Neither the model, nor its environment, nor a random generator is changed by it.

    :param model: the model
    :param device: torch's device
    :param with_rollout: whether to copy the rollout buffer's content as well
    :raises ValueError: naming the argument that has no counterpart in torch
    """
    data = attributes(model)
    data["policy_class"] = _to_torch_policy_class(model)
    data["policy_kwargs"] = to_torch_kwargs(model.policy, model.policy_kwargs)
    data["rollout_buffer_class"] = _to_torch_buffer_class(model.rollout_buffer_class)
    with untouched_generators():
        theirs = sb3.PPO(data["policy_class"], None, device=device, _init_setup_model=False)  # type: ignore[arg-type]
        theirs.__dict__.update({**data, "seed": None})  # no seed: SB3 would seed generators and environment
        theirs._setup_model()
    theirs.seed = model.seed
    _copy_parameters(model, theirs)
    _share(model, theirs, with_rollout)
    noise, distribution = model.policy.exploration_noise, theirs.policy.action_dist
    if noise is not None and isinstance(distribution, StateDependentNoiseDistribution):
        distribution.exploration_mat = to_tensor(noise.matrix).to(theirs.device)
        distribution.exploration_matrices = to_tensor(noise.matrices).to(theirs.device)
    return theirs


def from_torch(
    cls: type[SelfJaxOnPolicyAlgorithm], model: sb3.PPO, env: Any, device: Any, changes: dict[str, Any]
) -> SelfJaxOnPolicyAlgorithm:
    """
    Return our PPO with everything that torch SB3's has, the inverse of :func:`to_torch`.

    :param cls: our algorithm
    :param model: torch SB3's
    :param env: another environment, or None for the model's own
    :param device: see ``common.devices``
    :param changes: attributes to replace; a seed is set, otherwise random generators and environment stay as they are
    :raises TypeError: if it is not a PPO of torch SB3, or for an unknown attribute
    :raises ValueError: if its policy is of a class that has no counterpart here
    """
    if not isinstance(model, sb3.PPO) or isinstance(model.policy, BaseJaxPolicy):
        raise TypeError(f"`model` must be a stable_baselines3.PPO, got {type(model).__module__}.{type(model).__name__}.")
    data = attributes(model)
    cls._check_changes(changes, data)
    with untouched_generators():
        ours = cls._assemble(
            {**data, "seed": None},
            model.get_parameters(),
            model.env if env is None else env,
            device,
            force_reset=env is not None,
            changes={name: value for name, value in changes.items() if name != "seed"},
        )
    ours.seed = model.seed
    if "seed" in changes:
        ours.seed = changes["seed"]
        ours.set_random_seed(ours.seed)
    _share(model, ours, with_rollout=env is None)
    distribution = model.policy.action_dist
    if isinstance(distribution, StateDependentNoiseDistribution):
        matrices = (to_host(distribution.exploration_mat), to_host(distribution.exploration_matrices))
        ours.policy.exploration_noise = ExplorationNoise(*ours.policy.on_device(tuple(map(np.array, matrices))))
    return ours


def attributes(model: BaseAlgorithm) -> dict[str, Any]:
    """Return what a saved model would hold of its attributes, those that a training changes in place as copies."""
    excluded = {*model._excluded_save_params(), "policy"}
    data = {name: value for name, value in model.__dict__.items() if name not in excluded}
    return {**data, **{name: copy.deepcopy(data[name]) for name in _COPIED if name in data}}


def _to_torch_policy_class(model: JaxOnPolicyAlgorithm) -> type:
    classes = {ours: theirs for theirs, ours in model.torch_policy_classes.items()}
    if type(model.policy) not in classes:
        raise ValueError(
            f"`policy` {type(model.policy).__name__} is a class of your own and has no counterpart in torch. Subclass "
            "stable_baselines3's policy likewise, and give its `load_state_dict` this policy's `state_dict()`."
        )
    return classes[type(model.policy)]


def _to_torch_buffer_class(buffer_class: Any) -> type:
    classes = {ours: theirs for theirs, ours in buffers.BUFFERS.items()}
    if issubclass(buffer_class, buffers.RolloutBuffer) and buffer_class not in classes:
        raise ValueError(
            f"`rollout_buffer_class` {buffer_class.__name__} extends this package's buffer, which torch SB3 cannot use; "
            "let it extend stable_baselines3.common.buffers.RolloutBuffer, which works here as well."
        )
    return classes.get(buffer_class, buffer_class)


def _copy_parameters(model: JaxOnPolicyAlgorithm, theirs: sb3.PPO) -> None:
    """Give torch's policy and optimizer our parameters, moments and learning rate."""
    theirs.policy.load_state_dict(model.policy.state_dict())
    optimizer = theirs.policy.optimizer
    names = torch_moment_names(model.policy.optimizer_class)
    state = {
        i: {names.get(name, name): value for name, value in entry.items() if _is_torchs(optimizer, name)}
        for i, entry in model.policy.optimizer.state_dict()["state"].items()
    }
    groups = optimizer.state_dict()["param_groups"]
    groups[0]["lr"] = model.policy.optimizer.learning_rate
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _is_torchs(optimizer: th.optim.Optimizer, name: str) -> bool:
    """Return whether torch's optimizer has this entry in its state: its SGD counts no steps."""
    return name != "step" or not isinstance(optimizer, th.optim.SGD)


def _share(source: BaseAlgorithm, target: BaseAlgorithm, with_rollout: bool) -> None:
    """Let a model use the environment and the logger of another, and give it a copy of the rollout."""
    if target.env is None:
        target.env, target._vec_normalize_env = source.env, source._vec_normalize_env
    target._custom_logger = source._custom_logger
    if hasattr(source, "_logger"):
        target._logger = source._logger
    buffer = getattr(source, "rollout_buffer", None)
    if with_rollout and isinstance(buffer, sb3_buffers.RolloutBuffer) and buffer.pos > 0:
        _copy_rollout(buffer, target.rollout_buffer)  # type: ignore[attr-defined]


def _copy_rollout(source: sb3_buffers.RolloutBuffer, target: sb3_buffers.RolloutBuffer) -> None:
    """Copy the arrays and the position of a rollout buffer; names, spaces and device stay the target's."""
    for name, value in source.__dict__.items():
        is_array = isinstance(value, np.ndarray)
        is_dict = isinstance(value, dict) and all(isinstance(item, np.ndarray) for item in value.values())
        if is_array or is_dict or name in ("pos", "full", "generator_ready"):
            setattr(target, name, copy.deepcopy(value))
