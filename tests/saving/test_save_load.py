"""Files: what is saved comes back, torch SB3's files too, and what changes on the way is what was asked for."""

import base64
import gc
import io
import json
import os
import pickletools
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch as th
from sb3_contrib.common.wrappers import TimeFeatureWrapper
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from sbx_flappy import PPO
from sbx_flappy.ppo import CnnPolicy, MlpPolicy
from tests.compilation import compilations
from tests.oracle import ACTIONS, OBSERVATIONS, RandomEnv, Recorder, copy_rollout, make_env, policy_for, train_both

KWARGS: dict[str, Any] = {"n_steps": 24, "batch_size": 16, "n_epochs": 3, "gamma": 0.9, "gae_lambda": 0.8, "seed": 1}
OBS = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5)

FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlp": ("vector", "discrete", {}),
    "box": ("vector", "box", {}),
    "cnn": ("image", "discrete", {}),
    "dict": ("dict", "discrete", {}),
    "gSDE": ("vector", "box", {"use_sde": True}),
    "separate extractors": ("image", "discrete", {"policy_kwargs": {"share_features_extractor": False}}),
    "schedules": ("vector", "discrete", {"learning_rate": LinearSchedule(1e-3, 1e-4, 1.0), "clip_range_vf": 0.3}),
}


def make_model(observations: str = "vector", actions: str = "discrete", **kwargs: Any) -> PPO:
    return PPO(policy_for(observations), make_env(observations, actions), **{**KWARGS, **kwargs})


def resave(model: Any, **kwargs: Any) -> io.BytesIO:
    """Return a file with the model."""
    file = io.BytesIO()
    model.save(file, **kwargs)
    file.seek(0)
    return file


def collect(model: Any) -> None:
    """Fill the model's rollout buffer."""
    _, callback = model._setup_learn(10_000)
    assert model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)


def flat(state_dict: dict[str, Any]) -> np.ndarray:
    """Return the moments of an optimizer as one vector."""
    return np.concatenate([value.numpy().ravel() for entry in state_dict["state"].values() for value in entry.values()])


# --- our own files ----------------------------------------------------------------------------------------------------


@pytest.mark.fault(13)
@pytest.mark.parametrize("kind", ["mlp", "gSDE", "cnn"])
def test_loaded_model_is_the_saved_one_and_learns_on_alike(kind: str) -> None:
    observations, actions, kwargs = FILES[kind]
    model = make_model(observations, actions, **kwargs, learning_rate=LinearSchedule(1e-3, 1e-4, 1.0)).learn(48)
    loaded = PPO.load(resave(model), env=make_env(observations, actions))
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), loaded.policy.parameters_to_vector())
    np.testing.assert_array_equal(flat(model.policy.optimizer.state_dict()), flat(loaded.policy.optimizer.state_dict()))
    for name in ("num_timesteps", "_n_updates", "n_steps", "gamma", "seed", "_current_progress_remaining", "batch_size"):
        assert getattr(model, name) == getattr(loaded, name), name
    assert loaded.policy.optimizer.param_groups[0]["lr"] == model.policy.optimizer.param_groups[0]["lr"] != 1e-3
    for each in (model, loaded):
        assert each.env is not None
        each.env.seed(3)
        each._last_obs = None
        each.set_random_seed(3)
        each.learn(2 * 48, reset_num_timesteps=False)
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), loaded.policy.parameters_to_vector())
    assert loaded.num_timesteps == 3 * 48
    assert loaded._n_updates == 9


def test_model_saves_before_it_learned_anything() -> None:
    model = make_model()
    loaded = PPO.load(resave(model))
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), loaded.policy.parameters_to_vector())
    assert loaded.policy.optimizer.state_dict()["state"] == {}


