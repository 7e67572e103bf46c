"""Interchange with torch SB3: the same model on the other side, both ways, in memory and in files."""

import functools
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax
import pytest
import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common import buffers as sb3_buffers
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.utils import LinearSchedule

from sbx_flappy import PPO, FlapJaxCNN, FlapJaxMlp
from sbx_flappy.common.buffers import RolloutBuffer
from sbx_flappy.common.features_extractors import BaseFeaturesExtractor
from sbx_flappy.ppo import MlpPolicy
from tests.oracle import Recorder, make_env, policy_for, train_both

KWARGS: dict[str, Any] = {"n_steps": 24, "batch_size": 16, "n_epochs": 3, "gamma": 0.9, "gae_lambda": 0.8, "seed": 1}
SMALL_CNN = {"layers": [[8, 8, 4], [16, 4, 2]], "features_dim": 16}
FLAPJAX_CNN = {"features_extractor_class": FlapJaxCNN, "features_extractor_kwargs": SMALL_CNN, "net_arch": []}

#: observations, actions and arguments of PPO
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "discrete": ("vector", "discrete", {}),
    "box": ("vector", "box", {"policy_kwargs": {"log_std_init": -0.5}}),
    "multi_discrete": ("discrete", "multi_discrete", {}),
    "multi_binary": ("multi_discrete", "multi_binary", {"policy_kwargs": {"net_arch": {"pi": [8], "vf": [4, 4]}}}),
    "cnn": ("image", "discrete", {"policy_kwargs": {"features_extractor_kwargs": {"features_dim": 16}}}),
    "separate cnn": ("image", "box", {"policy_kwargs": {"share_features_extractor": False}}),
    "dict": ("dict", "discrete", {"policy_kwargs": {"features_extractor_kwargs": {"cnn_output_dim": 8}}}),
    "separate dict": ("dict", "multi_discrete", {"policy_kwargs": {"share_features_extractor": False}}),
    "gSDE": ("vector", "box", {"use_sde": True, "sde_sample_freq": 4}),
    "squashed gSDE": (
        *("matrix", "box"),
        {"use_sde": True, "policy_kwargs": {"squash_output": True, "use_expln": True, "full_std": False}},
    ),
    "schedules": ("vector", "discrete", {"learning_rate": LinearSchedule(1e-3, 1e-4, 1.0), "clip_range_vf": 0.3}),
}

#: What torch SB3 has no words for
OWN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "scaled": ("vector", "box", {"policy_kwargs": {"obs_center": [0.1, 0.2, 0.3, 0.4, 0.5], "obs_scale": 2.0}}),
    "layers": ("image", "discrete", {"policy_kwargs": {"features_extractor_kwargs": SMALL_CNN}}),
    "scaled cnn": ("image", "discrete", {"policy_kwargs": {"obs_center": 0.5, "obs_scale": 2.0}}),
    "flapjax cnn": ("image", "discrete", {"policy_kwargs": FLAPJAX_CNN}),
    "flapjax mlp": (
        "vector",
        "box",
        {"policy_kwargs": {"features_extractor_class": FlapJaxMlp, "net_arch": [], "obs_scale": 2.0}},
    ),
    "biased": ("vector", "discrete", {"policy_kwargs": {"action_bias_init": [1.0, 0.0, -1.0]}}),
    "functions": ("vector", "discrete", {"policy_kwargs": {"activation_fn": nn.relu, "optimizer_class": optax.adam}}),
}


def mostly_expensive(names: Any, fast: tuple[str, ...]) -> list[Any]:
    """Return names as parameters, of which only the given ones run by default: each compiles programs of its own."""
    return [pytest.param(name, marks=[] if name in fast else [pytest.mark.expensive]) for name in names]


def make(cls: Any, name: str, **changes: Any) -> Any:
    """Return a model that has learned a little."""
    observations, actions, kwargs = {**MODELS, **OWN}[name]
    device = {"device": "cpu"} if cls is sb3.PPO else {}
    model = cls(policy_for(observations), make_env(observations, actions), **{**KWARGS, **kwargs, **device, **changes})
    model.set_logger(Recorder())
    return model.learn(48)


