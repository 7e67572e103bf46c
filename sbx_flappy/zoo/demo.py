"""The run of ``sbx-flappy demo``: the score is measured before and after the training."""

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import sync_envs_normalization

from sbx_flappy.zoo.evaluation import evaluate_scores
from sbx_flappy.zoo.exp_manager import SettingsManager


class DemoManager(SettingsManager):
    """The manager of ``demo``: the score before the training, and after it if it came to its end."""

    before: str
    after: str | None = None

    def learn(self, model: BaseAlgorithm) -> None:
        self.before = self.measure(model)
        print(f"Before training: {self.before}")
        super().learn(model)

    def save_trained_model(self, model: BaseAlgorithm) -> None:
        super().save_trained_model(model)
        if self.interruption.received is None:
            self.after = self.measure(model)

    def measure(self, model: BaseAlgorithm) -> str:
        """Return, in words, how the model plays ``--eval-episodes`` episodes: its score, or its reward where there is none."""
        env = self.create_envs(n_envs=1, eval_env=True)
        training_env = model.get_env()
        assert training_env is not None
        sync_envs_normalization(training_env, env)
        scores, rewards, _ = evaluate_scores(model, env, self.n_eval_episodes, self.deterministic_eval)
        env.close()
        if scores is not None:
            return f"score {np.mean(scores):.2f} (mean pipes per episode, {len(scores)} episodes)"
        return f"mean reward {np.mean(rewards):.2f} ({self.n_eval_episodes} episodes)"
