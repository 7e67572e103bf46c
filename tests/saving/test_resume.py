"""
A training that was saved and goes on in another process ends as the one that never stopped, bit by bit.

Run as a module, this file is that other process: it goes on with all trainings that were saved in a folder.
"""

import copy
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from gymnasium.wrappers import TimeAwareObservation, TimeLimit
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    SubprocVecEnv,
    VecEnv,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

from sbx_flappy import PPO, FlappyVecEnv
from sbx_flappy.common.callbacks import ResumableCheckpointCallback
from sbx_flappy.saving.env_state import ResumableEnv, get_env_state, set_env_state
from sbx_flappy.saving.layer_state import copy_plain
from tests.oracle import OBSERVATIONS, RandomEnv, make_env

ROOT = Path(__file__).parents[2]
SCHEDULES = {"learning_rate": LinearSchedule(1e-3, 1e-5, 1.0), "clip_range": LinearSchedule(0.3, 0.1, 1.0)}
FLAPS = {"action_bias_init": [0.0, -2.2]}


class Case(NamedTuple):
    """
    A training.

    :param make_env: makes its environment
    :param kwargs: arguments of PPO
    :param n_iterations: how long it is
    :param policy: its policy
    """

    make_env: Callable[[], VecEnv]
    kwargs: dict[str, Any]
    n_iterations: int = 6
    policy: str = "MlpPolicy"

    @property
    def n_timesteps(self) -> int:
        """Time steps of all iterations."""
        env = self.make_env()
        env.close()
        return env.num_envs * self.kwargs["n_steps"] * self.n_iterations


def flappy(env_id: str = "FlappyBirdFeatures-v0", n_envs: int = 2, **kwargs: Any) -> VecEnv:
    return make_vec_env(env_id, n_envs, vec_env_cls=FlappyVecEnv, **kwargs)


class ClockedCartPole(gym.Wrapper):
    """A wrapper that is not known to the package: a noise of its own from the env's generator, and a count."""

    def reset(self, **kwargs: Any) -> Any:
        result = self.env.reset(**kwargs)
        self.generator = self.unwrapped.np_random  # the same one, so that both draw from one stream
        self.count = 0
        return result

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.count += 1
        return obs, float(reward) + self.generator.normal() + self.count % 3, terminated, truncated, info


MLP = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "seed": 5, **SCHEDULES}
SMALL_CNN = {"features_extractor_kwargs": {"features_dim": 16}}
CASES: dict[str, Case] = {
    "features, FlappyVecEnv, VecNormalize": Case(
        lambda: VecNormalize(flappy(n_envs=8), gamma=0.9), {**MLP, "policy_kwargs": FLAPS, "stats_window_size": 7}
    ),
    "pixels": Case(lambda: flappy("FlappyBird-v0"), {**MLP, "policy_kwargs": SMALL_CNN}, 4, "CnnPolicy"),
    "CartPole, DummyVecEnv": Case(lambda: make_vec_env("CartPole-v1", 4), MLP),
    "CartPole without a monitor": Case(lambda: DummyVecEnv([lambda: gym.make("CartPole-v1")] * 3), {**MLP, "batch_size": 24}),
    "CartPole, VecMonitor, unknown wrapper": Case(
        lambda: VecMonitor(DummyVecEnv([lambda: ClockedCartPole(gym.make("CartPole-v1"))] * 2)), {**MLP, "target_kl": 0.003}
    ),
    "gSDE, Pendulum": Case(
        lambda: make_vec_env("Pendulum-v1", 2, env_kwargs={"max_episode_steps": 30}),
        {**MLP, "use_sde": True, "sde_sample_freq": 4},
    ),
    "VecFrameStack": Case(lambda: VecFrameStack(VecNormalize(flappy(n_envs=4)), 3), {**MLP, "policy_kwargs": FLAPS}),
    "dictionary, VecFrameStack": Case(
        lambda: VecFrameStack(DummyVecEnv([make_dict_env] * 2), 2),
        {**MLP, "n_steps": 8, "batch_size": 8},
        4,
        "MultiInputPolicy",
    ),
}


