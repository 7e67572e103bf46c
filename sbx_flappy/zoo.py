"""
RL-Zoo with the JAX PPO, in two ways.

As a plug-in of RL-Zoo's own commands: importing this module puts the JAX PPO under "ppo", so
``python -m rl_zoo3.train --algo ppo --env FlappyBird-v0 --gym-packages sbx_flappy.zoo -conf hyperparams/ppo.yml`` trains it,
where ``--gym-packages sbx_flappy`` trains torch SB3's on the same environments.

As a command line, ``sbx-flappy`` or ``python -m sbx_flappy.zoo``: RL-Zoo's commands with the JAX PPO as "ppo_jax" next to
torch SB3's "ppo", so that both stand in one log folder and in one plot.
"""

import argparse
import importlib
import runpy
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import rl_zoo3.train
from huggingface_sb3 import EnvironmentName
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER
from rl_zoo3.utils import ALGOS
from stable_baselines3 import PPO as TorchPPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, sync_envs_normalization

from sbx_flappy import PPO
from sbx_flappy.agents import FOLDER, EitherPPO, find_agent
from sbx_flappy.common.callbacks import ResumePointCallback
from sbx_flappy.common.interruption import Interruption
from sbx_flappy.envs.registration import ENV_IDS
from sbx_flappy.envs.vec_env import FlappyVecEnv
from sbx_flappy.evaluation import evaluate
from sbx_flappy.export import export
from sbx_flappy.report import report

PROG = "sbx-flappy"
#: Other algorithms that this package has settings for
YARDSTICKS = ("trpo", "qrdqn", "ppo_lstm")


def register_algorithms(ppo: Any) -> None:
    """
    Put the JAX PPO under "ppo_jax" and the given one under "ppo", in the tables that all of RL-Zoo's modules share.

    :param ppo: what "ppo" names
    """
    ALGOS["ppo"] = ppo
    ALGOS["ppo_jax"] = PPO
    HYPERPARAMS_SAMPLER["ppo_jax"] = HYPERPARAMS_SAMPLER["ppo"]
    HYPERPARAMS_CONVERTER["ppo_jax"] = HYPERPARAMS_CONVERTER["ppo"]


# RL-Zoo imports --gym-packages after its parser has fixed the choices of --algo: the plug-in takes a name that is among them.
register_algorithms(ppo=PPO)


class DefaultVecEnv:
    """
    What RL-Zoo asks as ``ExperimentManager.default_vec_env_cls``: the VecEnv of a run, in place of the one it has chosen.

    It is FlappyVecEnv where RL-Zoo has chosen ``DummyVecEnv``, its default, for one of our ids, and None otherwise, which
    leaves RL-Zoo's choice. Asked of the class, as by ``enjoy``, it is None.
    """

    def __get__(self, manager: ExperimentManager | None, _owner: type) -> type[DummyVecEnv] | None:
        if manager is None or manager.vec_env_class is not DummyVecEnv:
            return None
        return FlappyVecEnv if manager.env_name.gym_id in ENV_IDS else None


ExperimentManager.default_vec_env_cls = DefaultVecEnv()  # type: ignore[assignment]


def find_settings(algo: str, env_id: str) -> str | None:
    """
    Return where the settings lie when the command names none: this package's own, else RL-Zoo's for PPO.

    :return: what ``-conf`` takes, or None where RL-Zoo finds its settings itself
    """
    name = "ppo" if algo == "ppo_jax" else algo
    if name in YARDSTICKS or name == "ppo":
        module = f"sbx_flappy.hyperparams.{name}"
        if env_id in importlib.import_module(module).hyperparams:
            return module
    return str(Path(rl_zoo3.train.__file__).parent / "hyperparams" / "ppo.yml") if name == "ppo" else None


class ResumableModel:
    """
    A model as RL-Zoo's manager sees it: it calls ``learn`` and ``save`` without the arguments that let a training go on.

    :param model: the model
    :param resumable: whether to save the state for going on
    """

    def __init__(self, model: PPO, resumable: bool = False) -> None:
        self.model, self.resumable = model, resumable
        self.env = model.env
        self.get_vec_normalize_env = model.get_vec_normalize_env

    def learn(self, total_timesteps: int, **kwargs: Any) -> None:
        """Train, from where the training was saved if it was."""
        self.model.learn(total_timesteps, reset_num_timesteps=not self.model.is_resumed, **kwargs)

    def save(self, path: str) -> None:
        """Save the model."""
        self.model.save(path, resumable=self.resumable)


