"""FlappyVecEnv against SB3's DummyVecEnv over the same envs, each played on its own."""

import copy
import csv
import importlib
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.wrappers import TimeAwareObservation, TimeLimit
from stable_baselines3 import PPO as TorchPPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize, VecTransposeImage

from sbx_flappy.envs import FlappyBirdEnv, FlappyVecEnv
from sbx_flappy.envs.native_game import NativeGame, SharedGame

# What is not the same in two runs: the time.
TIMELESS = {"t": None}


def without_times(infos: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return infos without the time in ``info["episode"]``."""
    return [{**info, "episode": {**info["episode"], **TIMELESS}} if "episode" in info else info for info in infos]


def make_pair(env_id: str, n_envs: int, folder: Path | None = None, **kwargs: Any) -> tuple[Any, Any]:
    """Return FlappyVecEnv and DummyVecEnv over the same envs, made as SB3 makes them."""
    folders = [str(folder / name) if folder else None for name in ("ours", "dummy")]
    ours = make_vec_env(env_id, n_envs, vec_env_cls=FlappyVecEnv, monitor_dir=folders[0], **kwargs)
    dummy = make_vec_env(env_id, n_envs, vec_env_cls=DummyVecEnv, monitor_dir=folders[1], **kwargs)
    return ours, dummy


def assert_same_steps(ours: Any, dummy: Any, n_steps: int, flaps: float = 0.15, dtype: Any = np.int64) -> tuple[int, int]:
    """Play both and compare all they return; return how many episodes ended by death, and by the time limit."""
    rng = np.random.default_rng(5)
    deaths = truncations = 0
    np.testing.assert_array_equal(ours.reset(), dummy.reset())
    assert ours.reset_infos == dummy.reset_infos
    for _ in range(n_steps):
        actions = (rng.random(ours.num_envs) < flaps).astype(dtype)
        observations, rewards, dones, infos = ours.step(actions)
        expected_observations, expected_rewards, expected_dones, expected_infos = dummy.step(actions)
        np.testing.assert_array_equal(observations, expected_observations)
        np.testing.assert_array_equal(rewards, expected_rewards)
        np.testing.assert_array_equal(dones, expected_dones)
        dtypes = [array.dtype for array in (observations, rewards, dones)]
        assert dtypes == [array.dtype for array in (expected_observations, expected_rewards, expected_dones)]
        np.testing.assert_equal(without_times(infos), without_times(expected_infos))
        assert ours.reset_infos == dummy.reset_infos
        truncated = sum(info["TimeLimit.truncated"] for info in infos)
        truncations, deaths = truncations + truncated, deaths + int(dones.sum()) - truncated
    return deaths, truncations


def monitor_rows(folder: Path) -> list[list[dict[str, Any]]]:
    """Return the rows of the monitor files in a folder, without the times."""
    tables = []
    for path in sorted(folder.glob("*.monitor.csv")):
        with open(path) as file:
            next(file)  # the header with the time of the start
            tables.append([{**row, **TIMELESS} for row in csv.DictReader(file)])
    return tables


# --- the same results


@pytest.mark.parametrize("env_id", ["FlappyBird-v0", "FlappyBird-v1", "FlappyBirdFeatures-v0", "FlappyBirdFeatures-v1"])
@pytest.mark.parametrize("n_envs", [1, 3, 8])
def test_everything_equals_dummy_vec_env(env_id: str, n_envs: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a flap a bird dies in the 31st frame; the limit is met by some that flap now and then."""
    limit = 21 if env_id.endswith("v0") else 30
    ours, dummy = make_pair(env_id, n_envs, tmp_path, seed=3, env_kwargs={"max_episode_steps": limit})
    deaths, truncations = assert_same_steps(ours, dummy, n_steps=1200 // n_envs)
    assert deaths > 10
    assert truncations > 1
    rows = monitor_rows(tmp_path / "ours")
    assert rows == monitor_rows(tmp_path / "dummy")
    assert sum(map(len, rows)) == deaths + truncations
    for name in ("get_episode_rewards", "get_episode_lengths", "get_total_steps"):
        assert ours.env_method(name) == dummy.env_method(name)
    assert ours.get_attr("rewards") == dummy.get_attr("rewards")
    assert ours.get_attr("_elapsed_steps") == dummy.get_attr("_elapsed_steps")
    assert not caplog.records
    ours.close()
    dummy.close()


@pytest.mark.expensive
@pytest.mark.parametrize("env_id", ["FlappyBird-v0", "FlappyBird-v1", "FlappyBirdFeatures-v0", "FlappyBirdFeatures-v1"])
def test_thousands_of_steps_equal_dummy_vec_env(env_id: str) -> None:
    deaths, truncations = assert_same_steps(
        *make_pair(env_id, 8, seed=11, env_kwargs={"max_episode_steps": 25}), n_steps=4000, flaps=0.2
    )
    assert deaths > 500
    assert truncations > 20


@pytest.fixture(params=["gymnasium", "rl_zoo3"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gymnasium's TimeLimit, or RL-Zoo's, which takes its place at the import of RL-Zoo; here for one test."""
    if request.param == "gymnasium":
        return TimeLimit
    for module in (gym.wrappers, gym.wrappers.common, gym.envs.registration):
        monkeypatch.setattr(module, "TimeLimit", TimeLimit, raising=False)
    return importlib.import_module("rl_zoo3.gym_patches").PatchedTimeLimit


@pytest.mark.parametrize("monitored", [True, False])
def test_gymnasiums_and_rl_zoos_time_limit(limit: Any, monitored: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Also where the limit is met by the very step in which the bird dies: the 31st frame is one of the 8th step."""

    def make() -> gym.Env:
        env = limit(FlappyBirdEnv(obs_type="features"), 5)
        return Monitor(env, info_keywords=("score",)) if monitored else env

    ours, dummy = FlappyVecEnv([make] * 4), DummyVecEnv([make] * 4)
    for env in (ours, dummy):
        env.seed(1)
    _, truncations = assert_same_steps(ours, dummy, n_steps=100)
    assert truncations > 50
    assert not caplog.records
    for env in (ours, dummy):
        env.env_method("set_wrapper_attr", "_max_episode_steps", 8)
    assert assert_same_steps(ours, dummy, n_steps=200, flaps=0.0)[0] > 50


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, bool])
def test_integers_of_any_kind_are_actions(dtype: Any) -> None:
    assert_same_steps(*make_pair("FlappyBirdFeatures-v0", 3, seed=1), n_steps=30, dtype=dtype)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: VecFrameStack(env, 4),
        lambda env: VecTransposeImage(VecFrameStack(env, 2)),
        lambda env: VecNormalize(env, norm_obs=False),
    ],
)
def test_wrappers_of_vec_envs_on_top(wrap: Callable[[Any], Any]) -> None:
    ours, dummy = make_pair("FlappyBird-v0", 3, seed=2, env_kwargs={"max_episode_steps": 20})
    assert_same_steps(wrap(ours), wrap(dummy), n_steps=80)


