"""The native frames and steps against upstream's frames, resized by OpenCV and turned to gray as gymnasium does."""

import multiprocessing
import os
import pickle
import time
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pygame
import pytest
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv as UpstreamEnv
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding

from sbx_flappy.envs import constants as c
from sbx_flappy.envs import rules
from sbx_flappy.envs.batch import FlappyBatch
from sbx_flappy.envs.options import Colors, GameOptions
from sbx_flappy.envs.rendering import area_resize, sprites, table_cache
from sbx_flappy.envs.rendering.renderer import Renderer
from sbx_flappy.envs.rendering.tables import Tables
from tests.envs.test_rules import scripted

FEATURES = GameOptions("features")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"pipe_gap": 100, "bird_color": "red", "pipe_color": "red", "background": "night"},
    {"pipe_gap": 240, "bird_color": "blue", "background": None},
    {"pipe_gap": 73, "pipe_color": "red", "background": None},
    {"bird_color": "blue", "background": "night"},
    {"pipe_gap": 120, "bird_color": "red"},
]


@pytest.fixture(autouse=True)
def dummy_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream's frames for people are drawn without showing them."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def small_gray(frame: np.ndarray) -> np.ndarray:
    """Return what gymnasium's ResizeObservation and GrayscaleObservation make of a frame, uint8 ``[84, 84]``."""
    small = cv2.resize(frame, (84, 84), interpolation=cv2.INTER_AREA)
    return np.sum(np.multiply(small, np.array([0.2125, 0.7154, 0.0721])), axis=-1).astype(np.uint8)


def make_upstream(pipe_gap: int = 150, render_mode: str = "rgb_array", **colors: Any) -> Any:
    return UpstreamEnv(use_lidar=False, pipe_gap=pipe_gap, render_mode=render_mode, **colors)


def reset(
    batch: FlappyBatch, seeds: Sequence[int] | None = None, games: Sequence[int] | np.ndarray | None = None
) -> np.ndarray:
    """Start games, all by default, those with seeds like new ones, and return all observations."""
    chosen = np.arange(batch.n_envs) if games is None else np.asarray(games, dtype=np.intp)
    for game, seed in zip(chosen, seeds or [], strict=seeds is not None):
        batch.set_generator(game, seeding.np_random(seed)[0])
    batch.start(chosen, fresh=seeds is not None)
    return batch.observations


def step_and_restart(batch: FlappyBatch, actions: np.ndarray) -> tuple[np.ndarray, ...]:
    """Play a step and restart the games that ended; return the last observations as well as those after the restart."""
    observations, rewards, terminated, scores = batch.step(actions)
    last = observations.copy()
    batch.start(np.flatnonzero(terminated))
    return observations, rewards, terminated, scores, last


class OracleSteps:
    """Upstream's env, its frames small and gray, with the frame skip and the cool-down written out."""

    def __init__(self, seed: int, frame_skip: int, cooldown: int, options: dict[str, Any]) -> None:
        self.env = make_upstream(**options)
        self.env.reset(seed=seed)
        for name in ("background", "base"):  # in the surface's own format these are drawn much faster
            sprite = self.env._images[name]
            if sprite is not None:
                self.env._images[name] = pygame.Surface(sprite.get_size(), 0, 32)
                self.env._images[name].blit(sprite, (0, 0))
        self.frame_skip, self.cooldown, self.wait = frame_skip, cooldown, 0

    def reset(self) -> np.ndarray:
        self.env.reset()
        self.wait = 0
        return small_gray(self.env.render())

    def step(self, action: int) -> tuple[np.ndarray, float, bool, int]:
        """Return observation, reward, terminated, score."""
        total, frames = 0.0, []
        for frame in range(self.frame_skip):
            allowed = action if self.wait == 0 else 0
            self.wait = max(self.cooldown - 1, 0) if allowed else max(self.wait - 1, 0)
            _, reward, terminated, _, info = self.env.step(allowed)
            total += float(reward)
            if terminated or frame >= self.frame_skip - 2:
                frames.append(small_gray(self.env.render()))
            if terminated:
                break
        # With a skip of 1 there is one frame, which is the last.
        return np.maximum.reduce(frames), total, terminated, info["score"]


def choose(rng: np.random.Generator, kind: int, oracle: OracleSteps) -> int:
    """Return the action of a careful, a careless, a random, a rarely or an always flapping player."""
    if kind < 2 and rng.random() >= (0.01, 0.15)[kind]:
        return scripted(rng, oracle.env, oracle.wait, oracle.cooldown, oracle.frame_skip)
    return int(rng.random() < (0.3, 0.3, 0.2, 0.05, 1.0)[kind])


