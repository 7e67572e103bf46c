"""RL-Zoo's commands with the JAX PPO, each run as a user runs it, in a process of its own, with a tiny budget."""

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from stable_baselines3.common.logger import Logger

from sbx_flappy import PPO, FlappyVecEnv
from sbx_flappy.saving.files import is_ours
from sbx_flappy.zoo.exp_manager import ScoreLogger, find_settings
from tests.zoo.commands import run

SETTINGS = Path(__file__).parents[2] / "hyperparams" / "ppo.yml"
CLI = "sbx_flappy.zoo"
# Two rollouts of 2 * 16 steps with one minibatch each.
TINY = ["-n", "64", "-params", "n_envs:2", "n_steps:16", "batch_size:32", "n_epochs:1"]
NO_EVAL = ["--eval-freq", "-1"]

# Has what stable_baselines3's AtariWrapper asks of an env; RL-Zoo takes it for an Atari game by the name of its class.
ATARI_ENV = """
import gymnasium as gym
from stable_baselines3.common.envs import FakeImageEnv

class FakeAtariEnv(FakeImageEnv):
    def __init__(self, render_mode=None):
        super().__init__(screen_height=210, screen_width=160, n_channels=3)
        self.action_space = gym.spaces.Discrete(4)
        self.ale = self

    def lives(self):
        return 3

    def get_action_meanings(self):
        return ["NOOP", "FIRE", "RIGHT", "LEFT"]

gym.register("FakeAtari-v0", "fake_atari:FakeAtariEnv", max_episode_steps=100)
"""

SHOW_VEC_ENV = """
from stable_baselines3.common.callbacks import BaseCallback

class ShowVecEnv(BaseCallback):
    def _on_training_start(self):
        env = self.training_env.unwrapped
        print("VecEnv:", type(env).__name__, env._batch is not None if hasattr(env, "_batch") else None)

    def _on_step(self):
        return True
"""


def trained_by(model: Path) -> str:
    """Return the package whose PPO has saved the zip."""
    return "sbx_flappy" if is_ours(model) else "stable_baselines3"


def parameters(model: Path) -> dict[str, np.ndarray]:
    """Return the policy's parameters that are in the zip."""
    import torch

    with zipfile.ZipFile(model) as archive, archive.open("policy.pth") as file:
        return {name: value.numpy() for name, value in torch.load(file, weights_only=True).items()}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder where the JAX PPO and torch SB3's were trained, one after the other, on stacked frames of the game."""
    folder = tmp_path_factory.mktemp("zoo")
    for algo in ("ppo_jax", "ppo"):
        evaluate = ["--eval-freq", "32", "--eval-episodes", "2", "--seed", "3", "-tb", "tb"]
        run(CLI, "train", "--algo", algo, "--env", "FlappyBird-v0", *TINY, "frame_stack:2", *evaluate, cwd=folder)
    return folder / "logs"


@pytest.mark.parametrize(("package", "expected"), [("sbx_flappy.zoo", "sbx_flappy"), ("sbx_flappy", "stable_baselines3")])
def test_gym_package_decides_whose_ppo_rl_zoo_trains(package: str, expected: str, tmp_path: Path) -> None:
    settings = ["-conf", "sbx_flappy.hyperparams.ppo", *TINY, *NO_EVAL]
    output = run("rl_zoo3.train", "--env", "FlappyBird-v0", "--gym-packages", package, *settings, cwd=tmp_path)
    assert "Loading hyperparameters from: sbx_flappy.hyperparams.ppo" in output
    assert "'sbx_flappy.interchange.torch_policies.CnnPolicy'" in output
    assert trained_by(tmp_path / "logs/ppo/FlappyBird-v0_1/FlappyBird-v0.zip") == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--env", "FlappyBird-v1"], "FlappyVecEnv True"),
        pytest.param(["--env", "FlappyBird-v1", "--vec-env", "subproc"], "SubprocVecEnv None", marks=pytest.mark.expensive),
        pytest.param(["--env", "CartPole-v1"], "DummyVecEnv None", marks=pytest.mark.expensive),
    ],
)
def test_rl_zoo_plays_our_games_in_one_array_program(arguments: list[str], expected: str, tmp_path: Path) -> None:
    """By default, for our ids, RL-Zoo's time limit included, and without a line of the log that says otherwise."""
    (tmp_path / "show.py").write_text(SHOW_VEC_ENV)
    settings = ["-conf", str(SETTINGS), *TINY, "callback:'show.ShowVecEnv'", *NO_EVAL]
    if "CartPole-v1" in arguments:
        settings = settings[2:]
    output = run("rl_zoo3.train", *arguments, "--gym-packages", "sbx_flappy.zoo", *settings, cwd=tmp_path)
    assert f"VecEnv: {expected}" in output
    assert "one by one" not in output


