"""The native rules against upstream's env, in lock-step, and their properties."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv as UpstreamEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from sbx_flappy.envs import constants as c
from sbx_flappy.envs import rules, single_rules

Player = Callable[[np.random.Generator, Any, int, int], int]


def scripted(rng: np.random.Generator, env: Any, wait: int, cooldown: int, frame_skip: int = 1) -> int:
    """Play well: look ahead for a way through the pipes in sight that flaps as late as possible."""
    pipes = [(low["x"], up["y"] + c.PIPE_HEIGHT, low["y"]) for up, low in zip(env._upper_pipes, env._lower_pipes, strict=True)]
    dead_ends: set[tuple[int, ...]] = set()

    def survives(y: int, velocity: int, t: int, wait: int, action: int) -> bool:
        """Return whether the bird can live to frame 40 if this is its action in the frame after frame t."""
        flap = action == 1 and wait == 0
        velocity = -9 if flap else min(velocity + 1, 10)
        y, t, wait = y + velocity, t + 1, max(cooldown - 1, 0) if flap else max(wait - 1, 0)
        shift, key = 4 * t, (y, velocity, t, wait, action)
        clear = all(not 6 <= x - shift < 91 or top <= y <= bottom - 24 for x, top, bottom in pipes)
        if not (0 <= y < 380 and clear) or key in dead_ends:
            return False
        choices = (0, 1) if t % frame_skip == 0 else (action,)
        if t == 40 or any(survives(y, velocity, t, wait, choice) for choice in choices):
            return True
        dead_ends.add(key)
        return False

    return int(not survives(env._player_y, env._player_vel_y, 0, wait, 0))


def mostly_scripted(rng: np.random.Generator, env: Any, wait: int, cooldown: int) -> int:
    """Play well, with a random action now and then."""
    return int(rng.random() < 0.5) if rng.random() < 0.02 else scripted(rng, env, wait, cooldown)


def at_random(probability: float) -> Player:
    """Return a player that flaps with this probability: 1 dies at a pipe above the screen, 0 on the ground."""
    return lambda rng, env, wait, cooldown: int(rng.random() < probability)


PLAYERS = [scripted, scripted, mostly_scripted, *map(at_random, (0.08, 0.2, 1.0, 0.0, 0.5))]


def upstream_variables(env: Any) -> list[float]:
    """Return every variable of upstream's env that its rules read or write, pipes from left to right."""
    upper = sorted(env._upper_pipes, key=lambda pipe: pipe["x"])
    lower = sorted(env._lower_pipes, key=lambda pipe: pipe["x"])
    pipes = [value for up, low in zip(upper, lower, strict=True) for value in (up["x"], up["y"], low["x"], low["y"])]
    player = [env._player_x, env._player_y, env._player_vel_y, env._player_rot, env._player_idx, env._player_flapped]
    return [*player, env._loop_iter, env._score, env._ground["x"], env._ground["y"], *pipes]


def native_variables(state: rules.GameState, pipe_gap: int) -> np.ndarray:
    """Return the same variables from the native state, float64 ``[N, 22]``."""
    ones = np.ones(state.player_y.shape)
    gap_top = c.GAP_TOP_MIN + c.GAP_TOP_STEP * state.pipe_gap_index
    x = rules.pipe_left(state.pipe_x)
    pipes = [row for i in range(3) for row in (x[i], gap_top[i] - c.PIPE_HEIGHT, x[i], gap_top[i] + pipe_gap)]
    velocity = np.where(state.terminated, 0, state.velocity)  # upstream stops a bird that has crashed
    player = [c.PLAYER_X * ones, rules.player_height(state), velocity, state.rotation]
    rest = [state.wing, 0 * ones, state.loop_iter, state.score, state.ground_x, c.GROUND_TOP * ones]
    return np.stack([*player, *rest, *pipes], axis=-1).astype(np.float64)


def apply_cooldown(actions: np.ndarray, wait: np.ndarray, cooldown: int) -> np.ndarray:
    """Apply the cool-down as a wrapper over upstream would: an early flap becomes action 0."""
    allowed = (actions == 1) & (wait == 0)
    wait[:] = np.where(allowed, max(cooldown - 1, 0), np.maximum(wait - 1, 0))
    return np.where(allowed, actions, 0)