def test_vec_normalize_on_features() -> None:
    ours, dummy = make_pair("FlappyBirdFeatures-v0", 3, seed=2)
    assert_same_steps(VecNormalize(ours), VecNormalize(dummy), n_steps=80)


@pytest.mark.fault(33)
def test_sb3s_ppo_learns_the_same() -> None:
    parameters = []
    for env in make_pair("FlappyBirdFeatures-v0", 4, seed=5):
        model = TorchPPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=2, seed=5, device="cpu").learn(512)
        parameters.append([value.detach().numpy() for value in model.policy.parameters()])
        assert model.ep_info_buffer
        parameters[-1].append(np.array([[episode["r"], episode["l"]] for episode in model.ep_info_buffer]))
    for one, other in zip(*parameters, strict=True):
        np.testing.assert_array_equal(one, other)


# --- the API


@pytest.mark.parametrize("seed", [0, 12])
def test_seeds_last_for_one_reset(seed: int) -> None:
    ours, dummy = make_pair("FlappyBirdFeatures-v0", 3)
    assert ours.seed(seed) == dummy.seed(seed) == [seed, seed + 1, seed + 2]
    for _ in range(3):  # the later resets go on with the envs' generators
        assert_same_steps(ours, dummy, n_steps=25)
    assert ours.get_attr("np_random_seed") == dummy.get_attr("np_random_seed")


