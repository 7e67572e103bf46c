"""
The Gymnasium environments, over upstream's pygame game and over the native one.

The oracle is upstream's own env under gymnasium's own wrappers, with a frame skip and a cool-down written out frame by frame.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import pygame
import pytest
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv as UpstreamEnv
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env as check_env_gymnasium
from gymnasium.wrappers import AddRenderObservation, GrayscaleObservation, ResizeObservation, TimeLimit
from stable_baselines3.common.env_checker import check_env as check_env_sb3
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sbx_flappy.envs import FlapCooldown, FlappyBirdEnv, FlappyVecEnv, FrameSkip, register_envs
from sbx_flappy.envs.constants import FLAP, MAX_PIPE_GAP, MIN_PIPE_GAP, NO_FLAP
from sbx_flappy.envs.native_game import NativeGame
from sbx_flappy.envs.options import GameOptions
from sbx_flappy.envs.rules import GameState
from sbx_flappy.envs.saved_game import SavedGame
from sbx_flappy.envs.window import HumanWindow
from sbx_flappy.envs.wrappers import PixelObservation

PIXELS = ["FlappyBird-v0", "FlappyBird-v1"]
FEATURES = ["FlappyBirdFeatures-v0", "FlappyBirdFeatures-v1"]
IDS = PIXELS + FEATURES
# The games as DESIGN.md has them: (pipe gap, cool-down, frame skip)
GAMES = {"v0": (150, 4, 4), "v1": (100, 2, 2)}


@pytest.fixture(autouse=True)
def closed_display() -> Iterator[None]:
    """Let each test start and end without a window."""
    pygame.display.quit()
    HumanWindow.open_windows.clear()
    yield
    pygame.display.quit()


@pytest.fixture(params=["native", "pygame"])
def engine(request: pytest.FixtureRequest) -> str:
    """Both engines, for the tests of what holds for either."""
    return request.param


@pytest.fixture
def dummy_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SDL show nothing, as a user may, and show frames without waiting, to save the tests' time."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(HumanWindow, "show", HumanWindow.blit)


@pytest.fixture
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine seem to have no display."""
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def upstream_of(env: gym.Env) -> UpstreamEnv:
    """Return upstream's env inside one of ours that is played by pygame."""
    return env.unwrapped.game.unwrapped  # type: ignore[attr-defined]


def velocity_and_gaps(env: gym.Env) -> tuple[int, list[int]]:
    """Return the bird's velocity, and where the gaps begin, in pixels, whatever the engine."""
    game = env.unwrapped.game  # type: ignore[attr-defined]
    if isinstance(game, NativeGame):
        return game.state.velocity, [100 + 10 * gap for gap in game.state.pipe_gap_index]
    pipes = sorted(game.unwrapped._upper_pipes, key=lambda pipe: pipe["x"])
    return game.unwrapped._player_vel_y, [pipe["y"] + 320 for pipe in pipes]


class Oracle:
    """Upstream's env under gymnasium's wrappers; the cool-down and the frame skip follow their definitions."""

    def __init__(self, obs_type: str, pipe_gap: int, flap_cooldown: int, frame_skip: int, **looks: Any) -> None:
        self.upstream = UpstreamEnv(use_lidar=False, render_mode="rgb_array", pipe_gap=pipe_gap, **looks)
        self.env: gym.Env = self.upstream
        if obs_type == "pixels":
            self.env = GrayscaleObservation(ResizeObservation(AddRenderObservation(self.env), (84, 84)), keep_dim=True)
        self.obs_type, self.flap_cooldown, self.frame_skip = obs_type, flap_cooldown, frame_skip

    def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.frame, self.last_flap = 0, -1000
        return self.env.reset(seed=seed)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        total, seen = 0.0, []
        for _ in range(self.frame_skip):
            flap = action == FLAP and self.frame - self.last_flap >= self.flap_cooldown
            self.last_flap = self.frame if flap else self.last_flap
            self.frame += 1
            observation, reward, terminated, truncated, info = self.env.step(int(flap))
            seen.append(observation)
            total += float(reward)
            if terminated:
                break
        last_two = seen[max(self.frame_skip - 2, 0) :] or seen[-1:]
        return np.max(last_two, axis=0) if self.obs_type == "pixels" else seen[-1], total, terminated, truncated, info

    def pilot(self, rng: np.random.Generator, mistakes: float) -> int:
        """Fly through the gaps, with some random actions so that games end in many ways."""
        if rng.random() < mistakes:
            return int(rng.integers(2))
        game = self.upstream
        _, low_y = min((pipe["x"], pipe["y"]) for pipe in game._lower_pipes if pipe["x"] + 52 > 57)
        margin = 15 if game._pipe_gap == 150 else 3
        return int(game._player_y + self.frame_skip * game._player_vel_y > low_y - 24 - margin)


def assert_same_play(env: gym.Env, oracle: Oracle, n_steps: int, mistakes: float) -> tuple[int, int]:
    """Play both with the same actions, and return the games that ended and the best score."""
    rng = np.random.default_rng(7)
    observation, info = env.reset(seed=11)
    expected, expected_info = oracle.reset(seed=11)
    n_games = best = 0
    for _ in range(n_steps):
        assert observation.dtype == env.observation_space.dtype
        np.testing.assert_array_equal(observation, expected.astype(observation.dtype))
        assert info == expected_info
        action = oracle.pilot(rng, mistakes)
        observation, *rest, info = env.step(action)
        expected, *expected_rest, expected_info = oracle.step(action)
        assert rest == expected_rest
        best = max(best, info["score"])
        if rest[1]:
            np.testing.assert_array_equal(observation, expected.astype(observation.dtype))
            n_games += 1
            (observation, info), (expected, expected_info) = env.reset(), oracle.reset()
    return n_games, best


