"""PPO with SB3's interface and a jitted update."""

import io
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common import policies as sb3_policies
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import explained_variance

from sbx_flappy.common.buffers import draw_order, samples_as_sb3, to_rollout
from sbx_flappy.common.on_policy_algorithm import JaxOnPolicyAlgorithm
from sbx_flappy.common.validation import MAX, check_integer, check_keywords, check_number, suggest
from sbx_flappy.functional.types import KL_EXCEEDED, NOT_FINITE, RUNNING, Array, LossCoefficients, Metrics
from sbx_flappy.functional.update import TrainState, set_learning_rate
from sbx_flappy.interchange import onnx_export, torch_models, torch_policies
from sbx_flappy.interchange.torch_kwargs import from_torch_kwargs
from sbx_flappy.ppo.policies import CnnPolicy, MlpPolicy, MultiInputPolicy
from sbx_flappy.ppo.update import Update
from sbx_flappy.saving import files

SelfPPO = TypeVar("SelfPPO", bound="PPO")

#: Hyperparameters that are integers, and the least that each may be
INTEGERS = {"n_steps": 1, "batch_size": 1, "n_epochs": 1, "sde_sample_freq": -1, "stats_window_size": 0, "seed": 0}
#: Hyperparameters that are numbers, and the bounds of each
NUMBERS = {
    "gamma": (0.0, 1.0),
    "gae_lambda": (0.0, 1.0),
    "ent_coef": (-MAX, MAX),
    "vf_coef": (-MAX, MAX),
    "max_grad_norm": (0.0, np.inf),
    "target_kl": (0.0, np.inf),
    "learning_rate": (0.0, np.inf),
    "clip_range": (0.0, np.inf),
}


def check_hyperparameters(values: Mapping[str, Any]) -> None:
    """
    Check hyperparameters.

    :param values: hyperparameters by their names, others among them
    :raises ValueError: if one can only be a mistake
    """
    given = {name: value for name, value in values.items() if not (value is None and name in ("seed", "target_kl"))}
    for name in INTEGERS.keys() & given.keys():
        check_integer(name, given[name], INTEGERS[name])
    for name in NUMBERS.keys() & given.keys():
        # SB3 itself says what a schedule may be
        if name not in ("learning_rate", "clip_range") or isinstance(given[name], (int, float)):
            check_number(name, given[name], *NUMBERS[name])


def _mean(values: Array) -> float:
    """Return the mean as a float of Python's, which the loggers round."""
    return float(np.mean(values, dtype=np.float64))