def test_action_spaces_are_seeded_one_by_one() -> None:
    ours, dummy = make_pair("FlappyBirdFeatures-v0", 3, seed=4)
    samples = [[[space.sample() for _ in range(20)] for space in env.get_attr("action_space")] for env in (ours, dummy)]
    assert samples[0] == samples[1]


def test_options_reach_the_envs() -> None:
    env = FlappyVecEnv(2, "FlappyBirdFeatures-v0")
    env.set_options({"score": 3})
    with pytest.raises(ValueError, match="`options` must be empty"):
        env.reset()


def test_what_is_returned_is_never_written_again() -> None:
    env = FlappyVecEnv(3, max_episode_steps=7)
    env.seed(0)
    returned = [env.reset(), *(env.step(np.array([0, 1, 0])) for _ in range(30))]
    kept = pickle.loads(pickle.dumps(returned))
    for _ in range(30):
        env.step(np.array([1, 0, 0]))
    env.env_method("reset")
    np.testing.assert_equal(returned, kept)


def test_attributes_and_methods_are_the_envs() -> None:
    ours, dummy = make_pair("FlappyBird-v0", 3, seed=0)
    for env in (ours, dummy):
        env.set_attr("nickname", "bird", indices=[0, 2])
    assert ours.get_attr("nickname", indices=[0, 2]) == ["bird", "bird"]
    assert not ours.has_attr("nickname")
    for name in ("spec", "render_mode", "metadata", "observation_space"):
        assert ours.get_attr(name) == dummy.get_attr(name)
    for wrapper in (Monitor, gym.wrappers.OrderEnforcing, TimeAwareObservation):
        assert ours.env_is_wrapped(wrapper) == dummy.env_is_wrapped(wrapper)
    assert (ours.num_envs, ours.render_mode, ours.metadata) == (dummy.num_envs, dummy.render_mode, dummy.metadata)
    assert ours.unwrapped is ours
    assert len({id(env.unwrapped) for env in ours.envs}) == 3


def test_rendering_shows_a_grid_of_the_games() -> None:
    ours, dummy = make_pair("FlappyBird-v0", 3, seed=0)
    assert_same_steps(ours, dummy, n_steps=12)
    grid = ours.render()
    assert grid.shape == (2 * 512, 2 * 288, 3)
    np.testing.assert_array_equal(grid, dummy.render())


def test_a_game_can_be_played_on_its_own_between_steps() -> None:
    ours, dummy = make_pair("FlappyBird-v0", 3, seed=0, env_kwargs={"max_episode_steps": 30})
    assert_same_steps(ours, dummy, n_steps=5)
    for method, arguments in [("step", (1,)), ("step", (0,)), ("reset", ()), ("step", (0,))]:
        results = [env.env_method(method, *arguments, indices=1) for env in (ours, dummy)]
        np.testing.assert_equal(*results)
    rng = np.random.default_rng(0)
    for _ in range(60):
        actions = rng.integers(0, 2, 3)
        ours_step, dummy_step = ours.step(actions), dummy.step(actions)
        np.testing.assert_equal(ours_step[:3], dummy_step[:3])
        np.testing.assert_equal(without_times(ours_step[3]), without_times(dummy_step[3]))


def test_games_that_have_begun_go_on() -> None:
    def make() -> gym.Env:
        env = Monitor(gym.make("FlappyBirdFeatures-v0"))
        env.reset(seed=8)
        env.step(1)
        return env

    ours, dummy = FlappyVecEnv([make] * 2), DummyVecEnv([make] * 2)
    for _ in range(40):
        np.testing.assert_equal(ours.step(np.array([0, 1]))[:3], dummy.step(np.array([0, 1]))[:3])