@pytest.mark.parametrize("name", ["model", "model.zip", Path("model"), Path("model.zip"), Path("new folder") / "model"])
@pytest.mark.filterwarnings("ignore:Path .* does not exist. Will create it:UserWarning")
def test_path_may_be_a_string_or_a_path_with_or_without_suffix(
    name: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = make_model()
    model.save(name)
    assert len(list(tmp_path.rglob("model.zip"))) == 1
    action = PPO.load(name).predict(OBS, deterministic=True)[0]
    np.testing.assert_array_equal(action, model.predict(OBS, deterministic=True)[0])


def test_open_files_are_read_and_written(tmp_path: Path) -> None:
    model = make_model()
    with (tmp_path / "model.bin").open("wb") as file:
        model.save(file)
    with (tmp_path / "model.bin").open("rb") as file:
        loaded = PPO.load(file)
        other = make_model(seed=2)
        other.set_parameters(file)
    np.testing.assert_array_equal(loaded.policy.parameters_to_vector(), model.policy.parameters_to_vector())
    np.testing.assert_array_equal(other.policy.parameters_to_vector(), model.policy.parameters_to_vector())


def test_exclude_and_include() -> None:
    model = make_model()
    names = set()
    for kwargs in ({}, {"exclude": ["gamma"]}, {"include": ["_custom_logger"]}):
        with zipfile.ZipFile(resave(model, **kwargs)) as archive:
            names.add(frozenset(json.loads(archive.read("data"))) & {"gamma", "_custom_logger", "env", "_device_name"})
    assert names == {frozenset({"gamma"}), frozenset(), frozenset({"gamma", "_custom_logger"})}


def test_lambdas_and_other_functions_are_saved() -> None:
    model = make_model(learning_rate=lambda remaining: 1e-3 * remaining, clip_range=lambda remaining: 0.1 + remaining)
    loaded = PPO.load(resave(model))
    assert loaded.lr_schedule(0.5) == 5e-4
    assert callable(loaded.clip_range)
    assert loaded.clip_range(0.5) == 0.6


@pytest.mark.fault(27)
def test_built_in_schedules_are_classes() -> None:
    model = make_model(learning_rate=1e-3, clip_range=0.3, clip_range_vf=0.4)
    for schedule in (model.lr_schedule, model.clip_range, model.clip_range_vf):
        assert isinstance(schedule, FloatSchedule)
        assert isinstance(schedule.value_schedule, ConstantSchedule)


def holds_code(file: io.BytesIO) -> bool:
    """Return whether a file holds a function's byte code, which only the Python that wrote it can read."""
    with zipfile.ZipFile(file) as archive:
        entries = json.loads(archive.read("data")).values()
    pickles = [base64.b64decode(e[":serialized:"]) for e in entries if isinstance(e, dict) and ":serialized:" in e]
    assert len(pickles) > 3
    return any("CodeType" in str(argument) for data in pickles for _, argument, _ in pickletools.genops(data))


@pytest.mark.fault(27)
def test_files_hold_no_byte_code_unless_the_user_gives_a_function() -> None:
    schedules: dict[str, Any] = {"learning_rate": LinearSchedule(1e-3, 1e-4, 1.0), "clip_range": 0.3, "clip_range_vf": 0.4}
    policy_kwargs = {"activation_fn": th.nn.ReLU, "optimizer_class": th.optim.AdamW}
    model = make_model(**schedules, policy_kwargs=policy_kwargs).learn(48)
    assert not holds_code(resave(model))
    assert not holds_code(resave(model, resumable=True))
    assert holds_code(resave(make_model(clip_range=lambda _: 0.2)))


@pytest.mark.fault(31)
def test_many_loads_compile_nothing_anew() -> None:
    model = make_model()
    file = resave(model)
    PPO.load(file).predict(OBS)
    with compilations() as compiled:
        for _ in range(4):
            file.seek(0)
            PPO.load(file).predict(OBS)
    assert compiled == []


@pytest.mark.fault(31)
@pytest.mark.parametrize("kind", ["mlp", "cnn", "gSDE"])
def test_a_loaded_model_that_is_let_go_frees_its_arrays_at_once(kind: str) -> None:
    """Python looks for cycles among old objects so rarely that models which wait for it would fill the memory."""
    observations, actions, kwargs = FILES[kind]
    file, env = resave(make_model(observations, actions, **kwargs).learn(48)), make_env(observations, actions)
    gc.collect()
    gc.disable()
    try:
        before = len(jax.live_arrays())
        for _ in range(2):
            file.seek(0)
            PPO.load(file, env=env).predict(env.observation_space.sample())
        assert len(jax.live_arrays()) == before
    finally:
        gc.enable()


SAVE_ON_THE_SECOND_DEVICE = """
import sys, jax
from sbx_flappy import PPO
model = PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device=jax.devices()[1]).learn(8)
assert model.policy.params["action_net"]["bias"].devices() == {jax.devices()[1]}
model.save(sys.argv[1])
"""


@pytest.mark.fault(31)
def test_model_of_a_device_that_is_not_here_loads(tmp_path: Path) -> None:
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SAVE_ON_THE_SECOND_DEVICE, str(tmp_path / "model")]
    subprocess.run(command, env=env, check=True, timeout=120, cwd=Path(__file__).parents[2])
    assert len(jax.devices()) == 1 or jax.default_backend() != "cpu"
    loaded = PPO.load(tmp_path / "model", env=make_vec_env("CartPole-v1"))
    (device,) = loaded.policy.params["action_net"]["bias"].devices()
    assert device == jax.devices()[0]
    assert loaded.learn(8).num_timesteps == 8


