"""Saved models: read without trust, written whole or not at all, and never more than one error."""

import base64
import collections
import io
import json
import math
import os
import pickle
import random
import resource
import signal
import stat
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import cloudpickle
import flax.linen as nn
import numpy as np
import optax
import pytest
import stable_baselines3 as sb3
import torch as th
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from rl_zoo3.utils import SimpleLinearSchedule
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from sbx_flappy import PPO, atomic_files
from sbx_flappy.common.features_extractors import BaseFeaturesExtractor
from sbx_flappy.ppo import MlpPolicy
from sbx_flappy.saving.archive import DESCRIPTION
from sbx_flappy.saving.codec import DecodingError, Encoder, EncodingError, decode
from tests.oracle import ACTIONS, OBSERVATIONS, make_env, policy_for

KWARGS: dict[str, Any] = {"n_steps": 24, "batch_size": 16, "n_epochs": 2, "seed": 1}
TRIED = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def make_model(observations: str = "vector", actions: str = "discrete", **kwargs: Any) -> PPO:
    return PPO(policy_for(observations), make_env(observations, actions), **{**KWARGS, **kwargs})


def same(one: Any, other: Any) -> bool:
    """Return whether two models' parameters and optimizers are equal bit by bit."""
    first, second = one.get_parameters(), other.get_parameters()
    leaves = [th.utils._pytree.tree_leaves(parameters) for parameters in (first, second)]
    return len(leaves[0]) == len(leaves[1]) and all(
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(*leaves, strict=True)
    )


# --- the plain form of values -----------------------------------------------------------------------------------------


def round_trip(value: Any) -> Any:
    encode = Encoder()
    plain = json.loads(json.dumps(encode(value, "value"), allow_nan=False))
    return decode(plain, encode.arrays.__getitem__)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
)


@given(PLAIN)
@TRIED
def test_plain_values_come_back(value: Any) -> None:
    assert round_trip(value) == value
    assert repr(round_trip(value)) == repr(value)  # -0.0, and 1 against 1.0 and True


@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.uint8, np.int64, np.bool_, np.float16]), hnp.array_shapes(min_dims=0)
    )
)
@TRIED
def test_arrays_come_back_bit_by_bit(array: np.ndarray) -> None:
    back = round_trip(array)
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert np.array_equal(round_trip(th.from_numpy(array.copy())).numpy(), array, equal_nan=array.dtype.kind == "f")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, (1, (2,)), collections.deque([1, "a"], maxlen=7)], ids=repr)
def test_values_that_json_has_not_come_back(value: Any) -> None:
    assert repr(round_trip(value)) == repr(value)


@pytest.mark.parametrize(
    "space",
    [
        *OBSERVATIONS.values(),
        *ACTIONS.values(),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete(cast(Any, [[2, 3], [4, 5]]), start=cast(Any, [[1, 0], [0, 2]])),
        spaces.MultiBinary([2, 3]),
        spaces.Box(np.array([-np.inf, 0.1], np.float32), np.array([3.0, np.inf], np.float32)),
    ],
    ids=str,
)
def test_spaces_come_back_with_their_generators(space: spaces.Space) -> None:
    space.seed(3)
    back = round_trip(space)
    assert back == space
    assert back.dtype == space.dtype
    assert back.shape == space.shape
    if not isinstance(space, spaces.Dict):
        np.testing.assert_array_equal(back.sample(), space.sample())
    else:
        assert list(back.spaces) == list(space.spaces)


def test_generators_and_running_means_come_back() -> None:
    for kind in (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64):
        generator = np.random.Generator(kind(3))
        assert round_trip(generator).random() == generator.random()
    running = RunningMeanStd(shape=(2,))
    running.update(np.random.default_rng(0).normal(size=(7, 2)))
    back = round_trip(running)
    np.testing.assert_array_equal([back.mean, back.var], [running.mean, running.var])
    assert back.count == running.count


