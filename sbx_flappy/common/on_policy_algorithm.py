"""SB3's ``OnPolicyAlgorithm`` over a policy in JAX: the same loop, hooks and names."""

from typing import Any, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from sbx_flappy.common.base_class import JaxAlgorithm
from sbx_flappy.common.buffers import buffer_class_for
from sbx_flappy.common.policies import ActorCriticPolicy
from sbx_flappy.common.validation import check_finite

SelfJaxOnPolicyAlgorithm = TypeVar("SelfJaxOnPolicyAlgorithm", bound="JaxOnPolicyAlgorithm")


class JaxOnPolicyAlgorithm(JaxAlgorithm, OnPolicyAlgorithm):
    """
    The base of on-policy algorithms whose policy is in JAX: SB3's ``OnPolicyAlgorithm`` with rollouts by compiled programs.

    ``learn`` and the rest are SB3's own methods: the policy and its optimizer offer what these ask for.
    """

    policy: ActorCriticPolicy  # type: ignore[assignment]

    def _translate_arguments(self) -> None:
        super()._translate_arguments()
        self.rollout_buffer_class = buffer_class_for(self.observation_space, self.rollout_buffer_class)

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        assert self.env is not None, "There is no environment to learn in: pass `env` to `load`, or call `set_env`."
        if reset_num_timesteps:
            self.resumption.drop("`reset_num_timesteps=True` starts a new training", self.verbose)
        with self.resumption.continuing(self):
            return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)

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
        with self.resumption.begin_rollout():
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
                self.resumption.end_iteration()  # `learn` ends here, and the next one begins another rollout
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
