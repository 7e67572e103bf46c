"""The command ``sbx-flappy demo``: a training with the score before and after it, and a video."""

import argparse
from pathlib import Path

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import sync_envs_normalization

from sbx_flappy.zoo.evaluation import evaluate_scores
from sbx_flappy.zoo.exp_manager import SettingsManager
from sbx_flappy.zoo.scripts import play, run_training


class DemoManager(SettingsManager):
    """
    A run of ``demo``, which measures the score.

    ``before`` is the score before the training, ``after`` the one after it, None if the training was interrupted.
    """

    before: str
    after: str | None = None

    def learn(self, model: BaseAlgorithm) -> None:
        """Measure the score and train, see RL-Zoo's method."""
        self.before = self.measure(model)
        print(f"Before training: {self.before}")
        super().learn(model)

    def save_trained_model(self, model: BaseAlgorithm) -> None:
        """Save the model and measure the score, see RL-Zoo's method."""
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


def demo(arguments: list[str], prog: str) -> None:
    """
    Train the JAX PPO, print its score before and after, record a video, and print where the files are.

    :param arguments: of the command line
    :param prog: the command's name, for its help
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Train the JAX PPO, print its score before and after, and film it. Further options go to train.",
    )
    parser.add_argument("--env", default="FlappyBird-v0", help="environment ID")
    parser.add_argument("-f", "--log-folder", default="logs", help="Log folder")
    parser.add_argument("-tb", "--tensorboard-log", help="Tensorboard log dir (default: tensorboard in the log folder)")
    parser.add_argument("--video-length", default="500", help="Length of the video, in timesteps")
    args, others = parser.parse_known_args(arguments)
    program = prog.rpartition(" ")[0]
    agent = ["--algo", "ppo_jax", "--env", args.env, "-f", args.log_folder]
    tensorboard = args.tensorboard_log or str(Path(args.log_folder, "tensorboard"))
    training = [*agent, "-tb", tensorboard, "--eval-freq", "-1", *others]
    run = run_training(training, f"{program} train", DemoManager)
    if run.after is None:  # the training was interrupted, and has said how it goes on
        return
    folder = Path(run.save_path)
    video = [*agent, "--exp-id", folder.name.rpartition("_")[2], "-n", args.video_length, "--no-render"]
    play(video, f"{program} record_video")

    print(f"\nBefore training: {run.before}\nAfter training:  {run.after}")
    print(f"Model:           {folder / args.env}.zip\nTensorBoard:     {tensorboard}")
    print(*(f"Video:           {video}" for video in sorted(folder.glob("videos/*"))), sep="\n")
