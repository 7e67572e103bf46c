"""A run of ``sbx-flappy train``: RL-Zoo's manager with this package's settings, which saves an interrupted training."""

import argparse
import importlib
import shlex
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import rl_zoo3.train
from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback

from sbx_flappy import PPO
from sbx_flappy.common.callbacks import ResumePointCallback
from sbx_flappy.zoo.interruption import Interruption

#: Other algorithms that this package has settings for
BASELINES = ("trpo", "qrdqn", "ppo_lstm")


def find_settings(algo: str, env_id: str) -> str | None:
    """
    Return where the settings are when the command names none: this package's own, else RL-Zoo's for PPO.

    :return: what ``-conf`` takes, or None where RL-Zoo finds its settings itself
    """
    name = "ppo" if algo == "ppo_jax" else algo
    if name in BASELINES or name == "ppo":
        module = f"sbx_flappy.hyperparams.{name}"
        if env_id in importlib.import_module(module).hyperparams:
            return module
    return str(Path(rl_zoo3.train.__file__).parent / "hyperparams" / "ppo.yml") if name == "ppo" else None


class ResumableModel:
    """
    A model for RL-Zoo's manager, which calls ``learn`` and ``save`` without the arguments that resume a training.

    :param model: the model
    :param resumable: whether to save what resuming needs
    """

    def __init__(self, model: PPO, resumable: bool = False) -> None:
        self.model, self.resumable = model, resumable
        self.env = model.env
        self.get_vec_normalize_env = model.get_vec_normalize_env

    def learn(self, total_timesteps: int, **kwargs: Any) -> None:
        """Train, from where the training was saved if it was."""
        self.model.learn(total_timesteps, reset_num_timesteps=not self.model.resumption.is_pending, **kwargs)

    def save(self, path: str) -> None:
        """Save the model."""
        self.model.save(path, resumable=self.resumable)


class ScoreLogger(BaseCallback):
    """Logs ``rollout/ep_score_mean``, the pipes passed per episode, over as many episodes as SB3 averages the reward."""

    def _on_training_start(self) -> None:
        self.scores: deque[int] = deque(maxlen=self.model._stats_window_size)

    def _on_step(self) -> bool:
        for i in np.flatnonzero(self.locals.get("dones", [])):  # ARS shows its callbacks none
            if "score" in self.locals["infos"][i]:
                self.scores.append(self.locals["infos"][i]["score"])
        return True

    def _on_rollout_end(self) -> None:
        if self.scores:
            self.logger.record("rollout/ep_score_mean", np.mean(self.scores))


class WatchInterruption(BaseCallback):
    """Stops the training if the exception of an interruption was lost."""

    def __init__(self, interruption: Interruption) -> None:
        super().__init__()
        self.interruption = interruption

    def _on_step(self) -> bool:
        self.interruption.check()
        return True


def resuming_command(file: str) -> str:
    """
    Return this process's command line as one that goes on with a training that was saved.

    :param file: the model's file
    """
    parser = argparse.ArgumentParser(add_help=False)  # abbreviations are allowed, as in RL-Zoo
    parser.add_argument("-n", "--n-timesteps")
    parser.add_argument("-i", "--trained-agent")
    _, others = parser.parse_known_args(sys.argv[1:])
    return f"{sys.argv[0]} {shlex.join([*others, '-i', file])}"


class SettingsManager(ExperimentManager):
    """
    RL-Zoo's manager of a run, with this package's settings and interruptions that lose nothing.

    It finds the settings by itself where the command has no ``-conf``. A training that Ctrl-C or SIGTERM ends is saved as of
    the beginning of its last iteration, and ``-i`` goes on with such a training.
    """

    def __init__(self, args: argparse.Namespace, algo: str, env_id: str, *others: Any, **kwargs: Any) -> None:
        super().__init__(args, algo, env_id, *others, **kwargs)
        if args.conf_file is None:
            self.config = find_settings(algo, env_id) or self.config
        self.interruption = Interruption()
        self.resume_point = ResumePointCallback()

    def create_callbacks(self) -> None:
        """
        Create the callbacks, see RL-Zoo's method.

        Pipes passed are in the log, and a checkpoint has VecNormalize's statistics of its moment with it.
        """
        super().create_callbacks()
        self.callbacks.append(ScoreLogger())
        for callback in self.callbacks:
            if isinstance(callback, CheckpointCallback):
                callback.save_vecnormalize = True

    def learn(self, model: BaseAlgorithm) -> None:
        """Train until the end or the first Ctrl-C or SIGTERM, see RL-Zoo's method."""
        self.callbacks.append(WatchInterruption(self.interruption))
        trained: Any = model
        if isinstance(model, PPO):
            self.callbacks.append(self.resume_point)
            self._plan_timesteps(model)
            trained = ResumableModel(model)
        with self.interruption:
            try:
                super().learn(trained)
            except KeyboardInterrupt as e:  # RL-Zoo was at the end already; a second one has no name
                if not e.args:
                    raise
            except (EOFError, OSError):  # Ctrl-C also ends the workers of a SubprocVecEnv, which RL-Zoo then closes
                if self.interruption.received is None:
                    raise
        if self.interruption.received is not None:
            print(f"{self.interruption.received}: the training stops after {model.num_timesteps} time steps.")

    def _plan_timesteps(self, model: PPO) -> None:
        """Let a training that goes on do so up to its end, or for as many steps as ``-n`` asks for."""
        remaining = model._total_timesteps - model.num_timesteps
        if not model.resumption.is_pending:
            return
        if self.args.n_timesteps <= 0 and remaining > 0:
            self.n_timesteps = remaining
        total = model.num_timesteps + int(self.n_timesteps)
        print(f"Resuming where the training was saved, from {model.num_timesteps} to {total} time steps.")

    def save_trained_model(self, model: BaseAlgorithm) -> None:
        """Save the model, see RL-Zoo's method; after an interruption so that it can go on."""
        file = f"{self.save_path}/{self.env_name}.zip"
        if self.interruption.received is None or not isinstance(model, PPO):
            super().save_trained_model(model)
            return
        obstacle = self._rewind(model)
        super().save_trained_model(ResumableModel(model, resumable=obstacle is None))  # type: ignore[arg-type]
        if obstacle is None:
            print(f"Saved {file} as of {model.num_timesteps} time steps, where an iteration begins.")
            print(f"This goes on as if the training had never stopped:\n  {resuming_command(file)}")
        else:
            print(f"Saved {file}. With -i a new training starts from these parameters, because {obstacle}")

    def _rewind(self, model: PPO) -> str | None:
        """Go back to the beginning of the iteration that was interrupted, or return why that cannot be."""
        try:
            state = self.resume_point.state if model.resumption.is_within_iteration else model.resumption.get_state(model)
        except ValueError as e:
            return str(e)
        if state is None:
            return self.resume_point.obstacle
        model.resumption.rewind(model, state)
        return None