def test_both_algorithms_stand_in_one_log_folder(logs: Path) -> None:
    assert trained_by(logs / "ppo_jax/FlappyBird-v0_1/FlappyBird-v0.zip") == "sbx_flappy"
    assert trained_by(logs / "ppo/FlappyBird-v0_1/FlappyBird-v0.zip") == "stable_baselines3"
    assert list((logs.parent / "tb/FlappyBird-v0").glob("PPO*/events*"))
    saved = yaml.unsafe_load((logs / "ppo_jax/FlappyBird-v0_1/FlappyBird-v0/args.yml").read_text())
    assert (saved["algo"], saved["env"]) == ("ppo_jax", "FlappyBird-v0")


@pytest.mark.fault(45)
def test_every_key_of_the_settings_reaches_the_model(logs: Path) -> None:
    """Those of the file, those of the command line, RL-Zoo's linear schedules and the stacked frames."""
    with zipfile.ZipFile(logs / "ppo_jax/FlappyBird-v0_1/FlappyBird-v0.zip") as archive:
        data = json.loads(archive.read("data"))
    settings = yaml.safe_load(SETTINGS.read_text())["FlappyBird-v0"]
    for key in ("gamma", "gae_lambda", "ent_coef"):
        assert data[key] == settings.pop(key), key
    assert (data["n_envs"], data["n_steps"], data["batch_size"], data["n_epochs"], data["seed"]) == (2, 16, 32, 1, 3)
    assert data["policy_kwargs"]["features_extractor_kwargs"] == {"features_dim": 128, "layers": [[16, 7, 7], [32, 2, 2]]}
    assert [data["policy_kwargs"][name] for name in ("obs_center", "obs_scale", "action_bias_init")] == [
        0.66,
        4.0,
        [0.0, -2.2],
    ]
    assert data["observation_space"]["_shape"] == [2, 84, 84]
    # Half of lin_1e-3 at half of the progress
    model = PPO.load(logs / "ppo_jax/FlappyBird-v0_1/FlappyBird-v0.zip")
    assert callable(model.clip_range)
    assert (model.lr_schedule(0.5), model.clip_range(0.5)) == (5e-4, 0.2)
    checked = {"n_envs", "n_steps", "batch_size", "n_epochs", "learning_rate", "clip_range", "policy_kwargs"}
    assert settings.keys() - checked == {"n_timesteps", "policy", "normalize", "monitor_kwargs"}
    assert model.get_vec_normalize_env() is None
    assert (logs / "ppo_jax/FlappyBird-v0_1/FlappyBird-v0/vecnormalize.pkl").exists()
    assert "score" in (logs / "ppo_jax/FlappyBird-v0_1/0.monitor.csv").read_text().splitlines()[1]


@pytest.mark.fault(22, 45)
@pytest.mark.parametrize("algo", ["ppo_jax", pytest.param("ppo", marks=pytest.mark.expensive)])
def test_enjoy_plays_the_stacked_frames(algo: str, logs: Path) -> None:
    output = run(CLI, "enjoy", "--algo", algo, "--env", "FlappyBird-v0", "-f", str(logs), "--no-render", "-n", "60", cwd=logs)
    assert "Stacking 2 frames" in output
    assert "Mean reward" in output