# --- equality with the oracle


@pytest.mark.fault(38, 42)
@pytest.mark.parametrize(("env_id", "n_steps", "mistakes"), [("FlappyBird-v0", 200, 0.2), ("FlappyBird-v1", 300, 0.05)])
def test_pixels_rewards_ends_and_scores_equal_the_slow_chain(engine: str, env_id: str, n_steps: int, mistakes: float) -> None:
    oracle = Oracle("pixels", *GAMES[env_id[-2:]])
    n_games, best = assert_same_play(gym.make(env_id, engine=engine), oracle, n_steps, mistakes)
    assert n_games >= 2
    assert best >= 3


@pytest.mark.fault(38)
@pytest.mark.parametrize("env_id", FEATURES)
def test_features_rewards_ends_and_scores_equal_the_slow_chain(engine: str, env_id: str) -> None:
    oracle = Oracle("features", *GAMES[env_id[-2:]])
    n_games, best = assert_same_play(gym.make(env_id, engine=engine), oracle, n_steps=3000, mistakes=0.05)
    assert n_games >= 10
    assert best >= 5


@pytest.mark.parametrize(("frame_skip", "flap_cooldown"), [(1, 0), (1, 3), (2, 5), (3, 0), (5, 4)])
def test_every_frame_skip_and_cooldown_equals_the_slow_chain(engine: str, frame_skip: int, flap_cooldown: int) -> None:
    env = FlappyBirdEnv(engine=engine, frame_skip=frame_skip, flap_cooldown=flap_cooldown, pipe_gap=120)
    oracle = Oracle("pixels", 120, flap_cooldown, frame_skip)
    assert assert_same_play(env, oracle, n_steps=200 // frame_skip, mistakes=0.5)[0] >= 1


@pytest.mark.parametrize(
    "looks",
    [
        {"bird_color": "blue", "pipe_color": "red", "background": "night"},
        {"bird_color": "red", "pipe_color": "green", "background": None},
    ],
)
def test_colors_and_background_equal_upstreams(engine: str, looks: dict[str, Any]) -> None:
    assert_same_play(FlappyBirdEnv(engine=engine, **looks), Oracle("pixels", *GAMES["v0"], **looks), n_steps=40, mistakes=0.0)


def test_pixel_observation_equals_gymnasiums_wrappers_on_any_image() -> None:
    """Noise has colours that the game has not."""

    class Noise(gym.Env):
        observation_space = gym.spaces.Box(0, 255, (512, 288, 3), np.uint8)
        action_space = gym.spaces.Discrete(2)
        render_mode = "rgb_array"

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            super().reset(seed=seed)
            self.image = self.np_random.integers(0, 256, (512, 288, 3)).astype(np.uint8)
            return self.image, {}

        def render(self) -> np.ndarray:
            return self.image

    expected_env = GrayscaleObservation(ResizeObservation(Noise(), (84, 84)), keep_dim=True)
    env = PixelObservation(Noise())
    for seed in range(5):
        expected, observation = expected_env.reset(seed=seed)[0], env.reset(seed=seed)[0]
        np.testing.assert_array_equal(observation, expected)


def test_no_mistake_in_a_game_of_gap_150_passes_pipes(engine: str) -> None:
    """The task can be won, and the score counts on over a whole game."""
    env, oracle = gym.make("FlappyBirdFeatures-v0", engine=engine), Oracle("features", *GAMES["v0"])
    assert assert_same_play(env, oracle, n_steps=1000, mistakes=0.0)[1] >= 20


# --- the API


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("display", ["no_display", "dummy_display"])
@pytest.mark.parametrize("env_id", IDS)
def test_gymnasiums_check_env_passes_without_a_warning(
    engine: str, env_id: str, display: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(display)
    check_env_gymnasium(gym.make(env_id, engine=engine).unwrapped)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("env_id", IDS)
def test_sb3s_check_env_passes_without_a_warning(engine: str, env_id: str) -> None:
    check_env_sb3(gym.make(env_id, engine=engine).unwrapped)
    check_env_sb3(gym.make(env_id, engine=engine, render_mode="rgb_array"), skip_render_check=False)


@pytest.mark.parametrize("env_id", IDS)
def test_the_env_is_its_own_unwrapped(engine: str, env_id: str) -> None:
    env = gym.make(env_id, engine=engine)
    assert type(env.unwrapped) is FlappyBirdEnv
    assert env.unwrapped.unwrapped is env.unwrapped
    shape, dtype = ((84, 84, 1), np.uint8) if env_id in PIXELS else ((12,), np.float32)
    assert (env.observation_space.shape, env.observation_space.dtype) == (shape, dtype)
    assert env.action_space == gym.spaces.Discrete(2)


def play(env: gym.Env, actions: np.ndarray, seed: int | None) -> list[Any]:
    """Return all that an env returns."""
    seen: list[Any] = [env.reset(seed=seed)]
    for action in actions:
        seen.append(env.step(action))
        if seen[-1][2]:
            seen.append(env.reset())
    return seen


def assert_same(left: Any, right: Any) -> None:
    """Compare nested tuples, lists and dicts of arrays."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        np.testing.assert_equal(one, other)


@pytest.mark.parametrize("env_id", IDS)
def test_a_seed_determines_all_that_follows(engine: str, env_id: str) -> None:
    """Also after other games in the same env, whose ground and wings stand elsewhere."""
    actions = np.random.default_rng(0).integers(0, 2, 60)
    env = gym.make(env_id, engine=engine)
    first, other = play(env, actions, seed=3), play(env, actions, seed=4)
    assert_same(play(env, actions, seed=3), first)
    assert_same(play(gym.make(env_id, engine=engine), actions, seed=3), first)
    with pytest.raises(AssertionError):
        assert_same(other, first)


def test_the_envs_generator_is_the_one_that_places_the_pipes(engine: str) -> None:
    env = FlappyBirdEnv(engine=engine, obs_type="features")
    env.reset(seed=5)
    gaps = velocity_and_gaps(env)[1]
    env.np_random = np.random.default_rng(np.random.PCG64(np.random.SeedSequence(5)))
    env.reset()
    assert velocity_and_gaps(env)[1] == gaps


@pytest.mark.fault(41)
def test_the_time_limit_truncates_and_sb3_is_told_so(engine: str) -> None:
    """Gliding for 5 steps of 4 frames stays in the air: from y = 244 at -9 pixels per frame it takes 19 to come back."""
    env = DummyVecEnv([lambda: gym.make("FlappyBird-v0", engine=engine, max_episode_steps=5)])
    env.reset()
    infos = []
    for _ in range(5):
        _, _, dones, info = env.step(np.array([NO_FLAP]))
        infos.append((bool(dones[0]), info[0]["TimeLimit.truncated"]))
    assert infos == [(False, False)] * 4 + [(True, True)]


@pytest.mark.fault(41)
@pytest.mark.parametrize(("env_id", "max_episode_steps"), list(zip(IDS, [10_000, 20_000, 10_000, 20_000], strict=True)))
def test_every_id_ends_after_40000_frames(env_id: str, max_episode_steps: int) -> None:
    assert gym.spec(env_id).max_episode_steps == max_episode_steps
    assert max_episode_steps * GAMES[env_id[-2:]][2] == 40_000


@pytest.mark.parametrize(("frame_skip", "fps"), [(4, 8), (2, 15), (1, 30), (100, 1)])
def test_render_fps_is_the_games_speed_in_steps(frame_skip: int, fps: int) -> None:
    """30 / 4 = 7.5, rounded to 8."""
    assert FlappyBirdEnv(frame_skip=frame_skip).metadata["render_fps"] == fps
    assert FlappyBirdEnv.metadata["render_fps"] == 30


# --- states that are saved

STATE_ENVS = [{}, {"obs_type": "features", "frame_skip": 2, "pipe_gap": 100}]


@pytest.mark.parametrize("arguments", STATE_ENVS)
def test_a_state_brings_everything_back(arguments: dict[str, Any]) -> None:
    """Also into another env, through a file, and for the games that come later."""
    actions = np.random.default_rng(1).integers(0, 2, 80)

    def play_on(env: FlappyBirdEnv, over: bool) -> list[Any]:
        seen: list[Any] = [env.reset()] if over else []
        for action in actions:
            seen.append(env.step(action))
            if seen[-1][2]:
                seen.append(env.reset())
        return seen

    env = FlappyBirdEnv(**arguments)
    play(env, actions[:25], seed=2)
    for over in (False, True):
        while over and not env.step(NO_FLAP)[2]:
            pass
        saved = pickle.loads(pickle.dumps(env.get_state()))
        expected = play_on(env, over)
        env.set_state(saved)
        assert env.get_state() == saved
        assert_same(play_on(env, over), expected)
        other = FlappyBirdEnv(**arguments)
        other.set_state(saved)
        assert_same(play_on(other, over), expected)
        env.set_state(saved)


def test_a_state_that_is_over_needs_a_reset() -> None:
    env, other = FlappyBirdEnv(obs_type="features"), FlappyBirdEnv(obs_type="features")
    env.reset()
    while not env.step(NO_FLAP)[2]:
        pass
    other.set_state(env.get_state())
    with pytest.raises(ResetNeeded, match="the game is over"):
        other.step(NO_FLAP)


def with_field(saved: SavedGame, **fields: Any) -> SavedGame:
    return saved._replace(state=saved.state._replace(**fields))


NOT_STATES: list[Any] = [None, {}, (1, 2), "x", 3]
BAD_STATES: list[tuple[Any, type[Exception], str]] = [
    *((lambda saved, bad=bad: bad, TypeError, r"what `get_state\(\)` returns") for bad in NOT_STATES),
    (lambda saved: tuple(saved), TypeError, "SavedGame"),
    (lambda saved: saved._replace(state=tuple(saved.state)), TypeError, "GameState"),
    (lambda saved: saved._replace(generator=None), TypeError, "SavedGame"),
    (lambda saved: with_field(saved, wing=7), ValueError, "`wing` must be a number .* got 7"),
    (lambda saved: with_field(saved, player_y=None), ValueError, "`player_y`"),
    (lambda saved: with_field(saved, velocity=1.5), ValueError, "`velocity`"),
    (lambda saved: with_field(saved, pipe_x=(0, 0)), ValueError, "`pipe_x` must be 3 numbers"),
    (lambda saved: with_field(saved, pipe_x=3), ValueError, "`pipe_x`"),
    (lambda saved: with_field(saved, pipe_gap_index=(0, 0, 8)), ValueError, "`pipe_gap_index`"),
    (lambda saved: with_field(saved, terminated=0), ValueError, "`terminated` must be a bool"),
    (lambda saved: saved._replace(generator={}), ValueError, "PCG64"),
    (lambda saved: saved._replace(generator={**saved.generator, "has_uint32": None}), ValueError, "PCG64"),
    (lambda saved: saved._replace(generator=np.random.MT19937(0).state), ValueError, "PCG64"),
]


@pytest.mark.parametrize("vec_env", [False, True])
@pytest.mark.parametrize(("spoil", "error", "message"), BAD_STATES)
def test_a_wrong_state_is_an_error_and_changes_nothing(spoil: Any, error: Any, message: str, vec_env: bool) -> None:
    env: Any = FlappyVecEnv(1, "FlappyBirdFeatures-v0").envs[0] if vec_env else gym.make("FlappyBirdFeatures-v0")
    env.reset(seed=0)
    saved = env.unwrapped.get_state()
    for action in (FLAP, NO_FLAP):
        env.step(action)
    before = env.unwrapped.get_state()
    with pytest.raises(error, match=message):
        env.unwrapped.set_state(spoil(saved))
    assert env.unwrapped.get_state() == before


def test_all_that_a_game_comes_to_is_a_state() -> None:
    """Also high above the screen, where the bird turns at last, and with NumPy's numbers, as files may bring them."""
    env = FlappyBirdEnv(obs_type="features", frame_skip=1, flap_cooldown=0)
    rng = np.random.default_rng(0)
    heights = set()
    for episode in range(60):
        env.reset(seed=episode)
        terminated = False
        while not terminated:
            terminated = env.step(int(rng.random() < (1.0, 0.5, 0.1)[episode % 3]))[2]
            saved = env.get_state()
            heights.add(saved.state.player_y)
            env.set_state(saved)
            assert env.get_state() == saved
    assert min(heights) < -80
    assert max(heights) == 381
    numpy_state = GameState(
        *(np.asarray(field) if isinstance(field, tuple) else np.asarray(field)[()] for field in saved.state)
    )
    env.set_state(saved._replace(state=numpy_state))
    assert env.get_state() == saved
    assert type(env.get_state().state.pipe_x) is tuple


@pytest.mark.parametrize("copy", [deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_an_env_can_be_copied(copy: Any) -> None:
    env = gym.make("FlappyBird-v0", render_mode="rgb_array")
    actions = np.random.default_rng(3).integers(0, 2, 60)
    play(env, actions[:20], seed=5)
    env.reset()
    twin = copy(env)
    for action in actions[:5]:
        np.testing.assert_equal(twin.step(action), env.step(action))
    np.testing.assert_array_equal(twin.render(), env.render())
    np.testing.assert_equal(twin.reset(), env.reset())


def test_states_need_a_game_and_the_native_engine() -> None:
    with pytest.raises(ResetNeeded, match=r"get_state\(\) before"):
        FlappyBirdEnv().get_state()
    env = FlappyBirdEnv(engine="pygame")
    env.reset()
    with pytest.raises(NotImplementedError, match="engine='native'"):
        env.get_state()
    with pytest.raises(NotImplementedError, match="engine='native'"):
        env.set_state(None)


# --- both engines

ENGINES = ("native", "pygame")


@pytest.mark.parametrize("env_id", IDS)
def test_both_engines_play_the_same_games(env_id: str) -> None:
    """With an unseeded reset after each game, and another user of the env's random generator."""
    native, pygame_env = (gym.make(env_id, engine=engine) for engine in ENGINES)
    rng = np.random.default_rng(4)
    np.testing.assert_equal(native.reset(seed=6), pygame_env.reset(seed=6))
    n_games, n_steps = 0, 400 if env_id in PIXELS else 2000
    for _ in range(n_steps):
        action = int(rng.random() < 0.15)
        result, expected = native.step(action), pygame_env.step(action)
        np.testing.assert_equal(result, expected)
        if result[2]:
            n_games += 1
            assert native.unwrapped.np_random.integers(30) == pygame_env.unwrapped.np_random.integers(30)
            np.testing.assert_equal(native.reset(), pygame_env.reset())
    assert n_games > 10
    states = [env.unwrapped.np_random.bit_generator.state for env in (native, pygame_env)]
    assert states[0] == states[1]


# --- the cool-down


class Recorder(gym.Env):
    """Counts frames down from 0, keeps the actions, and ends an episode after ``n_frames``."""

    observation_space = gym.spaces.Box(-1000.0, 0.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, n_frames: int = 1000, truncates: bool = False) -> None:
        self.n_frames, self.truncates = n_frames, truncates
        self.actions: list[int] = []
        self.n_observed = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.actions = []
        return self.observe(), {}

    def observe(self) -> np.ndarray:
        self.n_observed += 1
        return np.array([-len(self.actions)], np.float32)

    def advance(self, action: int) -> tuple[float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        over = len(self.actions) == self.n_frames
        return 2.0 ** len(self.actions), over and not self.truncates, over and self.truncates, {"frame": len(self.actions)}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward, terminated, truncated, info = self.advance(action)
        return self.observe(), reward, terminated, truncated, info


class OnlyStep(gym.Wrapper):
    """Hides the two halves of an env's step, and returns all observations in one array."""

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, *rest = self.env.step(action)
        self.array = getattr(self, "array", observation.copy())
        self.array[:] = observation
        return self.array, *rest


@pytest.mark.parametrize(
    ("flap_cooldown", "actions", "passed_on"),
    [
        # A flap at frame t, the next one at t + flap_cooldown.
        (0, "111101", "111101"),
        (1, "111101", "111101"),
        (2, "111111", "101010"),
        (2, "110110", "100100"),
        (3, "111111", "100100"),
        (4, "111111111", "100010001"),
        (4, "010011011", "010001000"),
        (4, "100010000", "100010000"),
        (4, "100100100", "100000100"),
    ],
)
@pytest.mark.parametrize("hide", [False, True])
def test_truth_table_of_the_cooldown(flap_cooldown: int, actions: str, passed_on: str, hide: bool) -> None:
    recorder = Recorder()
    env = FlapCooldown(OnlyStep(recorder) if hide else recorder, flap_cooldown)
    env.reset()
    for action in actions:
        env.step(int(action))
    assert "".join(map(str, recorder.actions)) == passed_on


def test_a_reset_ends_the_cooldown() -> None:
    recorder = Recorder()
    env = FlapCooldown(recorder, 4)
    env.reset()
    env.step(FLAP)
    env.reset()
    env.step(FLAP)
    assert recorder.actions == [FLAP]


@pytest.mark.parametrize("flap_cooldown", [0, 1, 2, 4, 7])
def test_the_cooldown_is_the_array_program_in_its_docstring(flap_cooldown: int) -> None:
    actions = np.random.default_rng(1).integers(0, 2, (100, 6))
    wait = np.zeros(6, int)
    recorders = [Recorder() for _ in range(6)]
    envs = [FlapCooldown(recorder, flap_cooldown) for recorder in recorders]
    for row in actions:
        flaps = (row == FLAP) & (wait == 0)
        wait = np.where(flaps, max(flap_cooldown - 1, 0), np.maximum(wait - 1, 0))
        for env, action in zip(envs, row, strict=True):
            env.step(action)
        assert [recorder.actions[-1] for recorder in recorders] == flaps.astype(int).tolist()


def test_a_flap_that_upstream_ignores_starts_the_cooldown() -> None:
    """Upstream flaps only below the screen's top by less than two birds: not at y = -48, but at -47."""
    env = FlappyBirdEnv(obs_type="features", frame_skip=1, flap_cooldown=4, engine="pygame")
    env.reset(seed=0)
    game = upstream_of(env)
    game._player_y, game._player_vel_y = -48, 0
    env.step(FLAP)
    assert game._player_vel_y == 1  # ignored: gravity's 1, not a flap's -9
    for frame in range(1, 4):
        env.step(FLAP)
        assert game._player_y > -48
        assert game._player_vel_y == 1 + frame
    env.step(FLAP)
    assert game._player_vel_y == -9


# --- the frame skip


@pytest.mark.fault(42)
@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("truncates", [False, True])
@pytest.mark.parametrize(
    ("frame_skip", "n_frames", "observations"),
    [
        # Frames are observed as -1, -2, ... and a reset as 0, so that the earlier of two is the maximum, and a frame of an
        # earlier step or an empty one would be a greater one. Frames of the step that ends the episode in brackets.
        (4, 5, [-3, -5]),  # (5): before the last two, alone
        (4, 6, [-3, -6]),  # (5 6): before the last two, alone
        (4, 7, [-3, -7]),  # (5 6 7): the first of the last two, alone
        (4, 8, [-3, -7]),  # (5 6 7 8)
        (3, 4, [-2, -4]),
        (3, 5, [-2, -5]),
        (3, 6, [-2, -5]),
        (2, 3, [-1, -3]),
        (2, 4, [-1, -3]),
        (1, 3, [-1, -2, -3]),
    ],
)
def test_only_frames_of_this_step_are_pooled(
    frame_skip: int, n_frames: int, observations: list[int], truncates: bool, hide: bool
) -> None:
    recorder = Recorder(n_frames, truncates)
    env = FrameSkip(OnlyStep(recorder) if hide else recorder, frame_skip)
    for _ in range(2):  # a second episode finds nothing of the first
        assert env.reset()[0] == 0
        steps = [env.step(FLAP) for _ in observations]
        assert [int(step[0][0]) for step in steps] == observations
        assert [step[2:4] for step in steps[:-1]] == [(False, False)] * (len(steps) - 1)
        assert steps[-1][2:4] == (not truncates, truncates)


@pytest.mark.parametrize(("n_frames", "rewards"), [(8, [30, 480]), (6, [30, 96])])
def test_rewards_of_the_frames_played_are_summed(n_frames: int, rewards: list[int]) -> None:
    """Frame n gives 2**n: 2 + 4 + 8 + 16 = 30, 32 + 64 + 128 + 256 = 480, and 32 + 64 = 96 if it ends there."""
    env = FrameSkip(Recorder(n_frames), 4)
    env.reset()
    steps = [env.step(FLAP) for _ in range(2)]
    assert [step[1] for step in steps] == rewards
    assert steps[-1][4] == {"frame": n_frames}
    assert env.unwrapped.actions == [FLAP] * n_frames  # type: ignore[attr-defined]


@pytest.mark.parametrize(("frame_skip", "max_pool", "n_observed"), [(4, True, 2), (4, False, 1), (2, True, 2), (1, True, 1)])
def test_only_the_frames_that_are_used_are_observed(frame_skip: int, max_pool: bool, n_observed: int) -> None:
    recorder = Recorder()
    env = FrameSkip(FlapCooldown(recorder), frame_skip, max_pool)
    env.step(NO_FLAP)
    assert recorder.n_observed == n_observed


def test_a_wrapper_between_is_not_bypassed() -> None:
    """A wrapper that changes what ``step`` returns is asked, not the two halves of the env below it."""
    env = FrameSkip(TimeLimit(Recorder(), 2), 4)
    env.reset()
    assert env.step(NO_FLAP)[2:4] == (False, True)


def test_frame_skip_can_be_made_again_from_its_spec() -> None:
    env = FlapCooldown(FrameSkip(gym.make("CartPole-v1"), frame_skip=3), flap_cooldown=2)
    assert env.spec is not None
    again: Any = gym.make(env.spec)
    assert again.flap_cooldown == 2
    assert again.env.frame_skip == 3


def test_max_pool_needs_arrays() -> None:
    env = gym.make("FrozenLake-v1")
    with pytest.raises(ValueError, match="max_pool=False"):
        FrameSkip(env)
    FrameSkip(env, max_pool=False).reset()


# --- rendering


@pytest.mark.fault(39)
@pytest.mark.parametrize("obs_type", ["pixels", "features"])
def test_the_render_mode_never_changes_an_observation(engine: str, obs_type: str, dummy_display: None) -> None:
    actions = np.random.default_rng(2).integers(0, 2, 40)

    def play_and_render(render_mode: str | None) -> list[Any]:
        env = FlappyBirdEnv(engine=engine, obs_type=obs_type, render_mode=render_mode)
        seen: list[Any] = [env.reset(seed=1)]
        for action in actions:
            if render_mode is not None:
                env.render()
            seen.append(env.step(action))
            if seen[-1][2]:
                seen.append(env.reset())
        env.close()
        return seen

    plain = play_and_render(None)
    assert_same(play_and_render("rgb_array"), plain)
    assert_same(play_and_render("human"), plain)


@pytest.mark.parametrize("obs_type", ["pixels", "features"])
def test_rgb_array_is_upstreams_frame(engine: str, obs_type: str) -> None:
    env = FlappyBirdEnv(engine=engine, obs_type=obs_type, render_mode="rgb_array")
    oracle = Oracle("features", *GAMES["v0"])
    env.reset(seed=0)
    oracle.reset(seed=0)
    for action in [0, 0, 1, 0, 0, 0, 1, 0]:
        env.step(action)
        oracle.step(action)
        frame = env.render()
        assert frame is not None
        assert frame.shape == (512, 288, 3)
        assert frame.dtype == np.uint8
        np.testing.assert_array_equal(frame, oracle.upstream.render())
        assert not np.shares_memory(frame, env.render())


def test_human_shows_upstreams_frame_with_the_score_and_no_rays(engine: str, dummy_display: None) -> None:
    env = FlappyBirdEnv(engine=engine, render_mode="human")
    oracle = Oracle("features", *GAMES["v0"])
    env.reset(seed=0)
    oracle.reset(seed=0)
    for action in [0, 1, 0, 0, 0, 1, 0]:
        env.step(action)
        oracle.step(action)
        assert env.render() is None
        oracle.upstream._draw_surface(show_score=True, show_rays=False)
        shown = pygame.surfarray.array3d(pygame.display.get_surface())
        np.testing.assert_array_equal(shown, pygame.surfarray.array3d(oracle.upstream._surface))
    env.close()


def test_human_shows_every_frame_at_30_per_second(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One frame of the reset and 2 steps of 4 frames; ``render`` shows the last one again and does not wait."""
    ticks: list[int] = []

    class Clock:
        def tick(self, fps: int) -> None:
            ticks.append(fps)

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(pygame.time, "Clock", Clock)
    env = FlappyBirdEnv(engine=engine, obs_type="features", render_mode="human")
    env.reset()
    for _ in range(2):
        env.step(NO_FLAP)
        env.render()
    assert ticks == [30] * 9
    while not env.step(NO_FLAP)[2]:
        pass
    assert len(ticks) == 1 + 31  # without a flap the bird dies in its 31st frame, and nothing is shown after it
    env.close()


def test_render_without_a_mode_says_what_to_do() -> None:
    env = FlappyBirdEnv()
    env.reset()
    with pytest.warns(UserWarning, match="make the env with 'rgb_array'"):
        assert env.render() is None


@pytest.mark.parametrize("env_id", IDS)
def test_human_without_a_display_is_an_error_at_construction(engine: str, env_id: str, no_display: None) -> None:
    with pytest.raises(RuntimeError, match=r"render_mode='human'.*rgb_array.*--no-render.*SDL_VIDEODRIVER=dummy"):
        gym.make(env_id, engine=engine, render_mode="human")
    assert not pygame.display.get_init()


def test_a_driver_that_sdl_has_not_is_an_error_at_construction(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "nonsense")
    with pytest.raises(RuntimeError, match=r"render_mode='human'.*nonsense"):
        FlappyBirdEnv(engine=engine, render_mode="human")


@pytest.mark.fault(43)
@pytest.mark.parametrize("close", ["ours", "upstreams"])
def test_siblings_survive_a_close(engine: str, close: str) -> None:
    """Upstream's ``close`` quits pygame; ours must neither do so nor mind."""
    actions = np.random.default_rng(0).integers(0, 2, 10)
    expected = play(FlappyBirdEnv(engine=engine, render_mode="rgb_array"), actions, seed=0)
    env = FlappyBirdEnv(engine=engine, render_mode="rgb_array")
    sibling: gym.Env = (
        FlappyBirdEnv(engine=engine, render_mode="rgb_array") if close == "ours" else UpstreamEnv(render_mode="rgb_array")
    )
    pygame.init()
    sibling.reset()
    sibling.close()
    sibling.close()
    assert pygame.get_init() == (close == "ours")
    assert_same(play(env, actions, seed=0), expected)
    assert env.render() is not None


def test_the_last_window_closes_the_display(engine: str, dummy_display: None) -> None:
    first, second = FlappyBirdEnv(engine=engine, render_mode="human"), FlappyBirdEnv(engine=engine, render_mode="human")
    first.reset()
    second.reset()
    first.close()
    first.close()
    assert pygame.display.get_surface() is not None
    second.step(NO_FLAP)
    FlappyBirdEnv(engine=engine).close()
    assert pygame.display.get_init()
    second.close()
    assert not pygame.display.get_init()


def test_a_window_comes_back_after_another_program_quits_pygame(engine: str, dummy_display: None) -> None:
    env = FlappyBirdEnv(engine=engine, render_mode="human")
    env.reset()
    pygame.quit()
    env.step(NO_FLAP)
    assert pygame.display.get_surface().get_size() == (288, 512)
    env.close()


# --- errors


@pytest.mark.parametrize(
    ("argument", "value", "remedy"),
    [
        ("obs_type", "lidar", "'pixels', 'features'"),
        ("engine", "unity", "'native', 'pygame'"),
        ("render_mode", "ansi", "None, 'human', 'rgb_array'"),
        ("bird_color", "green", "'yellow', 'blue', 'red'"),
        ("bird_color", None, "'yellow', 'blue', 'red'"),
        ("pipe_color", "yellow", "'green', 'red'"),
        ("background", "dusk", "'day', 'night', None"),
        ("background", ["day"], "'day', 'night', None"),
        ("frame_skip", 0, "at least 1"),
        ("frame_skip", 2.0, "at least 1"),
        ("frame_skip", True, "at least 1"),
        ("flap_cooldown", -1, "at least 0"),
        ("flap_cooldown", None, "at least 0"),
        ("pipe_gap", MIN_PIPE_GAP - 1, "from 59 to 342"),
        ("pipe_gap", MAX_PIPE_GAP + 1, "from 59 to 342"),
        ("pipe_gap", "wide", "from 59 to 342"),
    ],
)
def test_a_wrong_argument_is_named_with_its_remedy(argument: str, value: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=f"`{argument}` must be .*{remedy}.*, got {value!r}".replace("[", r"\[")):
        FlappyBirdEnv(**{argument: value})


def test_the_defaults_of_the_options_the_env_and_the_id_are_one_game() -> None:
    envs: list[Any] = [FlappyBirdEnv(), gym.make("FlappyBird-v0")]
    for env in envs:
        assert env.unwrapped.game.options == GameOptions()
    pipe_gap, flap_cooldown, frame_skip = GAMES["v0"]
    assert GameOptions(frame_skip=frame_skip, flap_cooldown=flap_cooldown, pipe_gap=pipe_gap) == GameOptions()


def test_options_are_a_value() -> None:
    """NumPy's integers make the same options, with the same hash; options with other colours are others."""
    options = GameOptions(frame_skip=np.int64(2), flap_cooldown=np.int32(0), pipe_gap=np.int64(100))  # type: ignore[arg-type]
    assert {options, GameOptions(frame_skip=2, flap_cooldown=0, pipe_gap=100)} == {options}
    assert type(options.frame_skip) is int
    assert pickle.loads(pickle.dumps(options)) == options != GameOptions()
    assert GameOptions(background=None) != GameOptions()
    with pytest.raises(AttributeError):
        options.pipe_gap = 100  # type: ignore[misc]


def test_integers_of_numpy_are_arguments(engine: str) -> None:
    FlappyBirdEnv(engine=engine, frame_skip=np.int64(2), flap_cooldown=np.int32(0), pipe_gap=np.int64(MAX_PIPE_GAP)).reset()  # type: ignore[arg-type]


def test_no_flaps_get_through_a_gap_below_the_least() -> None:
    """
    Upstream's rules on paper.

    A flap sets the velocity to -9, otherwise gravity adds 1 up to 10. A pipe of 52 pixels that moves 4 per
    frame touches the columns of a bird of 34 for 21 frames: (52 + 34) / 4 = 21.5, and 21 of them overlap on upstream's
    lattices of x. The bird of 24 pixels has ``gap - 24`` to move in.
    """

    def passable(gap: int) -> bool:
        room = gap - 24
        states = {(y, velocity) for y in range(room + 1) for velocity in range(-9, 11)}
        for _ in range(20):
            moves = {(y, v) for y, velocity in states for v in (-9, min(velocity + 1, 10))}
            states = {(y + v, v) for y, v in moves if 0 <= y + v <= room}
        return bool(states)

    assert passable(MIN_PIPE_GAP)
    assert not passable(MIN_PIPE_GAP - 1)


@pytest.mark.parametrize("pipe_gap", [MIN_PIPE_GAP, MAX_PIPE_GAP])
def test_features_stay_in_their_space_at_the_ends_of_the_gap(engine: str, pipe_gap: int) -> None:
    env = FlappyBirdEnv(engine=engine, obs_type="features", pipe_gap=pipe_gap, frame_skip=1, flap_cooldown=0)
    for seed, action in enumerate([NO_FLAP, FLAP] * 4):
        observation, terminated, score = env.reset(seed=seed)[0], False, 0
        while not terminated and score < 2:
            assert observation in env.observation_space
            observation, _, terminated, _, info = env.step(action)
            score = info["score"]


@pytest.mark.parametrize("action", [2, -1, 0.0, 1.0, None, "1", [1], np.array([0]), np.float32(1), np.array(3)])
def test_an_action_outside_the_two_is_an_error(engine: str, action: Any) -> None:
    env = FlappyBirdEnv(engine=engine, obs_type="features")
    env.reset()
    with pytest.raises(ValueError, match=r"action must be a single integer, 0 \(no flap\) or 1 \(flap\), got"):
        env.step(action)


@pytest.mark.parametrize("action", [1, True, np.int64(1), np.uint8(1), np.array(1), np.bool_(True)])
def test_integers_and_0d_arrays_are_actions(engine: str, action: Any) -> None:
    env = FlappyBirdEnv(engine=engine, obs_type="features", frame_skip=1)
    env.reset()
    env.step(action)
    assert velocity_and_gaps(env)[0] == -9


def test_step_and_render_need_a_reset_even_unwrapped(engine: str) -> None:
    env = FlappyBirdEnv(engine=engine, render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match=r"step\(\) before"):
        env.step(NO_FLAP)
    with pytest.raises(ResetNeeded, match=r"render\(\) before"):
        env.render()


def test_a_step_after_the_end_is_an_error_until_the_reset(engine: str) -> None:
    env = FlappyBirdEnv(engine=engine, obs_type="features", render_mode="rgb_array")
    env.reset()
    while not env.step(NO_FLAP)[2]:
        pass
    with pytest.raises(ResetNeeded, match="the game is over"):
        env.step(NO_FLAP)
    assert env.render() is not None
    env.reset()
    env.step(NO_FLAP)


def test_options_of_a_reset_are_an_error(engine: str) -> None:
    with pytest.raises(ValueError, match=r"`options` must be empty.*'score': 3"):
        FlappyBirdEnv(engine=engine).reset(options={"score": 3})


# --- registration


def run_python(code: str) -> str:
    """Run code in a new interpreter with warnings as errors, and return what it prints."""
    env = {name: value for name, value in os.environ.items() if name != "PYGAME_HIDE_SUPPORT_PROMPT"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.fault(40)
@pytest.mark.parametrize(
    ("imports", "prefix"),
    [
        ("import sbx_flappy, flappy_bird_gymnasium", ""),
        ("import flappy_bird_gymnasium, sbx_flappy", ""),
        ("pass", "sbx_flappy:"),
        ("import flappy_bird_gymnasium", "sbx_flappy:"),
    ],
)
def test_the_order_of_imports_never_matters(imports: str, prefix: str) -> None:
    """And pygame greets nobody, unless the user has imported it without us."""
    code = f"""{imports}
import gymnasium, sbx_flappy.envs
env = gymnasium.make("{prefix}FlappyBird-v0")
assert type(env.unwrapped) is sbx_flappy.envs.FlappyBirdEnv, env
assert gymnasium.make("{prefix}FlappyBirdFeatures-v1").observation_space.shape == (12,)"""
    printed = run_python(code)
    assert printed == "" or imports.startswith("import flappy_bird_gymnasium")


@pytest.mark.filterwarnings("error")
def test_registering_again_changes_nothing() -> None:
    before = {env_id: gym.spec(env_id) for env_id in IDS}
    register_envs()
    assert {env_id: gym.spec(env_id) for env_id in IDS} == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"use_lidar": True},
        {"use_lidar": False},
        {"normalize_obs": False},
        {"screen_size": (288, 512)},
        {"audio_on": False},
        {"score_limit": 3},
        {"debug": False, "pipe_gap": 120, "render_mode": "rgb_array"},
    ],
)
def test_upstreams_own_arguments_get_upstreams_env(arguments: dict[str, Any]) -> None:
    # Without gymnasium's checker, which finds upstream's lidar outside its own space.
    env, expected = gym.make("FlappyBird-v0", disable_env_checker=True, **arguments), UpstreamEnv(**arguments)
    assert type(env.unwrapped) is UpstreamEnv
    assert env.observation_space == expected.observation_space
    assert vars(env.unwrapped)["_pipe_gap"] == vars(expected)["_pipe_gap"]
    actions = [0, 0, 1, 0, 0, 0]
    assert_same(play(env, np.array(actions), seed=2), play(expected, np.array(actions), seed=2))


def test_upstreams_env_is_endless_with_a_time_limit_of_minus_one() -> None:
    env = gym.make("FlappyBird-v0", use_lidar=True, max_episode_steps=-1)
    assert env.spec is not None
    assert env.spec.max_episode_steps is None


@pytest.mark.parametrize("ours", ["frame_skip", "flap_cooldown", "obs_type", "engine"])
def test_mixed_arguments_are_an_error(ours: str) -> None:
    with pytest.raises(ValueError, match=rf"\['use_lidar'\].*\['{ours}'\]"):
        gym.make("FlappyBird-v0", use_lidar=False, **{ours: 1})  # type: ignore[arg-type]


@pytest.mark.fault(44)
@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_subprocesses_make_the_envs_by_their_spec(start_method: str) -> None:
    """In a new interpreter nothing is registered; the spec finds its way by its entry point."""
    specs = [gym.spec("FlappyBird-v0"), gym.spec("FlappyBirdFeatures-v1")][: 1 if start_method == "spawn" else 2]
    for spec in specs:
        assert pickle.loads(pickle.dumps(spec)) == spec
    env = SubprocVecEnv([specs[0].make], start_method=start_method)
    env.seed(9)
    observations: list[Any] = [env.reset(), env.step(np.array([FLAP]))[0]]
    env.close()
    expected = gym.make("FlappyBird-v0")
    np.testing.assert_array_equal(observations[0][0], expected.reset(seed=9)[0])
    np.testing.assert_array_equal(observations[1][0], expected.step(FLAP)[0])


@pytest.mark.parametrize("env_id", IDS)
def test_make_vec_in_one_process(engine: str, env_id: str) -> None:
    envs = gym.make_vec(env_id, engine=engine, num_envs=3, vectorization_mode="sync")
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (3, *gym.make(env_id, engine=engine).observation_space.shape)  # type: ignore[misc]
    assert envs.step(np.array([0, 1, 0]))[0].shape == observations.shape
    envs.close()