def make_dict_env() -> gym.Env:
    parts = ("vector", "image")
    space = spaces.Dict({name: copy.deepcopy(OBSERVATIONS[name]) for name in parts})
    return Monitor(RandomEnv(space, spaces.Discrete(3)))


def train(case: Case, callback: Any = None) -> PPO:
    return PPO(case.policy, case.make_env(), **case.kwargs).learn(case.n_timesteps, callback=callback)


def outcome(model: PPO) -> Any:
    """Return all that a training has led to: parameters, optimizer, counters, statistics, generators, environment."""
    optimizer = {
        f"{number} {name}": np.asarray(value)
        for number, entry in model.policy.optimizer.state_dict()["state"].items()
        for name, value in entry.items()
    }
    logged = {name: value for name, value in model.logger.name_to_value.items() if not name.startswith("time/")}
    lr = model.policy.optimizer.param_groups[0]["lr"]
    return simplified([model.policy.parameters_to_vector(), optimizer, lr, logged, model.resumption.get_state(model)])


def simplified(value: Any) -> Any:
    """Return a nest that can be compared: without times, generators and running means as numbers."""
    if isinstance(value, dict):
        timeless = {key: entry for key, entry in value.items() if key not in ("t", "elapsed", "episode_times")}
        return {key: simplified(entry) for key, entry in timeless.items()}
    if isinstance(value, (list, tuple, deque)):
        return [simplified(entry) for entry in value]
    if isinstance(value, np.random.Generator):
        return simplified(value.bit_generator.state)
    return dict(vars(value)) if isinstance(value, RunningMeanStd) else value


def go_on(file: str, case: Case) -> PPO:
    model = PPO.load(file, env=case.make_env())
    assert model.resumption.is_pending
    return model.learn(case.n_timesteps - model.num_timesteps, reset_num_timesteps=False)


def go_on_with_all(folder: str) -> None:
    """Go on with the trainings in a folder, from their second file, and leave what they have led to."""
    for number, case in enumerate(CASES.values()):
        files = sorted(Path(folder, str(number)).glob("*.zip"), key=lambda file: int(file.stem.split("_")[-2]))
        if files:
            with open(Path(folder, str(number), "outcome"), "wb") as file:
                pickle.dump((files[1].name, outcome(go_on(str(files[1]), case))), file)


# --- another process --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what each training led to: one that never stopped, and one that went on in another process."""
    folder = tmp_path_factory.mktemp("resume")
    expected = {}
    for number, (name, case) in enumerate(CASES.items()):
        save = ResumableCheckpointCallback(case.kwargs["n_steps"], str(folder / str(number)))
        expected[name] = outcome(train(case, save))
    command = [sys.executable, "-W", "error", "-m", "tests.saving.test_resume", str(folder)]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert result.returncode == 0, result.stdout
    results = {}
    for number, (name, case) in enumerate(CASES.items()):
        file, went_on = pickle.loads((folder / str(number) / "outcome").read_bytes())
        # The second beginning of an iteration that follows a save
        assert file == f"rl_model_{2 * case.n_timesteps // case.n_iterations}_steps.zip"
        results[name] = went_on, expected[name]
    return results


@pytest.mark.expensive
@pytest.mark.parametrize("name", CASES)
def test_training_that_went_on_in_another_process_ends_as_the_one_that_never_stopped(
    name: str, outcomes: dict[str, Any]
) -> None:
    went_on, expected = outcomes[name]
    np.testing.assert_equal(went_on, expected)
    if "without a monitor" not in name:
        assert len(expected[-1]["attributes"]["ep_info_buffer"]) > 0


# --- this process -----------------------------------------------------------------------------------------------------