@pytest.mark.expensive
def test_rl_zoos_enjoy_plays_what_the_plugin_trained(tmp_path: Path) -> None:
    agent = ["--algo", "ppo", "--env", "FlappyBirdFeatures-v0", "--gym-packages", "sbx_flappy.zoo"]
    run("rl_zoo3.train", *agent, "-conf", str(SETTINGS), *TINY, *NO_EVAL, cwd=tmp_path)
    output = run("rl_zoo3.enjoy", *agent, "-f", "logs", "--no-render", "-n", "60", cwd=tmp_path)
    assert "Loading running average" in output
    assert "Mean reward" in output


def test_record_video_leaves_an_mp4(logs: Path) -> None:
    run(CLI, "record_video", "--algo", "ppo_jax", "--env", "FlappyBird-v0", "-f", str(logs), "-n", "20", cwd=logs)
    (video,) = (logs / "ppo_jax/FlappyBird-v0_1/videos").glob("*.mp4")
    assert video.stat().st_size > 1000


@pytest.mark.fault(45)
def test_resume_starts_from_the_trained_parameters(logs: Path, tmp_path: Path) -> None:
    model = logs / "ppo_jax/FlappyBird-v0_1/FlappyBird-v0.zip"
    agent = ["--algo", "ppo_jax", "--env", "FlappyBird-v0", "-i", str(model)]
    # At a learning rate of 0 the parameters stay what they were loaded as.
    run(CLI, "train", *agent, *TINY, "frame_stack:2", "learning_rate:0.0", *NO_EVAL, cwd=tmp_path)
    before, after = parameters(model), parameters(tmp_path / "logs/ppo_jax/FlappyBird-v0_1/FlappyBird-v0.zip")
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


@pytest.mark.expensive
def test_plots_read_both_algorithms(logs: Path, tmp_path: Path) -> None:
    folder = ["-e", "FlappyBird-v0", "-f", str(logs)]
    run(CLI, "plot_train", "-a", "ppo_jax", *folder, "-w", "2", cwd=tmp_path)
    table = run(CLI, "all_plots", "-a", "ppo", "ppo_jax", *folder, "-o", "results", cwd=tmp_path)
    (row,) = (line for line in table.splitlines() if line.startswith("|FlappyBird-v0"))
    # RL-Zoo writes 0.0 where it finds no evaluation.
    assert "0.0 +/- 0.0" not in row
    assert (tmp_path / "results.pkl").is_file()


@pytest.mark.expensive
def test_plot_from_file_reads_what_all_plots_saved(tmp_path: Path) -> None:
    # RL-Zoo's plot_from_file needs two runs or more of each algorithm.
    for run_folder in ("ppo/CartPole-v1_1", "ppo/CartPole-v1_2", "ppo_jax/CartPole-v1_1", "ppo_jax/CartPole-v1_2"):
        folder = tmp_path / "logs" / run_folder
        folder.mkdir(parents=True)
        np.savez(folder / "evaluations.npz", timesteps=[32, 64], results=[[9.0, 11.0], [20.0, 24.0]])
    table = run(CLI, "all_plots", "-a", "ppo", "ppo_jax", "-e", "CartPole-v1", "-f", "logs", "-o", "results", cwd=tmp_path)
    assert "|CartPole-v1 |22 +/- 0|22 +/- 0|" in table  # the mean of 20 and 24
    output = run(CLI, "plot_from_file", "-i", "results", "--boxplot", "--rliable", cwd=tmp_path)
    assert "keys: ['PPO-logs', 'PPO_JAX-logs']" in output


@pytest.mark.fault(18)
@pytest.mark.expensive
@pytest.mark.parametrize("command", [["rl_zoo3.train", "--algo", "ppo"], [CLI, "train", "--algo", "ppo_jax"]])
def test_optimize_runs_its_trials(command: list[str], tmp_path: Path) -> None:
    # RL-Zoo's sampler gives torch's activation classes. This seed draws ReLU and Tanh, and short rollouts.
    search = ["-optimize", "--n-trials", "2", "--n-evaluations", "1", "--seed", "368", "-n", "64", "-params", "n_envs:1"]
    output = run(*command, "--env", "CartPole-v1", "--gym-packages", "sbx_flappy.zoo", *search, cwd=tmp_path)
    assert "Number of finished trials:  2" in output
    assert output.count("finished with value") == 2, output
    assert len(list((tmp_path / "logs" / command[-1]).glob("report_*.csv"))) == 1