def play_steps(n_steps: int, frame_skip: int, cooldown: int, options: dict[str, Any], seed: int = 3) -> tuple[int, int, int]:
    """
    Play the native batch beside upstream's envs and compare everything, observations pixel by pixel.

    :return: how many observations of running games were compared, how many last ones of games, and the highest score
    """
    n_envs = 10
    oracles = [OracleSteps(seed + i, frame_skip, cooldown, options) for i in range(n_envs)]
    batch = FlappyBatch(n_envs, GameOptions("pixels", frame_skip, cooldown, **options))
    first = reset(batch, [seed + i for i in range(n_envs)])
    for oracle, observation in zip(oracles, first, strict=True):
        np.testing.assert_array_equal(observation[..., 0], small_gray(oracle.env.render()))
    rng = np.random.default_rng(seed)
    running = ended = best = 0
    while running < n_steps:
        actions = np.array([choose(rng, i % 5, oracle) for i, oracle in enumerate(oracles)])
        results = [oracle.step(int(action)) for oracle, action in zip(oracles, actions, strict=True)]
        observations, rewards, terminated, scores = batch.step(actions)
        for i, actual in enumerate((observations[..., 0], rewards, terminated, scores)):
            np.testing.assert_array_equal(actual, np.stack([result[i] for result in results]))
        dead = np.flatnonzero(terminated)
        running, ended, best = running + n_envs - len(dead), ended + len(dead), max(best, int(scores.max()))
        reset(batch, games=dead)
        for game in dead:
            np.testing.assert_array_equal(observations[game, ..., 0], oracles[game].reset())
    return running, ended, best


@pytest.mark.parametrize("options", OPTIONS[:3])
@pytest.mark.parametrize(("frame_skip", "cooldown", "n_steps"), [(4, 4, 150), (2, 2, 300), (1, 0, 500)])
def test_observations_are_upstreams(frame_skip: int, cooldown: int, n_steps: int, options: dict[str, Any]) -> None:
    running, ended, _ = play_steps(n_steps, frame_skip, cooldown, options)
    assert running > 0 < ended


@pytest.mark.expensive
@pytest.mark.parametrize("options", [*OPTIONS[:2], *(pytest.param(o, marks=pytest.mark.exhaustive) for o in OPTIONS[2:])])
@pytest.mark.parametrize("frame_skip", [1, 4])
def test_20_000_observations_are_upstreams(frame_skip: int, options: dict[str, Any]) -> None:
    running, ended, best = play_steps(20_000, frame_skip, 4, options)
    print(f"skip {frame_skip}, {options}: {running} observations and {ended} last ones equal, best score {best}")


def play_native(n_frames: int, pipe_gap: int, seed: int) -> list[rules.GameState]:
    """States of one game after another, the first frame of each excluded."""
    rng = np.random.default_rng(seed)
    states: list[rules.GameState] = []
    state = rules.init(rng.integers(0, 8, 3))
    while len(states) < n_frames:
        state, _ = rules.step(state, int(rng.random() < 0.1), rng.integers(0, 8), pipe_gap)
        states.append(state)
        if state.terminated:
            state = rules.init(rng.integers(0, 8, 3), state.ground_x, state.wing_next)
    return states


@pytest.mark.parametrize("options", OPTIONS)
def test_full_size_frames_equal_upstreams(options: dict[str, Any]) -> None:
    env = make_upstream(**options)
    env.reset(seed=1)
    gaps = iter(rules.draw_gaps(np.random.default_rng(1), 500))
    state = rules.init(np.array([next(gaps) for _ in range(3)]))
    game = GameOptions(**options)
    pipe_gap, images = game.pipe_gap, sprites.load_sprites(game.colors)
    next_gap = next(gaps)
    for _ in range(250):
        action = scripted(np.random.default_rng(), env, 0, 0)
        *_, terminated, _, _ = env.step(action)
        state, events = rules.step(state, action, next_gap, pipe_gap)
        next_gap = next(gaps) if events.recycled else next_gap
        np.testing.assert_array_equal(sprites.draw_frame(state, images, pipe_gap), env.render())
        if terminated:
            env.reset()
            state = rules.init(np.array([next_gap, next(gaps), next(gaps)]), state.ground_x, state.wing_next)
            next_gap = next(gaps)


