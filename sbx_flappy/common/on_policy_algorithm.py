"""SB3's ``OnPolicyAlgorithm`` over a policy in JAX: the same loop, hooks and names."""

import inspect
import io
import json
import pathlib
import pickle
import zipfile
import zlib
from typing import Any, TypeVar

import jax
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.save_util import open_path
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sbx_flappy.common.buffers import buffer_class_for
from sbx_flappy.common.devices import get_device_name, get_jax_device, get_torch_device
from sbx_flappy.common.policies import ActorCriticPolicy
from sbx_flappy.common.preprocessing import check_supported
from sbx_flappy.common.validation import check_finite, suggest

SelfJaxOnPolicyAlgorithm = TypeVar("SelfJaxOnPolicyAlgorithm", bound="JaxOnPolicyAlgorithm")

#: What reading a file that is no saved model may end in
UNREADABLE = (
    *(AssertionError, AttributeError, EOFError, ImportError, IndexError, KeyError, TypeError, UnicodeDecodeError),
    *(RuntimeError, ValueError, OverflowError, MemoryError, pickle.UnpicklingError, zipfile.BadZipFile, zlib.error),
)


class JaxOnPolicyAlgorithm(OnPolicyAlgorithm):
    """
    The base of on-policy algorithms whose policy is in JAX.

    ``learn``, ``save``, ``set_parameters`` and the rest are SB3's own methods: the policy and its optimizer offer what
    these ask for.
    """

    policy: ActorCriticPolicy  # type: ignore[assignment]
    #: torch SB3's policies and ours that do the same, for models saved by torch SB3 and for callers who pass the classes
    torch_policies: dict[type, type[ActorCriticPolicy]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._device_name = get_device_name(get_jax_device(kwargs.pop("device", "auto")))
        kwargs["device"] = "cpu"
        super().__init__(*args, **kwargs)

    @property
    def _jax_device(self) -> jax.Device:
        return get_jax_device(self._device_name)

    @property
    def device(self) -> th.device:
        """The device that the networks run on, as torch would name it, or what it was set to."""
        return self.__dict__.get("_named_device", get_torch_device(self._jax_device))

    @device.setter
    def device(self, device: th.device) -> None:
        """As in SB3, setting it moves nothing; what SB3's own constructor sets was decided by JAX before."""
        if "policy" in self.__dict__:
            self._named_device = device

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_device_name", "_named_device"]

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        check_supported(getattr(env, "observation_space", None))
        return OnPolicyAlgorithm._wrap_env(env, verbose, monitor_wrapper)

    def _setup_model(self) -> None:
        if self.env is None and not hasattr(self, "observation_space"):
            raise ValueError("`env` must be an environment or its id, got None.")
        if not isinstance(self.policy_kwargs, dict):
            raise TypeError(f"`policy_kwargs` must be a dictionary, got {self.policy_kwargs!r}.")
        self.policy_class = self._own_policy_class(self.policy_class)
        self._check_hyperparameters()
        self.rollout_buffer_class = buffer_class_for(self.observation_space, self.rollout_buffer_class)
        super()._setup_model()
        self.policy.to(self._jax_device)

    def _check_hyperparameters(self) -> None:
        """
        Check what the constructor or ``load`` was given.

        :raises ValueError: for what can only be a mistake
        """

    def _own_policy_class(self, policy_class: Any) -> type[ActorCriticPolicy]:
        """
        Return the policy's class of this package.

        :param policy_class: one of this package's, or the class of torch SB3 that it stands for
        :raises ValueError: for any other
        """
        own = self.torch_policies.get(policy_class, policy_class) if isinstance(policy_class, type) else policy_class
        if isinstance(own, type) and issubclass(own, ActorCriticPolicy):
            return own
        raise ValueError(
            f"`policy` must be one of {list(self.policy_aliases)} or a subclass of the policies of sbx_flappy.ppo, got "
            f"{policy_class!r}: a policy in torch, or that of another algorithm, cannot be used here."
        )

    def _setup_learn(self, *args: Any, **kwargs: Any) -> tuple[int, BaseCallback]:
        assert self.env is not None, "There is no environment to learn in: pass `env` to `load`, or call `set_env`."
        return super()._setup_learn(*args, **kwargs)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """
        Collect experiences using the current policy and fill a ``RolloutBuffer``.

        The order of calls to the callback and the names of the local variables that it sees are SB3's.

        :param env: The training environment
        :param callback: Callback that will be called at each step (and at the beginning and end of the rollout)
        :param rollout_buffer: Buffer to fill with rollouts
        :param n_rollout_steps: Number of experiences to collect per environment
        :return: True if function returned with at least `n_rollout_steps` collected,
            False if callback terminated rollout prematurely.
        :raises ValueError: if the environment returns NaN or infinity
        """
        assert self._last_obs is not None, "No previous observation was provided"
        check_finite("observations", self._last_obs, self.num_timesteps)
        self.policy.set_training_mode(False)
        n_steps = 0
        rollout_buffer.reset()
        if self.use_sde:
            self.policy.reset_noise(env.num_envs)
        callback.on_rollout_start()

        while n_steps < n_rollout_steps:
            if self.use_sde and self.sde_sample_freq > 0 and n_steps % self.sde_sample_freq == 0:
                self.policy.reset_noise(env.num_envs)
            obs_tensor = obs_as_tensor(self._last_obs, self.policy.device)  # type: ignore[arg-type]
            actions, values, log_probs = self.policy(obs_tensor)
            actions = actions.numpy()
            clipped_actions = self._to_env_actions(actions)
            new_obs, rewards, dones, infos = env.step(clipped_actions)
            self.num_timesteps += env.num_envs
            check_finite("observations", new_obs, self.num_timesteps)
            check_finite("rewards", rewards, self.num_timesteps)

            callback.update_locals(locals())
            if not callback.on_step():
                return False

            self._update_info_buffer(infos, dones)
            n_steps += 1
            if isinstance(self.action_space, spaces.Discrete):
                actions = actions.reshape(-1, 1)
            timeouts = self._value_timeouts(dones, infos)
            for idx, done in enumerate(dones):
                if done and idx in timeouts:
                    terminal_obs, terminal_value = timeouts[idx]
                    rewards[idx] += self.gamma * terminal_value
            rollout_buffer.add(
                self._last_obs,  # type: ignore[arg-type]
                actions,
                rewards,
                self._last_episode_starts,  # type: ignore[arg-type]
                values,
                log_probs,
            )
            self._last_obs = new_obs  # type: ignore[assignment]
            self._last_episode_starts = dones

        values = self.policy.predict_values(obs_as_tensor(new_obs, self.policy.device))  # type: ignore[arg-type]
        rollout_buffer.compute_returns_and_advantage(last_values=values, dones=dones)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _to_env_actions(self, actions: np.ndarray) -> np.ndarray:
        """Return actions within the bounds of the environment: unscaled if the policy squashes them, else clipped."""
        if not isinstance(self.action_space, spaces.Box):
            return actions
        if self.policy.squash_output:
            return self.policy.unscale_action(actions)
        return np.clip(actions, self.action_space.low, self.action_space.high)

    def _value_timeouts(self, dones: np.ndarray, infos: list[dict[str, Any]]) -> dict[int, tuple[Any, th.Tensor]]:
        """
        Return the last observation, and its value ``[1]``, of each environment whose episode a time limit ended.

        One call serves all environments, with a batch of always the same size, so that it compiles once.

        :param dones: bool ``[n_envs]``
        :param infos: with "terminal_observation" and "TimeLimit.truncated"
        """
        ended = [
            idx
            for idx, done in enumerate(dones)
            if done and infos[idx].get("terminal_observation") is not None and infos[idx].get("TimeLimit.truncated", False)
        ]
        if not ended:
            return {}
        for idx in ended:
            check_finite("terminal observations", infos[idx]["terminal_observation"], self.num_timesteps)
        observations: list[Any] = [self.policy.obs_to_tensor(infos[idx]["terminal_observation"])[0] for idx in ended]
        rows = observations + observations[:1] * (len(dones) - len(ended))
        is_dict = isinstance(rows[0], dict)
        batch = {key: th.cat([row[key] for row in rows]) for key in rows[0]} if is_dict else th.cat(rows)
        values = self.policy.predict_values(batch)
        return {idx: (observations[i], values[i]) for i, idx in enumerate(ended)}

    def set_parameters(self, load_path_or_dict: Any, exact_match: bool = True, device: Any = "auto") -> None:
        """
        Load parameters from a given zip-file or a nested dictionary, see SB3's method.

        :param load_path_or_dict: path, file or dictionary of state dicts
        :param exact_match: whether every parameter must be given
        :param device: without effect, parameters go to where the policy is
        :raises ValueError: if the file is truncated, damaged or no saved model
        """
        if not isinstance(load_path_or_dict, dict):
            check_archive(load_path_or_dict, needs_data=False)
        super().set_parameters(load_path_or_dict, exact_match=exact_match, device="cpu")

    @classmethod
    def load(
        cls: type[SelfJaxOnPolicyAlgorithm],
        path: str | pathlib.Path | io.BufferedIOBase,
        env: Any = None,
        device: Any = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> SelfJaxOnPolicyAlgorithm:
        """
        Load the model from a zip-file, written by this package or by torch SB3, see SB3's method.

        :param path: path to the file (or a file-like) where to load the agent from
        :param env: the new environment to run the loaded model on
        :param device: Device on which the code should run.
        :param custom_objects: Dictionary of objects to replace upon loading.
        :param print_system_info: Whether to print system info from the saved model and the current system info
        :param force_reset: Force call to ``reset()`` before training to avoid unexpected behavior.
        :param kwargs: extra arguments to change the model when loading
        :return: new model instance with loaded parameters
        :raises ValueError: if the file is truncated, damaged or no saved model
        """
        data = check_archive(path)
        cls._check_changes(kwargs, data)
        # The archive is read on the CPU; the attribute says where the model that SB3's method builds will run
        kwargs["_device_name"] = get_device_name(get_jax_device(device))
        return super().load(path, env, "cpu", custom_objects, print_system_info, force_reset, **kwargs)

    @classmethod
    def _check_changes(cls, changes: dict[str, Any], data: dict[str, Any]) -> None:
        """
        :param changes: keyword arguments of ``load``, which become attributes
        :param data: the saved attributes
        :raises TypeError: for a name that neither the constructor nor the saved model knows
        """
        known = [name for name in inspect.signature(cls).parameters if not name.startswith("_")]
        for name in changes:
            if name not in known and name not in data:
                raise TypeError(f"{cls.__name__}.load() got an unexpected keyword argument '{name}'.{suggest(name, known)}")


def check_archive(path: str | pathlib.Path | io.BufferedIOBase, needs_data: bool = True) -> dict[str, Any]:
    """
    Read a saved model's archive through, without opening the pickles that it holds.

    :param path: path or file
    :param needs_data: whether it must hold more than parameters
    :return: the saved attributes as JSON has them
    :raises ValueError: if it is truncated, damaged or no saved model
    """
    file = open_path(path, "r", suffix="zip")
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_archive(archive, needs_data)
    except UNREADABLE as e:
        raise ValueError(
            f"Error: the file {path} wasn't a zip-file of a saved model, or it is truncated or damaged: {e}"
        ) from e
    finally:
        if isinstance(path, (str, pathlib.Path)):
            file.close()
        else:
            file.seek(0)


def _read_archive(archive: zipfile.ZipFile, needs_data: bool) -> dict[str, Any]:
    damaged = archive.testzip()
    if damaged:
        raise ValueError(f"its entry '{damaged}' is damaged")
    data = json.loads(archive.read("data")) if needs_data else {}
    lacking = {"policy_class", "observation_space", "action_space"} - set(data)
    if needs_data and lacking:
        raise ValueError(f"its data lack {sorted(lacking)}")
    with archive.open("policy.pth") as parameters:
        th.load(parameters, map_location="cpu", weights_only=True)
    return data
