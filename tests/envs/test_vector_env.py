"""Gymnasium's vector API: the array program against gymnasium's own loop over single envs."""

import pickle
from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv as UpstreamEnv
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sbx_flappy.envs import FlappyBirdEnv
from sbx_flappy.envs.vector_env import FlappyVectorEnv

IDS = ["FlappyBird-v0", "FlappyBird-v1", "FlappyBirdFeatures-v0", "FlappyBirdFeatures-v1"]
MODES = list(AutoresetMode)


@pytest.fixture(autouse=True)
def gymnasiums_own_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what importing RL-Zoo does, in other tests: it replaces gymnasium's TimeLimit, and so changes the oracle."""
    time_limit = gym.wrappers.TimeLimit
    if not time_limit.__module__.startswith("gymnasium"):
        monkeypatch.setattr(gym.wrappers, "TimeLimit", time_limit.__bases__[0])


def make_pair(env_id: str, n_envs: int, mode: AutoresetMode, **kwargs: Any) -> tuple[Any, Any]:
    """Return our vector env and gymnasium's over the same single envs, with the same arguments."""
    ours = gym.make_vec(env_id, n_envs, vectorization_mode="vector_entry_point", autoreset_mode=mode, **kwargs)
    sync = gym.make_vec(env_id, n_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **kwargs)
    return ours, sync


def reset_part(env: Any, games: list[int], seed: Any = None) -> tuple[Any, ...]:
    """Reset some games of a vector env, and leave the others where they are."""
    mask = np.isin(np.arange(env.num_envs), games)
    return env.reset(seed=seed, options={"reset_mask": mask})