@pytest.mark.parametrize(
    "schedule",
    [
        FloatSchedule(0.1),
        FloatSchedule(LinearSchedule(1.0, 0.1, 0.5)),
        FloatSchedule(SimpleLinearSchedule(0.3)),
        ConstantSchedule(2.0),
    ],
    ids=repr,
)
def test_schedules_come_back(schedule: Any) -> None:
    assert repr(round_trip(schedule)) == repr(schedule)
    assert [round_trip(schedule)(p) for p in (1.0, 0.7, 0.3)] == [schedule(p) for p in (1.0, 0.7, 0.3)]


@pytest.mark.parametrize("value", [th.nn.ReLU, nn.relu, nn.tanh, optax.adam, th.optim.AdamW, MlpPolicy], ids=range(6))
def test_known_classes_and_functions_come_back(value: Any) -> None:
    assert round_trip({"a": [value]})["a"][0] is value


@pytest.mark.parametrize(
    "value", [object(), lambda x: x, os.system, subprocess.Popen, {1, 2}, np.array([object()]), 1j], ids=range(7)
)
def test_other_values_have_no_plain_form(value: Any) -> None:
    with pytest.raises(EncodingError, match=r"things\['a'\]\[1\]"):
        Encoder()({"a": [0, value]}, "things")


@pytest.mark.parametrize(
    "plain",
    [
        {"$name": "os.system"},
        {"$name": ["x"]},
        {"$unknown": 1},
        {"$tuple": 3, "x": 1},
        {"$box": [1, 2]},
        {"$filled": [[10**9, 10**9], "<f4", 0.0]},
        {"$filled": [[2], "O", 0.0]},
        {"$generator": {"bit_generator": "RandomState"}},
        {"$schedule": {"$name": "torch.nn.modules.activation.ReLU"}},
        {"$deque": [1]},
        {"$float": "1e5"},
        {"$multi_binary": [-1, None]},
        {"$dict": [[1, 2, 3]]},
    ],
    ids=str,
)
def test_what_is_no_plain_form_is_one_error(plain: Any) -> None:
    arrays: dict[int, np.ndarray] = {}
    with pytest.raises(DecodingError):
        decode({"a": [plain]}, arrays.__getitem__)


# --- loading without trust --------------------------------------------------------------------------------------------

KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlp": ("vector", "discrete", {}),
    "cnn": ("image", "multi_discrete", {"policy_kwargs": {"share_features_extractor": False}}),
    "dict": ("dict", "multi_binary", {}),
    "gSDE": ("vector", "box", {"use_sde": True, "policy_kwargs": {"squash_output": True, "net_arch": {"pi": [7], "vf": []}}}),
    "schedules": (
        *("vector", "box"),
        {"learning_rate": LinearSchedule(1e-3, 1e-4, 1.0), "clip_range": SimpleLinearSchedule(0.2), "clip_range_vf": 0.3},
    ),
    "classes": (
        *("vector", "discrete"),
        {"policy_kwargs": {"activation_fn": nn.relu, "optimizer_class": th.optim.RMSprop, "optimizer_kwargs": {"alpha": 0.9}}},
    ),
    "optax": ("vector", "discrete", {"policy_kwargs": {"activation_fn": th.nn.ELU, "optimizer_class": optax.lion}}),
    "own arguments": (
        *("vector", "discrete"),
        {"policy_kwargs": {"obs_center": np.arange(5.0), "obs_scale": 2.0, "action_bias_init": [0.0, 1.0, 0.0]}},
    ),
}