@pytest.mark.fault(44)
@pytest.mark.expensive
def test_subprocesses_know_our_ids(tmp_path: Path) -> None:
    agent = ["--algo", "ppo_jax", "--env", "FlappyBird-v0", "--vec-env", "subproc"]
    run(CLI, "train", *agent, *TINY, *NO_EVAL, cwd=tmp_path)
    plugin = ["--env", "FlappyBird-v0", "--vec-env", "subproc", "--gym-packages", "sbx_flappy.zoo", "-conf", str(SETTINGS)]
    run("rl_zoo3.train", *plugin, *TINY, *NO_EVAL, cwd=tmp_path)
    for algo in ("ppo", "ppo_jax"):
        assert trained_by(tmp_path / f"logs/{algo}/FlappyBird-v0_1/FlappyBird-v0.zip") == "sbx_flappy"


@pytest.mark.fault(45)
def test_an_unknown_key_is_named_before_any_training(tmp_path: Path) -> None:
    output = run(CLI, "train", "--algo", "ppo_jax", "--env", "CartPole-v1", *TINY, "n_step:16", cwd=tmp_path, status=1)
    assert "unexpected keyword argument 'n_step'. Did you mean 'n_steps'?" in output.splitlines()[-1]
    assert "total_timesteps" not in output


def test_resume_names_an_unknown_key(logs: Path, tmp_path: Path) -> None:
    model = logs / "ppo_jax/FlappyBird-v0_1/FlappyBird-v0.zip"
    agent = ["--algo", "ppo_jax", "--env", "FlappyBird-v0", "-i", str(model)]
    output = run(CLI, "train", *agent, *TINY, "frame_stack:2", "n_step:16", cwd=tmp_path, status=1)
    assert "'n_step'" in output
    assert "total_timesteps" not in output


@pytest.mark.expensive
def test_rl_zoos_own_settings_train_unchanged(tmp_path: Path) -> None:
    envs = ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1"]
    script = (
        "import sys, rl_zoo3.train\n"
        "for env in sys.argv[1:6]:\n"
        "    sys.argv[1:] = ['--env', env, *sys.argv[-8:]]\n"
        "    rl_zoo3.train.train()\n"
    )
    run(
        "-c",
        script,
        *envs,
        "--algo",
        "ppo",
        "--gym-packages",
        "sbx_flappy.zoo",
        "-n",
        "64",
        *NO_EVAL,
        cwd=tmp_path,
        module=False,
    )
    for env in envs:
        assert trained_by(tmp_path / f"logs/ppo/{env}_1/{env}.zip") == "sbx_flappy"


@pytest.mark.expensive
def test_rl_zoos_atari_preset_trains_and_plays(tmp_path: Path) -> None:
    (tmp_path / "fake_atari.py").write_text(ATARI_ENV)
    agent = ["--algo", "ppo_jax", "--env", "FakeAtari-v0", "--gym-packages", "fake_atari"]
    output = run(CLI, "train", *agent, *TINY, *NO_EVAL, cwd=tmp_path)
    assert "stable_baselines3.common.atari_wrappers.AtariWrapper" in output
    assert "Stacking 4 frames" in output
    output = run(CLI, "enjoy", *agent, "-f", "logs", "--no-render", "-n", "120", cwd=tmp_path)
    assert "Atari Episode Score" in output


