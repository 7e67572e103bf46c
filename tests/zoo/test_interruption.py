"""Ctrl-C and SIGTERM in the command line, and how a training of it goes on: real trainings in processes of their own."""

import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sbx_flappy.zoo.exp_manager import resuming_command
from sbx_flappy.zoo.interruption import Interruption
from tests.zoo.test_zoo import CLI, compile_once, parameters, run  # noqa: F401 (a fixture)

ENV = "FlappyBirdFeatures-v0"
AGENT = ["--algo", "ppo_jax", "--env", ENV]
SETTINGS = ["-params", "n_envs:2", "n_steps:16", "batch_size:32", "n_epochs:1"]
# Six iterations of 32 steps, with an evaluation in each; nothing but the seed decides the weights
TRAINING = [*AGENT, "--seed", "3", *SETTINGS, "--eval-freq", "32", "--eval-episodes", "1"]
LENGTH = ["-n", "192"]

# Runs the command line, and sends itself a signal at a call of one of its functions.
SIGNALLED = """
import os, signal, sys
import stable_baselines3.common.callbacks as callbacks
from stable_baselines3.common.vec_env import VecNormalize
import sbx_flappy.zoo.exp_manager as manager
import sbx_flappy.zoo.cli as cli

PLACES = {
    "rollout": (VecNormalize, "step_wait", 50), "update": (manager.PPO, "_update_policy", 3),
    "evaluation": (callbacks, "evaluate_policy", 3), "saving": (manager.ResumableModel, "save", 1),
}

def signal_at(place, name):
    owner, function, at = PLACES[place]
    original, calls = getattr(owner, function), []

    def signalled(*args, **kwargs):
        calls.append(None)
        if len(calls) == at:
            os.kill(os.getpid(), getattr(signal, name))
        return original(*args, **kwargs)

    setattr(owner, function, signalled)

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
places, name = sys.argv.pop(1), sys.argv.pop(1)
for place in places.split("+"):
    signal_at(place, name)
cli.main()
"""


def run_signalled(places: str, name: str, *command: str, cwd: Path, status: int = 0) -> str:
    return run("-c", SIGNALLED, places, name, *command, cwd=cwd, status=status, module=False)


def model_in(folder: Path, number: int = 1, algo: str = "ppo_jax") -> Path:
    return folder / "logs" / algo / f"{ENV}_{number}" / f"{ENV}.zip"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Return the parameters that the training ends with."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(CLI, "train", *TRAINING, *LENGTH, cwd=folder)
    return parameters(model_in(folder))