@pytest.fixture
def no_pickles(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after whose call nothing can be unpickled any more."""

    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise AssertionError("something was unpickled")

    def forbid() -> None:
        for module in (pickle, cloudpickle):
            monkeypatch.setattr(module, "loads", refuse)
            monkeypatch.setattr(module, "load", refuse)
        monkeypatch.setattr(pickle, "Unpickler", refuse)
        monkeypatch.setattr(th, "load", refuse)

    return forbid


@pytest.mark.parametrize("kind", KINDS)
def test_safe_load_gives_what_load_gives_and_unpickles_nothing(
    kind: str, tmp_path: Path, no_pickles: Callable[[], None]
) -> None:
    observations, actions, kwargs = KINDS[kind]
    model = make_model(observations, actions, **kwargs).learn(96)
    model.save(tmp_path / "model")
    env = make_env(observations, actions)
    loaded = PPO.load(tmp_path / "model", env=env)
    no_pickles()
    safe = PPO.load(tmp_path / "model", env=env, safe=True)
    assert same(safe, loaded)
    assert same(safe, model)
    assert set(safe.__dict__) == set(loaded.__dict__)
    assert (safe.num_timesteps, safe._n_updates, safe.seed, safe.n_epochs) == (96, model._n_updates, 1, 2)
    assert list(safe.ep_info_buffer) == list(model.ep_info_buffer)  # type: ignore[arg-type]
    assert safe.observation_space == model.observation_space
    assert safe.action_space == model.action_space
    for one in (safe, loaded):
        one.set_random_seed(5)
        one.learn(48, reset_num_timesteps=False)
    assert same(safe, loaded)


def test_safe_load_goes_on_where_a_training_was_saved(tmp_path: Path, no_pickles: Callable[[], None]) -> None:
    kwargs = {**KWARGS, "batch_size": 12}
    model = PPO("MlpPolicy", "CartPole-v1", **kwargs).learn(96)
    model.save(tmp_path / "model", resumable=True)
    model.learn(48, reset_num_timesteps=False)
    no_pickles()
    safe = PPO.load(tmp_path / "model", env=PPO("MlpPolicy", "CartPole-v1", **kwargs).env, safe=True)
    assert safe.resumption.is_pending
    safe.learn(48, reset_num_timesteps=False)
    assert same(safe, model)


class Marker:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def replace_entries(source: Path, target: Path, **contents: bytes | None) -> None:
    """Copy a zip file with other contents of some entries; None leaves one out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = contents.get(name.replace(".", "_"), old.read(name))
            if content is not None:
                new.writestr(name, content)


def test_pickles_of_a_stranger_do_not_run(tmp_path: Path) -> None:
    make_model().learn(48).save(tmp_path / "model")
    ran = tmp_path / "ran"
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        data = json.loads(archive.read("data"))
    evil = base64.b64encode(pickle.dumps(Marker(ran))).decode()
    data = {name: {":type:": "evil", ":serialized:": evil} for name in data}
    with zipfile.ZipFile(tmp_path / "model.zip") as archive, zipfile.ZipFile(tmp_path / "nested.zip", "w") as nested:
        old = zipfile.ZipFile(io.BytesIO(archive.read("policy.pth")))
        for name in old.namelist():
            nested.writestr(name, pickle.dumps(Marker(ran)) if name.endswith(".pkl") else old.read(name))
    policy = (tmp_path / "nested.zip").read_bytes()
    replace_entries(tmp_path / "model.zip", tmp_path / "evil.zip", data=json.dumps(data).encode(), policy_pth=policy)
    assert PPO.load(tmp_path / "evil.zip", safe=True).num_timesteps == 48
    assert not ran.exists()
    replace_entries(tmp_path / "model.zip", tmp_path / "worse.zip", data=json.dumps(data).encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, TypeError, AttributeError)):
            PPO.load(tmp_path / "worse.zip")
    assert ran.exists()  # the test would notice


class Net(BaseFeaturesExtractor):
    @nn.compact
    def __call__(self, observations: Any) -> Any:
        return nn.Dense(3)(observations)


class OwnPolicy(MlpPolicy):
    """A policy of the user's own."""


