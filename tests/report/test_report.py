"""The page of ``sbx-flappy report``, for runs that SB3's own Monitor, logger and EvalCallback have written."""

import base64
import json
import re
import shutil
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from stable_baselines3 import PPO as TorchPPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor, ResultsWriter
from stable_baselines3.common.vec_env import DummyVecEnv

from sbx_flappy.report import report
from sbx_flappy.report.charts import MAX_POINTS, average, thin
from sbx_flappy.report.runs import Run, read_run
from sbx_flappy.report.sources import Curve, LogError
from sbx_flappy.report.summary import figures

PROG = "sbx-flappy report"
LEARNING = ["Episode reward", "Pipes passed", "Evaluation"]
OPTIMISATION = [
    "Policy loss",
    "Value loss",
    "Entropy loss",
    "Approximate KL divergence",
    "Clip fraction",
    "Explained variance",
    "Throughput",
    "Learning rate",
]
CHARTS = [f"{title} over {x}" for title in LEARNING for x in ("time steps", "minutes")] + OPTIMISATION


class Score(gym.Wrapper):
    """Puts the length of the episode so far into ``info`` as its score."""

    def reset(self, **kwargs: Any) -> Any:
        self.score = 0
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        self.score += 1
        return observation, reward, terminated, truncated, {**info, "score": self.score}


def train(logs: Path, algo: str, n_epochs: int = 1) -> Path:
    """Train for four rollouts of 2 * 16 steps, with the files where RL-Zoo puts them, and return the run's folder."""
    run = logs / "logs" / algo / "FlappyBird-v0_1"
    settings = run / "FlappyBird-v0"
    settings.mkdir(parents=True)

    def make(i: int) -> Callable[[], gym.Env]:
        return lambda: Monitor(Score(gym.make("CartPole-v1")), str(run / str(i)), info_keywords=("score",))

    env = DummyVecEnv([make(0), make(1)])
    eval_env = DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))])
    hyperparams: dict[str, Any] = {"n_steps": 16, "batch_size": 32, "n_epochs": n_epochs}
    model = TorchPPO("MlpPolicy", env, **hyperparams, policy_kwargs={"net_arch": [8]}, seed=0)
    n_runs = len(list((logs / "tb").glob("*/*")))
    model.set_logger(configure(str(logs / "tb" / "FlappyBird-v0" / f"PPO_{n_runs + 1}"), ["tensorboard"]))
    model.learn(128, callback=EvalCallback(eval_env, log_path=str(run), eval_freq=16, n_eval_episodes=2, verbose=0))
    model.logger.close()
    env.close()
    args = {"algo": algo, "env": "FlappyBird-v0", "log_folder": "logs", "seed": 7, "tensorboard_log": "tb"}
    for name, content in (("args.yml", args), ("config.yml", hyperparams)):
        (settings / name).write_text(yaml.dump(OrderedDict(content)))  # as RL-Zoo writes them
    (run / "videos").mkdir()
    (run / "videos" / "final.mp4").write_bytes(b"a film")
    return run


def move_by_a_minute(run: Path, tensorboard: Path) -> None:
    """Let a run have begun later. Names of event files count whole seconds, and the tests' runs take less than one."""
    for monitor in run.glob("*.monitor.csv"):
        header, rows = monitor.read_text().split("\n", 1)
        content = json.loads(header[1:])
        content["t_start"] += 60
        monitor.write_text(f"#{json.dumps(content)}\n{rows}")
    (events,) = tensorboard.glob("events*")
    begin = events.name.split(".")[3]
    events.rename(events.with_name(events.name.replace(begin, str(int(begin) + 60))))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs, of ppo_jax and ppo, in one log folder and one TensorBoard folder."""
    folder = tmp_path_factory.mktemp("trained")
    train(folder, "ppo_jax")
    move_by_a_minute(train(folder, "ppo", n_epochs=2), folder / "tb" / "FlappyBird-v0" / "PPO_2")
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to be changed."""
    return shutil.copytree(trained, tmp_path / "copy")


@pytest.fixture
def run(folder: Path) -> Path:
    return folder / "logs" / "ppo_jax" / "FlappyBird-v0_1"


def page_of(*arguments: Any) -> str:
    """Write a page and return it."""
    report([str(argument) for argument in arguments], PROG)
    return (Path(arguments[0]) / "report.html").read_text()