class LockStep:
    """Upstream's envs beside one native array program, each pair from the same seed."""

    def __init__(self, n_envs: int, pipe_gap: int, cooldown: int, seed: int) -> None:
        self.n_envs, self.pipe_gap, self.cooldown = n_envs, pipe_gap, cooldown
        self.envs = [UpstreamEnv(use_lidar=False, pipe_gap=pipe_gap) for _ in range(n_envs)]
        observations = [env.reset(seed=seed + i)[0] for i, env in enumerate(self.envs)]
        self.generators = [np.random.Generator(np.random.PCG64(seed + i)) for i in range(n_envs)]
        self.gaps = [list(rules.draw_gaps(g, 1 + 7 * i)) for i, g in enumerate(self.generators)]  # blocks of several sizes
        self.state = rules.init(np.array([self.draw(i, 3) for i in range(n_envs)]).T)
        self.wait = np.zeros(n_envs, dtype=int)
        self.rng = np.random.default_rng(seed)
        self.deaths = {"ground": 0, "top": 0, "pipe": 0}
        self.best = 0
        self.compare(np.stack(observations))

    def draw(self, i: int, count: int) -> list[int]:
        while len(self.gaps[i]) < count:
            self.gaps[i] += list(rules.draw_gaps(self.generators[i], 1 + 7 * i))
        taken, self.gaps[i] = self.gaps[i][:count], self.gaps[i][count:]
        return taken

    def compare(self, observations: np.ndarray) -> None:
        expected = np.array([upstream_variables(env) for env in self.envs], dtype=np.float64)
        np.testing.assert_array_equal(native_variables(self.state, self.pipe_gap), expected)
        np.testing.assert_array_equal(rules.features(self.state, self.pipe_gap), observations.astype(np.float32))

    def play(self) -> None:
        actions = np.array([self.choose(i) for i in range(self.n_envs)])
        upstream_actions = apply_cooldown(actions, self.wait, self.cooldown)
        results = [env.step(int(action)) for env, action in zip(self.envs, upstream_actions, strict=True)]
        observations, rewards, terminated, _, _ = zip(*results, strict=True)
        next_gap = np.array([self.peek(i) for i in range(self.n_envs)])
        self.state, events = rules.step(self.state, actions, next_gap, self.pipe_gap, self.cooldown)
        for i in np.flatnonzero(events.recycled).tolist():
            self.draw(i, 1)
        np.testing.assert_array_equal(events.reward, np.array(rewards, dtype=np.float64))
        np.testing.assert_array_equal(self.state.terminated, terminated)
        self.compare(np.stack(observations))
        if any(terminated):
            self.reset(np.flatnonzero(terminated).tolist(), np.stack(observations))

    def choose(self, i: int) -> int:
        return PLAYERS[i % len(PLAYERS)](self.rng, self.envs[i], int(self.wait[i]), self.cooldown)

    def peek(self, i: int) -> int:
        if not self.gaps[i]:
            self.gaps[i] += list(rules.draw_gaps(self.generators[i], 1 + 7 * i))
        return int(self.gaps[i][0])

    def reset(self, dead: list[int], observations: np.ndarray) -> None:
        for i in dead:
            y = self.state.player_y[i]
            self.deaths["ground" if y >= c.PLAYER_CRASH_Y else "top" if y < 0 else "pipe"] += 1
            self.best = max(self.best, int(self.state.score[i]))
            observations[i] = self.envs[i].reset()[0]
            fresh = rules.init(np.array(self.draw(i, 3)), self.state.ground_x[i], self.state.wing_next[i])
            for field, value in zip(self.state, fresh, strict=True):
                field[..., i] = value
        self.wait[dead] = 0
        self.compare(observations)