@pytest.mark.expensive
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have a display always")
def test_enjoy_without_a_display_ends_in_one_line(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "for name in ('SDL_VIDEODRIVER', 'DISPLAY', 'WAYLAND_DISPLAY'):\n"
        "    os.environ.pop(name, None)\n"
        "sys.argv = ['sbx-flappy', 'enjoy', '--algo', 'ppo', '--env', 'FlappyBirdFeatures-v0']\n"
        "from sbx_flappy.zoo.cli import main\n"
        "main()\n"
    )
    output = run("-c", script, cwd=tmp_path, status=1, module=False)
    assert "Traceback" not in output
    assert output.splitlines()[-1].startswith("sbx-flappy enjoy: error: render_mode='human' needs a display")


def test_the_cli_finds_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_settings("ppo_jax", "FlappyBird-v0") == find_settings("ppo", "CartPole-v1") == "sbx_flappy.hyperparams.ppo"
    rl_zoos = find_settings("ppo_jax", "Pendulum-v1")
    assert rl_zoos is not None
    assert Path(rl_zoos).parts[-3:] == ("rl_zoo3", "hyperparams", "ppo.yml")
    assert Path(rl_zoos).is_file()
    assert find_settings("a2c", "CartPole-v1") is None


def test_pipes_are_logged_by_algorithms_that_show_their_callbacks_episodes() -> None:
    model = PPO("MlpPolicy", FlappyVecEnv(2, "FlappyBirdFeatures-v0"), n_steps=8, batch_size=16)
    model.set_logger(Logger(None, []))
    callback = ScoreLogger()
    callback.init_callback(model)
    callback.on_training_start({}, {})
    assert callback.on_step()  # ARS has no dones there
    infos = [{"score": 4}, {"score": 6}, {}, {"score": 1}]
    callback.update_locals({"dones": np.array([True, True, True, False]), "infos": infos})
    assert callback.on_step()
    callback.on_rollout_end()
    assert model.logger.name_to_value["rollout/ep_score_mean"] == 5.0


@pytest.mark.expensive
def test_ppo_is_torchs_in_the_cli_whatever_else_is_imported(tmp_path: Path) -> None:
    agent = ["--algo", "ppo", "--env", "CartPole-v1", "--gym-packages", "sbx_flappy.zoo"]
    run(CLI, "train", *agent, "-conf", str(SETTINGS.with_suffix(".py")), *TINY, *NO_EVAL, cwd=tmp_path)
    assert trained_by(tmp_path / "logs/ppo/CartPole-v1_1/CartPole-v1.zip") == "stable_baselines3"


@pytest.fixture(scope="module")
def usage(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what the command line prints, and its exit status, for the arguments of each line, in one process."""
    script = (
        "import sys\n"
        "from sbx_flappy.zoo.cli import main\n"
        "for line in ['--help', '', 'tarin', 'train --help', 'record_video --help', 'demo --help']:\n"
        "    sys.argv[1:] = line.split()\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as e:\n"
        "        print('status', e.code, '\\0')\n"
    )
    return run("-c", script, cwd=tmp_path_factory.mktemp("usage"), module=False).split("\0")


@pytest.mark.parametrize(
    ("line", "status", "expected"),
    [
        (0, 0, "record_video"),
        (1, 2, "usage: sbx-flappy"),
        (2, 2, "invalid choice: 'tarin'"),
        (3, 0, "usage: sbx-flappy train"),
        (4, 0, "usage: sbx-flappy record_video"),
        (5, 0, "usage: sbx-flappy demo"),
    ],
)
def test_usage_is_printed(line: int, status: int, expected: str, usage: list[str]) -> None:
    assert expected in usage[line]
    assert usage[line].endswith(f"status {status} ")


@pytest.mark.expensive
def test_demo_prints_both_scores_and_leaves_its_files(tmp_path: Path) -> None:
    output = run(CLI, "demo", *TINY, "--eval-episodes", "2", "--video-length", "20", "--seed", "1", cwd=tmp_path)
    assert "ep_score_mean" in output
    summary = dict(line.split(":", 1) for line in output[output.rindex("Before training:") :].splitlines())
    assert "mean pipes per episode, 2 episodes" in summary["Before training"]
    assert "mean pipes per episode, 2 episodes" in summary["After training"]
    for name in ("Model", "TensorBoard", "Video"):
        assert (tmp_path / summary[name].strip()).exists()