def test_cnn_policys_class_is_kept() -> None:
    policy_kwargs = {"features_extractor_kwargs": {"features_dim": 8}}
    loaded = PPO.load(resave(make_model("image", policy_kwargs=policy_kwargs)))
    assert type(loaded.policy) is CnnPolicy
    assert loaded.policy.features_dim == 8


# --- changes on loading -----------------------------------------------------------------------------------------------


@pytest.mark.fault(28)
def test_custom_objects_as_rl_zoos_enjoy_passes_them() -> None:
    model = make_model(learning_rate=lambda remaining: remaining).learn(48)
    custom_objects = {"learning_rate": 0.0, "lr_schedule": lambda _: 0.0, "clip_range": lambda _: 0.0}
    loaded = PPO.load(resave(model), custom_objects=custom_objects, device="auto", seed=0)
    np.testing.assert_array_equal(loaded.predict(OBS, deterministic=True)[0], model.predict(OBS, deterministic=True)[0])
    assert loaded.learning_rate == 0.0
    assert callable(loaded.clip_range)
    assert loaded.clip_range(1.0) == 0.0


@pytest.mark.fault(26)
def test_keyword_arguments_change_the_model() -> None:
    model = make_model()
    changed = PPO.load(resave(model), env=make_env(), n_steps=12, batch_size=8, n_epochs=2, gamma=0.5, learning_rate=1e-2)
    assert changed.rollout_buffer.buffer_size == 12
    assert changed.rollout_buffer.gamma == 0.5
    changed.set_logger(Recorder())
    changed.learn(24)
    assert changed.num_timesteps == 24
    assert changed.logger.name_to_value["train/n_updates"] == 2
    assert changed.policy.optimizer.param_groups[0]["lr"] == 1e-2