class PPO(JaxOnPolicyAlgorithm, sb3.PPO):
    """
    Proximal Policy Optimization algorithm (PPO) (clip version), SB3's in JAX.

    Paper: https://arxiv.org/abs/1707.06347

    Arguments, defaults, checks and messages are those of ``stable_baselines3.PPO``, which this class extends.

    :param policy: The policy model to use (MlpPolicy, CnnPolicy, MultiInputPolicy)
    :param env: The environment to learn from (if registered in Gym, can be str)
    :param learning_rate: The learning rate, it can be a function of the current progress remaining (from 1 to 0)
    :param n_steps: The number of steps to run for each environment per update
        (i.e. rollout buffer size is n_steps * n_envs where n_envs is number of environment copies running in parallel)
    :param batch_size: Minibatch size
    :param n_epochs: Number of epoch when optimizing the surrogate loss
    :param gamma: Discount factor
    :param gae_lambda: Factor for trade-off of bias vs variance for Generalized Advantage Estimator
    :param clip_range: Clipping parameter, it can be a function of the current progress remaining (from 1 to 0).
    :param clip_range_vf: Clipping parameter for the value function, it can be a function of the current progress
        remaining (from 1 to 0). IMPORTANT: this clipping depends on the reward scaling.
    :param normalize_advantage: Whether to normalize or not the advantage
    :param ent_coef: Entropy coefficient for the loss calculation
    :param vf_coef: Value function coefficient for the loss calculation
    :param max_grad_norm: The maximum value for the gradient clipping
    :param use_sde: Whether to use generalized State Dependent Exploration (gSDE) instead of action noise exploration
    :param sde_sample_freq: Sample a new noise matrix every n steps when using gSDE
        Default: -1 (only sample at the beginning of the rollout)
    :param rollout_buffer_class: Rollout buffer class to use. If ``None``, it will be automatically selected.
    :param rollout_buffer_kwargs: Keyword arguments to pass to the rollout buffer on creation
    :param target_kl: Limit the KL divergence between updates, because the clipping is not enough to prevent large update
    :param stats_window_size: Window size for the rollout logging, specifying the number of episodes to average
        the reported success rate, mean episode length, and mean reward over
    :param tensorboard_log: the log location for tensorboard (if None, no logging)
    :param policy_kwargs: additional arguments to be passed to the policy on creation
    :param verbose: Verbosity level: 0 for no output, 1 for info messages, 2 for debug messages
    :param seed: Seed for the pseudo random generators
    :param device: Device on which the code should be run: "auto", "cpu", "cuda", a torch or a JAX device
    :param _init_setup_model: Whether or not to build the network at the creation of the instance
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": MlpPolicy,
        "CnnPolicy": CnnPolicy,
        "MultiInputPolicy": MultiInputPolicy,
    }
    # SB3's own last: they are what a model becomes in torch
    torch_policy_classes = {
        torch_policies.MlpPolicy: MlpPolicy,
        torch_policies.CnnPolicy: CnnPolicy,
        sb3_policies.ActorCriticPolicy: MlpPolicy,
        sb3_policies.ActorCriticCnnPolicy: CnnPolicy,
        sb3_policies.MultiInputActorCriticPolicy: MultiInputPolicy,
    }

    @check_keywords
    def __init__(
        self,
        policy: str | type[Any],
        env: GymEnv | str,
        learning_rate: float | Schedule = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: Any = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        check_hyperparameters(locals())
        super().__init__(
            policy=policy,
            env=env,
            learning_rate=learning_rate,
            n_steps=n_steps,
            batch_size=batch_size,
            n_epochs=n_epochs,
            gamma=gamma,
            gae_lambda=gae_lambda,
            clip_range=clip_range,
            clip_range_vf=clip_range_vf,
            normalize_advantage=normalize_advantage,
            ent_coef=ent_coef,
            vf_coef=vf_coef,
            max_grad_norm=max_grad_norm,
            use_sde=use_sde,
            sde_sample_freq=sde_sample_freq,
            rollout_buffer_class=rollout_buffer_class,
            rollout_buffer_kwargs=rollout_buffer_kwargs,
            target_kl=target_kl,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=_init_setup_model,
        )

    def _check_hyperparameters(self) -> None:
        check_hyperparameters(self.__dict__)

    def _own_policy_kwargs(self, policy_kwargs: dict[str, Any]) -> dict[str, Any]:
        return from_torch_kwargs(policy_kwargs)

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        if policy_name not in self.policy_aliases:
            raise ValueError(f"Policy {policy_name} unknown.{suggest(policy_name, list(self.policy_aliases))}")
        return self.policy_aliases[policy_name]

    def train(self) -> None:
        """
        Update policy using the currently gathered rollout buffer.

        :raises ValueError: if a loss or gradient is not finite; the policy keeps the parameters from before it
        """
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)  # type: ignore[arg-type]
        coefficients = self._loss_coefficients()
        epochs = self._update_policy(coefficients)
        self._check_update(epochs)
        self._n_updates += len(epochs)
        self._log_update(epochs, coefficients)
        self.resumption.end_iteration()

    def _loss_coefficients(self) -> LossCoefficients:
        """Return the numbers of the loss at the current progress."""
        progress = self._current_progress_remaining
        return LossCoefficients(
            clip_range=self.clip_range(progress),  # type: ignore[operator]
            clip_range_vf=None if self.clip_range_vf is None else self.clip_range_vf(progress),  # type: ignore[operator]
            ent_coef=float(self.ent_coef),
            vf_coef=float(self.vf_coef),
            max_grad_norm=float(self.max_grad_norm),
            target_kl=None if self.target_kl is None else float(self.target_kl),
        )

    def _update_policy(self, coefficients: LossCoefficients) -> list[Metrics]:
        """Run the update's programs, keep the new parameters and return the metrics of each epoch, ``[n_minibatches]``."""
        optimizer = self.policy.optimizer
        opt_state = set_learning_rate(optimizer.opt_state, optimizer.learning_rate)
        state = TrainState(self.policy.variables, opt_state, np.int32(RUNNING), self.policy.training_key())  # type: ignore[arg-type]
        # All of it on the device, as the first step returns it, or the second would be compiled again
        state = self.policy.on_device(state)
        update = Update(
            network=self.policy.network,
            optimizer=optimizer.spec,
            normalize_advantage=self.normalize_advantage,
            coefficients=coefficients,
        )
        if not samples_as_sb3(self.rollout_buffer):
            samples = (self.rollout_buffer.get(self.batch_size) for _ in range(self.n_epochs))
            state, epochs = update.on_samples(state, ((to_rollout(s, self.action_space) for s in epoch) for epoch in samples))
        else:
            rollout = self.policy.on_device(to_rollout(self.rollout_buffer, self.action_space))
            orders = (draw_order(self.rollout_buffer) for _ in range(self.n_epochs))
            run = update.in_steps if self.policy.prefers_steps else update.in_one_program
            state, epochs = run(state, rollout, orders, self.batch_size)
        self.policy.variables, optimizer.opt_state = state.variables, state.opt_state
        return epochs

    def _check_update(self, epochs: list[Metrics]) -> None:
        """
        Tell the user why an update stopped early.

        :param epochs: metrics of each epoch
        :raises ValueError: if a loss or gradient was not finite
        """
        last = epochs[-1]
        if last.status[-1] == NOT_FINITE:
            raise ValueError(
                f"Non-finite loss or gradient (loss {last.loss[-1]}) in epoch {len(epochs)}, minibatch {len(last.loss)} of "
                f"the update after {self.num_timesteps} time steps. The policy keeps the parameters from before it. "
                "Try a smaller `learning_rate` or normalize observations and rewards (VecNormalize)."
            )
        if last.status[-1] == KL_EXCEEDED and self.verbose >= 1:
            print(f"Early stopping at step {len(epochs) - 1} due to reaching max kl: {last.approx_kl[-1]:.2f}")

    def _log_update(self, epochs: list[Metrics], coefficients: LossCoefficients) -> None:
        """Record what SB3 records of an update, under its keys."""
        record = self.logger.record
        metrics = Metrics(*map(np.concatenate, zip(*epochs, strict=True)))
        record("train/entropy_loss", _mean(metrics.entropy_loss))
        record("train/policy_gradient_loss", _mean(metrics.policy_gradient_loss))
        record("train/value_loss", _mean(metrics.value_loss))
        record("train/approx_kl", _mean(epochs[-1].approx_kl))
        record("train/clip_fraction", _mean(metrics.clip_fraction))
        record("train/loss", metrics.loss[-1].item())
        values, returns = self.rollout_buffer.values.flatten(), self.rollout_buffer.returns.flatten()
        record("train/explained_variance", explained_variance(values, returns))
        if hasattr(self.policy, "log_std"):
            record("train/std", th.exp(self.policy.log_std).mean().item())
        record("train/n_updates", self._n_updates, exclude="tensorboard")
        record("train/clip_range", coefficients.clip_range)
        if coefficients.clip_range_vf is not None:
            record("train/clip_range_vf", coefficients.clip_range_vf)

    # --- interchange with torch SB3 ---------------------------------------------------------------------------------

    def to_torch(self, device: Any = "auto") -> sb3.PPO:
        """
        Return ``stable_baselines3.PPO`` with everything that this model has, at any moment of a training.

        Hyperparameters, schedules, counters, statistics, parameters and the optimizer's moments are equal, so that the next
        update is too; environment and logger are shared, the rollout is copied. Nothing is drawn from a random generator.

        :param device: torch's device: "auto", "cpu", "cuda"
        :raises ValueError: naming the argument, if the features extractor, policy, activation, optimizer or rollout buffer
            is one that torch has no counterpart of
        """
        return torch_models.to_torch(self, device)

    @classmethod
    def from_torch(
        cls: type[SelfPPO], model: sb3.PPO, env: GymEnv | None = None, device: Any = "auto", **kwargs: Any
    ) -> SelfPPO:
        """
        Return this PPO with everything that a PPO of torch SB3 has, the inverse of :meth:`to_torch`.

        :param model: torch SB3's; it is not changed
        :param env: another environment, which is reset before training; by default the model's own is shared
        :param device: Device on which the code should be run: "auto", "cpu", "cuda", a torch or a JAX device
        :param kwargs: extra arguments to change the model, as of ``load``
        :raises TypeError: if it is not a PPO of torch SB3, or for an unknown argument
        :raises ValueError: if its policy, features extractor, activation or optimizer has no counterpart here
        """
        return torch_models.from_torch(cls, model, env, device, kwargs)

    def save(
        self,
        path: str | pathlib.Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
        resumable: bool = False,
        as_torch: bool = False,
    ) -> None:
        """
        Save all the attributes of the object and the model parameters in a zip-file, written whole or not at all.

        :param path: path to the file where the rl agent should be saved
        :param exclude: name of parameters that should be excluded in addition to the default ones
        :param include: name of parameters that might be excluded but should be included anyway
        :param resumable: (not in SB3) also save what lets a training go on as if it had never stopped
        :param as_torch: (not in SB3) write what :meth:`to_torch` returns, a file that ``stable_baselines3.PPO.load`` opens
            and trains on, also where this package is not installed
        :raises ValueError: see :meth:`to_torch` and :meth:`Resumption.get_state`
        """
        if not as_torch:
            super().save(path, exclude, include, resumable)
            return
        if resumable:
            raise ValueError("`resumable=True` is for this PPO's own files; leave it or `as_torch` out.")
        content = files.begin(path)
        torch_models.to_torch(self, "cpu", with_rollout=False).save(content, exclude, include)
        files.write(path, content)

    def export_onnx(self, path: str | pathlib.Path) -> None:
        """
        Write the policy as an ONNX file, which onnxruntime and others run without Python, JAX or torch.

        Its inputs are observations as ``policy.observation_space`` has them, ``[B, ...]``: "observation", or for a
        dictionary one input per key, under its name. Its outputs are "actions", as ``predict(deterministic=True)``
        returns them, "values" float32 ``[B, 1]`` and "log_prob" of these actions, float32 ``[B]``.

        :param path: path of the file
        :raises ImportError: without the packages of the extra ``onnx``
        :raises ValueError: see :meth:`to_torch`, and for a key that is an output's name
        """
        onnx_export.export(torch_models.to_torch(self, "cpu", with_rollout=False).policy, path)