class WatchInterruption(BaseCallback):
    """Stops the training if the exception of an interruption was lost."""

    def __init__(self, interruption: Interruption) -> None:
        super().__init__()
        self.interruption = interruption

    def _on_step(self) -> bool:
        self.interruption.check()
        return True


class SettingsManager(ExperimentManager):
    """
    RL-Zoo's manager of a run, which finds the settings by itself where the command has no ``-conf``, saves a training that
    Ctrl-C or SIGTERM ends, as of the beginning of its last iteration, and goes on with such a training at ``-i``.
    """

    def __init__(self, args: argparse.Namespace, algo: str, env_id: str, *others: Any, **kwargs: Any) -> None:
        super().__init__(args, algo, env_id, *others, **kwargs)
        if args.conf_file is None:
            self.config = find_settings(algo, env_id) or self.config
        self.interruption = Interruption()
        self.resume_point = ResumePointCallback()

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
        """A training that goes on does so up to its end, or for as many steps as ``-n`` asks for."""
        remaining = model._total_timesteps - model.num_timesteps
        if not model.is_resumed:
            return
        if self.args.n_timesteps <= 0 and remaining > 0:
            self.n_timesteps = remaining
        total = model.num_timesteps + int(self.n_timesteps)
        print(f"Going on where the training was saved, from {model.num_timesteps} to {total} time steps.")

    def save_trained_model(self, model: BaseAlgorithm) -> None:
        """Save the model, see RL-Zoo's method; after an interruption so that it can go on."""
        file = f"{self.save_path}/{self.env_name}.zip"
        if self.interruption.received is None or not isinstance(model, PPO):
            super().save_trained_model(model)
            return
        obstacle = self._rewind(model)
        super().save_trained_model(ResumableModel(model, resumable=obstacle is None))  # type: ignore[arg-type]
        if obstacle is None:
            print(
                f"Saved {file} as of {model.num_timesteps} time steps, where an iteration begins. The same command without -n "
                f"and with -i {file} goes on as if the training had never stopped."
            )
        else:
            print(f"Saved {file}. With -i it starts anew with these parameters, because {obstacle}")

    def _rewind(self, model: PPO) -> str | None:
        """Go back to the beginning of the iteration that was interrupted, or return why that cannot be."""
        try:
            state = self.resume_point.state if model.is_within_iteration else model.get_resume_state()
        except ValueError as e:
            return str(e)
        if state is None:
            return self.resume_point.obstacle
        model.rewind(state)
        return None


class ScoreLogger(BaseCallback):
    """Logs ``rollout/ep_score_mean``, the pipes passed per episode, over as many episodes as SB3 averages the reward."""

    def _on_training_start(self) -> None:
        self.scores: deque[int] = deque(maxlen=self.model._stats_window_size)

    def _on_step(self) -> bool:
        for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
            if done and "score" in info:
                self.scores.append(info["score"])
        return True

    def _on_rollout_end(self) -> None:
        if self.scores:
            self.logger.record("rollout/ep_score_mean", np.mean(self.scores))


class DemoManager(SettingsManager):
    """The manager of ``demo``: the score in the log, and measured before and after training."""

    before: str
    after: str

    def create_callbacks(self) -> None:
        super().create_callbacks()
        self.callbacks.append(ScoreLogger())

    def learn(self, model: BaseAlgorithm) -> None:
        self.before = self.measure(model)
        print(f"Before training: {self.before}")
        super().learn(model)
        self.after = self.measure(model)

    def measure(self, model: BaseAlgorithm) -> str:
        """Return, in words, how the model plays ``--eval-episodes`` episodes: its score, or its reward where there is none."""
        scores: list[int] = []

        def note_score(locals_: dict[str, Any], _globals: dict[str, Any]) -> None:
            if locals_["done"] and "score" in locals_["info"]:
                scores.append(locals_["info"]["score"])

        env = self.create_envs(n_envs=1, eval_env=True)
        training_env = model.get_env()
        assert training_env is not None
        sync_envs_normalization(training_env, env)
        reward, _ = evaluate_policy(
            model, env, self.n_eval_episodes, deterministic=self.deterministic_eval, callback=note_score
        )
        env.close()
        if scores:
            return f"score {np.mean(scores):.2f} (mean pipes per episode, {len(scores)} episodes)"
        return f"mean reward {reward:.2f} ({self.n_eval_episodes} episodes)"


def run_script(command: str, arguments: list[str]) -> None:
    """Run one of RL-Zoo's commands. Its scripts read ``sys.argv`` themselves; the plots are imported only when asked for."""
    sys.argv = [f"{PROG} {command}", *arguments]
    if command == "record_video":
        # It has no function to call and no --gym-packages: run in this process, it sees our environments and algorithms.
        runpy.run_module("rl_zoo3.record_video", run_name="__main__")
    else:
        module = "rl_zoo3.plots" if "plot" in command else f"rl_zoo3.{command}"
        getattr(importlib.import_module(module), command)()