def lock_step(n_frames: int, pipe_gap: int, cooldown: int) -> LockStep:
    game = LockStep(16, pipe_gap, cooldown, seed=100 * pipe_gap + cooldown)
    for _ in range(n_frames // game.n_envs):
        game.play()
    game.best = max(game.best, int(game.state.score.max()))
    return game


@pytest.mark.parametrize(("pipe_gap", "cooldown"), [(100, 0), (150, 4), (100, 2), (73, 3), (240, 1)])
def test_every_variable_equals_upstreams(pipe_gap: int, cooldown: int) -> None:
    game = lock_step(3_000, pipe_gap, cooldown)
    assert all(count > 0 for kind, count in game.deaths.items() if pipe_gap < 200 or kind != "pipe")


@pytest.mark.expensive
@pytest.mark.parametrize(
    ("pipe_gap", "cooldown"),
    [(100, 0), (150, 4), *(pytest.param(*pair, marks=pytest.mark.exhaustive) for pair in ((100, 2), (73, 3), (240, 1)))],
)
def test_every_variable_equals_upstreams_for_100_000_frames(pipe_gap: int, cooldown: int) -> None:
    game = lock_step(100_000, pipe_gap, cooldown)
    print(f"gap {pipe_gap}, cool-down {cooldown}: deaths {game.deaths}, longest game {game.best} pipes")
    assert pipe_gap < 100 or game.best > 100


def upstream_pipe_positions() -> list[float]:
    """Every x that upstream's repeated subtraction reaches."""
    positions = [float(x) for x in range(576, -57, -4)]
    x = 288 + 52 + 288 * 0.2
    while x >= -56:
        positions.append(x)
        x += -4
    return positions


@pytest.mark.parametrize("xp", [np, jnp])
def test_positions_and_features_round_as_upstreams(xp: Any) -> None:
    expected = np.array(upstream_pipe_positions())
    tenths = np.rint(expected * 10).astype(np.int32)
    np.testing.assert_array_equal(rules.pipe_left(tenths), expected)
    state = rules.init(np.zeros((3, len(tenths)), dtype=np.int32), xp=xp)._replace(pipe_x=xp.asarray(np.stack([tenths] * 3)))
    result = jax.jit(rules.features, static_argnums=(1, 2))(state, 100, xp) if xp is jnp else rules.features(state)
    shown = np.where(expected > 288, 1.0, expected / 288)
    np.testing.assert_array_equal(np.asarray(result)[:, 0], shown.astype(np.float32))


@pytest.mark.parametrize("xp", [np, jnp])
def test_player_features_round_as_upstreams(xp: Any) -> None:
    y, velocity, rotation = (a.ravel() for a in np.meshgrid(np.arange(-100, 382), np.arange(-9, 11), np.arange(-90, 46, 3)))
    height = np.where(y == 381, 512 * 0.79 - 24, y)
    state = rules.init(np.zeros((3, len(y)), dtype=np.int32), xp=xp)
    state = state._replace(
        player_y=xp.asarray(y, dtype=xp.int32),
        velocity=xp.asarray(velocity, dtype=xp.int32),
        rotation=xp.asarray(rotation, dtype=xp.int32),
    )
    result = jax.jit(rules.features, static_argnums=(1, 2))(state, 100, xp) if xp is jnp else rules.features(state)
    expected = np.stack([height / 512, velocity / 10, rotation / 90], axis=-1).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(result)[:, 9:], expected)


def random_games(n_frames: int, cooldown: int, shape: tuple[int, ...], seed: int) -> list[tuple[Any, ...]]:
    """Actions, gaps, states and events of games that restart by themselves, in NumPy."""
    rng = np.random.default_rng(seed)
    state = rules.init(rng.integers(0, 8, (3, *shape)))
    record = []
    for _ in range(n_frames):
        actions, next_gap = rng.integers(0, 8, shape) == 0, rng.integers(0, 8, shape)
        after, events = rules.step(state, actions.astype(int), next_gap, 100, cooldown)
        record.append((state, actions.astype(int), next_gap, after, events))
        fresh = rules.init(rng.integers(0, 8, (3, *shape)), after.ground_x, after.wing_next)
        state = rules.GameState(*(np.where(after.terminated, new, old) for new, old in zip(fresh, after, strict=True)))
    return record


def test_jax_plays_as_numpy_does() -> None:
    jit_step = jax.jit(rules.step, static_argnums=(3, 4, 5))
    vmap_step = jax.jit(jax.vmap(lambda s, a, g: rules.step(s, a, g, 100, 3, jnp), in_axes=-1, out_axes=-1))
    for state, actions, next_gap, after, events in random_games(400, 3, (32,), 5):
        for play in (lambda s, a, g: jit_step(s, a, g, 100, 3, jnp), vmap_step):
            jax_after, jax_events = play(state, actions, next_gap)
            for expected, actual in zip((*after, events.recycled), (*jax_after, jax_events.recycled), strict=True):
                np.testing.assert_array_equal(actual, expected)
            np.testing.assert_array_equal(jax_events.reward, events.reward.astype(np.float32))


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3)])
def test_any_batch_shape(shape: tuple[int, ...]) -> None:
    for state, actions, next_gap, after, events in random_games(150, 2, shape, 7):
        assert rules.features(after).shape == (*shape, 12)
        assert events.reward.shape == shape
        for index in np.ndindex(shape):
            one = rules.GameState(*(field[..., *index] for field in state))
            one_after, _ = rules.step(one, actions[index], next_gap[index], 100, 2)
            for expected, actual in zip(after, one_after, strict=True):
                np.testing.assert_array_equal(actual, expected[..., *index])
                assert np.asarray(actual).dtype == expected.dtype