def text_of(page: str) -> str:
    """Return a page without its code tags and escapes."""
    return unescape(re.sub("</?code>", "", page))


def titles(page: str) -> list[str]:
    return re.findall(r"<h3>(.*?)</h3>\n<figure>", page)


def failure(*arguments: Any) -> str:
    """Return the message with which the command ends; such an exit has the status 1."""
    with pytest.raises(SystemExit) as e:
        report([str(argument) for argument in arguments], PROG)
    assert isinstance(e.value.code, str)
    assert e.value.code.startswith(f"{PROG}: error: ")
    return e.value.code


# --- The page ---------------------------------------------------------------------------------------------------------


def test_page_shows_every_chart(run: Path) -> None:
    page = page_of(run)
    assert titles(page) == CHARTS
    assert page.count("<svg ") == page.count("</svg>") == len(CHARTS)
    assert "Not logged" not in page


def test_page_needs_no_other_file_and_no_network(run: Path) -> None:
    page = page_of(run)
    assert "http" not in page
    assert not re.findall(r"<(?:script|link|iframe|object|embed)\b|@import", page)
    assert all(target.startswith("data:video/mp4;base64,") for target in re.findall(r'src="([^"]*)"', page))
    assert all(
        target.startswith("#") for target in re.findall(r'href="([^"]*)"|url\(([^)]*)\)', page) for target in target if target
    )


def test_what_an_svg_points_at_is_in_it(run: Path) -> None:
    for svg in re.findall(r"<svg .*?</svg>", page_of(run), re.DOTALL):
        targets = set(re.findall(r'href="#(\w+)"', svg)) | set(re.findall(r"url\(#(\w+)\)", svg))
        assert targets
        assert targets <= set(re.findall(r' id="(\w+)"', svg))


def test_video_is_in_the_page(run: Path) -> None:
    (data,) = re.findall(r'src="data:video/mp4;base64,([^"]*)"', page_of(run))
    assert base64.b64decode(data) == b"a film"


def test_same_run_gives_the_same_page(run: Path) -> None:
    assert page_of(run) == page_of(run)


def test_page_lies_where_it_is_asked_for_and_the_command_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report([str(run), "-o", str(tmp_path / "page.html"), "--title", "A & B"], PROG)
    assert capsys.readouterr().out == f"Report: {tmp_path / 'page.html'}\n"
    assert "<title>A &amp; B</title>" in (tmp_path / "page.html").read_text()
    assert not (run / "report.html").exists()


def test_log_folder_with_one_run_is_that_run(run: Path) -> None:
    report([str(run.parents[1] / "ppo_jax")], PROG)
    assert titles((run / "report.html").read_text()) == CHARTS


def test_names_and_settings_are_text_and_never_markup(run: Path) -> None:
    hostile = "<script>alert('$x')</script>&\"$\\frac{"
    args = run / "FlappyBird-v0" / "args.yml"
    args.write_text(yaml.dump({"algo": hostile, "env": hostile, hostile: [hostile]}))
    (run / "FlappyBird-v0" / "config.yml").write_text(yaml.dump({hostile: hostile}))
    renamed = run.rename(run.parent / "<img src=x onerror=alert(1)> ${title} $\\frac{")
    page = page_of(renamed, "--title", hostile)
    assert not re.search("<script|<img", page)
    assert hostile in unescape(page)
    assert renamed.name in unescape(page)


# --- What is read -----------------------------------------------------------------------------------------------------


def test_episodes_of_all_environments_stand_in_the_order_of_their_ends(tmp_path: Path) -> None:
    # Environment 1 was opened 30 s later: its episode ends at 60 s, between the two of environment 0, at 30 and 90 s.
    for name, start, rows in (("0", 1000.0, [(1.0, 10, 30.0), (2.0, 20, 90.0)]), ("1", 1030.0, [(5.0, 7, 30.0)])):
        writer = ResultsWriter(str(tmp_path / name), header={"t_start": start, "env_id": "CartPole-v1"})
        for r, length, t in rows:
            writer.write_row({"r": r, "l": length, "t": t})
        writer.close()
    run = read_run(tmp_path)
    assert run.env_id == "CartPole-v1"
    assert run.episodes is not None
    np.testing.assert_array_equal(run.episodes.values, [1, 5, 2])
    np.testing.assert_array_equal(run.episodes.steps, [10, 17, 37])
    np.testing.assert_allclose(run.episodes.minutes, [0.5, 1.0, 1.5])
    cells = dict(figures([run]))
    assert cells["Time steps"] == ["37 in ended episodes"]
    assert cells["Minutes"] == ["1.50"]
    assert cells["Reward, last 100 episodes"] == ["2.67"]  # (1 + 5 + 2) / 3
    assert cells["Time steps per second"] == ["0"]  # 37 / 90