def name_agent(command: str, arguments: list[str]) -> list[str]:
    """
    Return a command's arguments with the folder in which a trained agent lies, where they name none.

    :param command: one that plays an agent
    :param arguments: of the command line
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-f", "--folder")
    parser.add_argument("-o", "--output-folder")
    parser.add_argument("--algo", default="ppo")
    parser.add_argument("--env", default="CartPole-v1", type=EnvironmentName)
    args, _ = parser.parse_known_args(arguments)
    if args.folder is not None:
        return arguments
    folder, algo = find_agent(args.algo, args.env)
    videos = ["-o", "videos"] if command == "record_video" and args.output_folder is None and folder != FOLDER else []
    return [*arguments, "-f", folder, "--algo", algo, *videos]


def demo(arguments: list[str]) -> None:
    """Train the JAX PPO, print its score before and after, record a video, and say where all of it lies."""
    parser = argparse.ArgumentParser(
        prog=f"{PROG} demo",
        description="Train the JAX PPO, print its score before and after, and film it. Further options go to train.",
    )
    parser.add_argument("--env", default="FlappyBird-v0", help="environment ID")
    parser.add_argument("-f", "--log-folder", default="logs", help="Log folder")
    parser.add_argument("-tb", "--tensorboard-log", help="Tensorboard log dir (default: tensorboard in the log folder)")
    parser.add_argument("--video-length", default="500", help="Length of the video, in timesteps")
    args, others = parser.parse_known_args(arguments)
    agent = ["--algo", "ppo_jax", "--env", args.env, "-f", args.log_folder]
    tensorboard = args.tensorboard_log or str(Path(args.log_folder, "tensorboard"))
    runs: list[DemoManager] = []

    def start(*others: Any, **kwargs: Any) -> DemoManager:
        runs.append(DemoManager(*others, **kwargs))
        return runs[-1]

    rl_zoo3.train.ExperimentManager = start  # type: ignore[assignment, attr-defined]
    run_script("train", [*agent, "-tb", tensorboard, "--eval-freq", "-1", *others])
    folder = Path(runs[0].save_path)
    run_script("record_video", [*agent, "--exp-id", folder.name.rpartition("_")[2], "-n", args.video_length, "--no-render"])

    print(f"\nBefore training: {runs[0].before}\nAfter training:  {runs[0].after}")
    print(f"Model:           {folder / args.env}.zip\nTensorBoard:     {tensorboard}")
    print(*(f"Video:           {video}" for video in sorted(folder.glob("videos/*"))), sep="\n")


COMMANDS = {
    "train": "train an agent, resume it (-i) or search for settings (-optimize)",
    "enjoy": "watch a trained agent",
    "record_video": "film a trained agent",
    "evaluate": "measure the score of a trained agent over many episodes",
    "plot_train": "plot the reward during training",
    "all_plots": "plot the evaluations of several algorithms and print their table",
    "plot_from_file": "plot what all_plots saved, of two runs or more per algorithm",
    "export": "write a trained agent for torch SB3 or as an ONNX file",
    "report": "write a page of a training run, or of several side by side",
    "demo": "train the JAX PPO, print its score before and after, and film it",
}


def main() -> None:
    """The command line ``sbx-flappy``."""
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="RL-Zoo's commands with the JAX PPO: --algo ppo_jax; --algo ppo is torch SB3's.",
        epilog=f"Each command has its own help: {PROG} train --help",
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, description in COMMANDS.items():
        commands.add_parser(name, help=description, add_help=False)
    command = parser.parse_args(sys.argv[1:2]).command
    arguments = sys.argv[2:]
    plays = command in ("enjoy", "record_video", "evaluate")
    register_algorithms(ppo=EitherPPO if plays else TorchPPO)
    rl_zoo3.train.ExperimentManager = SettingsManager  # type: ignore[attr-defined]
    if command == "demo":
        demo(arguments)
    elif command == "evaluate":
        evaluate(arguments, f"{PROG} evaluate")
    elif command == "export":
        export(arguments, f"{PROG} export")
    elif plays:
        run_script(command, name_agent(command, arguments))
    elif command == "report":
        report(arguments, f"{PROG} report")
    else:
        run_script(command, arguments)


if __name__ == "__main__":
    # By its proper name, so that --gym-packages sbx_flappy.zoo does not run this file again and take "ppo" from torch.
    importlib.import_module("sbx_flappy.zoo").main()