@pytest.mark.fault(26)
@pytest.mark.parametrize("n_envs", [1, 3])
def test_number_of_environments_may_change(n_envs: int) -> None:
    model = make_model().learn(48)
    loaded = PPO.load(resave(model), env=make_env(n_envs=n_envs), n_steps=48 // n_envs)
    assert loaded._last_obs is None
    assert loaded.n_envs == n_envs
    loaded.learn(48)
    assert loaded.rollout_buffer.n_envs == n_envs
    assert cast(np.ndarray, loaded._last_obs).shape == (n_envs, 5)


def test_last_observation_is_kept_when_the_reset_is_not_forced() -> None:
    model = make_model().learn(48)
    kept = PPO.load(resave(model), env=model.env, force_reset=False)
    np.testing.assert_array_equal(kept._last_obs, model._last_obs)


def test_env_may_be_set_afterwards() -> None:
    loaded = PPO.load(resave(make_model()))
    loaded.set_env(make_env())
    assert loaded.learn(48).num_timesteps == 48
    with pytest.raises(AssertionError, match="The number of environments to be set is different"):
        loaded.set_env(make_env(n_envs=3))
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        loaded.set_env(make_env("matrix"))
    with pytest.raises(ValueError, match="Action spaces do not match"):
        loaded.set_env(make_env(actions="box"))


def test_env_that_is_no_vec_env_is_wrapped_on_loading() -> None:
    loaded = PPO.load(resave(make_model()), env=RandomEnv(OBSERVATIONS["vector"], ACTIONS["discrete"]), n_steps=48)
    assert loaded.learn(48).num_timesteps == 48


def test_env_that_does_not_fit_is_refused() -> None:
    env = TimeFeatureWrapper(RandomEnv(OBSERVATIONS["vector"], ACTIONS["discrete"]))
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        PPO.load(resave(make_model()), env=env)


def test_other_policy_kwargs_are_refused_as_in_sb3() -> None:
    file = resave(make_model(policy_kwargs={"net_arch": [4]}))
    with pytest.raises(ValueError, match="The specified policy kwargs do not equal the stored policy kwargs"):
        PPO.load(file, policy_kwargs={"net_arch": [5]})


# --- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.fault(29)
def test_parameters_of_one_model_in_another() -> None:
    first, second = make_model(seed=1).learn(48), make_model(seed=2)
    second.set_parameters(first.get_parameters(), exact_match=True)
    np.testing.assert_array_equal(first.policy.parameters_to_vector(), second.policy.parameters_to_vector())
    assert set(first.get_parameters()) == {"policy", "policy.optimizer"}
    np.testing.assert_array_equal(flat(first.policy.optimizer.state_dict()), flat(second.policy.optimizer.state_dict()))


def test_parameters_that_were_taken_out_do_not_follow_the_model() -> None:
    model = make_model()
    parameters = model.get_parameters()
    copied = {name: tensor.clone() for name, tensor in parameters["policy"].items()}
    model.learn(48)
    assert all(th.equal(parameters["policy"][name], tensor) for name, tensor in copied.items())
    for tensor in parameters["policy"].values():
        tensor.zero_()
    assert np.any(model.policy.parameters_to_vector() != 0)


@pytest.mark.fault(29)
def test_some_parameters_may_be_set_when_no_exact_match_is_asked_for() -> None:
    model = make_model()
    before = model.policy.state_dict()
    bias = th.tensor([1.0, 2.0, 3.0])
    model.set_parameters({"policy": {"action_net.bias": bias}}, exact_match=False)
    after = model.policy.state_dict()
    assert th.equal(after["action_net.bias"], bias)
    assert all(th.equal(after[name], before[name]) for name in before if name != "action_net.bias")


@pytest.mark.fault(29)
@pytest.mark.parametrize(
    "change",
    [
        lambda parameters: parameters.pop("policy.optimizer"),
        lambda parameters: parameters["policy"].pop("value_net.bias"),
        lambda parameters: parameters["policy"].update(unknown=th.zeros(1)),
        lambda parameters: parameters["policy"].update({"value_net.bias": th.zeros(2)}),
        lambda parameters: parameters.update(unknown={}),
    ],
)
def test_parameters_that_do_not_match_raise_what_sb3_raises(change: Any) -> None:
    errors = []
    for algorithm in (PPO, sb3.PPO):
        model = algorithm("MlpPolicy", make_env(), **KWARGS)
        parameters: Any = model.get_parameters()
        parameters["policy"] = dict(parameters["policy"])
        change(parameters)
        with pytest.raises((ValueError, RuntimeError)) as caught:
            model.set_parameters(parameters, exact_match=True)
        errors.append((caught.type, str(caught.value)))
    assert errors[0][0] is errors[1][0]
    assert errors[0][1].split() == errors[1][1].split()  # torch breaks the lines elsewhere


# --- files of torch SB3 -----------------------------------------------------------------------------------------------


@pytest.mark.fault(30)
@pytest.mark.parametrize("kind", FILES)
def test_file_of_torch_sb3_goes_on_as_it_would_there(kind: str) -> None:
    observations, actions, kwargs = FILES[kind]
    env = make_env(observations, actions)
    theirs = sb3.PPO(policy_for(observations), env, device="cpu", **{**KWARGS, **kwargs}).learn(48)
    ours = PPO.load(resave(theirs), env=make_env(observations, actions))
    np.testing.assert_array_equal(ours.policy.parameters_to_vector(), theirs.policy.parameters_to_vector())
    assert (ours.num_timesteps, ours._n_updates) == (48, 3)
    mine, other = (flat(model.policy.optimizer.state_dict()) for model in (ours, theirs))
    np.testing.assert_allclose(mine, other, rtol=1e-6)
    for model in (ours, theirs):
        model.set_logger(Recorder())
        model._setup_learn(10_000)
    # Same values, log-probabilities and entropies ...
    collect(theirs)
    copy_rollout(theirs.rollout_buffer, ours.rollout_buffer)
    samples = next(theirs.rollout_buffer.get(16))
    chosen = samples.actions.long().flatten() if actions == "discrete" else samples.actions
    results = [model.policy.evaluate_actions(samples.observations, chosen) for model in (ours, theirs)]
    for mine, other in zip(*results, strict=True):
        th.testing.assert_close(mine, other.detach(), rtol=1e-4, atol=1e-5)
    # ... and the same next update
    if kind not in ("cnn", "dict", "separate extractors"):  # tests/ppo/test_oracle.py updates these
        train_both(ours, theirs)
        difference = np.abs(ours.policy.parameters_to_vector() - theirs.policy.parameters_to_vector())
        assert np.mean(difference < 2e-5) > 0.98
        assert difference.max() < 1e-3


@pytest.mark.parametrize(
    ("cls", "kwargs"),
    [
        (th.optim.SGD, {"momentum": 0.9}),
        (th.optim.RMSprop, {"momentum": 0.5, "centered": True}),
        (RMSpropTFLike, {"eps": 1e-5}),
        (th.optim.Adam, {"amsgrad": True}),
    ],
)
def test_moments_of_torchs_other_optimizers_are_read(cls: Any, kwargs: dict[str, Any]) -> None:
    policy_kwargs = {"optimizer_class": cls, "optimizer_kwargs": kwargs, "net_arch": [4]}
    theirs = sb3.PPO("MlpPolicy", make_env(), policy_kwargs=policy_kwargs, device="cpu", **KWARGS).learn(48)
    ours = PPO.load(resave(theirs))
    mine, other = ours.policy.optimizer.state_dict()["state"], theirs.policy.optimizer.state_dict()["state"]
    for i, entry in other.items():
        for name, value in entry.items():
            np.testing.assert_allclose(mine[i][name], value, rtol=1e-6, err_msg=name)


def test_file_of_an_old_sb3_loads_with_its_warning(tmp_path: Path) -> None:
    policy_kwargs = {"features_extractor_kwargs": {"features_dim": 8}}
    theirs: Any = sb3.PPO("CnnPolicy", make_env("image"), policy_kwargs=policy_kwargs, device="cpu", **KWARGS)
    # SB3 < 1.7 named the shared features extractor once
    parameters = theirs.get_parameters()
    parameters["policy"] = {name: tensor for name, tensor in parameters["policy"].items() if name[:3] not in ("pi_", "vf_")}
    theirs.get_parameters = lambda: parameters
    file = resave(theirs)
    with pytest.warns(UserWarning, match="You are probably loading a A2C/PPO model saved with SB3 < 1"):
        ours = PPO.load(file)
    np.testing.assert_array_equal(ours.policy.parameters_to_vector(), theirs.policy.parameters_to_vector())


def test_our_parameters_fit_torch_sb3() -> None:
    ours = make_model(actions="box").learn(48)
    theirs = sb3.PPO("MlpPolicy", make_env(actions="box"), device="cpu", **KWARGS)
    theirs.set_parameters(cast(Any, ours.get_parameters()), exact_match=True)
    np.testing.assert_array_equal(ours.policy.parameters_to_vector(), theirs.policy.parameters_to_vector())
    np.testing.assert_allclose(
        ours.predict(OBS, deterministic=True)[0], theirs.predict(OBS, deterministic=True)[0], rtol=1e-5, atol=1e-6
    )
    theirs.learn(48)


def test_actor_critics_of_torch_sb3s_other_algorithms_load_as_they_do_there() -> None:
    theirs = sb3.A2C("MlpPolicy", make_env(), n_steps=8, device="cpu").learn(16)
    ours, as_sb3 = PPO.load(resave(theirs)), sb3.PPO.load(resave(theirs), device="cpu")
    assert type(ours.policy) is MlpPolicy
    np.testing.assert_array_equal(ours.predict(OBS, deterministic=True)[0], as_sb3.predict(OBS, deterministic=True)[0])


def test_torch_sb3_says_whose_model_it_cannot_train(tmp_path: Path) -> None:
    PPO("MlpPolicy", make_env(), n_steps=8, batch_size=8).save(tmp_path / "model")
    with pytest.raises(NotImplementedError, match=r"load it with sbx_flappy.PPO.load"):
        sb3.PPO.load(tmp_path / "model", env=make_env()).learn(16)
