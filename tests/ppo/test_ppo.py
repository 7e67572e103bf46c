"""The loop of PPO, its hooks and its logs are those of torch SB3."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import jax
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer as TorchRolloutBuffer
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger, configure
from stable_baselines3.common.monitor import Monitor, load_results
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from sbx_flappy import PPO
from sbx_flappy.common.buffers import RolloutBuffer, draw_order, to_rollout
from tests.compilation import compilations
from tests.oracle import ACTIONS, OBSERVATIONS, RandomEnv, make_env, policy_for

#: T = 24 and N = 2: 48 samples in 3 minibatches of 16
KWARGS: dict[str, Any] = {"n_steps": 24, "batch_size": 16, "n_epochs": 3, "gamma": 0.9, "gae_lambda": 0.8, "seed": 1}
ROLLOUT = 48
#: Of this seed alone our PPO and torch SB3's make the same of the environments' seeds
SAME_GAMES: dict[str, Any] = {"seed": 0}
ALGORITHMS = [PPO, sb3.PPO]


class MonitoredEnv(RandomEnv):
    """Rewards, lengths and successes of its episodes depend on its seed alone, so that every algorithm meets the same."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, {**info, "is_success": reward > 0}


def make_monitored(observations: str = "vector", actions: str = "discrete", n_envs: int = 2) -> DummyVecEnv:
    def make() -> gym.Env:
        return Monitor(MonitoredEnv(OBSERVATIONS[observations], ACTIONS[actions]))

    env = DummyVecEnv([make for _ in range(n_envs)])
    env.seed(0)
    return env


def make_model(algorithm: Any = PPO, env: Any = None, observations: str = "vector", **kwargs: Any) -> Any:
    """Return a model of one of the algorithms, by default in an environment that monitors its episodes."""
    env = make_monitored(observations) if env is None else env
    return algorithm(policy_for(observations), env, device="cpu", **{**KWARGS, **kwargs})


class Dumps(KVWriter):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []
        self.excluded: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.values.append(dict(key_values))
        self.excluded.append(dict(key_excluded))

    def close(self) -> None:
        pass


def learn_and_log(algorithm: Any, total_timesteps: int, **kwargs: Any) -> list[dict[str, Any]]:
    """Return what a new model logs while it learns."""
    dumps = Dumps()
    model = make_model(algorithm, **kwargs)
    model.set_logger(Logger(folder=None, output_formats=[dumps]))
    model.learn(total_timesteps)
    return dumps.values


class Recorder(BaseCallback):
    """Notes the order of the hooks, and calls a function with the locals of each step and of the end of each rollout."""

    def __init__(self, see: Callable[[str, dict[str, Any]], Any] = lambda hook, names: None, stop_at: int = -1) -> None:
        super().__init__()
        self.hooks: list[tuple[str, int, int]] = []
        self.see, self.stop_at = see, stop_at

    def _note(self, hook: str) -> None:
        self.hooks.append((hook, self.num_timesteps, self.model.num_timesteps))

    def _init_callback(self) -> None:
        self._note("init")

    def _on_training_start(self) -> None:
        assert {"self", "total_timesteps", "callback", "log_interval", "tb_log_name", "progress_bar"} <= set(self.locals)
        self._note("training_start")

    def _on_rollout_start(self) -> None:
        self._note("rollout_start")

    def _on_step(self) -> bool:
        self._note("step")
        self.see("step", self.locals)
        return len([hook for hook in self.hooks if hook[0] == "step"]) != self.stop_at

    def _on_rollout_end(self) -> None:
        self._note("rollout_end")
        self.see("rollout_end", self.locals)

    def _on_training_end(self) -> None:
        self._note("training_end")


# --- the interface ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["__init__", "learn", "predict", "save", "load", "set_parameters", "set_env", "set_logger"])
def test_signature_is_that_of_sb3(method: str) -> None:
    ours, theirs = (
        [(p.name, p.default, p.kind) for p in inspect.signature(getattr(algorithm, method)).parameters.values()]
        for algorithm in ALGORITHMS
    )
    added = {"save": {"resumable", "as_torch"}, "load": {"safe"}}.get(method, set())
    assert added == {name for name, default, _ in ours if name in added and default is False}
    assert [parameter for parameter in ours if parameter[0] not in added] == theirs