@pytest.mark.parametrize("score", [0, 7, 42, 1234567890])
def test_frames_for_people_show_the_score(score: int) -> None:
    env = make_upstream(render_mode="human")
    env.reset(seed=1)
    env._score = score
    env.render()
    shown = np.transpose(pygame.surfarray.array3d(env._surface), axes=(1, 0, 2))
    batch = FlappyBatch(1, GameOptions())
    reset(batch, [1])
    batch.state.score[0] = score
    np.testing.assert_array_equal(batch.render(0, show_score=True), shown)
    env.close()


def test_resizing_is_opencvs() -> None:
    rng = np.random.default_rng(0)
    for levels in (256, 4, 2):  # few levels give many sums that lie between two integers
        frame = (rng.integers(0, levels, (512, 288, 3)) * (255 // (levels - 1))).astype(np.uint8)
        rows = area_resize.shrink_rows(area_resize.shrink_columns(frame, 0, 84), *area_resize.ROW_TAPS)
        np.testing.assert_array_equal(area_resize.to_gray(rows), small_gray(frame))


def test_gray_is_gymnasiums() -> None:
    red, green, blue = np.meshgrid(np.arange(0, 256, 3), np.arange(256), np.arange(256), indexing="ij")
    colors = np.stack([red, green, blue], axis=-1).astype(np.uint8)
    expected = np.sum(np.multiply(colors, np.array([0.2125, 0.7154, 0.0721])), axis=-1).astype(np.uint8)
    np.testing.assert_array_equal(area_resize.to_gray(colors.astype(np.float32)), expected)


def test_pooled_frame_is_the_maximum_of_single_frames() -> None:
    states = play_native(600, 150, 4)
    renderer = Renderer(1, *TABLE_OPTIONS)
    one, two, pooled = (np.zeros((1, 84, 84, 1), dtype=np.uint8) for _ in range(3))
    for before, after in pairwise(states):
        if before.terminated:
            continue
        before, after = (rules.GameState(*(np.asarray(field)[..., None] for field in state)) for state in (before, after))
        renderer.draw(before, one)
        renderer.draw(after, two)
        renderer.draw_pooled(before, after, np.array([True]), pooled)
        np.testing.assert_array_equal(pooled, np.maximum(one, two))
        renderer.draw_pooled(after, after, np.array([False]), pooled)
        np.testing.assert_array_equal(pooled, two)


@pytest.mark.parametrize("obs_type", ["pixels", "features"])
def test_a_game_does_not_depend_on_its_neighbours(obs_type: str) -> None:
    batch, alone = FlappyBatch(5, GameOptions(obs_type)), FlappyBatch(1, GameOptions(obs_type))
    reset(batch, [9, 8, 7, 6, 5])
    reset(alone, [7])
    rng = np.random.default_rng(0)
    for _ in range(300):
        actions = (rng.random(5) < 0.2).astype(int)
        many = step_and_restart(batch, actions)
        one = step_and_restart(alone, actions[2:3])
        for several, single in zip(many, one, strict=True):
            np.testing.assert_array_equal(several[2], single[0])


@pytest.mark.parametrize("obs_type", ["pixels", "features"])
def test_a_snapshot_brings_everything_back(obs_type: str) -> None:
    batch, other = FlappyBatch(6, GameOptions(obs_type)), FlappyBatch(6, GameOptions(obs_type))
    reset(batch, list(range(6)))
    actions = (np.random.default_rng(0).random((400, 6)) < 0.2).astype(int)
    for action in actions[:150]:
        step_and_restart(batch, action)
    snapshot = pickle.loads(pickle.dumps(batch.get_state()))
    expected = [[array.copy() for array in step_and_restart(batch, action)] for action in actions[150:]]
    for copy in (batch, other):
        copy.set_state(snapshot)
        np.testing.assert_array_equal(copy.observations, snapshot.observations)
        for action, results in zip(actions[150:], expected, strict=True):
            for actual, result in zip(step_and_restart(copy, action), results, strict=True):
                np.testing.assert_array_equal(actual, result)


def test_many_resets_keep_the_stream_of_gaps() -> None:
    """More gaps than are drawn at once: one game dies on the ground again and again, its neighbour starts only later."""
    batch = FlappyBatch(2, FEATURES)
    reset(batch, [5], games=[0])
    stream = np.random.default_rng(5).integers(0, 8, size=3 * 40).reshape(40, 3)
    for gaps in stream:
        np.testing.assert_array_equal(batch.state.pipe_gap_index[:, 0], gaps)
        reset(batch, games=[0])
    reset(batch, [5], games=[1])
    np.testing.assert_array_equal(batch.state.pipe_gap_index[:, 1], stream[0])


def test_a_seed_starts_a_game_as_newly_made() -> None:
    batch = FlappyBatch(1, GameOptions())
    first = reset(batch, [3]).copy()
    for _ in range(5):
        batch.step(np.array([0]))
    assert not np.array_equal(reset(batch), first)  # the ground has moved
    np.testing.assert_array_equal(reset(batch, [3]), first)


@pytest.mark.parametrize("actions", [[0], [0, 1, 0], [0, 2], [-1, 0], [0.0, 1.0], [[0, 1]]])
def test_wrong_actions_are_refused(actions: Any) -> None:
    batch = FlappyBatch(2, FEATURES)
    reset(batch, [0, 1])
    with pytest.raises(ValueError, match="2 integers"):
        batch.step(np.array(actions))


def test_a_game_that_is_over_needs_a_reset() -> None:
    batch = FlappyBatch(2, FEATURES)
    with pytest.raises(ResetNeeded, match=r"\[0, 1\]"):
        batch.step(np.array([0, 0]))
    reset(batch, [0, 1])
    terminated = np.zeros(2, dtype=bool)
    while not terminated.any():
        _, _, terminated, _ = batch.step(np.array([0, 1]))
    with pytest.raises(ResetNeeded, match=r"\[0\]"):
        batch.step(np.array([0, 1]))
    reset(batch, games=np.flatnonzero(terminated))
    batch.step(np.array([0, 1]))


TABLE_OPTIONS = (Colors(), 150)


def tables_equal(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_tables_are_small_quick_to_build_and_to_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_FLAPPY_CACHE_DIR", str(tmp_path))
    table_cache.get_tables.cache_clear()
    seconds = []
    for _ in range(2):
        start = time.process_time()  # of this process alone, whatever else the machine does
        tables = table_cache.get_tables(*TABLE_OPTIONS)
        seconds.append(time.process_time() - start)
        table_cache.get_tables.cache_clear()
    print(f"tables drawn in {seconds[0]:.2f} s, read in {seconds[1]:.3f} s, {sum(a.nbytes for a in tables) / 1e6:.1f} MB")
    assert sum(array.nbytes for array in tables) < 40e6
    assert seconds[0] < 5
    assert seconds[1] < 0.1


@pytest.mark.parametrize("damage", ["cut", "flip", "encrypted", "lzma", "empty", "text", "folder"])
def test_damaged_tables_are_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    tables = table_cache.get_tables(*TABLE_OPTIONS)
    monkeypatch.setenv("SBX_FLAPPY_CACHE_DIR", str(tmp_path))
    table_cache.get_tables.cache_clear()
    path = table_cache.table_path(*TABLE_OPTIONS)
    assert path is not None
    table_cache.write_tables(path, tables)
    content = bytearray(path.read_bytes())
    entry = content.rfind(b"PK\x01\x02")  # in the zip file's directory; flags at 8, method at 10
    encrypted, lzma = bytearray(content), bytearray(content)
    encrypted[entry + 8] |= 1
    lzma[entry + 10] = 14
    content[len(content) // 2] ^= 1
    damaged: dict[str, bytes | bytearray] = {
        "cut": content[: len(content) // 2],
        "flip": content,
        "encrypted": encrypted,
        "lzma": lzma,
        "empty": b"",
        "text": b"no zip file",
        "folder": b"",
    }
    path.unlink() if damage == "folder" else path.write_bytes(damaged[damage])
    if damage == "folder":
        path.mkdir()
    assert table_cache.read_tables(path) is None
    assert tables_equal(table_cache.get_tables(*TABLE_OPTIONS), tables)
    table_cache.get_tables.cache_clear()
    assert damage == "folder" or table_cache.read_tables(path) is not None
    assert not list(path.parent.glob("*.tmp"))


NO_TABLES = Tables(*(np.zeros((2, 3)) for _ in Tables._fields))


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
@pytest.mark.parametrize("umask", [0o022, 0o007])
def test_a_shared_folders_files_have_the_umasks_permissions(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        table_cache.write_tables(tmp_path / "new" / "tables-1.npz", NO_TABLES)
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "tables-1.npz").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("where", ["numpy.savez", "os.replace"])
def test_a_write_that_fails_leaves_nothing(
    error: type[BaseException], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(where, fail)
    with pytest.raises(KeyboardInterrupt) if error is KeyboardInterrupt else nullcontext():
        table_cache.write_tables(tmp_path / "tables-1.npz", NO_TABLES)
    assert not list(tmp_path.iterdir())


def test_what_killed_processes_left_is_deleted(tmp_path: Path) -> None:
    """After an hour, and nothing but what is this package's."""
    for name, age in {"tables-old.tmp": 4000, "tables-new.tmp": 3000, "other.tmp": 4000, "tables-old.npz": 4000}.items():
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    table_cache.write_tables(tmp_path / "tables-1.npz", NO_TABLES)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["other.tmp", "tables-1.npz", "tables-new.tmp", "tables-old.npz"]


@pytest.mark.skipif(os.name != "posix", reason="the list of users is POSIX's")
def test_nothing_is_kept_for_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SBX_FLAPPY_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)  # no such user
    assert table_cache.cache_folder() is None
    assert table_cache.table_path(*TABLE_OPTIONS) is None


def test_tables_work_without_a_writable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    monkeypatch.setenv("SBX_FLAPPY_CACHE_DIR", str(obstacle))
    table_cache.get_tables.cache_clear()
    assert table_cache.get_tables(*TABLE_OPTIONS).rows.shape[1] == 21
    table_cache.get_tables.cache_clear()


def read_in_a_process(queue: Any) -> None:
    queue.put([array.sum() for array in table_cache.get_tables(*TABLE_OPTIONS)])


def test_two_processes_may_draw_the_tables_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_FLAPPY_CACHE_DIR", str(tmp_path))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=read_in_a_process, args=(queue,)) for _ in range(2)]
    for process in processes:
        process.start()
    sums = [queue.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    assert sums[0] == sums[1]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "HOME", ".cache/sbx_flappy"),
        ("darwin", "HOME", "Library/Caches/sbx_flappy"),
        ("win32", "LOCALAPPDATA", "sbx_flappy"),
    ],
)
def test_cache_folder_is_the_platforms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, expected: str
) -> None:
    for name in ("SBX_FLAPPY_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr("sys.platform", platform)
    assert table_cache.cache_folder() == tmp_path / expected
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert table_cache.cache_folder() == tmp_path / "xdg" / "sbx_flappy"


def test_the_cache_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBX_FLAPPY_CACHE_DIR", "")
    assert table_cache.table_path(*TABLE_OPTIONS) is None
    table_cache.get_tables.cache_clear()
    assert table_cache.get_tables(*TABLE_OPTIONS).rows.shape[1] == 21
    table_cache.get_tables.cache_clear()


def test_an_old_format_or_another_choice_has_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    first = table_cache.table_path(*TABLE_OPTIONS)
    assert first != table_cache.table_path(Colors("red"), 150)
    monkeypatch.setattr(table_cache, "TABLE_FORMAT", table_cache.TABLE_FORMAT + 1)
    assert first != table_cache.table_path(*TABLE_OPTIONS)


def all_birds() -> rules.GameState:
    """Every height, each with another rotation, wing and phase of the ground, far from pipes and near one."""
    y = np.repeat(np.arange(-60, 381), 6)
    rng = np.random.default_rng(0)
    state = rules.init(rng.integers(0, 8, (3, len(y))), ground_x=-4 * np.tile(np.arange(6), len(y) // 6))
    place = rng.choice(rules.lattice_tenths()[4:100], len(y))
    return state._replace(
        player_y=y.astype(np.int32),
        rotation=rng.choice(np.arange(-90, 46, 3), len(y)).astype(np.int32),
        wing=rng.integers(0, 3, len(y)).astype(np.int32),
        pipe_x=np.stack([place, place + 1440, place + 2880]).astype(np.int32),
    )


@pytest.mark.parametrize("options", OPTIONS[:2])
def test_every_height_and_phase_equals_the_full_size_frame(options: dict[str, Any]) -> None:
    """The full-size frames equal upstream's; whatever they show, the small ones show too, also where no game gets to."""
    game = GameOptions(**options)
    images, pipe_gap = sprites.load_sprites(game.colors), game.pipe_gap
    states = all_birds()
    chosen = np.arange(len(states.player_y)) if options == {} else np.arange(0, len(states.player_y), 7)
    states = rules.GameState(*(field[..., chosen] for field in states))
    frames = np.zeros((len(chosen), 84, 84, 1), dtype=np.uint8)
    Renderer(len(chosen), game.colors, pipe_gap).draw(states, frames)
    for i, frame in enumerate(frames):
        one = rules.GameState(*(field[..., i] for field in states))
        np.testing.assert_array_equal(frame[..., 0], small_gray(sprites.draw_frame(one, images, pipe_gap)), err_msg=str(one))


def test_rotations_are_shown_as_upstream_shows_them() -> None:
    rotation = np.arange(-90, 46, 3)
    shown = [sprites.visible_rotation(int(index)) for index in sprites.rotation_index(rotation)]
    np.testing.assert_array_equal(shown, np.minimum(rotation, c.PLAYER_VISIBLE_ROT))
