"""``sbx-flappy evaluate``: scores of trained agents, and where agents are found."""

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from huggingface_sb3 import EnvironmentName
from rl_zoo3.utils import ALGOS
from stable_baselines3 import PPO as TorchPPO
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecNormalize

from sbx_flappy import PPO, FlappyVecEnv
from sbx_flappy.common.features_extractors import FlattenExtractor
from sbx_flappy.envs.registration import ENV_IDS
from sbx_flappy.zoo.agents import FOLDER, EitherPPO, find_agent
from sbx_flappy.zoo.evaluation import SEED, evaluate, evaluate_scores, make_env, summarize
from sbx_flappy.zoo.export import OF_TRAINING, export

AGENTS = Path(__file__).parents[2] / FOLDER
FEATURES = "FlappyBirdFeatures-v0"
SMALL_CNN = {"features_extractor_kwargs": {"features_dim": 8, "layers": [[4, 7, 7]]}}


class Flapper:
    """Flaps whenever the bird is below the middle of the next gap, which passes a few pipes; ``predict`` is all it has."""

    def predict(
        self, observation: np.ndarray, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> Any:
        last_gap = np.where(observation[:, 3] < 0.2, (observation[:, 7] + observation[:, 8]) / 2, 0.0)
        gap = np.where(observation[:, 0] > 0.1, (observation[:, 1] + observation[:, 2]) / 2, last_gap)
        return (observation[:, 9] > gap + 0.02).astype(int), None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log folder with a model that has learned nothing, ours under "ppo_jax" and torch's under "ppo"."""
    folder = tmp_path_factory.mktemp("logs")
    for algo, cls in (("ppo_jax", PPO), ("ppo", TorchPPO)):
        model = cls("MlpPolicy", FlappyVecEnv(2, FEATURES), n_steps=8, batch_size=16, n_epochs=1, seed=0, device="cpu")
        (folder / algo / f"{FEATURES}_1").mkdir(parents=True)
        model.learn(16).save(folder / algo / f"{FEATURES}_1" / f"{FEATURES}.zip")
    return folder


@pytest.fixture(autouse=True)
def algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the names that the command line knows."""
    monkeypatch.setitem(ALGOS, "ppo_jax", PPO)
    monkeypatch.setitem(ALGOS, "ppo", EitherPPO)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_episodes() -> None:
    flapper: Any = Flapper()
    env = FlappyVecEnv(4, FEATURES, max_episode_steps=300)
    env.seed(3)
    episodes = evaluate_scores(flapper, env, 8)
    env.seed(3)
    observations, ended = env.reset(), []
    counts = np.zeros(4, int)
    while counts.min() < 2:
        observations, _, dones, infos = env.step(flapper.predict(observations)[0])
        for game in np.flatnonzero(dones):
            counts[game] += 1
            if counts[game] <= 2:  # each game has its share of episodes
                ended.append((infos[game]["score"], infos[game]["episode"]["r"], infos[game]["episode"]["l"]))
    assert episodes.scores is not None
    assert max(episodes.scores) > 0
    columns = (episodes.scores, episodes.rewards, episodes.lengths)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == ended


def test_an_environment_without_pipes_has_rewards_alone() -> None:
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8)
    env = model.get_env()
    assert env is not None
    episodes = evaluate_scores(model, env, 3)
    assert episodes.scores is None
    np.testing.assert_array_equal(episodes.rewards, episodes.lengths)


def test_summary_of_numbers() -> None:
    assert summarize(np.array([1, 2, 6])) == pytest.approx(
        {"mean": 3.0, "error": np.sqrt(7 / 3), "median": 2.0, "min": 1.0, "max": 6.0}
    )
    assert summarize(np.array([4]))["error"] == 0.0


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ["ppo_jax", "ppo"])
def test_the_command_prints_both_kinds_and_writes_each_episode(
    algo: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "episodes.csv"
    agent = ["--algo", algo, "--env", FEATURES, "-f", str(folder)]
    evaluate([*agent, "-n", "6", "--max-episode-steps", "12", "-o", str(table)], "evaluate")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[-2:]] == ["deterministic", "stochastic"]
    assert "score mean 0.00 +- 0.00" in lines[-1]
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["actions"] for row in rows] == ["deterministic"] * 6 + ["stochastic"] * 6
    assert max(int(row["length"]) for row in rows) == 12


def test_an_agent_of_pixels_is_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its model has images channels first, as SB3 wraps the environments of a training."""
    model = PPO("CnnPolicy", FlappyVecEnv(2, "FlappyBird-v0"), n_steps=8, batch_size=16, policy_kwargs=SMALL_CNN)
    run = tmp_path / "ppo_jax" / "FlappyBird-v0_1"
    run.mkdir(parents=True)
    model.save(run / "FlappyBird-v0.zip")
    agent = ["--algo", "ppo_jax", "--env", "FlappyBird-v0", "-f", str(tmp_path), "-n", "2", "--max-episode-steps", "12"]
    for engine in ("native", "pygame"):
        evaluate([*agent, "--engine", engine], "evaluate")
        assert "(2 episodes, mean length 12)" in capsys.readouterr().out


def test_both_engines_score_the_same(folder: Path, tmp_path: Path) -> None:
    tables = []
    for engine in ("native", "pygame"):
        agent = ["--algo", "ppo_jax", "--env", FEATURES, "-f", str(folder), "--only", "stochastic"]
        evaluate([*agent, "-n", "3", "--engine", engine, "-o", str(tmp_path / engine)], "evaluate")
        tables.append((tmp_path / engine).read_text())
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["-n", "0"], "--n-episodes must be at least 1, got 0"), (["--engine", "godot"], "invalid choice: 'godot'")],
)
def test_a_wrong_command_line_is_named(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        evaluate(["--env", FEATURES, "-f", str(folder), *arguments], "evaluate")
    assert message in capsys.readouterr().err


@pytest.fixture
def run_of(folder: Path, tmp_path: Path) -> Any:
    """Return a log folder with a copy of the JAX model, and with the settings that RL-Zoo keeps."""

    def make(args: dict[str, Any], config: dict[str, Any]) -> Path:
        run = tmp_path / "logs" / "ppo_jax" / f"{FEATURES}_1"
        shutil.copytree(folder / "ppo_jax" / f"{FEATURES}_1", run)
        (run / FEATURES).mkdir()
        (run / FEATURES / "args.yml").write_text(yaml.dump(args))
        (run / FEATURES / "config.yml").write_text(yaml.dump(config))
        return run

    return make


def episodes_of(run: Path, *arguments: str) -> list[dict[str, str]]:
    table = run / "episodes.csv"
    agent = ["--algo", "ppo_jax", "--env", FEATURES, "-f", str(run.parents[1]), "--only", "deterministic"]
    evaluate([*agent, "-o", str(table), *arguments], "evaluate")
    with open(table, newline="") as file:
        return list(csv.DictReader(file))


def test_environments_are_those_of_the_training(run_of: Any) -> None:
    """RL-Zoo lets ``--env-kwargs`` of the training take the place of the settings file's."""
    run = run_of({"env_kwargs": {"max_episode_steps": 5}}, {"env_kwargs": {"max_episode_steps": 3}})
    assert {row["length"] for row in episodes_of(run, "-n", "2")} == {"5"}
    assert {row["length"] for row in episodes_of(run, "-n", "2", "--env-kwargs", "max_episode_steps:4")} == {"4"}
    (run / FEATURES / "args.yml").write_text("env_kwargs: null")
    assert {row["length"] for row in episodes_of(run, "-n", "2")} == {"3"}


@pytest.mark.parametrize(("n_episodes", "n_envs"), [(7, 3), (3, 3), (4, 2), (1, 1)])
def test_games_share_the_episodes(n_episodes: int, n_envs: int, run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(env_id: str, n_envs: int, *others: Any) -> Any:
        made.append(n_envs)
        return make_env(env_id, n_envs, *others)

    monkeypatch.setattr("sbx_flappy.zoo.evaluation.MAX_ENVS", 3)
    monkeypatch.setattr("sbx_flappy.zoo.evaluation.make_env", make)
    run = run_of({"env_kwargs": {"max_episode_steps": 9}}, {})
    assert len(episodes_of(run, "-n", str(n_episodes))) == n_episodes
    assert made == [n_envs]


def test_statistics_are_needed_where_observations_are_normalized(run_of: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of({"env_kwargs": {"max_episode_steps": 9}}, {"normalize": "dict(norm_obs=False, norm_reward=True)"})
    assert len(episodes_of(run, "-n", "2")) == 2
    for normalize in ("dict(norm_reward=True)", True):
        (run / FEATURES / "config.yml").write_text(yaml.dump({"normalize": normalize}))
        with pytest.raises(SystemExit, match="2"):
            episodes_of(run, "-n", "2")
        assert re.search(r"observations are normalized, but .*vecnormalize\.pkl does not exist", capsys.readouterr().err)


def test_a_checkpoint_is_played_with_its_own_statistics(run_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of({"env_kwargs": {"max_episode_steps": 9}}, {"normalize": True})
    for file, mean in ((f"{FEATURES}/vecnormalize.pkl", 1.0), ("rl_model_vecnormalize_64_steps.pkl", 2.0)):
        env = VecNormalize(FlappyVecEnv(1, FEATURES))
        assert isinstance(env.obs_rms, RunningMeanStd)
        env.obs_rms.mean[:] = mean
        env.save(str(run / file))
    for steps in (32, 64):
        shutil.copy(run / f"{FEATURES}.zip", run / f"rl_model_{steps}_steps.zip")
    seen = []

    def look(_model: Any, env: Any, *_others: Any) -> Any:
        seen.append((env.obs_rms.mean[0], env.training, env.norm_reward))
        return evaluate_scores(_model, env, *_others)

    monkeypatch.setattr("sbx_flappy.zoo.evaluation.evaluate_scores", look)
    for checkpoint in ([], ["--load-checkpoint", "32"], ["--load-checkpoint", "64"]):
        episodes_of(run, "-n", "2", *checkpoint)
    assert seen == [(1.0, False, False), (1.0, False, False), (2.0, False, False)]
    (run / FEATURES / "vecnormalize.pkl").unlink()  # as while the training runs
    episodes_of(run, "-n", "2", "--load-checkpoint", "64")
    assert seen[-1] == (2.0, False, False)


def test_finished_episodes_are_written_before_the_next_kind(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def play(model: Any, env: Any, n_episodes: int, deterministic: bool) -> Any:
        if not deterministic:
            raise KeyboardInterrupt
        return evaluate_scores(model, env, n_episodes, deterministic)

    monkeypatch.setattr("sbx_flappy.zoo.evaluation.evaluate_scores", play)
    agent = ["--algo", "ppo_jax", "--env", FEATURES, "-f", str(folder), "-n", "2", "--max-episode-steps", "5"]
    with pytest.raises(KeyboardInterrupt):
        evaluate([*agent, "-o", str(tmp_path / "episodes.csv")], "evaluate")
    assert len((tmp_path / "episodes.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--exp-id", "99"], "has the runs 1 of FlappyBirdFeatures-v0"),
        (["--load-checkpoint", "5"], "rl_model_5_steps.zip does not exist"),
        (["--exp-id", "-1"], "does not exist"),
        (["--env", "FlappyBird-v7"], "has no run of FlappyBird-v7"),
        (["--algo", "a2c"], "has no run of FlappyBirdFeatures-v0"),
        (["--seed", "-1"], "--seed must be between 0 and 2**32 - 1, got -1"),
        (["--max-episode-steps", "0"], "max_episode_steps"),
        (["--env-kwargs", "gap:("], "argument --env-kwargs: NAME:VALUE with a value in Python's notation is expected"),
        (["--env-kwargs", "gap:7"], "FlappyBirdFeatures-v0 with the arguments {'gap': 7}: "),
        (["--env-kwargs", "obs_type:'pixels'"], "Observation spaces do not match"),
        (["-o", "nowhere/episodes.csv"], "--output: the folder nowhere does not exist"),
    ],
)
def test_errors_of_an_evaluation_are_for_the_user(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = ["--algo", "ppo_jax", "--env", FEATURES, "-f", str(folder), "-n", "2"]
    with pytest.raises(SystemExit, match="2"):
        evaluate([*agent, *arguments], "evaluate")
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("evaluate: error: ")
    assert message in error


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no zip"])
def test_a_broken_model_is_named(content: bytes, run_of: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of({}, {})
    (run / f"{FEATURES}.zip").write_bytes(content)
    with pytest.raises(SystemExit, match="2"):
        episodes_of(run)
    assert f"{FEATURES}.zip cannot be loaded as a model of ppo_jax: " in capsys.readouterr().err


def test_evaluation_plays_other_games_than_trainings() -> None:
    assert SEED % 2**16 >= 1024  # a training's seeds have the number of the environment in the low 16 bits


# --- agents -----------------------------------------------------------------------------------------------------------


def test_agents_are_looked_for_here_then_in_the_package(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = EnvironmentName("FlappyBird-v0")
    assert find_agent("ppo", name) == find_agent("ppo_jax", name) == (str(AGENTS), "ppo")
    assert find_agent("a2c", name) == (FOLDER, "a2c")  # RL-Zoo then asks its hub
    shutil.copytree(folder / "ppo_jax" / f"{FEATURES}_1", tmp_path / FOLDER / "ppo_jax" / "FlappyBird-v0_1")
    assert find_agent("ppo_jax", name) == (FOLDER, "ppo_jax")
    assert find_agent("ppo", name) == (str(AGENTS), "ppo")


def test_a_folder_without_a_model_is_no_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = tmp_path / FOLDER / "ppo" / "FlappyBird-v0_1"
    run.mkdir(parents=True)
    assert find_agent("ppo", EnvironmentName("FlappyBird-v0")) == (str(AGENTS), "ppo")
    (run / "best_model.zip").touch()  # one that a training has left so far
    assert find_agent("ppo", EnvironmentName("FlappyBird-v0")) == (FOLDER, "ppo")


def test_runs_of_other_names_are_no_numbers(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = shutil.copytree(folder, tmp_path / "logs")
    (logs / "ppo_jax" / f"{FEATURES}_1_550e8400-e29b").mkdir()
    with pytest.raises(SystemExit, match="2"):
        evaluate(["--algo", "ppo_jax", "--env", FEATURES, "-f", str(logs), "--exp-id", "7"], "evaluate")
    assert f"has the runs 1 of {FEATURES}." in capsys.readouterr().err


def test_settings_that_cannot_be_read_are_named(run_of: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of({}, {})
    (run / FEATURES / "args.yml").write_text("")
    episodes_of(run, "-n", "1", "--max-episode-steps", "5")
    (run / FEATURES / "args.yml").write_text("[")
    with pytest.raises(SystemExit, match="2"):
        episodes_of(run, "-n", "1")
    assert f"error: The settings in {run / FEATURES}: while parsing" in capsys.readouterr().err


@pytest.mark.parametrize(("algo", "cls"), [("ppo_jax", PPO), ("ppo", TorchPPO)])
def test_a_file_decides_which_ppo_plays_it(algo: str, cls: type, folder: Path) -> None:
    assert type(EitherPPO.load(folder / algo / f"{FEATURES}_1" / f"{FEATURES}.zip", device="cpu")) is cls


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_the_package_has_an_agent_of_each_id(env_id: str) -> None:
    run = AGENTS / "ppo" / f"{env_id}_1"
    model = PPO.load(run / f"{env_id}.zip", safe=True)
    assert model.policy.optimizer.state_dict()["state"] == {}
    settings = yaml.unsafe_load((run / env_id / "config.yml").read_text())
    assert dict(settings)["policy"].startswith("sbx_flappy.")
    assert not re.search(r"(^|\s)/", (run / env_id / "args.yml").read_text())  # no place on the machine that trained it
    env = FlappyVecEnv(4, env_id, max_episode_steps=600)
    env.seed(SEED)
    scores = evaluate_scores(model, env, 4).scores
    assert scores is not None
    assert np.median(scores) >= 20


def test_the_agents_are_small() -> None:
    assert sum(path.stat().st_size for path in AGENTS.rglob("*") if path.is_file()) < 10e6


# --- export to play ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_an_agent_to_play_is_small_and_plays_the_same(framework: str, folder: Path, tmp_path: Path) -> None:
    agent = ["--algo", "ppo_jax", "--env", FEATURES, "-f", str(folder), "-o", str(tmp_path)]
    export([*agent, "--framework", framework, "--to-play"], "export")
    path = tmp_path / "ppo" / f"{FEATURES}_1" / f"{FEATURES}.zip"
    model = EitherPPO.load(path, device="cpu")
    assert type(model) is (PPO if framework == "jax" else TorchPPO)
    assert not model.policy.optimizer.state_dict()["state"]
    assert not any(getattr(model, name, None) for name in OF_TRAINING)
    whole = PPO.load(folder / "ppo_jax" / f"{FEATURES}_1" / f"{FEATURES}.zip")
    observations = np.random.default_rng(0).uniform(-1, 1, (50, 12)).astype(np.float32)
    expected, actions = (each.predict(observations, deterministic=True)[0] for each in (whole, model))
    np.testing.assert_array_equal(expected, actions)


class OwnExtractor(FlattenExtractor):
    """A Flax module, which torch has no counterpart of."""


def test_a_full_disk_leaves_no_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill_the_disk(_model: PPO, path: Path, *_: Any, **__: Any) -> None:
        path.write_bytes(b"PK")
        raise OSError("No space left on device")

    monkeypatch.setattr(PPO, "save", fill_the_disk)
    with pytest.raises(SystemExit, match="2"):
        export(["--env", FEATURES, "-f", str(folder), "-o", str(tmp_path)], "export")
    assert "export: error: No space left on device" in capsys.readouterr().err
    assert list((tmp_path / "ppo").iterdir()) == []


def test_an_export_that_fails_leaves_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy_kwargs = {"features_extractor_class": OwnExtractor}
    model = PPO("MlpPolicy", FlappyVecEnv(2, FEATURES), n_steps=8, batch_size=16, policy_kwargs=policy_kwargs)
    run = tmp_path / "ppo_jax" / f"{FEATURES}_1"
    run.mkdir(parents=True)
    model.save(run / f"{FEATURES}.zip")
    with pytest.raises(SystemExit, match="2"):
        export(["--env", FEATURES, "-f", str(tmp_path)], "export")
    assert "export: error: `features_extractor_class` OwnExtractor is a Flax module" in capsys.readouterr().err
    assert list((tmp_path / "ppo").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algo", "trpo"], "invalid choice: 'trpo'"),
        (["--exp-id", "9"], "has the runs 1 of FlappyBirdFeatures-v0"),
    ],
)
def test_errors_of_an_export_are_for_the_user(
    arguments: list[str], message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        export(["--env", FEATURES, "-f", str(folder), "-o", str(tmp_path / "new"), *arguments], "export")
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("export: error: ")
    assert message in error