CARTPOLE = CASES["CartPole, DummyVecEnv"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of a training of CartPole after three of six iterations, as ``learn`` leaves it."""
    file = tmp_path_factory.mktemp("saved") / "model.zip"
    model = PPO(CARTPOLE.policy, CARTPOLE.make_env(), **CARTPOLE.kwargs)
    model.learn(CARTPOLE.n_timesteps // 2)
    model.save(file, resumable=True)
    return file


class CountResets(gym.Wrapper):
    resets = 0

    def reset(self, **kwargs: Any) -> Any:
        type(self).resets += 1
        return self.env.reset(**kwargs)


@pytest.mark.parametrize("force_reset", [True, False])
def test_nothing_is_reset_whatever_force_reset_says(force_reset: bool, tmp_path: Path) -> None:
    def make() -> VecEnv:
        return DummyVecEnv([lambda: CountResets(gym.make("Pendulum-v1"))])  # episodes of 200 steps

    PPO("MlpPolicy", make(), n_steps=16, batch_size=16, n_epochs=1, seed=0).learn(32).save(tmp_path / "m", resumable=True)
    CountResets.resets = 0
    model = PPO.load(tmp_path / "m", env=make(), force_reset=force_reset)
    model.learn(32, reset_num_timesteps=False)
    assert CountResets.resets == 0
    assert (model.num_timesteps, model._total_timesteps) == (64, 64)
    model.learn(16)
    assert CountResets.resets == 1


def test_saving_does_not_change_the_training_and_files_without_the_state_start_anew(tmp_path: Path) -> None:
    expected = train(CARTPOLE)
    model = train(CARTPOLE, ResumableCheckpointCallback(1, str(tmp_path)))
    np.testing.assert_array_equal(expected.policy.parameters_to_vector(), model.policy.parameters_to_vector())
    model.save(tmp_path / "plain")
    assert not PPO.load(tmp_path / "plain").resumption.is_pending
    assert len(list(tmp_path.glob("rl_model_*_steps.zip"))) == 6


def test_two_calls_of_learn_are_one_and_the_env_may_be_set_afterwards(saved: Path) -> None:
    model = PPO(CARTPOLE.policy, CARTPOLE.make_env(), **CARTPOLE.kwargs)
    half = CARTPOLE.n_timesteps // 2
    model.learn(half).learn(half, reset_num_timesteps=False)
    loaded = PPO.load(saved)
    loaded.set_env(CARTPOLE.make_env())
    loaded.learn(half, reset_num_timesteps=False)
    loaded._num_timesteps_at_start = half  # the beginning of the second call; that of the first where there was but one
    np.testing.assert_equal(outcome(loaded), outcome(model))


def test_time_goes_on(saved: Path) -> None:
    model = PPO.load(saved, env=CARTPOLE.make_env())
    assert model.resumption.pending is not None
    model.resumption.pending["elapsed"] = 1000.0
    model.learn(CARTPOLE.n_timesteps // 2, reset_num_timesteps=False)
    assert 1000 <= model.logger.name_to_value.get("time/time_elapsed", 1000) < 1500
    assert model._num_timesteps_at_start == 0
    env: Any = model.get_env()
    (monitor, *_) = env.envs
    assert monitor.get_episode_times() == sorted(monitor.get_episode_times())


@pytest.mark.parametrize("how", ["reset_num_timesteps", "set_env", "drop_resume_state"])
def test_state_is_dropped_when_something_else_is_asked_for(how: str, saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = PPO.load(saved, env=CARTPOLE.make_env(), verbose=1)
    capsys.readouterr()
    if how == "reset_num_timesteps":
        model.learn(64)
        assert model.num_timesteps == 64
    elif how == "set_env":
        env = model.get_env()
        assert env is not None
        model.set_env(env)
        assert model.resumption.is_pending
        model.set_env(CARTPOLE.make_env())
    else:
        model.drop_resume_state()
    assert not model.resumption.is_pending
    assert ("does not resume where it was saved" in capsys.readouterr().out) == (how != "drop_resume_state")
    model.learn(64, reset_num_timesteps=False)


def test_pending_state_is_saved_again(saved: Path, tmp_path: Path) -> None:
    PPO.load(saved, env=CARTPOLE.make_env()).save(tmp_path / "again", resumable=True)
    half = CARTPOLE.n_timesteps // 2
    first, second = (
        PPO.load(file, env=CARTPOLE.make_env()).learn(half, reset_num_timesteps=False) for file in (saved, tmp_path / "again")
    )
    np.testing.assert_equal(outcome(first), outcome(second))


def test_a_file_of_another_version_is_named(saved: Path) -> None:
    model = PPO.load(saved, env=CARTPOLE.make_env())
    assert model.resumption.pending is not None
    model.resumption.pending["version"] = 99
    with pytest.raises(ValueError, match="version 99"):
        model.learn(64, reset_num_timesteps=False)


class SaveAt(BaseCallback):
    """Saves at one of the hooks."""

    model: PPO

    def __init__(self, hook: str, path: Path) -> None:
        super().__init__()
        self.path = path
        setattr(self, hook, self._save)

    def _save(self) -> bool:
        self.model.save(self.path, resumable=True)
        return True

    def _on_step(self) -> bool:
        return True


@pytest.mark.parametrize("hook", ["_on_step", "_on_rollout_end"])
def test_saving_within_an_iteration_names_the_callback(hook: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ResumableCheckpointCallback"):
        train(CARTPOLE, SaveAt(hook, tmp_path / "model"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("hook", ["_on_training_start", "_on_rollout_start", "_on_training_end"])
def test_saving_between_iterations(hook: str, tmp_path: Path) -> None:
    train(CARTPOLE, SaveAt(hook, tmp_path / "model"))
    assert PPO.load(tmp_path / "model").resumption.is_pending


def test_saving_before_any_training_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="call `learn` first"):
        PPO("MlpPolicy", "CartPole-v1").save(tmp_path / "model", resumable=True)


@pytest.mark.parametrize("at", ["train", "step"])
def test_rewinding_takes_an_interruption_back(at: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from sbx_flappy.common.callbacks import ResumePointCallback

    expected = outcome(train(CARTPOLE))
    point, model = ResumePointCallback(), PPO(CARTPOLE.policy, CARTPOLE.make_env(), **CARTPOLE.kwargs)
    owner, name = (PPO, "_update_policy") if at == "train" else (DummyVecEnv, "step_wait")
    original = getattr(owner, name)
    calls: list[None] = []

    def interrupted(*args: Any) -> Any:
        calls.append(None)
        if len(calls) == (3 if at == "train" else 40):
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(owner, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.learn(CARTPOLE.n_timesteps, callback=point)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="within an iteration"):
        model.resumption.get_state(model)
    assert point.state is not None
    model.resumption.rewind(model, point.state)
    model.save(tmp_path / "model", resumable=True)
    np.testing.assert_equal(outcome(go_on(str(tmp_path / "model"), CARTPOLE)), expected)
    model.learn(CARTPOLE.n_timesteps - model.num_timesteps, reset_num_timesteps=False)
    np.testing.assert_equal(outcome(model), expected)


def test_deterministic_evaluations_do_not_change_the_training(tmp_path: Path) -> None:
    expected = train(CARTPOLE)
    eval_env = make_vec_env("CartPole-v1", 4, seed=9)
    evaluate = EvalCallback(eval_env, eval_freq=10, n_eval_episodes=2, verbose=0, log_path=str(tmp_path))
    model = train(CARTPOLE, evaluate)
    assert len(evaluate.evaluations_timesteps) > 5
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), expected.policy.parameters_to_vector())
    np.testing.assert_equal(outcome(model)[-1], outcome(expected)[-1])


def test_deterministic_predictions_draw_nothing() -> None:
    model = PPO("MlpPolicy", make_env(actions="box"), n_steps=8, batch_size=8, seed=0)
    obs, before = np.zeros((3, 5), np.float32), th.get_rng_state()
    model.predict(obs, deterministic=True)
    model.policy.act(obs, deterministic=True)
    model.policy(th.as_tensor(obs), deterministic=True)
    assert th.equal(th.get_rng_state(), before)
    model.predict(obs, deterministic=False)
    assert not th.equal(th.get_rng_state(), before)


@pytest.mark.parametrize("save_freq", [0, -3])
def test_save_freq_that_is_none(save_freq: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`save_freq` must be at least 1"):
        ResumableCheckpointCallback(save_freq, str(tmp_path))


def test_checkpoints_count_calls_and_are_named_after_time_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Iterations of 16 calls and 64 time steps: 24, 48 and 72 calls are met before the third, fourth and sixth begin."""
    train(CARTPOLE, ResumableCheckpointCallback(24, str(tmp_path / "new" / "folder"), name_prefix="mine", verbose=2))
    names = {file.name for file in (tmp_path / "new" / "folder").iterdir()}
    assert names == {f"mine_{n}_steps.zip" for n in (128, 192, 320, 384)}
    assert capsys.readouterr().out.count("Saving model checkpoint to") == 4


# --- the state of environments ----------------------------------------------------------------------------------------


def play(env: VecEnv, n_steps: int, seed: int = 0) -> list[Any]:
    """Return what some steps with the same actions bring, without the times."""
    rng = np.random.default_rng(seed)
    seen = []
    for _ in range(n_steps):
        if isinstance(env.action_space, spaces.Discrete):
            actions = (rng.random(env.num_envs) < 0.15).astype(np.int64)
        else:
            assert env.action_space.shape is not None
            actions = rng.uniform(-1, 1, (env.num_envs, *env.action_space.shape)).astype(np.float32)
        obs, rewards, dones, infos = copy.deepcopy(env.step(actions))
        seen.append(simplified([obs, rewards.astype(np.float32), dones, list(infos)]))  # SubprocVecEnv's are of float64
    return seen


VEC_ENVS: dict[str, Callable[[], VecEnv]] = {
    **{name: case.make_env for name, case in CASES.items()},
    "TimeAwareObservation": lambda: DummyVecEnv([lambda: TimeAwareObservation(gym.make("Pendulum-v1", max_episode_steps=20))]),
    "pixels alone": lambda: DummyVecEnv([lambda: gym.make("FlappyBird-v1")] * 2),
    "Acrobot": lambda: make_vec_env("Acrobot-v1", 2),
}


@pytest.mark.parametrize("name", VEC_ENVS)
def test_env_goes_on_from_its_state_and_the_state_may_be_used_again(name: str) -> None:
    env = VEC_ENVS[name]()
    env.seed(3)
    env.reset()
    play(env, 37)
    state = get_env_state(env)
    before = simplified(copy.deepcopy(state))
    expected = play(env, 60, seed=1)
    for other in (env, VEC_ENVS[name](), VEC_ENVS[name]()):
        set_env_state(other, state)
        np.testing.assert_equal(play(other, 60, seed=1), expected)
    np.testing.assert_equal(simplified(state), before)


def test_flappy_vec_env_and_dummy_vec_env_take_over_each_others_state() -> None:
    first, second = flappy(n_envs=3, seed=2), make_vec_env("FlappyBirdFeatures-v0", 3)
    first.reset()
    play(first, 20)
    for source, target in ((first, second), (second, first)):
        set_env_state(target, get_env_state(source))
        np.testing.assert_equal(play(target, 40), play(source, 40))


@pytest.mark.expensive
def test_env_in_other_processes_is_reached_through_a_wrapper() -> None:
    kwargs: dict[str, Any] = {"vec_env_cls": SubprocVecEnv, "wrapper_class": ResumableEnv}
    remote, local = make_vec_env("FlappyBirdFeatures-v0", 2, seed=4, **kwargs), flappy(n_envs=2)
    remote.reset()
    play(remote, 20)
    for source, target in ((remote, local), (local, remote)):
        set_env_state(target, get_env_state(source))
        np.testing.assert_equal(play(target, 30), play(source, 30))
    remote.close()


@pytest.mark.expensive
def test_subproc_vec_env_is_named_with_what_to_use() -> None:
    env = make_vec_env("CartPole-v1", 1, vec_env_cls=SubprocVecEnv)
    with pytest.raises(ValueError, match=r"SubprocVecEnv cannot be saved.*DummyVecEnv, FlappyVecEnv.*ResumableEnv"):
        get_env_state(env)
    env.close()


@pytest.mark.parametrize(
    ("make_other", "words"),
    [
        (lambda: make_vec_env("CartPole-v1", 3), "Now:   3 Monitor of"),
        (lambda: VecNormalize(make_vec_env("CartPole-v1", 2)), "Now:   VecNormalize of 2 Monitor"),
        (lambda: DummyVecEnv([lambda: gym.make("CartPole-v1")] * 2), "Now:   2 TimeLimit of OrderEnforcing"),
        (lambda: make_vec_env("Acrobot-v1", 2), "PassiveEnvChecker of AcrobotEnv"),
    ],
)
def test_state_of_another_environment_is_refused(make_other: Callable[[], VecEnv], words: str) -> None:
    env = make_vec_env("CartPole-v1", 2, seed=0)
    env.reset()
    other = make_other()
    with pytest.raises(ValueError, match="training belongs to another environment") as caught:
        set_env_state(other, get_env_state(env))
    assert words in str(caught.value)
    assert "Saved: 2 Monitor of TimeLimit of OrderEnforcing of PassiveEnvChecker of CartPoleEnv" in str(caught.value)


def test_learning_on_with_another_number_of_envs_is_refused_before_anything_changes(saved: Path) -> None:
    model = PPO.load(saved, env=make_vec_env("CartPole-v1", 2))
    for _ in range(2):
        with pytest.raises(ValueError, match="training belongs to another environment"):
            model.learn(64, reset_num_timesteps=False)
    model.drop_resume_state()
    model.learn(64, reset_num_timesteps=False)


class Holder(RandomEnv):
    """An env with something that is not plain."""

    def __init__(self, held: Any) -> None:
        super().__init__(copy.deepcopy(OBSERVATIONS["vector"]), spaces.Discrete(3))
        self.held = held


@pytest.mark.parametrize(
    "held", [object(), {1, 2}, [object()], {"a": np.array([None])}, th.zeros(1), np.random.RandomState(0)]
)
def test_what_is_not_plain_is_named(held: Any, tmp_path: Path) -> None:
    model = PPO("MlpPolicy", Holder(held), n_steps=8, batch_size=8)
    with pytest.raises(ValueError, match=r"Holder.held is of <class"):
        model.learn(8, callback=ResumableCheckpointCallback(1, str(tmp_path)))


class SaysItself(Holder):
    """An env that keeps something which is not plain, and says what its state is."""

    def __init__(self) -> None:
        super().__init__(object())
        self.total = 0.0

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        self.total += reward
        return obs, self.total, terminated, truncated, info

    def get_state(self) -> dict[str, Any]:
        return {"total": self.total}

    def set_state(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


def test_env_may_say_itself_what_its_state_is() -> None:
    envs = [DummyVecEnv([SaysItself]) for _ in range(2)]
    envs[0].seed(1)
    envs[0].reset()
    play(envs[0], 10)
    set_env_state(envs[1], get_env_state(envs[0]))
    np.testing.assert_equal(play(envs[1], 50), play(envs[0], 50))


def test_upstreams_engine_is_named() -> None:
    env = make_vec_env("FlappyBirdFeatures-v0", 1, env_kwargs={"engine": "pygame"})
    env.reset()
    with pytest.raises(ValueError, match="FlappyBirdEnv: Only engine='native' can save"):
        get_env_state(env)


def test_rl_zoos_time_limit_counts_as_gymnasiums(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gym.wrappers, gym.wrappers.common, gym.envs.registration):
        monkeypatch.setattr(module, "TimeLimit", TimeLimit, raising=False)  # the import replaces them: here for this test
    from rl_zoo3.gym_patches import PatchedTimeLimit

    first, second = (DummyVecEnv([partial(limit, Holder(1), 30)]) for limit in (TimeLimit, PatchedTimeLimit))
    first.seed(0)
    first.reset()
    play(first, 10)
    set_env_state(second, get_env_state(first))
    limit, other_limit = (cast(Any, env.envs[0]) for env in (first, second))
    assert other_limit._elapsed_steps == limit._elapsed_steps > 0


def test_a_copy_keeps_what_containers_are() -> None:
    value = {"a": deque([1.0, 2], maxlen=2), "b": (1, [None, "x"], b"y"), "c": np.float32(3), "d": np.arange(3), "e": [True]}
    copied = copy_plain(value, "it")
    np.testing.assert_equal(copied, value)
    assert [type(entry) for entry in copied.values()] == [type(entry) for entry in value.values()]
    assert copied["a"].maxlen == 2
    assert copied["a"] is not value["a"]
    assert copied["d"] is not value["d"]
    assert copied["e"] is not value["e"]


if __name__ == "__main__":
    go_on_with_all(sys.argv[1])