def test_what_the_constructor_prints_is_what_sb3_prints(capsys: pytest.CaptureFixture[str]) -> None:
    words = []
    for algorithm in ALGORITHMS:
        env = RandomEnv(OBSERVATIONS["vector"], ACTIONS["discrete"])
        algorithm("MlpPolicy", env, verbose=1, device="cpu", n_steps=32, batch_size=16)
        words.append(capsys.readouterr().out)
    assert words[0] == words[1]
    assert "Using cpu device" in words[0]


@pytest.mark.fault(10)
def test_ragged_minibatch_warns_as_sb3_does() -> None:
    messages = []
    for algorithm in ALGORITHMS:
        with pytest.warns(UserWarning, match="there will be a truncated mini-batch of size 8") as caught:
            make_model(algorithm, batch_size=20)
        messages.append(str(caught[0].message))
    assert messages[0] == messages[1]


def test_model_is_an_sb3_ppo() -> None:
    assert issubclass(PPO, sb3.PPO)


@pytest.mark.parametrize("device", ["auto", "cpu", "cpu:0", "cuda", th.device("cpu"), jax.local_devices(backend="cpu")[0]])
def test_device_may_be_a_name_or_torchs_or_jaxs(device: Any) -> None:
    model = PPO("MlpPolicy", make_env(), device=device, **KWARGS)
    assert isinstance(model.device, th.device)
    if jax.default_backend() == "cpu":
        assert model.device == th.device("cpu")


# --- rollouts ---------------------------------------------------------------------------------------------------------


def collect(model: PPO, callback: BaseCallback) -> None:
    """Fill the model's rollout buffer."""
    model.set_logger(Logger(folder=None, output_formats=[]))
    _, callback = model._setup_learn(10_000, callback)
    assert model.env is not None
    assert model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)