def play_both(n_frames: int, pipe_gap: int, cooldown: int) -> int:
    """Play the array rules and those on Python's integers beside each other; return how many games ended."""
    rng = np.random.default_rng(pipe_gap)
    gaps = rng.integers(0, 8, 3)
    state, single = rules.init(gaps), single_rules.init(gaps.tolist())
    n_games = 0
    for _ in range(n_frames):
        near = [x for x in single.pipe_x if x > 50]
        hopeful = single.player_y + 24 > 100 + 10 * single.pipe_gap_index[single.pipe_x.index(near[0])] + pipe_gap - 20
        action, gap = int(hopeful if rng.random() > 0.04 else rng.random() < 0.5), int(rng.integers(0, 8))
        state, events = rules.step(state, action, gap, pipe_gap, cooldown)
        queue = [gap]
        single, reward = single_rules.step(single, action, queue.pop, pipe_gap, cooldown)
        for one, other in zip(single, state, strict=True):
            np.testing.assert_array_equal(one, other)
        assert (reward, not queue) == (events.reward, events.recycled)
        assert all(type(value) in (int, bool, tuple) for value in single)
        if single.terminated:
            n_games += 1
            gaps = rng.integers(0, 8, 3)
            state = rules.init(gaps, state.ground_x, state.wing_next)
            single = single_rules.init(gaps.tolist(), single.ground_x, single.wing_next)
    return n_games


@pytest.mark.parametrize(("pipe_gap", "cooldown"), [(100, 0), (150, 4), (73, 3), (342, 1)])
def test_the_rules_on_integers_are_the_rules(pipe_gap: int, cooldown: int) -> None:
    assert play_both(3_000, pipe_gap, cooldown) > 2


@pytest.mark.expensive
@pytest.mark.parametrize(("pipe_gap", "cooldown"), [(100, 0), (100, 2), (150, 4)])
def test_the_rules_on_integers_are_the_rules_for_100_000_frames(pipe_gap: int, cooldown: int) -> None:
    assert play_both(100_000, pipe_gap, cooldown) > 100


def test_integers_stay_int32() -> None:
    *_, after, events = random_games(60, 2, (4,), 3)[-1]
    assert {field.dtype for field in after} == {np.dtype(np.int32), np.dtype(bool)}
    assert events.reward.dtype == np.float64
    assert rules.features(after).dtype == np.float32


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=120), st.integers(0, 8), st.integers(0, 2**31))
def test_bounds_hold_and_flaps_keep_their_distance(flaps: list[bool], cooldown: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = rules.init(rng.integers(0, 8, 3))
    taken: list[int] = []
    for t, flap in enumerate(flaps):
        before = state
        state, events = rules.step(before, int(flap), rng.integers(0, 8), 300, cooldown)
        assert -100 < state.player_y <= c.PLAYER_GROUNDED_Y
        assert -9 <= state.velocity <= c.PLAYER_MAX_VEL_Y
        assert -90 <= state.rotation <= 45
        assert np.all(np.diff(state.pipe_x) >= 1440)
        assert 0 <= state.score - before.score <= 1
        assert float(events.reward) in (0.1, 1.0, -0.5, -1.0)
        if state.rotation == 45:  # only a flap turns the bird up
            taken.append(t)
        if state.terminated:
            break
    assert all(later - earlier >= cooldown for earlier, later in pairwise(taken))


def test_a_flap_ignored_above_the_screen_starts_the_cooldown() -> None:
    state = rules.init(np.zeros(3, dtype=np.int32))._replace(player_y=np.int32(-48), velocity=np.int32(2))
    state, _ = rules.step(state, 1, 0, 100, 4)
    assert (int(state.velocity), int(state.cooldown)) == (3, 3)  # 2 + 1: it falls, to -45
    state, _ = rules.step(state, 1, 0, 100, 4)
    assert (int(state.velocity), int(state.cooldown)) == (4, 2)


@pytest.mark.parametrize("cooldown", [2, 4])
def test_next_flap_comes_after_the_cooldown(cooldown: int) -> None:
    state = rules.init(np.zeros(3, dtype=np.int32))
    flapped = []
    for t in range(9):
        state, _ = rules.step(state, 1, 0, 100, cooldown)
        if state.rotation == 45:
            flapped.append(t)
    assert flapped == list(range(0, 9, cooldown))


def test_a_block_of_gaps_is_the_stream_of_single_draws() -> None:
    block, single = np.random.default_rng(3), np.random.default_rng(3)
    expected = [int(single.integers(0, 8)) for _ in range(100)]
    drawn = [int(gap) for size in (3, 1, 40, 56) for gap in rules.draw_gaps(block, size)]
    assert drawn == expected
