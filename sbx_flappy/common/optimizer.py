"""A policy's optimizer, with as much of the interface of ``torch.optim.Optimizer`` as SB3 and its callbacks use."""

import weakref
from typing import Any, Protocol

import jax
import numpy as np
import torch as th

from sbx_flappy.common.state_dicts import dict_to_opt_state, opt_state_to_dict
from sbx_flappy.common.torch_classes import get_optimizer
from sbx_flappy.functional.types import PyTree


class ParameterOwner(Protocol):
    """What an optimizer asks of the policy whose parameters it updates."""

    params: PyTree
    param_order: tuple[tuple[str, ...], ...]

    def on_device(self, tree: PyTree) -> PyTree:
        """Return arrays on the device of the parameters."""


class PolicyOptimizer:
    """
    One optimizer over all the parameters of a policy.

    It does not keep the policy alive: a model that is no longer used frees its memory at once, and not when Python next looks
    for cycles.

    :param policy: the policy whose ``params`` it belongs to
    :param optimizer_class: torch's class or a factory of optax
    :param optimizer_kwargs: its arguments, without the learning rate
    :param learning_rate: the initial one; SB3 sets ``param_groups[0]["lr"]`` before each update
    """

    def __init__(
        self, policy: ParameterOwner, optimizer_class: Any, optimizer_kwargs: dict[str, Any], learning_rate: float
    ) -> None:
        if not learning_rate >= 0.0:
            raise ValueError(f"Invalid learning rate: {learning_rate}")
        self._policy_reference = weakref.ref(policy)
        self._param_order = policy.param_order
        #: The structure of the parameters
        self._param_tree = jax.tree.map(lambda _: 0, policy.params)
        self.spec = get_optimizer(optimizer_class, optimizer_kwargs)
        self.opt_state = self.spec.make().init(policy.params)
        self.param_groups = [{**self._defaults(optimizer_class, optimizer_kwargs), "lr": learning_rate}]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_policy_reference": self._policy_reference()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        policy = state["_policy_reference"]
        self.__dict__.update(state, _policy_reference=(lambda: None) if policy is None else weakref.ref(policy))

    def _defaults(self, optimizer_class: Any, optimizer_kwargs: dict[str, Any]) -> dict[str, Any]:
        params = list(range(len(self._param_order)))
        if not isinstance(optimizer_class, type):
            simple = {name: value for name, value in optimizer_kwargs.items() if isinstance(value, (bool, int, float, str))}
            return {**simple, "params": params}
        of_torch = optimizer_class([th.nn.Parameter(th.zeros(1))], lr=1.0, **optimizer_kwargs)
        return {**of_torch.state_dict()["param_groups"][0], "params": params}

    @property
    def learning_rate(self) -> float:
        """The current learning rate."""
        return float(self.param_groups[0]["lr"])

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """
        Refuse what torch's algorithms ask of an optimizer: torch SB3 can read one of our files, but not train with it.

        :raises NotImplementedError: always
        """
        raise NotImplementedError(
            "This model is updated by sbx_flappy's own PPO: load it with sbx_flappy.PPO.load. For torch SB3, save it "
            "from there with as_torch=True."
        )

    step = zero_grad

    def state_dict(self) -> dict[str, Any]:
        """Return the state with the names and layouts of torch's; empty before the first step, as torch's is."""
        state = opt_state_to_dict(self.opt_state, self._param_tree, self._param_order, self.spec.moment_names)
        untouched = all(float(entry.get("step", 1.0)) == 0.0 for entry in state.values())
        return {"state": {} if untouched else state, "param_groups": [dict(group) for group in self.param_groups]}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """
        Take over a state.

        :param state_dict: one of :meth:`state_dict`, or of torch's optimizer of the same kind
        :param strict: whether it must belong to the same optimizer and network
        :raises ValueError: if it does not
        :raises ReferenceError: if the policy no longer exists
        """
        state = state_dict["state"]
        policy = self._policy_reference()
        if policy is None:
            raise ReferenceError("The policy of this optimizer no longer exists: keep the model, or the policy.")
        fresh = self.spec.make().init(policy.params)
        n_params = len(self._param_order)
        if len(state_dict["param_groups"][0]["params"]) != n_params:
            if not strict:
                return
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        order, names = self._param_order, self.spec.moment_names
        self.opt_state = policy.on_device(dict_to_opt_state(state, fresh, self._param_tree, order, names) if state else fresh)
        # The other numbers are those that this optimizer was made with
        self.param_groups[0]["lr"] = float(np.asarray(state_dict["param_groups"][0]["lr"]))