def as_lists(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a step returned, with a list in place of the array of last observations, which NumPy cannot compare."""
    *arrays, info = result
    return *arrays, {name: list(value) if name == "final_obs" else value for name, value in info.items()}


def assert_same_steps(ours: Any, sync: Any, n_steps: int, seed: Any = 3) -> tuple[int, int]:
    """Play both and compare all they return; return how many games ended by death, and by the time limit."""
    rng = np.random.default_rng(0)
    deaths = truncations = 0
    np.testing.assert_equal(ours.reset(seed=seed), sync.reset(seed=seed))
    for _ in range(n_steps):
        actions = (rng.random(ours.num_envs) < 0.15).astype(np.int64)
        result, expected = ours.step(actions), sync.step(actions)
        np.testing.assert_equal(as_lists(result), as_lists(expected))
        assert [array.dtype for array in result[:4]] == [array.dtype for array in expected[:4]]
        assert result[4]["score"].dtype == expected[4]["score"].dtype
        assert set(result[4]) == set(expected[4])
        done = result[2] | result[3]
        deaths, truncations = deaths + int(result[2].sum()), truncations + int(result[3].sum())
        if done.any() and ours.metadata["autoreset_mode"] is AutoresetMode.DISABLED:
            resets = [env.reset(options={"reset_mask": done.copy()}) for env in (ours, sync)]
            np.testing.assert_equal(*resets)
    return deaths, truncations


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", IDS)
def test_everything_equals_sync_vector_env(env_id: str, mode: AutoresetMode) -> None:
    limit = 21 if env_id.endswith("v0") else 30
    deaths, truncations = assert_same_steps(*make_pair(env_id, 5, mode, max_episode_steps=limit), n_steps=200)
    assert deaths > 10
    assert truncations > 0


@pytest.mark.expensive
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", IDS)
def test_thousands_of_steps_equal_sync_vector_env(env_id: str, mode: AutoresetMode) -> None:
    assert_same_steps(*make_pair(env_id, 8, mode, max_episode_steps=30), n_steps=3000)


@pytest.mark.parametrize("mode", MODES)
def test_death_in_the_step_of_the_time_limit(mode: AutoresetMode) -> None:
    """Without a flap the bird dies in its 31st frame, which is one of the 8th step."""
    ours, sync = make_pair("FlappyBirdFeatures-v0", 2, mode, max_episode_steps=8)
    ours.reset(seed=0)
    sync.reset(seed=0)
    for _ in range(8):
        result, expected = ours.step(np.zeros(2, int)), sync.step(np.zeros(2, int))
        np.testing.assert_equal(as_lists(result), as_lists(expected))
    assert result[2].all()
    assert result[3].all()


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_everything_equals_async_vector_env(mode: AutoresetMode, shared_memory: bool) -> None:
    arguments: dict[str, Any] = {"num_envs": 3, "max_episode_steps": 21}
    ours = gym.make_vec("FlappyBirdFeatures-v0", autoreset_mode=mode, **arguments)
    kwargs = {"autoreset_mode": mode, "shared_memory": shared_memory, "context": "forkserver"}
    other = gym.make_vec("FlappyBirdFeatures-v0", vectorization_mode="async", vector_kwargs=kwargs, **arguments)
    try:
        assert_same_steps(ours, other, n_steps=60)
    finally:
        other.close()


def test_games_are_reset_one_by_one_with_their_seeds() -> None:
    ours, sync = make_pair("FlappyBird-v0", 3, AutoresetMode.DISABLED)
    first, _ = ours.reset(seed=[0, 1, 2])
    sync.reset(seed=[0, 1, 2])
    for _ in range(3):
        actions = np.array([0, 1, 0])
        np.testing.assert_equal(ours.step(actions), sync.step(actions))
    before = ours.step(actions)[0]
    sync.step(actions)
    part = reset_part(ours, [0, 1], seed=[0, 1, 0])
    np.testing.assert_equal(part, reset_part(sync, [0, 1], seed=[0, 1, 0]))
    np.testing.assert_equal(part[0], [first[0], first[1], before[2]])
    assert part[1]["_score"].tolist() == [True, True, False]
    for _ in range(3):
        np.testing.assert_equal(ours.step(actions), sync.step(actions))


@pytest.mark.parametrize("n_ends", [1, 2, 3])
def test_games_that_end_together(n_ends: int) -> None:
    """The birds of the last games are flown, the others fall to the ground in the 8th step."""
    env = gym.make_vec("FlappyBirdFeatures-v0", 3, autoreset_mode=AutoresetMode.SAME_STEP)
    env.reset(seed=42)
    for count in range(1, 9):
        actions = np.where(np.arange(3) < n_ends, 0, count % 5 == 1)
        _, _, terminations, truncations, infos = env.step(actions)
        assert not truncations.any()
        assert terminations.any() == (count == 8)
    expected = np.arange(3) < n_ends
    np.testing.assert_array_equal(infos["_final_obs"], expected)
    np.testing.assert_array_equal(infos["_final_info"], expected)
    assert [observation is not None for observation in infos["final_obs"]] == expected.tolist()
    assert all(observation in env.single_observation_space for observation in infos["final_obs"][:n_ends])


@pytest.mark.parametrize("n_envs", [1, 3, 10])
@pytest.mark.parametrize("env_id", IDS)
def test_shapes_and_dtypes_are_those_of_the_spaces(env_id: str, n_envs: int) -> None:
    env = gym.make_vec(env_id, num_envs=n_envs)
    observations, _ = env.reset(seed=0)
    assert env.num_envs == n_envs
    assert observations in env.observation_space
    assert isinstance(env.action_space, gym.spaces.MultiDiscrete)
    for actions in (env.action_space.sample(), [int(env.single_action_space.sample()) for _ in range(n_envs)]):
        observations, rewards, terminations, truncations, _ = env.step(actions)
        assert observations in env.observation_space
        assert rewards.dtype == np.float64
        assert terminations.dtype == truncations.dtype == np.bool_
        assert rewards.shape == terminations.shape == truncations.shape == (n_envs,)


@pytest.mark.parametrize("mode", MODES)
def test_the_autoreset_mode_is_in_the_metadata(mode: AutoresetMode) -> None:
    for given in (mode, mode.value):
        env = gym.make_vec("FlappyBird-v0", 2, autoreset_mode=given)
        assert type(env) is FlappyVectorEnv
        assert env.metadata["autoreset_mode"] is mode


@pytest.mark.parametrize("seed", [7, [4, 9, 4], [4, None, 2]])
def test_seeds_are_sync_vector_envs(seed: Any) -> None:
    ours, sync = make_pair("FlappyBirdFeatures-v0", 3, AutoresetMode.NEXT_STEP)
    assert_same_steps(ours, sync, n_steps=30, seed=7)
    assert_same_steps(ours, sync, n_steps=30, seed=seed)
    assert_same_steps(ours, sync, n_steps=30, seed=None)
    assert ours.np_random_seed == sync.np_random_seed
    states = [[generator.bit_generator.state for generator in env.np_random] for env in (ours, sync)]
    assert states[0] == states[1]


def test_a_game_without_a_seed_draws_one() -> None:
    first, other = (gym.make_vec("FlappyBirdFeatures-v0", 4) for _ in range(2))
    assert first.np_random_seed != other.np_random_seed
    assert len(set(cast(Any, first.np_random_seed))) == 4
    seeds = first.np_random_seed
    first.reset()
    assert first.np_random_seed == seeds


def test_spaces_and_metadata_are_sync_vector_envs() -> None:
    for env_id in IDS:
        ours, sync = make_pair(env_id, 3, AutoresetMode.SAME_STEP, render_mode="rgb_array")
        for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
            assert getattr(ours, name) == getattr(sync, name)
        assert (ours.metadata, ours.num_envs, ours.render_mode) == (sync.metadata, sync.num_envs, sync.render_mode)
        assert ours.spec.kwargs["vectorization_mode"] == "vector_entry_point"
        assert type(gym.make_vec(ours.spec)) is FlappyVectorEnv


def test_make_vec_takes_the_array_program_by_itself() -> None:
    env = gym.make_vec("FlappyBird-v1", 2)
    assert type(env) is FlappyVectorEnv
    assert env.max_episode_steps == 20_000
    assert repr(env) == "FlappyVectorEnv(FlappyBird-v1, num_envs=2)"
    env.close()
    assert env.closed


@pytest.mark.parametrize("limit", [None, -1])
def test_there_may_be_no_time_limit(limit: int | None) -> None:
    env = FlappyVectorEnv(2, limit, obs_type="features")
    env.reset(seed=0)
    assert not any(env.step(np.array([0, 0]))[3].any() for _ in range(30))


def test_rendering_shows_each_game() -> None:
    ours, sync = make_pair("FlappyBird-v0", 3, AutoresetMode.NEXT_STEP, render_mode="rgb_array")
    assert_same_steps(ours, sync, n_steps=12)
    np.testing.assert_equal(ours.render(), sync.render())
    silent = FlappyVectorEnv(2)
    silent.reset()
    with pytest.warns(UserWarning, match="rgb_array"):
        assert silent.render() == (None, None)


def test_what_is_returned_is_never_written_again() -> None:
    env = FlappyVectorEnv(3, 5, autoreset_mode="SameStep")
    returned = [env.reset(seed=0), *(as_lists(env.step(np.array([0, 1, 0]))) for _ in range(20))]
    kept = pickle.loads(pickle.dumps(returned))
    for _ in range(20):
        env.step(np.array([1, 0, 0]))
    np.testing.assert_equal(returned, kept)


@pytest.mark.parametrize("wrapper", [gym.wrappers.vector.RecordEpisodeStatistics, gym.wrappers.vector.NormalizeReward])
def test_gymnasiums_vector_wrappers(wrapper: Any) -> None:
    env = wrapper(FlappyVectorEnv(3, 6, obs_type="features"))
    env.reset(seed=0)
    infos = [env.step(np.zeros(3, int))[4] for _ in range(12)]
    assert wrapper is gym.wrappers.vector.NormalizeReward or any("episode" in info for info in infos)


# --- what single envs have


def test_what_is_asked_of_the_games_is_what_single_envs_answer() -> None:
    ours, sync = make_pair("FlappyBirdFeatures-v0", 3, AutoresetMode.NEXT_STEP, render_mode="rgb_array")
    assert_same_steps(ours, sync, n_steps=5)
    for name in ("render_mode", "metadata", "observation_space", "action_space", "np_random_seed"):
        assert ours.get_attr(name) == sync.get_attr(name) == ours.call(name)
    np.testing.assert_equal(ours.call("render"), sync.call("render"))
    saved = ours.call("get_state")
    assert saved == sync.call("get_state")
    for env in (ours, sync):
        env.step(np.array([1, 0, 0]))
        assert env.call("set_state", pickle.loads(pickle.dumps(saved[1]))) == (None,) * 3
    assert ours.call("get_state") == (saved[1],) * 3
    for _ in range(30):
        actions = np.array([0, 1, 0])
        np.testing.assert_equal(ours.step(actions), sync.step(actions))


def test_what_single_envs_alone_have_is_an_error() -> None:
    env = FlappyVectorEnv(2, obs_type="features")
    for name in ("step", "nickname"):
        with pytest.raises(AttributeError, match=f"'{name}' could be .* vectorization_mode='sync'"):
            env.call(name)
    with pytest.raises(ResetNeeded):
        env.call("get_state")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", ["FlappyBird-v0", "FlappyBirdFeatures-v1"])
def test_all_games_are_saved_and_restored(env_id: str, mode: AutoresetMode) -> None:
    """With their time limits, and in the middle of an autoreset: the birds fall to the ground in the 8th step."""

    def play_on(env: Any) -> list[Any]:
        results = []
        for count in range(30):
            done = env._done
            if mode is AutoresetMode.DISABLED and done.any():
                results.append(env.reset(options={"reset_mask": done.copy()}))
            results.append(as_lists(env.step(np.array([0, count % 5 == 0, 0]))))
        return results

    envs: list[Any] = [gym.make_vec(env_id, 3, autoreset_mode=mode, max_episode_steps=14) for _ in range(2)]
    env, other = envs
    env.reset(seed=1)
    for _ in range(8 if env_id == "FlappyBird-v0" else 14):
        env.step(np.array([0, 1, 0]))
    saved = pickle.loads(pickle.dumps(env.unwrapped.get_state()))
    expected = play_on(env)
    for restored in (env, other):
        restored.unwrapped.set_state(saved)
        np.testing.assert_equal(play_on(restored), expected)
        assert restored.np_random_seed == (1, 2, 3)


def test_a_wrong_state_is_an_error_and_changes_nothing() -> None:
    env, other = FlappyVectorEnv(2, obs_type="features"), FlappyVectorEnv(3, obs_type="features")
    for one in (env, other):
        one.reset(seed=0)
    before = env.get_state()
    with pytest.raises(TypeError, match="SavedGames"):
        env.set_state(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 games"):
        env.set_state(other.get_state())
    generators = [before.batch.generators[1], np.random.MT19937(0).state]
    with pytest.raises(ValueError, match="PCG64"):
        env.set_state(before._replace(batch=before.batch._replace(generators=generators)))  # type: ignore[arg-type]
    np.testing.assert_equal(env.get_state(), before)


# --- what the array program does not play


@pytest.mark.parametrize(
    ("arguments", "single"), [({"engine": "pygame"}, FlappyBirdEnv), ({"use_lidar": False, "pipe_gap": 120}, UpstreamEnv)]
)
def test_other_games_are_gymnasiums_loop(arguments: dict[str, Any], single: type) -> None:
    env = gym.make_vec("FlappyBird-v0", 2, max_episode_steps=4, autoreset_mode="SameStep", **arguments)
    assert type(env) is SyncVectorEnv
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert all(type(one.unwrapped) is single for one in env.envs)
    env.reset(seed=0)
    assert [bool(env.step(np.array([0, 0]))[3].any()) for _ in range(4)] == [False, False, False, True]
    env.close()


def test_lists_of_frames_are_gymnasiums_loop() -> None:
    ours, sync = make_pair("FlappyBird-v0", 2, AutoresetMode.NEXT_STEP, render_mode="rgb_array_list", max_episode_steps=6)
    assert type(ours) is SyncVectorEnv
    assert_same_steps(ours, sync, n_steps=10)
    frames = ours.render()
    assert [len(frame) for frame in frames] == [4, 4]  # 6 steps, a reset, 3 steps
    np.testing.assert_equal(frames, sync.render())


def test_the_array_program_alone_refuses_them() -> None:
    with pytest.raises(ValueError, match="engine='native'"):
        FlappyVectorEnv(2, engine="pygame")


# --- errors


@pytest.mark.parametrize("actions", [[0], [0, 1, 0], [0, 2], [-1, 0], [0.0, 1.0], [[0, 1]]])
def test_wrong_actions_are_an_error(actions: Any) -> None:
    env = FlappyVectorEnv(2, obs_type="features")
    env.reset()
    with pytest.raises(ValueError, match=r"2 integers, 0 \(no flap\) or 1 \(flap\)"):
        env.step(np.array(actions))


@pytest.mark.parametrize("engine", ["native", "pygame"])
@pytest.mark.parametrize("limit", [0, -2, 2.5, "5", True])
def test_time_limits_are_what_single_envs_take(limit: Any, engine: str) -> None:
    """Where gymnasium.make raises an error we raise the same."""
    arguments = {"id": "FlappyBirdFeatures-v0", "max_episode_steps": limit, "engine": engine}
    try:
        gym.make(**arguments)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error), match="`max_episode_steps`"):
            gym.make_vec(num_envs=2, **arguments)
    else:
        env = gym.make_vec(num_envs=2, **arguments)
        env.reset(seed=0)
        assert limit is True
        assert env.step(np.array([0, 0]))[3].all()


@pytest.mark.parametrize("engine", ["native", "pygame"])
@pytest.mark.parametrize("num_envs", [0, -1, 2.5, "2", None])
def test_a_wrong_number_of_games_is_an_error(num_envs: Any, engine: str) -> None:
    with pytest.raises(ValueError, match="`num_envs` must be an integer of at least 1"):
        gym.make_vec("FlappyBirdFeatures-v0", num_envs, engine=engine)


def test_true_is_one_game() -> None:
    for mode in ("sync", None):
        env = gym.make_vec("FlappyBirdFeatures-v0", True, vectorization_mode=mode)
        assert env.num_envs == 1
        assert env.num_envs is not True


@pytest.mark.parametrize("arguments", [{"copy": False}, {"observation_mode": "same"}, {"shared_memory": True}])
def test_arguments_of_gymnasiums_vector_envs_are_named(arguments: dict[str, Any]) -> None:
    (name,) = arguments
    for make in (FlappyVectorEnv, lambda **kwargs: gym.make_vec("FlappyBirdFeatures-v0", 2, **kwargs)):
        with pytest.raises(TypeError, match=rf"FlappyVectorEnv has no \['{name}'\].* SyncVectorEnv .*vector_kwargs"):
            make(**arguments)


def test_the_callers_options_are_left_as_they_are() -> None:
    options = {"reset_mask": np.array([True, True])}
    FlappyVectorEnv(2, obs_type="features").reset(options=options)
    assert options["reset_mask"].all()


def test_step_and_render_need_a_reset() -> None:
    env = FlappyVectorEnv(2, render_mode="rgb_array")
    for method in (env.render, lambda: env.step(np.array([0, 0]))):
        with pytest.raises(ResetNeeded):
            method()
    env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded):
        env.step(np.array([0, 0]))


def test_without_autoreset_a_game_that_is_over_needs_one() -> None:
    env = FlappyVectorEnv(2, 3, "Disabled", obs_type="features")
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.array([0, 0]))
    with pytest.raises(ResetNeeded, match=r"\[0, 1\]"):
        env.step(np.array([0, 0]))


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        ([True, True], TypeError),
        (np.array([1, 0]), TypeError),
        (np.array([True]), ValueError),
        (np.array([False, False]), ValueError),
    ],
)
def test_a_wrong_mask_is_an_error(mask: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="reset_mask"):
        FlappyVectorEnv(2, obs_type="features").reset(options={"reset_mask": mask})


def test_other_options_and_seeds_are_an_error() -> None:
    env = FlappyVectorEnv(2, obs_type="features")
    with pytest.raises(ValueError, match="'score': 3"):
        env.reset(options={"score": 3})
    with pytest.raises(ValueError, match="`seed`"):
        env.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="bird_color"):
        FlappyVectorEnv(2, bird_color="green")
    with pytest.raises(ValueError, match="Later"):
        FlappyVectorEnv(2, autoreset_mode="Later")