@pytest.mark.fault(1)
@pytest.mark.parametrize("observations", ["vector", "image", "dict"])
def test_time_limit_adds_the_discounted_value_of_the_last_observation_and_death_does_not(observations: str) -> None:
    expected: list[np.ndarray] = []
    counts = {"truncated": 0, "terminated": 0}

    def see(hook: str, names: dict[str, Any]) -> None:
        if hook == "rollout_end":
            return
        rewards = names["rewards"].astype(np.float64)
        for i, (done, info) in enumerate(zip(names["dones"], names["infos"], strict=True)):
            if done and info["TimeLimit.truncated"]:
                obs, _ = model.policy.obs_to_tensor(info["terminal_observation"])
                rewards[i] += 0.9 * model.policy.predict_values(obs).item()
            counts["truncated" if done and info["TimeLimit.truncated"] else "terminated"] += int(done)
        expected.append(rewards)

    env = DummyVecEnv([lambda: RandomEnv(OBSERVATIONS[observations], ACTIONS["discrete"], truncate=0.3)] * 2)
    model = make_model(env=env, observations=observations)
    collect(model, Recorder(see))
    assert min(counts.values()) > 0
    np.testing.assert_allclose(model.rollout_buffer.rewards, np.array(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.fault(2)
@pytest.mark.parametrize("cause", ["truncated", "terminated"])
def test_a_time_limit_cuts_the_trace_of_advantages_as_death_does(cause: str) -> None:
    class EndsEvery5Steps(RandomEnv):
        n_played = 0

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            obs, reward, _, _, info = super().step(action)
            self.n_played += 1
            is_over = self.n_played % 5 == 0
            return obs, reward, is_over and cause == "terminated", is_over and cause == "truncated", info

    model = make_model(env=DummyVecEnv([lambda: EndsEvery5Steps(OBSERVATIONS["vector"], ACTIONS["discrete"])] * 2))
    collect(model, Recorder())
    buffer = model.rollout_buffer
    # The last step of an episode counts its own reward alone, which holds the value of what a time limit hides ...
    last = np.arange(4, 24, 5)
    np.testing.assert_allclose(buffer.advantages[last], buffer.rewards[last] - buffer.values[last], rtol=1e-5, atol=1e-6)
    # ... and the step before adds 0.9 * 0.8 of that
    before = last - 1
    deltas = buffer.rewards[before] + 0.9 * buffer.values[last] - buffer.values[before]
    np.testing.assert_allclose(buffer.advantages[before], deltas + 0.72 * buffer.advantages[last], rtol=1e-5, atol=1e-6)


@pytest.mark.fault(3)
def test_unfinished_rollout_ends_with_the_value_of_the_next_observation() -> None:
    model = make_model(env=make_monitored(n_envs=8))
    collect(model, Recorder())
    buffer = model.rollout_buffer
    assert 0 < model._last_episode_starts.sum() < 8  # some of the episodes end with the rollout, some go on
    values = model.policy.predict_values(model._last_obs)[:, 0]
    # The last advantage has no later one to add: r + gamma * V(s') * (1 - done) - V(s)
    expected = buffer.rewards[-1] + 0.9 * values * (1.0 - model._last_episode_starts) - buffer.values[-1]
    np.testing.assert_allclose(buffer.advantages[-1], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(buffer.returns, buffer.advantages + buffer.values, rtol=1e-6)


def test_rollout_keeps_what_was_seen_and_done() -> None:
    seen: dict[str, list[Any]] = {"obs_tensor": [], "values": [], "log_probs": [], "actions": []}

    def see(hook: str, names: dict[str, Any]) -> None:
        for name in seen if hook == "step" else ():
            seen[name].append(names[name].numpy() if isinstance(names[name], th.Tensor) else names[name])

    model = make_model()
    collect(model, Recorder(see))
    buffer = model.rollout_buffer
    np.testing.assert_array_equal(buffer.observations, np.array(seen["obs_tensor"]))
    np.testing.assert_array_equal(buffer.actions[..., 0], np.array(seen["actions"]))
    np.testing.assert_array_equal(buffer.values, np.array(seen["values"])[..., 0])
    np.testing.assert_array_equal(buffer.log_probs, np.array(seen["log_probs"]))
    # ... and the stored log-probabilities are those of the stored actions
    for t in range(model.n_steps):
        _, log_probs, _ = model.policy.evaluate_actions(buffer.observations[t], buffer.actions[t, :, 0])
        np.testing.assert_allclose(buffer.log_probs[t], log_probs, rtol=1e-5, atol=1e-6)


def test_images_stay_uint8_in_the_buffer() -> None:
    model = make_model(observations="image")
    assert model.rollout_buffer.observations.dtype == np.uint8
    assert to_rollout(model.rollout_buffer, model.action_space).observations.dtype == np.uint8


class RecordActions(RandomEnv):
    """Keeps the actions that it is given."""

    def __init__(self, actions: list[np.ndarray]) -> None:
        super().__init__(OBSERVATIONS["vector"], ACTIONS["box"])
        self.actions = actions

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(np.array(action))
        return super().step(action)


@pytest.mark.fault(17)
@pytest.mark.parametrize("squash_output", [False, True])
def test_box_actions_are_stored_as_sampled_and_stepped_within_bounds(squash_output: bool) -> None:
    stepped: list[np.ndarray] = []
    env = DummyVecEnv([lambda: RecordActions(stepped)] * 2)
    kwargs: dict[str, Any] = {"use_sde": True, "policy_kwargs": {"squash_output": True}} if squash_output else {}
    model = make_model(env=env, **kwargs)
    collect(model, Recorder())
    stored, space = model.rollout_buffer.actions, ACTIONS["box"]
    assert isinstance(space, spaces.Box)
    if squash_output:
        assert np.abs(stored).max() <= 1.0
        expected = space.low + 0.5 * (stored + 1.0) * (space.high - space.low)
    else:
        assert np.any(stored > space.high)
        assert np.any(stored < space.low)
        expected = np.clip(stored, space.low, space.high)
    np.testing.assert_allclose(np.array(stepped).reshape(24, 2, 2), expected, rtol=1e-6)


# Once at the start of the rollout, and before the steps 0, 5, 10, 15 and 20
@pytest.mark.fault(20)
@pytest.mark.parametrize(("frequency", "n_resets"), [(-1, 1), (0, 1), (5, 6)])
def test_sde_noise_is_sampled_every_n_steps(frequency: int, n_resets: int) -> None:
    for algorithm in ALGORITHMS:
        model = make_model(algorithm, make_env(actions="box"), use_sde=True, sde_sample_freq=frequency)
        reset_noise = model.policy.reset_noise
        calls: list[int] = []
        model.policy.reset_noise = lambda n, reset=reset_noise, calls=calls: (calls.append(n), reset(n))
        collect(model, Recorder())
        assert calls == [2] * n_resets


# --- the order of the samples -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("was_read", [False, True])
def test_order_of_the_samples_is_that_of_sb3s_buffer(was_read: bool) -> None:
    env = make_env(n_envs=3)
    buffer = RolloutBuffer(7, env.observation_space, env.action_space, n_envs=3)
    buffer.values = np.arange(21, dtype=np.float32).reshape(7, 3)
    buffer.full = True
    if was_read:
        next(buffer.get(5))
    np.random.seed(5)
    order = draw_order(buffer)
    np.random.seed(5)
    theirs = TorchRolloutBuffer(7, env.observation_space, env.action_space, device="cpu", n_envs=3)
    theirs.values, theirs.full = np.arange(21, dtype=np.float32).reshape(7, 3), True
    expected = np.concatenate([samples.old_values.numpy() for samples in theirs.get(5)])
    np.testing.assert_array_equal(to_rollout(buffer, env.action_space).old_values[order], expected)


@pytest.mark.fault(4)
def test_every_sample_counts_once_per_epoch() -> None:
    model = make_model()
    collect(model, Recorder())
    orders = np.array([draw_order(model.rollout_buffer) for _ in range(3)])
    np.testing.assert_array_equal(np.sort(orders), np.tile(np.arange(ROLLOUT), (3, 1)))
    assert not np.array_equal(orders[0], orders[1])
    # What they count is the buffer, along environments first
    flat = to_rollout(model.rollout_buffer, model.action_space)
    np.testing.assert_array_equal(flat.observations.reshape(24, 2, 5), model.rollout_buffer.observations)


# --- schedules --------------------------------------------------------------------------------------------------------


@pytest.mark.fault(11)
def test_schedules_are_read_once_per_rollout_at_the_progress_that_remains() -> None:
    schedules = {
        "learning_rate": LinearSchedule(1e-3, 1e-4, 1.0),
        "clip_range": lambda progress: 0.1 + progress,
        "clip_range_vf": lambda progress: 0.2 + progress,
    }
    ours, theirs = (learn_and_log(algorithm, 4 * ROLLOUT, **schedules) for algorithm in ALGORITHMS)
    # A dump shows the update before it: after k of 4 rollouts, 1 - k / 4 remains
    for k, values in enumerate(ours[1:], start=1):
        assert values["train/learning_rate"] == pytest.approx(1e-3 - k / 4 * 9e-4)
        assert values["train/clip_range"] == pytest.approx(1.1 - k / 4)
        assert values["train/clip_range_vf"] == pytest.approx(1.2 - k / 4)
    for name in ("train/learning_rate", "train/clip_range", "train/clip_range_vf"):
        assert [values[name] for values in ours[1:]] == [values[name] for values in theirs[1:]]
    assert len(ours) == 4


@pytest.mark.fault(11, 12)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_progress_of_several_short_runs_and_of_an_overshoot(algorithm: Any) -> None:
    progress: list[float] = []

    def clip_range(remaining: float) -> float:
        progress.append(remaining)
        return 0.2

    model = make_model(algorithm, clip_range=clip_range)
    model.learn(2 * ROLLOUT)  # 1 - 48/96, 1 - 96/96
    model.learn(ROLLOUT, reset_num_timesteps=False)  # 144 in all: 1 - 144/144
    model.learn(100, reset_num_timesteps=False)  # 244 in all: 1 - 192/244, 1 - 240/244, and 288 overshoot
    assert model.num_timesteps == 288
    np.testing.assert_allclose(progress, [0.5, 0.0, 0.0, 1 - 192 / 244, 1 - 240 / 244, 1 - 288 / 244])
    progress.clear()
    model.learn(ROLLOUT)
    assert (model.num_timesteps, progress) == (ROLLOUT, [0.0])


@pytest.mark.fault(11)
def test_optimizer_holds_the_scheduled_learning_rate() -> None:
    model = make_model(learning_rate=lambda remaining: 1e-3 * remaining).learn(2 * ROLLOUT)
    assert model.policy.optimizer.param_groups[0]["lr"] == 0.0
    before = model.policy.parameters_to_vector()
    model.train()  # at a learning rate of zero nothing moves
    np.testing.assert_array_equal(before, model.policy.parameters_to_vector())


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.fault(14, 33)
@pytest.mark.parametrize(("actions", "kwargs"), [("discrete", {"clip_range_vf": 0.5}), ("box", {"use_sde": True})])
def test_keys_order_and_types_of_the_log_are_those_of_sb3(actions: str, kwargs: dict[str, Any]) -> None:
    ours, theirs = (
        learn_and_log(algorithm, 3 * ROLLOUT, env=make_monitored(actions=actions), **SAME_GAMES, **kwargs)
        for algorithm in ALGORITHMS
    )
    assert len(ours) == len(theirs) == 3
    for our_values, their_values in zip(ours, theirs, strict=True):
        assert list(our_values) == list(their_values)
        for key, value in their_values.items():
            kind = int if isinstance(value, int) else float
            assert isinstance(our_values[key], kind), key
        # What the environments alone decide
        for key in ("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/success_rate", "time/total_timesteps"):
            assert our_values[key] == their_values[key]
    assert {"train/std"} & set(ours[1]) == ({"train/std"} if actions == "box" else set())


def test_excluded_from_tensorboard_is_what_sb3_excludes() -> None:
    excluded = []
    for algorithm in ALGORITHMS:
        dumps = Dumps()
        model = make_model(algorithm)
        model.set_logger(Logger(folder=None, output_formats=[dumps]))
        model.learn(2 * ROLLOUT)
        excluded.append(dumps.excluded)
    assert excluded[0] == excluded[1]


def test_progress_csv_has_the_columns_of_sb3(tmp_path: Path) -> None:
    headers = []
    for algorithm in ALGORITHMS:
        model = make_model(algorithm)
        model.set_logger(configure(str(tmp_path / algorithm.__module__), ["csv"]))
        model.learn(2 * ROLLOUT)
        model.logger.close()
        headers.append((tmp_path / algorithm.__module__ / "progress.csv").read_text().splitlines()[0])
    assert headers[0] == headers[1]
    assert "rollout/success_rate" in headers[0]


def test_console_shows_the_table_of_sb3(capsys: pytest.CaptureFixture[str]) -> None:
    tables = []
    for algorithm in ALGORITHMS:
        make_model(algorithm, verbose=1).learn(2 * ROLLOUT)
        lines = capsys.readouterr().out.splitlines()
        tables.append([line.split("|")[1].strip() for line in lines if line.startswith("|")])
    assert tables[0] == tables[1]
    assert "ep_rew_mean" in tables[0]


@pytest.mark.parametrize(("log_interval", "n_dumps"), [(1, 4), (2, 2), (3, 1), (None, 0)])
def test_log_interval_counts_rollouts(log_interval: int | None, n_dumps: int) -> None:
    dumps = Dumps()
    model = make_model()
    model.set_logger(Logger(folder=None, output_formats=[dumps]))
    model.learn(4 * ROLLOUT, log_interval=log_interval)
    assert len(dumps.values) == n_dumps


def test_tensorboard_has_the_folders_and_tags_of_sb3(tmp_path: Path) -> None:
    tags = []
    for algorithm in ALGORITHMS:
        folder = tmp_path / algorithm.__module__
        model = make_model(algorithm, tensorboard_log=str(folder))
        model.learn(2 * ROLLOUT)
        model.learn(ROLLOUT, reset_num_timesteps=False)
        model.learn(ROLLOUT, tb_log_name="other")
        model.logger.close()
        assert sorted(path.name for path in folder.iterdir()) == ["PPO_1", "other_1"]
        events = EventAccumulator(str(folder / "PPO_1")).Reload()
        tags.append({tag: [event.step for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]})
    assert tags[0] == tags[1]
    assert "train/loss" in tags[0]


@pytest.mark.fault(33)
def test_buffers_of_episodes_are_those_of_sb3() -> None:
    buffers = []
    for algorithm in ALGORITHMS:
        model = make_model(algorithm, stats_window_size=5, **SAME_GAMES).learn(2 * ROLLOUT)
        buffers.append(([(info["r"], info["l"]) for info in model.ep_info_buffer], list(model.ep_success_buffer)))
    assert buffers[0] == buffers[1]
    assert len(buffers[0][0]) == len(buffers[0][1]) == 5


def test_monitor_writes_every_episode(tmp_path: Path) -> None:
    env = make_vec_env(
        lambda: RandomEnv(OBSERVATIONS["vector"], ACTIONS["discrete"]), n_envs=2, seed=0, monitor_dir=str(tmp_path)
    )
    model = make_model(env=env, stats_window_size=1000).learn(2 * ROLLOUT)
    env.close()
    results = load_results(str(tmp_path))
    assert sorted(results["l"]) == sorted(info["l"] for info in model.ep_info_buffer)
    assert len(results) > 5


# --- callbacks --------------------------------------------------------------------------------------------------------


@pytest.mark.fault(32)
@pytest.mark.parametrize(("actions", "kwargs"), [("discrete", {}), ("box", {"use_sde": True})])
def test_locals_have_the_names_and_types_of_sb3(actions: str, kwargs: dict[str, Any]) -> None:
    seen: list[list[dict[str, type]]] = []
    for algorithm in ALGORITHMS:
        types: list[dict[str, type]] = []

        def see(hook: str, names: dict[str, Any], types: list[dict[str, type]] = types) -> None:
            types.append({name: type(value) for name, value in names.items()})

        make_model(algorithm, make_env(actions=actions), **SAME_GAMES, **kwargs).learn(ROLLOUT, callback=Recorder(see))
        seen.append(types)
    assert len(seen[0]) == len(seen[1]) == 24 + 1
    own = {"self", "callback", "rollout_buffer", "env"}
    for ours, theirs in zip(*seen, strict=True):
        assert set(theirs) <= set(ours)
        assert {name: ours[name] for name in set(theirs) - own} == {name: theirs[name] for name in set(theirs) - own}
    assert {"idx", "done", "terminal_obs", "terminal_value"} <= set(seen[0][-1])


@pytest.mark.fault(32)
def test_locals_are_fresh_at_the_end_of_a_rollout() -> None:
    ends = []

    def see(hook: str, names: dict[str, Any]) -> None:
        if hook == "step":
            return
        model = names["self"]
        values = model.policy.predict_values(th.as_tensor(names["new_obs"]))
        np.testing.assert_allclose(names["values"].numpy(), values.numpy(), rtol=1e-6)
        np.testing.assert_array_equal(names["new_obs"], model._last_obs)
        np.testing.assert_array_equal(names["dones"], model._last_episode_starts)
        assert names["n_steps"] == names["n_rollout_steps"] == 24
        assert names["rollout_buffer"].full
        assert np.any(names["rollout_buffer"].advantages != 0)
        ends.append(names["new_obs"].copy())

    make_model().learn(2 * ROLLOUT, callback=Recorder(see))
    assert len(ends) == 2
    assert not np.array_equal(*ends)


def test_hooks_come_in_the_order_of_sb3() -> None:
    orders = []
    for algorithm in ALGORITHMS:
        recorder = Recorder()
        model = make_model(algorithm)
        model.train = lambda model=model, recorder=recorder, train=model.train: (recorder._note("train"), train())
        model.learn(ROLLOUT + 1, callback=[recorder])
        model.learn(ROLLOUT, callback=CallbackList([recorder]), reset_num_timesteps=False)
        orders.append(recorder.hooks)
    assert orders[0] == orders[1]
    names = [hook for hook, *_ in orders[0]]
    start, rollout = ["init", "training_start"], ["rollout_start", *["step"] * 24, "rollout_end", "train"]
    assert names == [*start, *rollout, *rollout, "training_end", *start, *rollout, "training_end"]


@pytest.mark.fault(32)
def test_step_that_returns_false_stops_the_training() -> None:
    states = []
    for algorithm in ALGORITHMS:
        recorder = Recorder(stop_at=30)
        model = make_model(algorithm).learn(10 * ROLLOUT, callback=recorder)
        states.append((recorder.hooks, model.num_timesteps, model._n_updates, model.rollout_buffer.pos))
    assert states[0] == states[1]
    # Stopped in the second rollout, at its sixth step, after one update of three epochs
    assert states[0][1:] == (60, 3, 5)


def test_function_is_a_callback() -> None:
    steps: list[int] = []

    def note_steps(names: dict[str, Any], _globals: dict[str, Any]) -> bool:
        steps.append(names["n_steps"])
        return True

    make_model().learn(ROLLOUT, callback=note_steps)
    assert steps == list(range(24))


class AsTorchCodeDoes(BaseCallback):
    """Uses the policy as callbacks written for torch SB3 do."""

    model: PPO
    seen = 0

    def _on_step(self) -> bool:
        policy, obs = self.model.policy, self.locals["obs_tensor"]
        with th.no_grad():
            values = policy.predict_values(obs)
            categorical: Any = policy.get_distribution(obs).distribution
            probabilities = categorical.probs
            _, log_probs, entropy = policy.evaluate_actions(obs, th.as_tensor(self.locals["actions"]))
        th.testing.assert_close(values, self.locals["values"])
        th.testing.assert_close(log_probs, self.locals["log_probs"])
        th.testing.assert_close(probabilities.sum(dim=1), th.ones(2))
        assert entropy is not None
        assert entropy.shape == (2,)
        assert policy.device == th.device("cpu")
        self.logger.record("mine/value", values.mean().item())
        self.seen += 1
        return True

    def _on_rollout_end(self) -> None:
        policy = self.model.policy
        policy.set_training_mode(False)
        obs, _ = policy.obs_to_tensor(self.model.rollout_buffer.observations[3])
        th.testing.assert_close(policy.predict_values(obs)[:, 0], th.as_tensor(self.model.rollout_buffer.values[3]))
        assert all(name.split(".")[-1] in ("weight", "bias") for name, _ in policy.named_parameters())
        assert self.training_env.num_envs == 2


@pytest.mark.fault(25)
def test_callbacks_written_for_torch_work() -> None:
    callback = AsTorchCodeDoes()
    make_model().learn(ROLLOUT, callback=callback)
    assert callback.seen == 24


def test_eval_and_checkpoint_callbacks(tmp_path: Path) -> None:
    results = []
    for algorithm in ALGORITHMS:
        folder = tmp_path / algorithm.__module__
        stop = StopTrainingOnRewardThreshold(reward_threshold=1e9)
        evaluate = EvalCallback(
            make_monitored(n_envs=1),
            callback_on_new_best=stop,
            n_eval_episodes=2,
            eval_freq=12,
            log_path=str(folder),
            best_model_save_path=str(folder),
            verbose=0,
        )
        callbacks = [evaluate, CheckpointCallback(12, str(folder), name_prefix="step")]
        make_model(algorithm).learn(ROLLOUT, callback=callbacks)
        assert np.isfinite(evaluate.last_mean_reward)
        with np.load(folder / "evaluations.npz") as file:
            results.append({name: file[name].tolist() for name in file.files})
        assert sorted(path.name for path in folder.iterdir()) == [
            *("best_model.zip", "evaluations.npz", "step_24_steps.zip", "step_48_steps.zip")
        ]
    assert results[0] == results[1]  # the environment alone decides
    loaded = PPO.load(tmp_path / PPO.__module__ / "best_model.zip")
    assert loaded.predict(np.zeros(5, np.float32))[0].shape == ()


def test_reward_threshold_stops_the_training() -> None:
    stop = StopTrainingOnRewardThreshold(reward_threshold=-1e9)
    evaluate = EvalCallback(make_monitored(n_envs=1), callback_on_new_best=stop, n_eval_episodes=1, eval_freq=7, verbose=0)
    assert make_model().learn(10 * ROLLOUT, callback=evaluate).num_timesteps == 14


def test_every_n_timesteps() -> None:
    recorder = Recorder()
    make_model().learn(ROLLOUT, callback=EveryNTimesteps(n_steps=20, callback=recorder))
    assert [steps for hook, steps, _ in recorder.hooks if hook == "step"] == [20, 40]


@pytest.mark.filterwarnings("ignore:rich is experimental")
def test_progress_bar_counts_the_time_steps(capsys: pytest.CaptureFixture[str]) -> None:
    make_model().learn(ROLLOUT, progress_bar=True)
    assert "48/48" in "".join(capsys.readouterr())


# --- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.fault(10)
@pytest.mark.parametrize(
    ("observations", "kwargs"),
    [
        ("vector", {"learning_rate": LinearSchedule(1e-3, 1e-5, 1.0), "clip_range": LinearSchedule(0.3, 0.1, 1.0)}),
        ("image", {"learning_rate": LinearSchedule(1e-3, 1e-5, 1.0)}),
        ("dict", {"clip_range": LinearSchedule(0.3, 0.1, 1.0)}),
        ("vector", {"batch_size": 20}),
        ("image", {"batch_size": 20}),
    ],
)
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size of 20:UserWarning")
def test_nothing_is_compiled_after_the_first_iteration_nor_for_an_equal_model(
    observations: str, kwargs: dict[str, Any]
) -> None:
    model = make_model(observations=observations, **kwargs)
    model.learn(ROLLOUT)
    model.predict(model.observation_space.sample())
    with compilations() as compiled:
        model.learn(3 * ROLLOUT)
        model.predict(model.observation_space.sample(), deterministic=False)
        second = make_model(observations=observations, **{**kwargs, "seed": 7})
        second.learn(2 * ROLLOUT)
        second.predict(second.observation_space.sample())
    assert compiled == []


# --- chance -----------------------------------------------------------------------------------------------------------


def test_set_random_seed_makes_stochastic_actions_repeatable() -> None:
    model = make_model(env=make_env(actions="box"))
    obs = np.zeros((3, 5), np.float32)
    draws = []
    for seed in (5, 5, 6):
        model.set_random_seed(seed)
        draws.append(np.array([model.predict(obs)[0] for _ in range(3)]))
    np.testing.assert_array_equal(draws[0], draws[1])
    space = ACTIONS["box"]
    assert isinstance(space, spaces.Box)
    inside = (draws[0] > space.low) & (draws[0] < space.high)
    assert np.all(draws[0][inside] != draws[2][inside])
    assert len(np.unique(draws[0][inside])) == inside.sum() >= 5  # calls and rows differ


def test_initial_weights_depend_on_the_seed_alone() -> None:
    first, same, other = (make_model(seed=seed).policy.parameters_to_vector() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


# --- variations -------------------------------------------------------------------------------------------------------


def test_vec_normalize() -> None:
    env = VecNormalize(make_monitored(), gamma=0.9)
    model = make_model(env=env).learn(2 * ROLLOUT)
    assert model.get_vec_normalize_env() is env
    assert env.obs_rms.count > 90
    assert np.all(np.isfinite(model.policy.parameters_to_vector()))


def test_learn_returns_the_model_and_rounds_up_to_whole_rollouts() -> None:
    model = make_model()
    assert model.learn(ROLLOUT + 1) is model
    assert model.num_timesteps == 2 * ROLLOUT


def test_learning_on_after_a_stop_takes_up_where_it_was() -> None:
    model = make_model()
    model.learn(ROLLOUT)
    last_obs = model._last_obs.copy()
    firsts = []
    callback = Recorder(lambda hook, names: firsts.append(names["obs_tensor"].numpy()))
    model.learn(ROLLOUT, callback=callback, reset_num_timesteps=False)
    np.testing.assert_array_equal(firsts[0], last_obs)


def test_sb3s_buffer_class_becomes_ours_and_its_arguments_arrive() -> None:
    class Doubled(RolloutBuffer):
        def __init__(self, *args: Any, factor: float = 1.0, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.factor = factor

    assert type(make_model(rollout_buffer_class=TorchRolloutBuffer).rollout_buffer) is RolloutBuffer
    model = make_model(rollout_buffer_class=Doubled, rollout_buffer_kwargs={"factor": 2.0})
    assert type(model.rollout_buffer) is Doubled
    assert model.rollout_buffer.factor == 2.0
    model.learn(ROLLOUT)


def test_subclass_of_ppo_may_change_its_parts() -> None:
    class Mine(PPO):
        trained = 0

        def __init__(self, *args: Any, my_argument: int = 0, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.my_argument = my_argument

        def train(self) -> None:
            super().train()
            self.trained += 1
            self.logger.record("mine/trained", self.trained)

    model = make_model(Mine, my_argument=3).learn(2 * ROLLOUT)
    assert (model.my_argument, model.trained, model.logger.name_to_value["mine/trained"]) == (3, 2, 2)