def test_states_are_saved_and_restored_through_the_vec_env() -> None:
    ours: Any = FlappyVecEnv(2, "FlappyBirdFeatures-v0")
    single: Any = gym.make("FlappyBirdFeatures-v0").unwrapped
    ours.seed(0)
    ours.reset()
    for _ in range(3):
        ours.step(np.array([0, 1]))
    (saved,) = ours.env_method("get_state", indices=1)
    single.set_state(pickle.loads(pickle.dumps(saved)))
    for action in (1, 0, 0, 1, 0):
        np.testing.assert_array_equal(ours.step(np.array([0, action]))[0][1], single.step(action)[0])
    ours.env_method("set_state", saved, indices=0)
    np.testing.assert_array_equal(ours.step(np.array([1, 0]))[0].shape, (2, 12))


def test_an_env_that_is_exchanged_is_played_on_its_own() -> None:
    ours, dummy = make_pair("FlappyBirdFeatures-v0", 3, seed=0)
    assert_same_steps(ours, dummy, n_steps=5)
    for env in (ours, dummy):
        env.envs[1] = Monitor(gym.make("FlappyBirdFeatures-v0"))
        env.seed(4)
    assert_same_steps(ours, dummy, n_steps=50)


# --- what is not played in one batch


def halve(env: gym.Env) -> gym.Env:
    return gym.wrappers.TransformReward(env, lambda reward: cast(Any, reward) / 2)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda number: halve(gym.make("FlappyBirdFeatures-v0")), "TransformReward is not known"),
        (lambda number: gym.make("FlappyBirdFeatures-v0", engine="pygame"), "not of the native engine"),
        (lambda number: gym.make("CartPole-v1"), "not of the native engine"),
        (lambda number: gym.make("FlappyBirdFeatures-v0", pipe_gap=150 + number), "different arguments"),
        (lambda number: gym.make("FlappyBirdFeatures-v0", disable_env_checker=number == 1), "different wrappers"),
        (lambda number: TimeLimit(Monitor(gym.make("FlappyBirdFeatures-v0")), 9), "not in this place"),
        (lambda number: TimeLimit(gym.make("FlappyBirdFeatures-v0"), 9), "not in this place"),
    ],
)
def test_what_is_not_known_is_stepped_one_by_one(
    make: Callable[[int], gym.Env], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    functions: list[Any] = [lambda number=number: make(number) for number in range(2)]
    with caplog.at_level(logging.WARNING, "sbx_flappy"):
        ours, dummy = FlappyVecEnv(functions), DummyVecEnv(functions)
    (record,) = caplog.records
    assert "one by one" in record.message
    assert reason in record.message
    for env in (ours, dummy):
        env.seed(1)
    assert_same_steps(ours, dummy, n_steps=40)


def dim(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a ``step`` or ``reset`` whose observation is half of the original's."""

    def changed(*args: Any, **kwargs: Any) -> Any:
        observation, *others = function(*args, **kwargs)
        return observation / 2, *others

    return changed


def layer_of(env: Any, name: str) -> Any:
    """Return one of an env's wrappers by the name of its class, or what they all wrap."""
    while name not in type(env).__name__:  # RL-Zoo's TimeLimit is a PatchedTimeLimit
        env = env.env
    return env


@pytest.mark.parametrize("layer", ["Monitor", "TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "FlappyBirdEnv"])
@pytest.mark.parametrize("method", ["step", "reset"])
def test_methods_that_were_replaced_are_called(method: str, layer: str, caplog: pytest.LogCaptureFixture) -> None:
    def make() -> gym.Env:
        env = Monitor(gym.make("FlappyBirdFeatures-v0", max_episode_steps=9))
        replaced = layer_of(env, layer)
        setattr(replaced, method, dim(getattr(replaced, method)))
        return env

    ours, dummy = FlappyVecEnv([make] * 2), DummyVecEnv([make] * 2)
    assert f"{layer} has a {method} of its own" in caplog.text
    for env in (ours, dummy):
        env.seed(1)
    assert_same_steps(ours, dummy, n_steps=30)


def replace_step(env: Any) -> None:
    env.set_attr("step", dim(env.envs[0].step), indices=0)


def replace_reset(env: Any) -> None:
    env.envs[1].unwrapped.reset = dim(env.envs[1].unwrapped.reset)


def insert_wrapper(env: Any) -> None:
    env.envs[0].env = halve(env.envs[0].env)


def insert_inner_wrapper(env: Any) -> None:
    layer_of(env.envs[0], "OrderEnforcing").env = halve(layer_of(env.envs[0], "PassiveEnvChecker"))


def take_wrapper_out(env: Any) -> None:
    env.envs[0].env = layer_of(env.envs[0], "OrderEnforcing")


CHANGES = [replace_step, replace_reset, insert_wrapper, insert_inner_wrapper, take_wrapper_out]


@pytest.mark.parametrize("copied", [lambda env: env, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_later_is_noticed_at_once(
    change: Callable[[Any], None], copied: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    ours, dummy = map(copied, make_pair("FlappyBirdFeatures-v0", 2, seed=3, env_kwargs={"max_episode_steps": 9}))
    assert_same_steps(ours, dummy, n_steps=5)
    assert not caplog.records
    for env in (ours, dummy):
        change(env)
    for _ in range(2):
        np.testing.assert_equal(ours.step(np.array([0, 1]))[:3], dummy.step(np.array([0, 1]))[:3])
    assert_same_steps(ours, dummy, n_steps=30)
    (record,) = caplog.records
    assert "one by one" in record.message


def test_a_change_that_is_undone_lets_the_games_play_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    env = FlappyVecEnv(2, "FlappyBirdFeatures-v0")
    alone = []
    monkeypatch.setattr(DummyVecEnv, "step_wait", lambda self: alone.append(True))
    env.reset()
    env.set_attr("nickname", "bird")
    env.step(np.array([0, 0]))
    env.set_attr("step", print, indices=1)
    env.step(np.array([0, 0]))
    del env.envs[1].step
    env.step(np.array([0, 0]))
    assert alone == [True]


def test_each_env_has_its_own_game_in_the_batch() -> None:
    env = FlappyVecEnv(2)
    envs: list[Any] = env.envs
    games = [one.unwrapped.game for one in envs]
    assert all(type(game) is SharedGame for game in games)
    assert games[0].batch is games[1].batch
    assert type(gym.make("FlappyBird-v0").unwrapped.game) is NativeGame  # type: ignore[attr-defined]


# --- errors


@pytest.mark.parametrize("actions", [[0], [0, 1, 0], [0, 2], [-1, 0], [0.0, 1.0], [[0, 1]], ["0", "1"]])
def test_wrong_actions_are_an_error(actions: Any) -> None:
    env = FlappyVecEnv(2, "FlappyBirdFeatures-v0")
    env.reset()
    with pytest.raises(ValueError, match=r"2 integers, 0 \(no flap\) or 1 \(flap\)"):
        env.step(np.array(actions))


def test_a_step_before_the_reset_is_dummy_vec_envs_error() -> None:
    functions: list[Any] = [lambda: Monitor(gym.make("FlappyBirdFeatures-v0"))] * 2
    for env in (FlappyVecEnv(functions), DummyVecEnv(functions)):
        with pytest.raises(RuntimeError, match="needs reset"):
            env.step(np.array([0, 0]))
    with pytest.raises(ResetNeeded):
        FlappyVecEnv([lambda: gym.make("FlappyBird-v0")]).step(np.array([0]))


def begin_below_the_wrappers(env: gym.Env) -> None:
    env.unwrapped.reset(seed=1)


def restore_below_the_wrappers(env: gym.Env) -> None:
    other = FlappyBirdEnv(obs_type="features")
    other.reset(seed=1)
    env.unwrapped.set_state(other.get_state())  # type: ignore[attr-defined]


@pytest.mark.parametrize("begin", [begin_below_the_wrappers, restore_below_the_wrappers])
@pytest.mark.parametrize("early", [True, False])
def test_a_game_that_began_below_its_wrappers_needs_a_reset(begin: Callable[[gym.Env], None], early: bool) -> None:
    def make() -> gym.Env:
        env = gym.make("FlappyBirdFeatures-v0")
        if early:
            begin(env)
        return env

    for env in (FlappyVecEnv([make] * 2), DummyVecEnv([make] * 2)):
        if not early:
            for one in env.envs:
                begin(one)
        with pytest.raises(ResetNeeded, match="before calling"):
            env.step(np.array([0, 0]))
        env.reset()
        env.step(np.array([0, 0]))


def interrupt(*args: Any, **kwargs: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("method", ["reset", "step"])
def test_the_end_of_an_episode_may_be_interrupted(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the start of a game nor its last step is handed out later, in place of what was asked for then."""
    ours, dummy = make_pair("FlappyBirdFeatures-v0", 3, seed=0, env_kwargs={"max_episode_steps": 3})
    for env in (ours, dummy):
        env.reset()
        for _ in range(2):
            env.step(np.zeros(3, int))
        with monkeypatch.context() as patch:
            patch.setattr(Monitor, method, interrupt)
            with pytest.raises(KeyboardInterrupt):
                env.step(np.zeros(3, int))
        env.seed(5)
    np.testing.assert_array_equal(ours.reset(), dummy.reset())
    assert [state.state for state in ours.env_method("get_state")] == [state.state for state in dummy.env_method("get_state")]
    results = [env.env_method("step", 1, indices=0) for env in (ours, dummy)]
    np.testing.assert_equal(*results)
    for env in (ours, dummy):
        env.seed(6)
    assert_same_steps(ours, dummy, n_steps=20)


def test_games_whose_start_was_interrupted_need_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    env = FlappyVecEnv([lambda: gym.make("FlappyBirdFeatures-v0", max_episode_steps=3)] * 2)
    env.reset()
    for _ in range(2):
        env.step(np.zeros(2, int))
    with monkeypatch.context() as patch:
        patch.setattr(TimeLimit, "reset", interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.step(np.zeros(2, int))
    with pytest.raises(ResetNeeded, match=r"\[0, 1\] are over"):
        env.step(np.zeros(2, int))
    env.reset()
    env.step(np.zeros(2, int))


def test_one_env_twice_is_an_error() -> None:
    env = gym.make("FlappyBird-v0")
    with pytest.raises(ValueError, match="same instance"):
        FlappyVecEnv([lambda: env] * 2)


def test_arguments_need_a_number_of_envs() -> None:
    assert FlappyVecEnv(1, "FlappyBird-v1", bird_color="red").get_attr("spec")[0].kwargs["bird_color"] == "red"
    with pytest.raises(ValueError, match=r"\['bird_color'\]"):
        FlappyVecEnv([lambda: gym.make("FlappyBird-v0")], bird_color="red")
    with pytest.raises(ValueError, match="bird_color"):
        FlappyVecEnv(2, bird_color="green")


def test_an_id_in_place_of_the_number_of_envs_is_answered_with_the_right_order() -> None:
    with pytest.raises(TypeError, match=r"The number of envs comes first: FlappyVecEnv\(4, 'FlappyBird-v0'\)"):
        FlappyVecEnv("FlappyBird-v0", 4)  # type: ignore[arg-type]


def test_its_words_name_the_number_and_the_env() -> None:
    words = repr(FlappyVecEnv(3, "FlappyBirdFeatures-v0"))
    assert words.startswith("<FlappyVecEnv of 3 x <Monitor<")
    assert "FlappyBirdFeatures-v0" in words
