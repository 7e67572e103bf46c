"""Callbacks that save a training so that it can go on as if it had never stopped."""

import os

from stable_baselines3.common.callbacks import BaseCallback

from sbx_flappy.common.on_policy_algorithm import JaxOnPolicyAlgorithm
from sbx_flappy.saving.layer_state import State


class ResumableCheckpointCallback(BaseCallback):
    """
    Save a training so that it can go on as if it had never stopped.

    A file has the states of environment and random generators. It is written after every ``save_freq`` calls of
    ``env.step()``, at the beginning of the next iteration, and at the end of the training. As with SB3's
    ``CheckpointCallback``, a call steps all the environments, and the files are named after the time steps.
    To go on: ``model = PPO.load(file, env=env)``, then
    ``model.learn(total - model.num_timesteps, reset_num_timesteps=False)``.

    :param save_freq: Save checkpoints every ``save_freq`` call of the callback.
    :param save_path: Path to the folder where the model will be saved.
    :param name_prefix: Common prefix to the saved models
    :param verbose: Verbosity level: 0 for no output, 2 for indicating when saving model checkpoint
    :raises ValueError: when the training starts, if the environment's state cannot be saved
    """

    model: JaxOnPolicyAlgorithm

    def __init__(self, save_freq: int, save_path: str, name_prefix: str = "rl_model", verbose: int = 0) -> None:
        super().__init__(verbose)
        if not save_freq >= 1:
            raise ValueError(f"`save_freq` must be at least 1, got {save_freq!r}.")
        self.save_freq = save_freq
        self.save_path = save_path
        self.name_prefix = name_prefix
        self._saved_at = 0  # calls

    def _init_callback(self) -> None:
        if not isinstance(self.model, JaxOnPolicyAlgorithm):
            raise TypeError(
                f"Only a model of sbx_flappy can be saved so that its training resumes exactly, not {self.model!r}."
            )
        os.makedirs(self.save_path, exist_ok=True)

    def _on_training_start(self) -> None:
        self._saved_at = self.n_calls
        self.model.resumption.get_state(self.model)  # rather now than after an hour

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.n_calls // self.save_freq > self._saved_at // self.save_freq:
            self._save()

    def _on_training_end(self) -> None:
        # RL-Zoo calls this twice, and also after Ctrl-C
        if self.n_calls > self._saved_at and not self.model.resumption.is_within_iteration:
            self._save()

    def _save(self) -> None:
        self._saved_at = self.n_calls
        path = os.path.join(self.save_path, f"{self.name_prefix}_{self.model.num_timesteps}_steps.zip")
        self.model.save(path, resumable=True)
        if self.verbose >= 2:
            print(f"Saving model checkpoint to {path}")


class ResumePointCallback(BaseCallback):
    """
    Remember the beginning of the current iteration, for :meth:`Resumption.rewind` after an interruption.

    ``state`` is None before the first iteration, and where the environment's state cannot be saved; ``obstacle`` says why.
    """

    model: JaxOnPolicyAlgorithm

    def __init__(self) -> None:
        super().__init__()
        self.state: State | None = None
        self.obstacle = "no iteration has begun"

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        try:
            self.state = self.model.resumption.get_state(self.model)
        except ValueError as e:
            self.state, self.obstacle = None, str(e)
