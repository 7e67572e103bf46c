"""The parameters of a policy: one tree in JAX, seen from outside as torch SB3's modules are."""

import collections
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import torch as th
from stable_baselines3.common.policies import BasePolicy

from sbx_flappy.common import state_dicts
from sbx_flappy.common.arrays import to_tensor
from sbx_flappy.common.devices import get_jax_device
from sbx_flappy.common.optimizer import PolicyOptimizer
from sbx_flappy.functional.types import ExplorationNoise, PyTree, Variables


class BaseJaxPolicy(BasePolicy):
    """
    SB3's policy interface over a parameter tree in JAX.

    ``params`` is the tree, ``param_order`` its paths in the order of torch's ``parameters()``, and ``network_state`` what
    else the layers keep, such as running averages. All that deals with tensors deals with copies: the trees themselves
    change by :meth:`load_state_dict` and by updates only.
    """

    params: PyTree
    network_state: PyTree
    param_order: tuple[tuple[str, ...], ...]
    optimizer: PolicyOptimizer  # type: ignore[assignment]
    exploration_noise: ExplorationNoise | None
    share_features_extractor: bool

    @property
    def device(self) -> th.device:
        """Where the tensors live that this policy takes and returns: the CPU's memory. JAX moves what it needs."""
        return th.device("cpu")

    @property
    def variables(self) -> Variables:
        """Parameters and what else the layers keep."""
        return Variables(self.params, self.network_state)

    @variables.setter
    def variables(self, variables: Variables) -> None:
        self.params, self.network_state = variables

    @property
    def log_std(self) -> th.Tensor:
        """The learned log standard deviations, where actions are continuous."""
        if "log_std" not in self.params:
            raise AttributeError(f"{type(self).__name__} over {self.action_space} has no `log_std`")
        return to_tensor(self.params["log_std"])

    @property
    def has_convolutions(self) -> bool:
        """Whether the network convolves."""
        return any(leaf.ndim == 4 for leaf in jax.tree.leaves(self.params))

    @property
    def jax_device(self) -> jax.Device:
        """Where the parameters are."""
        return next(iter(jax.tree.leaves(self.params)[0].devices()))

    @property
    def prefers_steps(self) -> bool:
        """Whether an update runs faster step by step than as one program, see ``ppo.update``."""
        return self.has_convolutions and self.jax_device.platform == "cpu"

    def on_device(self, tree: PyTree) -> PyTree:
        """Return arrays on the device of the parameters."""
        return jax.device_put(tree, self.jax_device)

    def to(self, device: Any) -> "BaseJaxPolicy":  # type: ignore[override]
        """
        Move parameters and optimizer to a device.

        :param device: see ``common.devices``
        """
        jax_device = get_jax_device(device)
        self.variables = jax.device_put(self.variables, jax_device)
        self.optimizer.opt_state = jax.device_put(self.optimizer.opt_state, jax_device)
        if self.exploration_noise is not None:
            self.exploration_noise = jax.device_put(self.exploration_noise, jax_device)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> "collections.OrderedDict[str, th.Tensor]":  # type: ignore[override]
        """Return the parameters as tensors, with the names, layouts and order of torch SB3's policy."""
        return state_dicts.to_state_dict(self.variables, self.param_order, self.share_features_extractor)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """
        Take over parameters.

        :param state_dict: with the names and layouts of :meth:`state_dict`
        :param strict: whether names may neither be missing nor be unknown
        :param assign: torch's argument, without effect: the parameters are copied
        :raises RuntimeError: if names or shapes do not match
        """
        variables = state_dicts.from_state_dict(
            state_dict, self.variables, self.param_order, self.share_features_extractor, strict, type(self).__name__
        )
        self.variables = self.on_device(variables)
        names = self.state_dict().keys()
        missing, unexpected = [n for n in names if n not in state_dict], [n for n in state_dict if n not in names]
        return th.nn.modules.module._IncompatibleKeys(missing, unexpected)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, th.nn.Parameter]]:
        """Yield torch SB3's names and copies of the parameters; assigning to a copy changes nothing here."""
        for path in self.param_order:
            tensor = state_dicts.to_tensor(path, state_dicts.lookup(self.params, path))
            yield state_dicts.torch_name(path), th.nn.Parameter(tensor)

    def load_from_vector(self, vector: np.ndarray) -> None:
        """
        Load parameters from a 1D vector.

        :param vector: as of :meth:`parameters_to_vector`
        """
        parameters = [parameter for _, parameter in self.named_parameters()]
        th.nn.utils.vector_to_parameters(th.as_tensor(vector, dtype=th.float), parameters)
        names = [name for name, _ in self.named_parameters()]
        self.load_state_dict(dict(zip(names, parameters, strict=True)), strict=False)

    def extra_repr(self) -> str:
        """Return the network for ``print(policy)``, which SB3 and RL-Zoo do."""
        return repr(self.network)