def test_figures_are_those_of_the_files(run: Path) -> None:
    rows = dict(figures([read_run(run)]))
    with np.load(run / "evaluations.npz") as archive:
        last = archive["results"][-1]
    assert rows["Last evaluation"] == [f"{last.mean():,.2f} ± {last.std():,.2f} (2 episodes)"]
    assert (rows["Environment"], rows["Algorithm"], rows["Seed"]) == (["FlappyBird-v0"], ["ppo_jax"], ["7"])
    assert rows["Time steps"] == ["128"]


def test_a_row_that_is_being_written_is_left_out(run: Path) -> None:
    before = read_run(run).episodes
    with (run / "0.monitor.csv").open("a") as file:
        file.write("12.0,1")
    after = read_run(run).episodes
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(before.values, after.values)


def test_progress_csv_stands_in_for_tensorboard(run: Path) -> None:
    shutil.rmtree(run.parents[2] / "tb")
    logger = configure(str(run), ["csv"])
    for step in (32, 64):
        logger.record("train/value_loss", step / 2)
        logger.record("time/time_elapsed", step)
        logger.record("time/total_timesteps", step)
        logger.dump(step)
    logger.close()
    curve = read_run(run).scalars["train/value_loss"]
    np.testing.assert_array_equal(curve.steps, [32, 64])
    np.testing.assert_array_equal(curve.values, [16, 32])
    np.testing.assert_allclose(curve.minutes, [32 / 60, 64 / 60])


def test_a_resumed_training_begins_where_the_logger_does() -> None:
    from sbx_flappy.report.runs import _shift_resumed

    steps = np.array([10.0, 20.0])
    scalars = {"time/fps": Curve(np.array([132.0, 164.0]), steps, steps)}  # iterations of 32 steps, after 100
    run = Run(Path(), episodes=Curve(steps, steps, steps), scalars=scalars, args={"trained_agent": "model.zip"})
    _shift_resumed(run)
    assert run.episodes is not None
    np.testing.assert_array_equal(run.episodes.steps, [110, 120])


def test_settings_run_no_code(run: Path) -> None:
    bomb = "!!python/object/apply:os.system ['touch bomb']"
    text = f"policy_kwargs: {bomb}\nactivation: !!python/name:torch.nn.ReLU ''\nnet_arch: !!python/tuple [64, 64]\n"
    (run / "FlappyBird-v0" / "config.yml").write_text(text)
    config = read_run(run).config
    assert config == {"policy_kwargs": "os.system", "activation": "torch.nn.ReLU", "net_arch": (64, 64)}


# --- TensorBoard folders ----------------------------------------------------------------------------------------------


def value_loss(*arguments: Any) -> list[float]:
    return list(read_run(*arguments).scalars["train/value_loss"].values)


def test_each_run_finds_its_event_file_among_those_of_others(folder: Path) -> None:
    jax, torch = (folder / "logs" / algo / "FlappyBird-v0_1" for algo in ("ppo_jax", "ppo"))
    first, second = (folder / "tb" / "FlappyBird-v0" / f"PPO_{i}" for i in (1, 2))
    assert value_loss(jax) == value_loss(jax, first)
    assert value_loss(torch) == value_loss(torch, second)
    assert value_loss(jax) != value_loss(torch)
    assert not read_run(jax).notes


def test_event_files_that_cannot_be_told_apart_are_named(folder: Path, run: Path) -> None:
    (events,) = (folder / "tb" / "FlappyBird-v0" / "PPO_1").glob("events*")
    shutil.copy(events, events.with_name(f"{events.name}1"))
    page = text_of(page_of(run))
    assert re.search(
        r"event files may be this run's; the first, .*PPO_1.* is shown. --tensorboard-log names the right one", page
    )


