"""Policies as ONNX files, by way of torch SB3's policy and torch's own converter."""

import importlib.util
import logging
import math
import pathlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.policies import ActorCriticPolicy

from sbx_flappy.atomic_files import replace_file

OUTPUTS = ("actions", "values", "log_prob")
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class DeterministicPolicy(th.nn.Module):
    """
    What an ONNX file computes: observations to actions as the environment takes them, values and log-probabilities.

    The most probable action is found from the network's outputs directly: torch's objects for distributions check their
    arguments, on which torch's converter fails.

    :param policy: torch SB3's
    """

    low: th.Tensor
    high: th.Tensor

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__()
        self.policy = policy
        space = policy.action_space
        if isinstance(space, spaces.Box):
            self.register_buffer("low", th.as_tensor(space.low), persistent=False)
            self.register_buffer("high", th.as_tensor(space.high), persistent=False)

    def forward(self, observations: Any) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """
        Return the most likely actions, their values and their log-probabilities.

        :param observations: raw observations ``[B, ...]``, or a dictionary of them
        :return: actions ``[B, *action_space.shape]``, values float32 ``[B, 1]``, log-probabilities float32 ``[B]``
        """
        features = self.policy.extract_features(observations)
        pi_features, vf_features = features if isinstance(features, tuple) else (features, features)
        latent = self.policy.mlp_extractor.forward_actor(pi_features)
        values = self.policy.value_net(self.policy.mlp_extractor.forward_critic(vf_features))
        outputs = self.policy.action_net(latent)
        if isinstance(self.policy.action_space, spaces.Box):
            actions, log_prob = self._continuous(outputs, latent)
        else:
            actions, log_prob = self._discrete(outputs)
        return actions.reshape(-1, *self.policy.action_space.shape), values, log_prob  # type: ignore[misc]

    def _discrete(self, logits: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Return the most probable integers and the logarithm of their probability ``[B]``."""
        space = self.policy.action_space
        if isinstance(space, spaces.MultiBinary):
            return th.round(th.sigmoid(logits)), th.nn.functional.logsigmoid(logits.abs()).sum(dim=1)
        sizes = [int(n) for n in (space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n])]  # type: ignore[attr-defined]
        parts = [th.log_softmax(part, dim=1) for part in th.split(logits, sizes, dim=1)]
        actions = th.stack([part.argmax(dim=1) for part in parts], dim=1)
        return actions, th.stack([part.amax(dim=1) for part in parts], dim=1).sum(dim=1)

    def _continuous(self, means: th.Tensor, latent: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Return the means within the bounds of the environment and the logarithm of their density ``[B]``."""
        distribution, log_std = self.policy.action_dist, self.policy.log_std
        if not isinstance(distribution, StateDependentNoiseDistribution):
            log_prob = (-log_std - HALF_LOG_2PI).sum().expand(means.shape[0])
            return self._clip(means), log_prob
        variance = th.mm(latent**2, distribution.get_std(log_std) ** 2)
        std = th.sqrt(variance + distribution.epsilon)
        if distribution.bijector is None:
            return self._clip(means), (-std.log() - HALF_LOG_2PI).sum(dim=1)
        actions = distribution.bijector.forward(means)
        # As SB3 does it: the inverse ends at the largest number below one
        gaussian = distribution.bijector.inverse(actions)
        log_prob = (-0.5 * ((gaussian - means) / std) ** 2 - std.log() - HALF_LOG_2PI).sum(dim=1)
        log_prob = log_prob - distribution.bijector.log_prob_correction(gaussian).sum(dim=1)
        return self.low + 0.5 * (actions.reshape(-1, *self.low.shape) + 1.0) * (self.high - self.low), log_prob

    def _clip(self, actions: th.Tensor) -> th.Tensor:
        return th.clamp(actions.reshape(-1, *self.low.shape), self.low, self.high)


def export(policy: ActorCriticPolicy, path: str | pathlib.Path) -> None:
    """
    Write a policy as an ONNX file, whole or not at all.

    :param policy: torch SB3's
    :param path: path of the file
    :raises ImportError: without the packages that torch's converter needs
    :raises ValueError: for a dictionary's key that is the name of an output
    """
    missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"`export_onnx` needs {' and '.join(missing)}: pip install 'sbx-flappy[onnx]'")
    space = policy.observation_space
    names = list(space.spaces) if isinstance(space, spaces.Dict) else ["observation"]
    if not set(names).isdisjoint(OUTPUTS):
        raise ValueError(f"The observation space has a key that is the name of an output, one of {OUTPUTS}; rename it.")
    batch = th.export.Dim("batch", min=1)
    shapes = {name: {0: batch} for name in names} if isinstance(space, spaces.Dict) else {0: batch}
    policy.set_training_mode(False)
    with _quiet(), th.no_grad():
        program = th.onnx.export(
            DeterministicPolicy(policy),
            kwargs={"observations": _example(space)},
            input_names=names,
            output_names=OUTPUTS,
            dynamic_shapes={"observations": shapes},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    with replace_file(pathlib.Path(path)) as file:
        file.write(program.model_proto.SerializeToString())


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it, torch's converter says nothing of its own deprecations, and of packages that are not installed."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _example(space: spaces.Space) -> Any:
    """Return two observations of zeros: with a batch of one, torch would take its size for a constant."""
    if isinstance(space, spaces.Dict):
        return {key: _example(subspace) for key, subspace in space.spaces.items()}
    return th.as_tensor(np.zeros((2, *(space.shape or ())), space.dtype))