def sample(model: Any, n: int = 5) -> Any:
    """Return a batch of observations."""
    space = model.policy.observation_space
    space.seed(7)
    rows = [space.sample() for _ in range(n)]
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]} if isinstance(rows[0], dict) else np.stack(rows)


def assert_same_behaviour(ours: PPO, theirs: sb3.PPO) -> None:
    """Check that two models have the same actions, chosen and random, values, log-probabilities and entropies."""
    observations = sample(ours)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    close(ours.predict(observations, deterministic=True)[0], theirs.predict(observations, deterministic=True)[0])
    random = []
    for model in (ours, theirs):
        th.manual_seed(5)
        random.append(model.predict(observations)[0])
    close(*random)
    tensors, _ = theirs.policy.obs_to_tensor(observations)
    with th.no_grad():
        results = [model.policy(tensors, deterministic=True) for model in (ours, theirs)]
        actions = results[1][0]
        results = [
            (*result, *model.policy.evaluate_actions(tensors, actions))
            for result, model in zip(results, (ours, theirs), strict=True)
        ]
    for mine, other in zip(*results, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None:
            close(mine.numpy(), other.numpy())


def moments(optimizer: Any) -> dict[tuple[int, str], np.ndarray]:
    """Return the optimizer's state by parameter and name."""
    return {(i, k): np.asarray(v) for i, state in optimizer.state_dict()["state"].items() for k, v in state.items()}


def assert_same_state(ours: PPO, theirs: sb3.PPO) -> None:
    """Parameters and moments are equal bit by bit, and so are the counters."""
    np.testing.assert_array_equal(ours.policy.parameters_to_vector(), theirs.policy.parameters_to_vector())
    assert list(ours.policy.state_dict()) == list(theirs.policy.state_dict())
    mine, other = moments(ours.policy.optimizer), moments(theirs.policy.optimizer)
    assert mine.keys() == other.keys()
    assert mine
    for key, value in mine.items():
        np.testing.assert_array_equal(value, other[key], err_msg=str(key))
    for name in (
        "num_timesteps",
        "_n_updates",
        "n_steps",
        "gamma",
        "seed",
        "_current_progress_remaining",
        "n_envs",
        "verbose",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.ep_info_buffer == theirs.ep_info_buffer is not ours.ep_info_buffer
    for name in ("lr_schedule", "clip_range"):
        assert getattr(ours, name)(0.3) == getattr(theirs, name)(0.3)
    assert ours.policy.optimizer.param_groups[0]["lr"] == theirs.policy.optimizer.param_groups[0]["lr"]
    assert ours.env is theirs.env


@pytest.mark.parametrize("name", mostly_expensive([*MODELS, *OWN], ("discrete", "box", "gSDE", "scaled")))
def test_to_torch_is_the_same_model_and_its_update_the_same(name: str) -> None:
    ours = make(PPO, name)
    theirs = ours.to_torch()
    assert type(theirs) is sb3.PPO
    assert type(theirs.policy).__module__.startswith("stable_baselines3")
    assert_same_state(ours, theirs)
    assert_same_behaviour(ours, theirs)
    compare_updates(ours, theirs)


@pytest.mark.parametrize("name", mostly_expensive(MODELS, ("multi_discrete", "squashed gSDE", "schedules")))
def test_from_torch_is_the_same_model_and_its_update_the_same(name: str) -> None:
    theirs = make(sb3.PPO, name)
    ours = PPO.from_torch(theirs)
    assert_same_state(ours, theirs)
    assert_same_behaviour(ours, theirs)
    compare_updates(ours, theirs)


def compare_updates(ours: PPO, theirs: sb3.PPO) -> None:
    """Both go on from the rollout of the last iteration, which the conversion has copied."""
    for name in ("advantages", "returns", "log_probs"):
        np.testing.assert_array_equal(getattr(ours.rollout_buffer, name), getattr(theirs.rollout_buffer, name))
    train_both(ours, theirs)
    difference = np.abs(ours.policy.parameters_to_vector() - theirs.policy.parameters_to_vector())
    # Adam divides by the root of the second moment, so that rounding shows where a gradient is almost zero
    assert np.mean(difference < 1e-5) > 0.98
    assert difference.max() < 1e-3
    assert ours._n_updates == theirs._n_updates == 6


OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SGD": (th.optim.SGD, {"momentum": 0.9}),
    "RMSprop": (th.optim.RMSprop, {"momentum": 0.5, "centered": True}),
    "RMSpropTFLike": (RMSpropTFLike, {"eps": 1e-5}),
    "Adam": (th.optim.Adam, {"amsgrad": True, "weight_decay": 1e-3}),
    "optax.adamw": (optax.adamw, {"b1": 0.8, "weight_decay": 1e-3}),
    "optax.sgd": (optax.sgd, {"momentum": 0.9, "nesterov": True}),
    "optax.rmsprop": (optax.rmsprop, {"decay": 0.8, "eps_in_sqrt": False}),
}


@pytest.mark.parametrize("name", mostly_expensive(OPTIMIZERS, ("optax.sgd",)))
def test_optimizers_go_on_alike(name: str) -> None:
    cls, kwargs = OPTIMIZERS[name]
    ours = make(PPO, "discrete", policy_kwargs={"optimizer_class": cls, "optimizer_kwargs": kwargs, "net_arch": [4]})
    theirs = ours.to_torch()
    assert isinstance(theirs.policy.optimizer, th.optim.Optimizer)
    compare_updates(ours, theirs)


EXACT_GELU = functools.partial(nn.gelu, approximate=False)
OTHERS = [pytest.param(function, marks=pytest.mark.expensive) for function in (nn.relu, nn.tanh, EXACT_GELU, nn.silu, nn.elu)]


@pytest.mark.parametrize("function", [nn.gelu, *OTHERS])
def test_activations_of_flax_are_torchs(function: Any) -> None:
    ours = make(PPO, "box", policy_kwargs={"activation_fn": function})
    theirs = ours.to_torch()
    assert_same_behaviour(ours, theirs)
    assert_same_behaviour(PPO.from_torch(theirs), theirs)


@pytest.mark.parametrize("name", mostly_expensive(["discrete", "gSDE", "scaled", "layers"], ("gSDE", "scaled")))
def test_round_trip_is_exact(name: str) -> None:
    ours = make(PPO, name)
    theirs = ours.to_torch()
    back = PPO.from_torch(theirs)
    again = back.to_torch()
    assert_same_state(back, again)
    np.testing.assert_array_equal(ours.policy.parameters_to_vector(), again.policy.parameters_to_vector())
    assert back.policy.features_extractor == ours.policy.features_extractor
    assert back.policy.preprocess == ours.policy.preprocess
    for first, second in ((theirs, again), (ours, back)):
        mine, other = moments(first.policy.optimizer), moments(second.policy.optimizer)
        assert all(np.array_equal(mine[key], other[key]) for key in mine | other)
    assert theirs.policy_kwargs.keys() == again.policy_kwargs.keys()


@pytest.mark.parametrize("name", mostly_expensive(["cnn", "gSDE"], ("gSDE",)))
def test_conversion_changes_neither_generators_nor_environment(name: str) -> None:
    results = []
    for converts in (False, True):
        model = make(PPO, name)
        if converts:
            PPO.from_torch(model.to_torch())
        model.learn(48, reset_num_timesteps=False)
        results.append(model.policy.parameters_to_vector())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("direction", ["to", "from"])
def test_learning_goes_on_at_once(direction: str) -> None:
    source = make(PPO if direction == "to" else sb3.PPO, "schedules")
    model = source.to_torch() if direction == "to" else PPO.from_torch(source)
    before, last_obs = source.policy.parameters_to_vector().copy(), source._last_obs.copy()
    model.learn(48, reset_num_timesteps=False)
    assert model.num_timesteps == 96
    assert model._n_updates == 6
    assert source.num_timesteps == 48
    np.testing.assert_array_equal(source.policy.parameters_to_vector(), before)
    np.testing.assert_array_equal(source._last_obs, last_obs)


def test_from_torch_takes_the_arguments_of_load() -> None:
    theirs = make(sb3.PPO, "discrete")
    env = make_env(n_envs=3)
    ours = PPO.from_torch(theirs, env=env, seed=4, n_steps=16, batch_size=12, learning_rate=1e-2)
    assert ours.env is env
    assert (ours.seed, ours.n_envs, ours._last_obs) == (4, 3, None)
    ours.learn(48, reset_num_timesteps=False)
    assert ours.num_timesteps == 96
    assert ours.policy.optimizer.param_groups[0]["lr"] == 1e-2
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'n_step'\. Did you mean 'n_steps'"):
        PPO.from_torch(theirs, n_step=16)


def test_models_without_an_environment_have_none_afterwards() -> None:
    file = io.BytesIO()
    make(PPO, "discrete").save(file)
    file.seek(0)
    theirs = PPO.load(file).to_torch()
    assert theirs.env is None
    assert PPO.from_torch(theirs).env is None
    theirs.predict(np.zeros(5, np.float32))


def test_buffers_are_sb3s_own() -> None:
    class Mine(sb3_buffers.RolloutBuffer):
        pass

    assert type(make(PPO, "discrete").to_torch().rollout_buffer) is sb3_buffers.RolloutBuffer
    assert type(PPO("MultiInputPolicy", make_env("dict"), **KWARGS).to_torch().rollout_buffer) is sb3_buffers.DictRolloutBuffer
    assert make(PPO, "discrete", rollout_buffer_class=Mine).to_torch().rollout_buffer_class is Mine


# --- what cannot be converted -----------------------------------------------------------------------------------------


class OwnExtractor(BaseFeaturesExtractor):
    @nn.compact
    def __call__(self, observations: jax.Array) -> jax.Array:
        return nn.Dense(4)(observations)


class OwnPolicy(MlpPolicy):
    pass


class OwnBuffer(RolloutBuffer):
    pass


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"policy_kwargs": {"features_extractor_class": OwnExtractor}}, "`features_extractor_class` OwnExtractor"),
        ({"policy": OwnPolicy}, "`policy` OwnPolicy"),
        ({"policy_kwargs": {"activation_fn": jax.numpy.sin}}, "`activation_fn`"),
        ({"policy_kwargs": {"optimizer_class": optax.lion}}, "`optimizer_class` 'lion'"),
        (
            {"policy_kwargs": {"optimizer_class": optax.adam, "optimizer_kwargs": {"nesterov": True}}},
            r"`optimizer_kwargs` \['nesterov'\] of optax.adam",
        ),
        ({"policy_kwargs": {"optimizer_class": optax.rmsprop}}, r"`optimizer_kwargs` \['eps_in_sqrt'\]"),
        ({"rollout_buffer_class": OwnBuffer}, "`rollout_buffer_class` OwnBuffer"),
    ],
)
def test_what_has_no_counterpart_is_named(kwargs: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = PPO(kwargs.pop("policy", "MlpPolicy"), make_env(), **KWARGS, **kwargs)
    for export in (model.to_torch, lambda: model.save(tmp_path / "model", as_torch=True)):
        with pytest.raises(ValueError, match=message):
            export()
    assert not list(tmp_path.iterdir())


def test_other_models_are_refused() -> None:
    for model in (make(PPO, "discrete"), sb3.A2C("MlpPolicy", make_env(), device="cpu"), None):
        with pytest.raises(TypeError, match=r"`model` must be a stable_baselines3\.PPO"):
            PPO.from_torch(model)  # type: ignore[arg-type]


# --- files ------------------------------------------------------------------------------------------------------------

READ_IN_TORCH = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sbx_flappy", "jax", "jaxlib", "flax", "optax"):
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np
import stable_baselines3 as sb3

for name in sys.argv[1:]:
    model = sb3.PPO.load(name, device="cpu")
    data = dict(np.load(name + ".npz"))
    actions = data.pop("actions")
    observations = data["observations"] if set(data) == {"observations"} else data
    np.testing.assert_allclose(model.predict(observations, deterministic=True)[0], actions, rtol=1e-5, atol=1e-5)
    model.save(name + "_again")
    again = sb3.PPO.load(name + "_again", device="cpu")
    np.testing.assert_array_equal(again.policy.parameters_to_vector(), model.policy.parameters_to_vector())
assert not {"sbx_flappy", "jax"} & set(sys.modules)
print("read", len(sys.argv) - 1)
"""


OTHERS_OPENED = pytest.param(["discrete", "dict", "scaled cnn", "biased", "functions"], marks=pytest.mark.expensive)


@pytest.mark.parametrize("names", [["squashed gSDE", "scaled", "layers"], OTHERS_OPENED], ids=["some", "others"])
def test_exported_files_open_where_this_package_is_not_installed(names: list[str], tmp_path: Path) -> None:
    models = {name: make(PPO, name) for name in names}
    for name, model in models.items():
        model.save(tmp_path / name.replace(" ", "_"), as_torch=True)
        observations = sample(model)
        arrays = observations if isinstance(observations, dict) else {"observations": observations}
        actions = model.predict(observations, deterministic=True)[0]
        np.savez(tmp_path / (name.replace(" ", "_") + ".npz"), actions=actions, **arrays)
    command = [sys.executable, "-c", READ_IN_TORCH, *(name.replace(" ", "_") for name in names)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert f"read {len(names)}" in result.stdout
    for name in names:  # what torch SB3 has saved again comes back
        back = PPO.load(tmp_path / (name.replace(" ", "_") + "_again"))
        assert back.policy.preprocess == models[name].policy.preprocess


@pytest.mark.parametrize("name", mostly_expensive(["box", "scaled", "layers"], ("scaled",)))
def test_exported_file_goes_on_learning_in_torch_sb3(name: str, tmp_path: Path) -> None:
    ours = make(PPO, name)
    ours.save(tmp_path / "model", as_torch=True)
    theirs = sb3.PPO.load(tmp_path / "model", env=ours.env, device="cpu")
    assert_same_behaviour(ours, theirs)
    assert moments(ours.policy.optimizer).keys() == moments(theirs.policy.optimizer).keys()
    theirs.learn(48, reset_num_timesteps=False)
    assert theirs.num_timesteps == 96


def test_to_torch_and_sb3s_own_save_write_such_a_file_too(tmp_path: Path) -> None:
    ours = make(PPO, "scaled")
    ours.to_torch().save(tmp_path / "model")
    assert_same_behaviour(PPO.load(tmp_path / "model"), sb3.PPO.load(tmp_path / "model", device="cpu"))


def test_as_torch_takes_exclude_and_open_files_but_nothing_to_resume(tmp_path: Path) -> None:
    ours, file = make(PPO, "discrete"), io.BytesIO()
    ours.save(file, exclude=["ent_coef"], as_torch=True)
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        assert "ent_coef" not in json.loads(archive.read("data"))
    with pytest.raises(ValueError, match="`resumable=True`"):
        ours.save(tmp_path / "model", resumable=True, as_torch=True)


# --- ONNX -------------------------------------------------------------------------------------------------------------

ONNX = ["discrete", "box", "multi_discrete", "multi_binary", "squashed gSDE", "dict", "layers", "flapjax cnn"]


@pytest.mark.expensive
@pytest.mark.parametrize("name", [*ONNX, "gSDE", "separate cnn", "scaled"])
def test_onnx_file_gives_the_same_actions_values_and_log_probs(name: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = make(PPO, name)
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [output.name for output in session.get_outputs()] == ["actions", "values", "log_prob"]
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    for n in (1, 5):
        observations = sample(model, n)
        inputs = observations if isinstance(observations, dict) else {"observation": observations}
        assert {entry.name for entry in session.get_inputs()} == inputs.keys()
        actions, values, log_prob = session.run(None, inputs)
        expected = model.predict(observations, deterministic=True)[0]
        assert (actions.dtype, actions.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-5)
        _, expected_values, expected_log_prob = model.policy(observations, deterministic=True)
        np.testing.assert_allclose(values, expected_values, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(log_prob, expected_log_prob, rtol=1e-5, atol=1e-5)


def test_onnx_export_names_the_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"onnx and onnxscript: pip install 'sbx-flappy\[onnx\]'"):
        make(PPO, "discrete").export_onnx(tmp_path / "model.onnx")


# --- RL-Zoo -----------------------------------------------------------------------------------------------------------

TINY = ["-n", "64", "--eval-freq", "-1", "-params", "n_envs:2", "n_steps:16", "batch_size:32", "n_epochs:1"]

PUSH = """
import importlib
from pathlib import Path

# RL-Zoo 2.9.2 asks sb3-team-hf-integration 3.2 for a function that has another name there: as they are, this fails for any PPO
upstream = importlib.import_module("huggingface_sb3.push_to_hub")
if not hasattr(upstream, "generate_metadata"):
    upstream.generate_metadata = lambda *arguments: upstream._generate_metadata(*arguments).to_dict()
import rl_zoo3.push_to_hub as hub
from huggingface_sb3 import EnvironmentName, ModelName, ModelRepoId
from rl_zoo3.utils import create_test_env
import sbx_flappy.zoo
from sbx_flappy import PPO

class FakeApi:
    def create_repo(self, **kwargs):
        return "https://nowhere/" + kwargs["repo_id"]

    def snapshot_download(self, repo_id, local_dir):
        Path(local_dir).mkdir(parents=True)

    def upload_folder(self, repo_id, folder_path, commit_message):
        print("uploaded", *sorted(path.name for path in Path(folder_path).iterdir()))

hub.HfApi = FakeApi
env_name, log_path = EnvironmentName("CartPole-v1"), Path("logs/ppo_jax/CartPole-v1_1")
env = create_test_env("CartPole-v1", n_envs=1, hyperparams={})
model = PPO.load(log_path / "CartPole-v1.zip", env=env)
arguments = [model, ModelName("ppo_jax", env_name), "ppo_jax", "PPO", log_path, {}, {}, env_name, env]
hub.package_to_hub(*arguments, ModelRepoId("me", "agent"), "first", n_eval_episodes=2)
"""


def run_python(*arguments: str, cwd: Path) -> str:
    """Run Python in a folder, with this package, and return what it printed."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy"}
    command = [sys.executable, *arguments]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    result = subprocess.run(command, cwd=cwd, env=env, timeout=600, check=False, **pipes)
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which RL-Zoo has trained the JAX PPO, with normalized observations."""
    folder = tmp_path_factory.mktemp("zoo")
    agent = ["--algo", "ppo_jax", "--env", "CartPole-v1"]
    run_python("-m", "sbx_flappy.zoo", "train", *agent, *TINY, "normalize:True", cwd=folder)
    return folder


@pytest.mark.expensive
def test_rl_zoos_enjoy_plays_an_exported_agent_in_torch_and_in_jax(trained: Path) -> None:
    output = run_python("-m", "sbx_flappy.zoo", "export", "--env", "CartPole-v1", "-o", "exported", cwd=trained)
    assert str(Path("exported/ppo/CartPole-v1_1/CartPole-v1.zip")) in output
    agent = ["--algo", "ppo", "--env", "CartPole-v1", "-f", "exported", "--no-render", "-n", "600"]
    in_torch = run_python("-m", "rl_zoo3.enjoy", *agent, cwd=trained)
    in_jax = run_python("-m", "rl_zoo3.enjoy", *agent, "--gym-packages", "sbx_flappy.zoo", cwd=trained)
    rewards = [[line for line in out.splitlines() if "Episode Reward" in line] for out in (in_torch, in_jax)]
    assert rewards[0]
    assert rewards[0] == rewards[1]
    assert all("Loading running average" in out for out in (in_torch, in_jax))


@pytest.mark.expensive
def test_export_command_writes_an_onnx_file(trained: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    run_python("-m", "sbx_flappy.zoo", "export", "--env", "CartPole-v1", "--onnx", "agent.onnx", cwd=trained)
    session = onnxruntime.InferenceSession(trained / "agent.onnx")
    actions, _, _ = session.run(None, {"observation": np.zeros((3, 4), np.float32)})
    assert actions.shape == (3,)


@pytest.mark.expensive
def test_push_to_hub_packages_our_models(trained: Path) -> None:
    output = run_python("-c", PUSH, cwd=trained)
    (line,) = (line for line in output.splitlines() if line.startswith("uploaded"))
    assert {"README.md", "ppo_jax-CartPole-v1", "ppo_jax-CartPole-v1.zip", "results.json"} <= set(line.split())
    repo = trained / "hub" / "agent"
    assert (repo / "ppo_jax-CartPole-v1" / "policy.pth").is_file()
    assert "**PPO** Agent playing **CartPole-v1**" in (repo / "README.md").read_text()