def test_tensorboard_folder_elsewhere_is_named_by_the_option(folder: Path, run: Path) -> None:
    expected = value_loss(run)
    elsewhere = (folder / "tb").rename(folder / "elsewhere")
    missing = text_of(page_of(run))
    assert "No event file of this run in tb. --tensorboard-log names the folder if it is elsewhere." in missing
    assert titles(page_of(run, "--tensorboard-log", elsewhere / "FlappyBird-v0" / "PPO_1")) == CHARTS
    assert value_loss(run, elsewhere / "FlappyBird-v0" / "PPO_1") == expected


# --- What is missing or broken ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "gone", "sentence"),
    [
        ("evaluations.npz", ["Evaluation"], "train writes with --eval-freq N"),
        ("../../../tb/*/PPO_1", OPTIMISATION, "train writes with -tb FOLDER"),
        ("*/config.yml", [], "no config.yml"),
        ("videos", [], "sbx-flappy record_video --algo ppo_jax --env FlappyBird-v0 -f logs --exp-id 1 records one"),
        ("*.monitor.csv", ["Pipes passed"], "no *.monitor.csv"),
    ],
)
def test_a_missing_source_leaves_its_charts_out_and_is_named(run: Path, pattern: str, gone: list[str], sentence: str) -> None:
    for path in run.glob(pattern):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if "monitor" in pattern:  # without them, nothing tells which of two event files is the run's
        shutil.rmtree(run.parents[2] / "tb" / "FlappyBird-v0" / "PPO_2")
    page = page_of(run)
    assert titles(page) == [title for title in CHARTS if title.split(" over ")[0] not in gone]
    assert sentence in text_of(page)


def test_scores_that_were_not_logged_are_named(run: Path) -> None:
    for path in run.glob("*.monitor.csv"):
        header, *rows = path.read_text().splitlines()
        path.write_text("\n".join([header, *(row.rpartition(",")[0] for row in rows), ""]))
    page = page_of(run)
    assert not [title for title in titles(page) if title.startswith("Pipes")]
    assert "RL-Zoo's own, too, with -params \"monitor_kwargs:dict(info_keywords=('score',))\"" in text_of(page)


def test_a_training_that_has_just_begun_has_a_page(tmp_path: Path) -> None:
    ResultsWriter(str(tmp_path / "0"), header={"t_start": 1000.0, "env_id": "CartPole-v1"}).close()
    page = page_of(tmp_path)
    assert titles(page) == []
    assert "no episode has ended yet" in page


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe garbage \x80" * 99], ids=["empty", "garbage"])
@pytest.mark.parametrize(
    "pattern",
    ["0.monitor.csv", "evaluations.npz", "*/args.yml", "*/config.yml", "../../../tb/*/PPO_1/events*", "progress.csv"],
)
def test_a_broken_file_ends_in_a_message_that_names_it(run: Path, pattern: str, content: bytes) -> None:
    (path,) = list(run.glob(pattern)) or [run / pattern]
    path.write_bytes(content)
    if pattern == "progress.csv":  # it is read where there is no TensorBoard log
        shutil.rmtree(run.parents[2] / "tb")
    message = failure(run)
    assert path.name in message
    assert "Move it away to see the report without it." in message
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("r,l,t\n1.0,2,3.0\n", "does not name the columns"),
        ('#{"env_id": "x"}\nr,l,t\n1.0,2,3.0\n', "'t_start'"),
        ('#{"t_start": 1.0}\nr,l,t\n1.0,two,3.0\n', "two"),
        ('#{"t_start": 1.0}\nr,l,t\n1.0\n2.0,2,3.0\n', "a row lacks a number"),
    ],
)
def test_a_broken_monitor_file_is_explained(run: Path, text: str, reason: str) -> None:
    (run / "0.monitor.csv").write_text(text)
    assert reason in failure(run)


@pytest.mark.parametrize("reward", ["nan", "inf", "-inf", "1e308", "-1e308"])
def test_rewards_beyond_all_bounds_have_a_page(reward: str, run: Path) -> None:
    """The episodes go on being drawn: a training whose rewards are such is one that people want to look at."""
    with (run / "0.monitor.csv").open("a") as file:
        file.write(f"{reward},5,9.0,5\n" * 3)
    assert titles(page_of(run)) == CHARTS