@pytest.mark.parametrize(
    ("name", "policy", "kwargs", "replacement"),
    [
        ("learning_rate", "MlpPolicy", {"learning_rate": lambda p: 1e-3 * p}, 1e-3),
        ("clip_range", "MlpPolicy", {"clip_range": lambda p: 0.2}, 0.2),
        (
            "policy_kwargs",
            "MlpPolicy",
            {"policy_kwargs": {"features_extractor_class": Net}},
            {"features_extractor_class": Net},
        ),
        ("policy_class", OwnPolicy, {}, OwnPolicy),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_only_a_pickle_holds_is_named_and_may_be_replaced(
    name: str, policy: Any, kwargs: dict[str, Any], replacement: Any, tmp_path: Path
) -> None:
    model = PPO(policy, make_env(), **{**KWARGS, **kwargs}).learn(48)
    model.save(tmp_path / "model")
    assert same(PPO.load(tmp_path / "model"), model)
    with pytest.raises(ValueError, match=rf"attribute '{name}' has no plain form.*custom_objects={{'{name}': \.\.\.}}"):
        PPO.load(tmp_path / "model", safe=True)
    assert same(PPO.load(tmp_path / "model", custom_objects={name: replacement}, safe=True), model)


def test_files_without_a_description_are_refused_with_the_remedy(tmp_path: Path) -> None:
    sb3.PPO("MlpPolicy", make_env(), device="cpu", **KWARGS).save(tmp_path / "torch")
    with pytest.raises(ValueError, match=rf"has no entry '{DESCRIPTION}'.*load it without safe=True"):
        PPO.load(tmp_path / "torch", safe=True)
    PPO.load(tmp_path / "torch").save(tmp_path / "ours")
    assert same(PPO.load(tmp_path / "ours", safe=True), PPO.load(tmp_path / "torch"))


def test_arguments_of_load_are_those_of_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_model(verbose=0).learn(48).save(tmp_path / "model")
    safe = PPO.load(tmp_path / "model", env=make_env(n_envs=3), safe=True, n_steps=8, batch_size=12, print_system_info=True)
    assert (safe.n_envs, safe.n_steps, safe.batch_size) == (3, 8, 12)
    assert "== SAVED MODEL SYSTEM INFO ==" in capsys.readouterr().out
    safe.learn(24)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'n_step'.*n_steps"):
        PPO.load(tmp_path / "model", safe=True, n_step=8)
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        PPO.load(tmp_path / "model", env=make_env("matrix"), safe=True)
    with pytest.raises(ValueError, match="policy kwargs do not equal"):
        PPO.load(tmp_path / "model", safe=True, policy_kwargs={"net_arch": [3]})
    with pytest.raises(ValueError, match="`n_steps` must be"):
        PPO.load(tmp_path / "model", safe=True, n_steps=-1)
    with pytest.raises(FileNotFoundError):
        PPO.load(tmp_path / "nothing", safe=True)
    with open(tmp_path / "model.zip", "rb") as file:
        assert same(PPO.load(file, safe=True), PPO.load(tmp_path / "model"))


def test_file_is_sb3s_and_holds_the_weights_once(tmp_path: Path) -> None:
    model = make_model("image").learn(48)
    model.save(tmp_path / "model")
    data, parameters, _ = load_from_zip_file(tmp_path / "model", device="cpu")
    assert data is not None
    assert data["n_steps"] == 24
    assert set(parameters) == {"policy", "policy.optimizer"}
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        weights = archive.getinfo("policy.pth").file_size + archive.getinfo("policy.optimizer.pth").file_size
        rest = sum(entry.file_size for entry in archive.infolist()) - weights
    assert rest < 0.05 * weights


def test_arrays_that_are_not_what_was_saved_are_refused(tmp_path: Path) -> None:
    make_model().learn(48).save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        description = json.loads(archive.read(DESCRIPTION))
    for change in (
        {"shape": [10**6, 10**6]},
        {"dtype": "|O"},
        {"sha256": "0"},
        {"entry": "data"},
        {"shape": [-1]},
        {"dtype": "<f8"},
    ):
        table = [{**row, **change} for row in description["arrays"]]
        content = json.dumps({**description, "arrays": table}).encode()
        replace_entries(tmp_path / "model.zip", tmp_path / "other.zip", sbx_flappy_json=content)
        with pytest.raises(ValueError, match="truncated or damaged"):
            PPO.load(tmp_path / "other.zip", safe=True)


def test_networks_larger_than_the_file_are_refused_before_they_are_made(tmp_path: Path) -> None:
    make_model(policy_kwargs={"net_arch": [4]}).learn(48).save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        description = json.loads(archive.read(DESCRIPTION))
    description["data"]["policy_kwargs"]["net_arch"] = [10**6, 10**6]
    replace_entries(tmp_path / "model.zip", tmp_path / "huge.zip", sbx_flappy_json=json.dumps(description).encode())
    with pytest.raises(ValueError, match="parameters, but the file holds fewer"):
        PPO.load(tmp_path / "huge.zip", safe=True)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file of a small model."""
    path = tmp_path_factory.mktemp("small") / "model.zip"
    make_model(policy_kwargs={"net_arch": [2]}).learn(48).save(path)
    return path.read_bytes()


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Return a file with damage of one kind or another."""
    kind = rng.randrange(8)
    damaged = bytearray(content)
    position = rng.randrange(len(content))
    if kind == 0:
        return content[:position]
    if kind == 1:
        return content[position:]
    if kind == 2:
        return rng.randbytes(rng.randrange(2000))
    if kind == 3:  # the zip file's own tables lie at the end
        position = len(content) - 1 - rng.randrange(min(len(content), 1500))
    if kind in (3, 4):
        damaged[position] ^= 1 << rng.randrange(8)
        return bytes(damaged)
    if kind == 5:
        length = rng.randrange(1, 200)
        damaged[position : position + length] = rng.randbytes(length)
        return bytes(damaged)
    return mutate_entries(content, rng)


def mutate_entries(content: bytes, rng: random.Random) -> bytes:
    """Return a sound zip file with an entry left out, renamed, doubled or changed, or with other JSON."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(file, "w") as new, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an entry that is there twice
        victim = rng.choice(old.namelist())
        how = rng.choice(["drop", "rename", "double", "cut", "json"])
        for name in old.namelist():
            entry = old.read(name)
            if how == "json" and name == DESCRIPTION:
                entry = json.dumps(mutate_json(json.loads(entry), rng)).encode()
            if name == victim and how == "drop":
                continue
            if name == victim and how == "cut":
                entry = entry[: rng.randrange(len(entry) + 1)]
            new.writestr(f"{name}x" if name == victim and how == "rename" else name, entry)
            if name == victim and how == "double":
                new.writestr(name, entry)
    return file.getvalue()


def mutate_json(value: Any, rng: random.Random) -> Any:
    """Return JSON with something else in one place."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.05:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: mutate_json(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        i = rng.randrange(len(value))
        return [*value[:i], mutate_json(value[i], rng), *value[i + 1 :]]
    others: list[Any] = [None, -1, 0, 10**12, 1e300, "x", [], {}, {"$array": 0}, {"$array": -1}, {"$name": "os.system"}, True]
    return rng.choice(others)


def try_to_load(content: bytes, path: Path) -> None:
    """Load a damaged file in both ways: each ends in a ValueError, or in a model."""
    path.write_bytes(content)
    for safe in (False, True):
        try:
            model = PPO.load(path, safe=safe)
        except ValueError as e:
            assert str(e)  # noqa: PT017 (it may also load)
        else:
            model.predict(np.zeros(5, np.float32))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_end_in_one_kind_of_error(seed: int, small: bytes, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        try_to_load(mutate(small, rng), tmp_path / "model.zip")


@pytest.mark.expensive
@pytest.mark.parametrize("seed", range(100, 104))
def test_thousands_of_damaged_files_end_in_one_kind_of_error(seed: int, small: bytes, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for _ in range(750):
        try_to_load(mutate(small, rng), tmp_path / "model.zip")


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize(
    "content", [b"", b"PK", b"not a zip file" * 100, zipfile.ZipFile], ids=["empty", "short", "text", "foreign"]
)
def test_foreign_files_are_named_in_the_error(content: Any, safe: bool, tmp_path: Path) -> None:
    if content is zipfile.ZipFile:
        with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
            archive.writestr("photos/cat.jpg", b"meow")
    else:
        (tmp_path / "model.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.zip"):
        PPO.load(tmp_path / "model.zip", safe=safe)


BOMB = """
import resource, sys
from sbx_flappy import PPO
import jax; jax.devices()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    for safe in (False, True):
        try:
            PPO.load(path, safe=safe)
        except ValueError as e:
            assert "would expand" in str(e), e
        else:
            raise SystemExit("it was loaded")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_bombs_are_refused_in_bounded_memory(small: bytes, tmp_path: Path) -> None:
    entries = ("data", DESCRIPTION, "policy.pth", "extra")
    for entry in entries:
        path = tmp_path / f"{entry}.zip"
        with zipfile.ZipFile(io.BytesIO(small)) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for name in (name for name in old.namelist() if name != entry):
                new.writestr(name, old.read(name))
            new.writestr(entry, bytes(300 * 2**20))
        assert path.stat().st_size < 2**20
    paths = [str(tmp_path / f"{entry}.zip") for entry in entries]
    result = subprocess.run([sys.executable, "-c", BOMB, *paths], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 100  # megabytes, for 300 of zeros


def test_a_bomb_within_torchs_entry_is_refused(small: bytes, tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as nested:
        nested.writestr("archive/data/0", bytes(2**28))
    with zipfile.ZipFile(io.BytesIO(small)) as old, zipfile.ZipFile(tmp_path / "bomb.zip", "w") as new:
        for name in old.namelist():
            new.writestr(name, inner.getvalue() if name == "policy.pth" else old.read(name))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="compressed in an unusual way"):
        PPO.load(tmp_path / "bomb.zip")
    with pytest.raises(ValueError, match="compressed in an unusual way"):
        PPO.load(tmp_path / "bomb.zip", safe=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def test_a_tensor_that_repeats_its_memory_is_refused(small: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(small)) as old, zipfile.ZipFile(tmp_path / "bomb.zip", "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "policy.optimizer.pth":
                state = th.load(io.BytesIO(content), weights_only=True)
                state["state"][0]["exp_avg"] = th.zeros(1).expand(10**6, 10**6)
                file = io.BytesIO()
                th.save(state, file)
                content = file.getvalue()
            new.writestr(name, content)
    with pytest.raises(ValueError, match="larger than its memory"):
        PPO.load(tmp_path / "bomb.zip")


class ByteArray:
    """A gigabyte when it is unpickled, which torch allows."""

    def __reduce__(self) -> Any:
        return (bytearray, (2**30,))


def test_a_pickle_that_makes_bytes_of_nothing_is_refused(small: bytes, tmp_path: Path) -> None:
    file = io.BytesIO()
    th.save({"x": ByteArray()}, file)
    with zipfile.ZipFile(io.BytesIO(small)) as old, zipfile.ZipFile(tmp_path / "bomb.zip", "w") as new:
        for name in old.namelist():
            new.writestr(name, file.getvalue() if name == "policy.pth" else old.read(name))
    with pytest.raises(ValueError, match=r"names '.*builtin.* bytearray'"):
        PPO.load(tmp_path / "bomb.zip")


@pytest.mark.parametrize(("kind", "key"), [("MT19937", "pos"), ("Philox", "buffer_pos")])
def test_generators_with_impossible_positions_are_refused(kind: str, key: str) -> None:
    encode = Encoder()
    plain = encode(np.random.Generator(getattr(np.random, kind)(3)), "value")
    state = plain["$generator"]
    (state["state"] if key in state["state"] else state)[key] = 10**6
    with pytest.raises(DecodingError, match="positions"):
        decode(plain, encode.arrays.__getitem__)


def test_overlapping_entries_are_refused(small: bytes, tmp_path: Path) -> None:
    """Each entry claims the whole file as its compressed content."""
    content = bytearray(small)
    position, n_entries = content.find(b"PK\x01\x02"), 0
    while position >= 0:
        content[position + 20 : position + 24] = (len(content) - 1).to_bytes(4, "little")
        position, n_entries = content.find(b"PK\x01\x02", position + 4), n_entries + 1
    assert n_entries > 3
    (tmp_path / "model.zip").write_bytes(content)
    for safe in (False, True):
        with pytest.raises(ValueError, match="truncated or damaged"):
            PPO.load(tmp_path / "model.zip", safe=safe)


# --- writing ----------------------------------------------------------------------------------------------------------


def test_saving_leaves_nothing_else_behind(tmp_path: Path) -> None:
    model = make_model()
    for _ in range(2):
        model.save(tmp_path / "model")
    assert os.listdir(tmp_path) == ["model.zip"]
    with pytest.warns(UserWarning, match="does not exist. Will create it"):
        model.save(tmp_path / "new" / "folder" / "model.name")
    assert os.listdir(tmp_path / "new" / "folder") == ["model.name"]
    (tmp_path / "folder.zip").mkdir()
    with pytest.warns(UserWarning, match=r"is a folder. Will save instead to .*folder\.zip_2"):
        model.save(tmp_path / "folder")
    assert same(PPO.load(tmp_path / "folder.zip_2"), model)


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    model, path = make_model(), tmp_path / "model.zip"
    model.save(path)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    (tmp_path / "link.zip").symlink_to(path)
    model.save(tmp_path / "link")
    assert (tmp_path / "link.zip").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert same(PPO.load(path), model)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_save_leaves_the_previous_file(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    model.save(tmp_path / "model")
    before = (tmp_path / "model.zip").read_bytes()

    def fail(*_args: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space left"):
        model.learn(48).save(tmp_path / "model")
    assert (tmp_path / "model.zip").read_bytes() == before
    assert os.listdir(tmp_path) == ["model.zip"]


def test_what_killed_processes_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    old, new = tmp_path / ".model.zip.abc.tmp", tmp_path / ".model.zip.def.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * atomic_files.STALE_SECONDS,) * 2)
    make_model().save(tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == [new.name, "model.zip"]


def test_open_files_are_checked_before_anything_is_written(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb") as file:
        make_model().save(file)
    with open(tmp_path / "file", "rb") as written:
        assert same(PPO.load(written, safe=True), make_model())
    with pytest.raises(TypeError, match="invalid type"):
        make_model().save(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is closed"):
        make_model().save(file)


SAVER = """
import sys
from sbx_flappy import PPO
from stable_baselines3.common.callbacks import CheckpointCallback
folder, how = sys.argv[1:]
model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, n_epochs=1, policy_kwargs=dict(net_arch=[256, 256]), seed=0)
model.save(f"{folder}/model")
print("ready", flush=True)
class Same(CheckpointCallback):
    def _checkpoint_path(self, checkpoint_type="", extension=""):
        return f"{folder}/model.{extension}"
while how == "save":
    model.save(f"{folder}/model")
model.learn(10**9, callback=Same(save_freq=1, save_path=folder))
"""


@pytest.mark.expensive
@pytest.mark.parametrize("how", ["save", "callback"])
def test_a_kill_at_any_moment_leaves_a_whole_file(how: str, tmp_path: Path) -> None:
    rng = random.Random(0)
    for _ in range(6):
        command = [sys.executable, "-c", SAVER, str(tmp_path), how]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                for _ in range(10):  # the file that is there is whole while others are written
                    time.sleep(rng.random() * 0.05)
                    assert PPO.load(tmp_path / "model", safe=True).seed == 0
            finally:
                process.send_signal(signal.SIGKILL)
        assert PPO.load(tmp_path / "model").seed == 0


def test_checkpoint_callbacks_files_are_whole(tmp_path: Path) -> None:
    model = make_model()
    model.learn(96, callback=CheckpointCallback(save_freq=24, save_path=str(tmp_path)))
    assert sorted(os.listdir(tmp_path)) == ["rl_model_48_steps.zip", "rl_model_96_steps.zip"]
    assert PPO.load(tmp_path / "rl_model_96_steps", safe=True).num_timesteps == 96