@pytest.mark.expensive
@pytest.mark.parametrize(("place", "name"), [("rollout", "SIGTERM"), ("update", "SIGINT"), ("evaluation", "SIGTERM")])
def test_an_interrupted_training_goes_on_as_if_it_had_never_stopped(
    place: str, name: str, uninterrupted: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """In the third of six iterations, which begins after 64 steps."""
    output = run_signalled(place, name, "train", *TRAINING, *LENGTH, cwd=tmp_path)
    assert f"{name}: the training stops after" in output
    as_of = 64
    assert f"Saved logs/ppo_jax/{ENV}_1/{ENV}.zip as of {as_of} time steps" in output
    lines = output.splitlines()
    command = lines[lines.index("This goes on as if the training had never stopped:") + 1].split()
    assert command == ["sbx-flappy", "train", *TRAINING, "-i", str(model_in(Path()))]
    output = run(CLI, *command[1:], cwd=tmp_path)
    assert f"from {as_of} to 192 time steps" in output
    went_on = parameters(model_in(tmp_path, 2))
    for key, value in uninterrupted.items():
        np.testing.assert_array_equal(went_on[key], value, err_msg=key)


@pytest.mark.expensive
def test_an_interrupted_demo_is_saved_and_says_how_to_go_on(tmp_path: Path) -> None:
    options = ["--env", ENV, "--seed", "3", "--eval-episodes", "1", *SETTINGS]
    output = run_signalled("rollout", "SIGTERM", "demo", *options, *LENGTH, cwd=tmp_path)
    assert "Before training: score" in output
    assert "After training" not in output
    assert not list(tmp_path.rglob("*.mp4"))
    command = next(line.split() for line in output.splitlines() if line.startswith("  sbx-flappy train "))
    output = run(CLI, *command[1:], "-n", "32", cwd=tmp_path)
    assert "Resuming where the training was saved, from 64 to 96 time steps" in output


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        ("-n 192", ""),
        ("--n-timesteps 192 -tb tb", "-tb tb"),
        ("--n-time 192 --n-trials 3 --num-threads 1", "--n-trials 3 --num-threads 1"),
        ("-n192 -i old.zip --eval-freq -1 -params n_envs:2", "--eval-freq -1 -params n_envs:2"),
        ("--trained old.zip -f 'my logs'", "-f 'my logs'"),
    ],
)
def test_the_command_that_goes_on_is_this_one(arguments: str, others: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sbx-flappy train", *shlex.split(arguments)])
    assert resuming_command("new.zip").split() == f"sbx-flappy train {others} -i new.zip".split()


@pytest.mark.expensive
def test_checkpoint_of_rl_zoos_settings_goes_on(uninterrupted: dict[str, np.ndarray], tmp_path: Path) -> None:
    """With ``-n`` it goes on for as many steps as that; a finished training's file starts a new training, as in RL-Zoo."""
    import importlib

    import yaml

    from sbx_flappy.zoo.exp_manager import find_settings

    module = find_settings("ppo_jax", ENV)
    assert module is not None
    checkpoint = {"save_freq": 32, "save_path": "checkpoints"}
    callback = [{"sbx_flappy.common.callbacks.ResumableCheckpointCallback": checkpoint}]
    settings = {ENV: {**importlib.import_module(module).hyperparams[ENV], "callback": callback}}
    (tmp_path / "settings.yml").write_text(yaml.safe_dump(settings))
    training = [*TRAINING, "-conf", "settings.yml"]
    run(CLI, "train", *training, *LENGTH, cwd=tmp_path)
    files = sorted(file.name for file in (tmp_path / "checkpoints").iterdir())
    assert files == ["rl_model_128_steps.zip", "rl_model_192_steps.zip", "rl_model_64_steps.zip"]
    go_on = ["-i", "checkpoints/rl_model_128_steps.zip"]
    assert "from 128 to 192 time steps" in run(CLI, "train", *training, *go_on, cwd=tmp_path)
    for trained in (1, 2):
        for key, value in uninterrupted.items():
            np.testing.assert_array_equal(parameters(model_in(tmp_path, trained))[key], value, err_msg=key)
    assert "from 128 to 160 time steps" in run(CLI, "train", *training, "-n", "32", *go_on, cwd=tmp_path)
    output = run(CLI, "train", *training, "-n", "32", "-i", str(model_in(tmp_path)), cwd=tmp_path)
    assert "Resuming where" not in output


@pytest.mark.expensive
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    output = run_signalled("rollout+saving", "SIGINT", "train", *TRAINING, *LENGTH, cwd=tmp_path, status=-signal.SIGINT)
    assert output.rstrip().endswith("KeyboardInterrupt")
    assert not model_in(tmp_path).exists()


def start(*command: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a training in a group of processes of its own."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONUNBUFFERED": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([sys.executable, *command], cwd=cwd, env=env, start_new_session=True, **pipes)


@pytest.mark.expensive
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(("algo", "options"), [("ppo_jax", []), ("ppo_jax", ["--vec-env", "subproc"]), ("ppo", [])])
def test_a_signal_from_outside_ends_a_training_with_a_file(name: str, algo: str, options: list[str], tmp_path: Path) -> None:
    """To all processes of the training, as a terminal sends Ctrl-C; in a real training, wherever it happens to be."""
    env_id = ENV if algo == "ppo_jax" else "CartPole-v1"
    settings = SETTINGS if algo == "ppo_jax" else []
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import sbx_flappy.zoo.cli as z; z.main()"
    )
    command = ["train", "--algo", algo, "--env", env_id, *settings, *options, "-n", "1000000", "--eval-freq", "-1"]
    process = start("-c", script, *command, cwd=tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if "total_timesteps" in line:
            break
    os.killpg(process.pid, getattr(signal, name)) if name == "SIGINT" else process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert f"{name}: the training stops after" in output
    file = tmp_path / "logs" / algo / f"{env_id}_1" / f"{env_id}.zip"
    assert file.is_file()
    if algo == "ppo_jax":
        from sbx_flappy import PPO

        assert PPO.load(file).resumption.is_pending == (not options)
        assert ("its environments cannot be reached" in output) == bool(options)
    else:
        assert "Saving to logs/ppo/CartPole-v1_1" in output


# --- the handlers -----------------------------------------------------------------------------------------------------


@pytest.fixture
def handlers() -> Iterator[None]:
    """Python's own handlers, whatever those of whoever runs the tests."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def current_handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def send_to_itself(number: signal.Signals) -> None:
    """Send a signal to this process, and wait for it."""
    os.kill(os.getpid(), number)
    for _ in range(1000):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_raises_and_puts_the_handlers_back(number: signal.Signals, handlers: None) -> None:
    before = current_handlers()
    with Interruption() as interruption:
        assert interruption.received is None
        interruption.check()
        with pytest.raises(KeyboardInterrupt, match=number.name):
            send_to_itself(number)
        assert current_handlers() == before
        assert interruption.received == number.name
        with pytest.raises(KeyboardInterrupt, match=number.name):
            interruption.check()
    assert current_handlers() == before


def test_handlers_are_put_back_without_a_signal_and_ignored_signals_stay_ignored(handlers: None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    before = current_handlers()
    with Interruption() as interruption:
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) == interruption._handle
    assert current_handlers() == before


def test_nothing_happens_in_another_thread(handlers: None) -> None:
    before, seen = current_handlers(), []

    def enter() -> None:
        with Interruption():
            seen.append(current_handlers())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]