def test_evaluations_without_an_episode_are_left_out(run: Path) -> None:
    np.savez(run / "evaluations.npz", timesteps=[16, 32], results=np.zeros((2, 0)))
    page = page_of(run)
    assert titles(page) == [title for title in CHARTS if not title.startswith("Evaluation")]
    assert "Last evaluation" not in page


@pytest.mark.parametrize("place", ["a\0b", "x" * 300, "gone"])
def test_a_tensorboard_folder_that_cannot_be_is_not_there(place: str, run: Path) -> None:
    args = run / "FlappyBird-v0" / "args.yml"
    args.write_text(yaml.dump({**yaml.unsafe_load(args.read_text()), "tensorboard_log": place}))
    assert "No event file of this run in" in text_of(page_of(run))
    assert "is not there" in failure(run, "-tb", place)


def test_the_best_evaluation_is_a_number(run: Path) -> None:
    np.savez(run / "evaluations.npz", timesteps=[16, 32, 48], results=[[5.0, 5.0], [-np.inf, 3.0], [9.0, 9.0]])
    assert dict(figures([read_run(run)]))["Best evaluation"] == ["9.00 ± 0.00 (after 48 steps)"]


def test_a_page_goes_where_a_link_or_a_pipe_leads(run: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").touch()
    (tmp_path / "link.html").symlink_to("page.html")
    report([str(run), "-o", str(tmp_path / "link.html")], PROG)
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    report([str(run), "-o", "/dev/null"], PROG)
    assert Path("/dev/null").is_char_device()


def test_a_link_to_nowhere_is_no_video(run: Path) -> None:
    (run / "videos" / "newest.mp4").symlink_to("gone.mp4")
    assert "data:video/mp4;base64," in page_of(run)


def test_the_command_for_a_video_can_be_pasted(run: Path) -> None:
    shutil.rmtree(run / "videos")
    args = run / "FlappyBird-v0" / "args.yml"
    args.write_text(yaml.dump({**yaml.unsafe_load(args.read_text()), "log_folder": "my logs"}))
    assert "-f 'my logs' --exp-id 1 records one" in text_of(page_of(run))


def test_a_training_that_did_not_come_to_its_end_says_so(run: Path) -> None:
    args, config = (run / "FlappyBird-v0" / name for name in ("args.yml", "config.yml"))
    config.write_text(yaml.dump({"n_timesteps": 1.5e6}))
    assert dict(figures([read_run(run)]))["Time steps"] == ["128 of 1,500,000"]
    config.write_text(yaml.dump({"n_timesteps": 150}))  # the log has an entry each 32 steps
    assert dict(figures([read_run(run)]))["Time steps"] == ["128"]
    args.write_text(yaml.dump({**yaml.unsafe_load(args.read_text()), "n_timesteps": 100}))
    assert dict(figures([read_run(run)]))["Time steps"] == ["128"]


def test_a_page_that_cannot_be_written_leaves_the_one_before(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = page_of(run)

    def fill_the_disk(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", fill_the_disk)
    assert "No space left on device" in failure(run)
    assert (run / "report.html").read_text() == before
    assert sorted(path.name for path in run.glob(".*")) == []


def test_evaluations_are_not_unpickled(run: Path) -> None:
    np.savez(run / "evaluations.npz", timesteps=[1], results=np.array([[1.0], [1.0, 2.0]], dtype=object))
    assert "allow_pickle=False" in failure(run)


def test_several_runs_are_named(folder: Path) -> None:
    message = failure(folder / "logs")
    assert "holds 2 runs" in message
    for algo in ("ppo_jax", "ppo"):
        assert str(folder / "logs" / algo / "FlappyBird-v0_1") in message


def test_folders_without_a_run_are_named(tmp_path: Path) -> None:
    assert f"No run in {tmp_path}" in failure(tmp_path)
    assert f"{tmp_path / 'gone'} is not a folder" in failure(tmp_path / "gone")


def test_wrong_arguments_are_named(run: Path, tmp_path: Path) -> None:
    assert "is given twice" in failure(run, run)
    assert "is not there" in failure(run, "--tensorboard-log", tmp_path / "gone")
    assert "is not there" in failure(run, "-o", tmp_path / "gone" / "report.html")


@pytest.mark.parametrize(("arguments", "status"), [("--help", 0), ("", 2), ("a b c -tb x -tb y", 2), ("a --titel b", 2)])
def test_exit_status_of_a_command_line(arguments: str, status: int) -> None:
    with pytest.raises(SystemExit) as e:
        report(arguments.split(), PROG)
    assert e.value.code == status


# --- Side by side -----------------------------------------------------------------------------------------------------


def test_two_runs_stand_side_by_side(folder: Path, run: Path) -> None:
    other = folder / "logs" / "ppo" / "FlappyBird-v0_1"
    page = page_of(run, other, "-tb", folder / "tb/FlappyBird-v0/PPO_1", "-tb", folder / "tb/FlappyBird-v0/PPO_2")
    assert titles(page) == CHARTS
    for caption in re.findall(r"<figcaption>.*?</figcaption>", page):
        names = re.findall(r"<span>(.*?)</span>", caption.replace("<wbr>", ""))
        assert names == ["ppo_jax/FlappyBird-v0_1", "ppo/FlappyBird-v0_1"]
    for svg in re.findall(r"<svg .*?</svg>", page, re.DOTALL):
        assert "stroke: var(--run-0)" in svg
        assert "stroke: var(--run-1)" in svg
    differing = re.findall(r'<tr class="differs"><th>(\w+) ', page)
    assert differing == ["n_epochs", "algo"]


def test_throughput_ratio_is_that_of_the_last_fps(folder: Path, run: Path) -> None:
    names = ("ppo_jax", "ppo")
    runs = [
        read_run(folder / "logs" / algo / "FlappyBird-v0_1", folder / f"tb/FlappyBird-v0/PPO_{i + 1}")
        for i, algo in enumerate(names)
    ]
    for one, fps in zip(runs, (300.0, 120.0), strict=True):
        one.scalars["time/fps"].values[-1] = fps
    rows = dict(figures(runs))
    assert rows["Time steps per second"] == ["300", "120"]
    assert rows["Throughput, against "] == ["2.50 ×", "1.00 ×"]


def test_three_runs_in_folders_of_the_same_name_have_names_of_their_own(folder: Path, run: Path, tmp_path: Path) -> None:
    copies = [shutil.copytree(folder / "logs", tmp_path / name) / "ppo_jax" / "FlappyBird-v0_1" for name in ("one", "two")]
    page = page_of(run, *copies)
    for path in (run, *copies):
        assert str(path) in page


# --- Lines ------------------------------------------------------------------------------------------------------------


def test_lines_have_few_points_and_end_with_the_last_mean() -> None:
    n = 10_007
    values = np.random.default_rng(0).normal(size=n)
    curve = Curve(np.arange(n) * 3.0, np.arange(n) / 60, values)
    line = average(curve)
    assert len(line.curve.values) <= MAX_POINTS
    assert line.curve.steps[-1] == 3 * (n - 1)
    assert line.curve.values[-1] == pytest.approx(values[-100:].mean())
    assert line.low is not None
    assert line.high is not None
    assert line.low[-1] == pytest.approx(np.quantile(values[-100:], 0.1))
    assert line.high[-1] == pytest.approx(np.quantile(values[-100:], 0.9))
    thinned = thin(curve)
    assert thinned is not None
    assert len(thinned.curve.values) == MAX_POINTS
    assert thinned.curve.values.mean() == pytest.approx(values.mean(), abs=1e-2)


def test_curves_without_a_finite_number_are_not_drawn() -> None:
    nothing = np.full(3, np.nan)
    assert thin(Curve(nothing, nothing, nothing)) is None


# --- The command ------------------------------------------------------------------------------------------------------


@pytest.mark.expensive
def test_command_line_writes_the_page_and_fails_with_a_line(run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sbx_flappy.zoo", "report"]
    done = subprocess.run([*command, str(run)], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, f"Report: {run / 'report.html'}\n"), done.stderr
    failed = subprocess.run([*command, str(tmp_path / "gone")], capture_output=True, text=True, timeout=300, check=False)
    assert failed.returncode == 1
    assert failed.stderr == f"{PROG}: error: {tmp_path / 'gone'} is not a folder.\n"


def test_charts_and_tables_are_imported_when_the_command_runs() -> None:
    script = "import sys, sbx_flappy.report; print({'matplotlib', 'pandas', 'tensorboard'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout == "set()\n"


def test_errors_of_a_run_are_for_the_user(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="is not a folder"):
        read_run(tmp_path / "gone")
