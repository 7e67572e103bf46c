"""Bad input ends in an error that names what is wrong, before any training, and nothing is lost."""

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import flax.linen as nn
import jax
import numpy as np
import optax
import pytest
import stable_baselines3 as sb3
import torch as th
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.policies import ActorCriticPolicy as TorchPolicy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sbx_flappy import PPO
from sbx_flappy.ppo import CnnPolicy
from tests.oracle import ACTIONS, IMAGE, OBSERVATIONS, RandomEnv, make_env, make_pair, policy_for

KWARGS: dict[str, Any] = {"n_steps": 24, "batch_size": 16, "n_epochs": 3, "gamma": 0.9, "gae_lambda": 0.8, "seed": 1}
VECTOR, DISCRETE = OBSERVATIONS["vector"], ACTIONS["discrete"]


def make_model(observations: str = "vector", actions: str = "discrete", algorithm: Any = PPO, **kwargs: Any) -> Any:
    env = make_env(observations, actions)
    return algorithm(kwargs.pop("policy", policy_for(observations)), env, **{**KWARGS, **kwargs})


# --- arguments of the constructor -------------------------------------------------------------------------------------

#: Where SB3 has an error, it is SB3's
AS_SB3: dict[str, dict[str, Any]] = {
    "batch_size of one": {"batch_size": 1},
    "clip_range_vf of zero": {"clip_range_vf": 0.0},
    "negative clip_range_vf": {"clip_range_vf": -0.1},
    "learning_rate": {"learning_rate": "fast"},
    "clip_range": {"clip_range": None},
    "gSDE for discrete actions": {"use_sde": True},
    "squash_output without gSDE": {"policy_kwargs": {"squash_output": True}},
    "MlpPolicy on a dict": {"observations": "dict", "policy": "MlpPolicy"},
    "CnnPolicy on a dict": {"observations": "dict", "policy": "CnnPolicy"},
    "CnnPolicy on a vector": {"policy": "CnnPolicy"},
    "CnnPolicy on numbers": {"observations": "discrete", "policy": "CnnPolicy"},
}


@pytest.mark.fault(20)
@pytest.mark.parametrize("kwargs", AS_SB3.values(), ids=AS_SB3)
def test_error_is_that_of_sb3(kwargs: dict[str, Any]) -> None:
    errors = []
    for algorithm in (PPO, sb3.PPO):
        with pytest.raises((AssertionError, ValueError)) as caught:
            make_model(algorithm=algorithm, **kwargs)
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


def test_a_rollout_of_one_step_is_refused_as_in_sb3() -> None:
    for algorithm in (PPO, sb3.PPO):
        with pytest.raises(
            AssertionError, match=r"`n_steps \* n_envs` must be greater than 1. Currently n_steps=1 and n_envs=1"
        ):
            algorithm("MlpPolicy", make_env(n_envs=1), n_steps=1)


@pytest.mark.fault(16)
@pytest.mark.parametrize(
    ("action_space", "message"),
    [
        (spaces.Tuple([spaces.Discrete(2)]), "The algorithm only supports"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "The algorithm only supports"),
        (spaces.Box(-np.inf, np.inf, (2,)), "must have a finite lower and upper bound"),
        (spaces.MultiBinary([2, 3]), "Multi-dimensional MultiBinary"),
    ],
)
def test_action_space_that_sb3_refuses_is_refused(action_space: spaces.Space, message: str) -> None:
    for algorithm in (PPO, sb3.PPO):
        with pytest.raises(AssertionError, match=message):
            algorithm("MlpPolicy", RandomEnv(VECTOR, action_space), n_steps=64)


@pytest.mark.fault(16)
@pytest.mark.parametrize(
    ("action_space", "message"),
    [
        (spaces.MultiDiscrete(cast(Any, [[2, 3], [4, 5]])), "Multi-dimensional MultiDiscrete"),
        (spaces.Discrete(3, start=1), "does not start at 0; shift it with a wrapper"),
        (spaces.MultiDiscrete([3, 2], start=[1, 0]), "does not start at 0; shift it with a wrapper"),
        (spaces.Box(-1, 1, (0,)), "has no entries"),
    ],
)
def test_action_space_that_sb3_takes_wrongly_is_refused(action_space: spaces.Space, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PPO("MlpPolicy", DummyVecEnv([lambda: RandomEnv(VECTOR, action_space)]), n_steps=64)


@pytest.mark.parametrize(
    ("observation_space", "message"),
    [
        (spaces.Tuple([VECTOR, VECTOR]), "observation space is not supported"),
        (spaces.Text(3), "observation space is not supported"),
        (spaces.Sequence(VECTOR), "observation space is not supported"),
        (spaces.Dict({"a": spaces.Dict({"b": VECTOR})}), "Nested observation spaces are not supported"),
        (spaces.Dict({"a": spaces.Text(3)}), "observation space is not supported"),
        (spaces.MultiDiscrete(cast(Any, [[2, 3], [4, 5]])), "must have one dimension"),
        (spaces.Discrete(3, start=1), "does not start at 0"),
        (spaces.Dict({"a": spaces.Discrete(3, start=1)}), "does not start at 0"),
        (spaces.Box(-1, 1, (0,)), "has no entries"),
        (spaces.Dict({}), "has no entries"),
    ],
)
def test_observation_space_that_no_policy_takes_is_refused(observation_space: spaces.Space, message: str) -> None:
    policy = "MultiInputPolicy" if isinstance(observation_space, spaces.Dict) else "MlpPolicy"
    with pytest.raises((NotImplementedError, ValueError), match=message):
        PPO(policy, RandomEnv(observation_space, DISCRETE), n_steps=64)


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    **{
        f"{name}={value}": ({name: value}, ValueError, f"`{name}` must be an integer of at least 1")
        for name in ("n_steps", "batch_size", "n_epochs")
        for value in (0, -1, 8.0, "8", True)
    },
    **{
        f"{name}={value}": ({name: value}, ValueError, f"`{name}` must be a number between 0 and 1")
        for name in ("gamma", "gae_lambda")
        for value in (2, -0.1, float("nan"), "0.9")
    },
    **{
        f"{name}={value}": ({name: value}, ValueError, f"`{name}` must be a finite number")
        for name in ("ent_coef", "vf_coef")
        for value in ("auto", float("nan"), float("inf"), None)
    },
    **{
        f"{name}={value}": ({name: value}, ValueError, f"`{name}` must be a number of at least 0")
        for name in ("max_grad_norm", "target_kl", "learning_rate", "clip_range")
        for value in (-1.0, float("nan"))
    },
    "seed": ({"seed": -1}, ValueError, "`seed` must be an integer of at least 0"),
    "sde_sample_freq": ({"sde_sample_freq": 1.5}, ValueError, "`sde_sample_freq` must be an integer"),
    "stats_window_size": ({"stats_window_size": -1}, ValueError, "`stats_window_size` must be an integer"),
    "device": ({"device": "gpux"}, ValueError, "`device` must be 'auto', 'cpu', 'cuda', 'gpu', 'tpu' or a device, got 'gpux'"),
    "number of the device": ({"device": "cpu:99"}, ValueError, "`device` 'cpu:99' does not exist"),
    "policy's name": ({"policy": "MlpPolcy"}, ValueError, "Policy MlpPolcy unknown. Did you mean 'MlpPolicy'?"),
    "unlike any policy": ({"policy": "Recurrent"}, ValueError, "Policy Recurrent unknown. Known: MlpPolicy, CnnPolicy"),
    "policy in torch": ({"policy": type("Mine", (TorchPolicy,), {})}, ValueError, "`policy` must be one of"),
    "policy that is none": ({"policy": 3}, ValueError, "`policy` must be one of"),
    "keyword": ({"n_step": 3}, TypeError, "unexpected keyword argument 'n_step'. Did you mean 'n_steps'?"),
    "policy's keyword": ({"policy_kwargs": {"net_arhc": [3]}}, TypeError, "'net_arhc'. Did you mean 'net_arch'?"),
    "policy_kwargs": ({"policy_kwargs": "dict(net_arch=[3])"}, TypeError, "`policy_kwargs` must be a dictionary"),
    "rollout_buffer_class": ({"rollout_buffer_class": "Mine"}, TypeError, "`rollout_buffer_class` must be a subclass"),
}


@pytest.mark.parametrize(("kwargs", "error", "message"), WRONG.values(), ids=WRONG)
def test_wrong_argument_is_named(kwargs: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make_model(**kwargs)


class WithDropout(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dropout(0.5, deterministic=False)(nn.Dense(4)(x))


class WithBatchNorm(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.BatchNorm(use_running_average=False)(nn.Dense(4)(x))


class OfThreeDimensions(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return x[:, :, None]


class OfTwoArrays(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x, x


class Unhashable(nn.Module):
    weights: Any = None

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.weights


WRONG_POLICY_KWARGS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "net_arch as a number": ({"net_arch": 64}, ValueError, "`net_arch` must be a list, or a dictionary of lists"),
    "net_arch as text": ({"net_arch": "small"}, ValueError, "`net_arch` must be a list, or a dictionary of lists"),
    "net_arch without lists": ({"net_arch": {"pi": 64}}, ValueError, "`net_arch` must be a list, or a dictionary of lists"),
    "net_arch of an old form": ({"net_arch": [64, {"pi": [3]}]}, ValueError, "`net_arch` must be an integer of at least 1"),
    "net_arch with fractions": ({"net_arch": [64.5]}, ValueError, "`net_arch` must be an integer of at least 1"),
    "net_arch with an empty layer": ({"net_arch": [0]}, ValueError, "`net_arch` must be an integer of at least 1"),
    "net_arch with another key": (
        {"net_arch": {"qf": [4]}},
        ValueError,
        "`net_arch` takes the keys 'pi' and 'vf', got ['qf']",
    ),
    "activation_fn as text": ({"activation_fn": "relu"}, TypeError, "`activation_fn` must be a function of arrays or a class"),
    "activation_fn as a module": ({"activation_fn": th.nn.ReLU()}, TypeError, "`activation_fn` must be a function of arrays"),
    "activation_fn as a list": ({"activation_fn": [th.nn.ReLU]}, TypeError, "`activation_fn` must be a function of arrays"),
    "activation_fn with parameters": ({"activation_fn": th.nn.PReLU}, ValueError, "`activation_fn` PReLU has no counterpart"),
    "optimizer_class as text": ({"optimizer_class": "adam"}, TypeError, "`optimizer_class` must be a class of torch.optim or"),
    "optimizer": ({"optimizer_class": optax.adam(1e-3)}, TypeError, "`optimizer_class` must be a class of torch.optim or"),
    "optimizer without a rate": ({"optimizer_class": optax.trace}, TypeError, "`optimizer_class` must take a `learning_rate`"),
    "optimizer_class of torch": (
        {"optimizer_class": th.optim.LBFGS},
        ValueError,
        "`optimizer_class` LBFGS is unknown; pass one",
    ),
    "optimizer_kwargs": ({"optimizer_kwargs": {"epsilon": 1e-5}}, ValueError, "`optimizer_kwargs` ['epsilon'] of Adam"),
    "learning rate in them": ({"optimizer_kwargs": {"lr": 1e-5}}, ValueError, "`optimizer_kwargs` ['lr'] of Adam"),
    "optimizer_kwargs as a list": ({"optimizer_kwargs": [1]}, TypeError, "`optimizer_kwargs` must be a dictionary"),
    "optimizer_kwargs of optax": (
        {"optimizer_class": optax.adam, "optimizer_kwargs": {"epss": 1e-5}},
        TypeError,
        "`optimizer_kwargs` has the unknown name 'epss'. Did you mean 'eps'?",
    ),
    "extractor in torch": (
        {"features_extractor_class": th.nn.Flatten},
        TypeError,
        "`features_extractor_class` must be a class",
    ),
    "extractor as text": (
        {"features_extractor_class": "cnn"},
        TypeError,
        "`features_extractor_class` must be a class of flax",
    ),
    "extractor's argument": ({"features_extractor_kwargs": {"x": 1}}, TypeError, "unexpected keyword argument 'x'"),
    "extractor with dropout": (
        {"features_extractor_class": WithDropout},
        ValueError,
        "WithDropout has a layer in training mode",
    ),
    "extractor with statistics": ({"features_extractor_class": WithBatchNorm}, ValueError, "use_running_average=not train"),
    "extractor of three dimensions": (
        *({"features_extractor_class": OfThreeDimensions}, ValueError),
        "OfThreeDimensions must return one array [B, features]",
    ),
    "extractor of two arrays": ({"features_extractor_class": OfTwoArrays}, ValueError, "must return one array [B, features]"),
    "extractor with an array": (
        {"features_extractor_class": Unhashable, "features_extractor_kwargs": {"weights": np.ones(5)}},
        TypeError,
        "The fields of Unhashable must be hashable",
    ),
    "obs_center of another shape": ({"obs_center": [1.0, 2.0, 3.0]}, ValueError, "`obs_center` must be one number or of the"),
    "obs_center of a batch": ({"obs_center": np.zeros((2, 5))}, ValueError, "observations' shape (5,), got shape (2, 5)"),
    "obs_center of NaN": ({"obs_center": float("nan")}, ValueError, "`obs_center` must be finite"),
    "obs_scale as text": ({"obs_scale": "big"}, ValueError, "`obs_scale` must be a number or nested lists of numbers"),
    "action_bias_init of another size": ({"action_bias_init": [1.0, 2.0]}, ValueError, "must be 3 finite numbers"),
    "action_bias_init as text": ({"action_bias_init": "high"}, ValueError, "`action_bias_init` must be 3 finite numbers"),
    "log_std_init": ({"log_std_init": "x"}, ValueError, "`log_std_init` must be a finite number"),
}


@pytest.mark.parametrize(("kwargs", "error", "message"), WRONG_POLICY_KWARGS.values(), ids=WRONG_POLICY_KWARGS)
def test_wrong_argument_of_the_policy_is_named(kwargs: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make_model(policy_kwargs=kwargs)


@pytest.mark.parametrize("observations", ["dict", "discrete", "multi_discrete", "multi_binary"])
@pytest.mark.parametrize("value", [0.5, np.zeros(4) + 0.5])
def test_center_and_scale_are_refused_where_they_have_no_use(observations: str, value: Any) -> None:
    for name in ("obs_center", "obs_scale"):
        with pytest.raises(ValueError, match="`obs_center` and `obs_scale` are for Box observation spaces"):
            make_model(observations, policy_kwargs={name: value})


def test_small_images_are_refused() -> None:
    for size, policy in (((1, 35, 40), "CnnPolicy"), ((84, 84, 1), "CnnPolicy")):
        space = spaces.Box(0.0, 1.0, size)
        with pytest.raises(ValueError, match="NatureCNN needs images of at least 36 x 36 pixels, channels first"):
            PPO(policy, RandomEnv(space, DISCRETE), n_steps=64, policy_kwargs={"normalize_images": False})


@pytest.mark.fault(45)
def test_normalized_images_are_refused_with_the_remedy_and_normalized_rewards_are_not() -> None:
    """RL-Zoo's ``normalize: true`` on images."""
    errors = []
    for algorithm in (PPO, sb3.PPO):
        with pytest.raises(AssertionError, match="you should pass `normalize_images=False`") as caught:
            algorithm("CnnPolicy", VecNormalize(make_env("image")), **KWARGS)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    env = VecNormalize(make_env("image"), norm_obs=False)
    policy_kwargs = {"features_extractor_kwargs": {"features_dim": 8}}
    assert PPO("CnnPolicy", env, policy_kwargs=policy_kwargs, **KWARGS).learn(48).num_timesteps == 48


def test_multi_input_policy_names_the_space_that_it_needs() -> None:
    with pytest.raises(AssertionError, match=r"CombinedExtractor must be used with a gym\.spaces\.Dict observation space"):
        make_model(policy="MultiInputPolicy")


@pytest.mark.parametrize(
    ("env", "error", "message"),
    [(None, ValueError, "`env` must be an environment"), (3, Exception, "not a Gymnasium environment")],
)
def test_env_that_is_none_is_refused(env: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PPO("MlpPolicy", env)


# --- environments -----------------------------------------------------------------------------------------------------


class BrokenEnv(RandomEnv):
    """Returns a bad number in one place, from a step on."""

    def __init__(self, observations: str, place: str, value: float, at: int = 30) -> None:
        super().__init__(OBSERVATIONS[observations], DISCRETE)
        self.place, self.value, self.at, self.n = place, value, at, 0

    def _break(self, obs: Any) -> Any:
        if isinstance(obs, dict):
            return {**obs, "vector": self._break(obs["vector"])}
        return np.concatenate([[self.value], obs[1:]]).astype(np.float32)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(**kwargs)
        return (self._break(obs) if self.place == "reset" else obs), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.n += 1
        obs, reward, terminated, truncated, info = super().step(action)
        if self.n < self.at or self.place == "reset":
            return obs, reward, terminated, truncated, info
        if self.place == "reward":
            return obs, self.value, terminated, truncated, info
        return self._break(obs), reward, False, self.place == "last observation", info


def assert_learning_fails_and_nothing_is_lost(model: PPO, message: str, folder: Path) -> None:
    before = {}

    def note(names: dict[str, Any], _: dict[str, Any]) -> bool:
        before.update(names["self"].policy.state_dict())
        return True

    with pytest.raises(ValueError, match=message):
        model.learn(240, callback=note)
    after = model.policy.state_dict()
    assert all(th.isfinite(tensor).all() for tensor in after.values())
    assert not before or all(th.equal(before[name], after[name]) for name in before)
    model.save(folder / "model")
    loaded = PPO.load(folder / "model", env=make_env(policy_env(model)))
    loaded.learn(48)


def policy_env(model: PPO) -> str:
    return "dict" if isinstance(model.observation_space, spaces.Dict) else "vector"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("observation", np.nan, "The environment returned observations that are NaN or infinite after 60 time steps"),
        ("observation", np.inf, "The environment returned observations that are NaN or infinite after 60 time steps"),
        ("last observation", np.nan, "returned terminal observations that are NaN or infinite after 60 time steps"),
        ("reset", np.nan, "The environment returned observations that are NaN or infinite after 0 time steps"),
        ("reward", np.nan, "The environment returned rewards that are NaN or infinite after 60 time steps"),
        ("reward", -np.inf, "The environment returned rewards that are NaN or infinite after 60 time steps"),
    ],
)
def test_bad_number_from_the_environment_is_named(place: str, value: float, message: str, tmp_path: Path) -> None:
    env = DummyVecEnv([lambda: BrokenEnv("vector", place, value)] * 2)
    assert_learning_fails_and_nothing_is_lost(PPO("MlpPolicy", env, **KWARGS), message, tmp_path)


def test_bad_number_in_a_dict_is_named_with_its_key(tmp_path: Path) -> None:
    env = DummyVecEnv([lambda: BrokenEnv("dict", "observation", np.nan)] * 2)
    message = "observations that are NaN or infinite under the key 'vector' after 60 time steps"
    assert_learning_fails_and_nothing_is_lost(PPO("MultiInputPolicy", env, **KWARGS), message, tmp_path)


def test_rewards_that_overflow_end_in_a_loss_that_is_not_finite(tmp_path: Path) -> None:
    env = DummyVecEnv([lambda: BrokenEnv("vector", "reward", 1e38)] * 2)
    message = r"Non-finite loss or gradient \(loss (nan|inf)\) in epoch 1, minibatch . of the update after 96 time steps"
    model = PPO("MlpPolicy", env, **KWARGS)
    with pytest.raises(ValueError, match=message):
        model.learn(240)
    assert np.all(np.isfinite(model.policy.parameters_to_vector()))


@pytest.mark.parametrize("observations", ["vector", "image"])
def test_parameters_before_the_bad_minibatch_are_kept(observations: str) -> None:
    ours, theirs = make_pair(observations)
    np.random.seed(0)
    third = np.random.permutation(48)[32:]  # what the third minibatch of the update below holds
    for model in (ours, theirs):
        returns = model.rollout_buffer.returns.T.flatten()  # SB3 counts along time first
        returns[third] = np.nan
        model.rollout_buffer.returns = returns.reshape(2, 24).T.copy()
    np.random.seed(0)
    with pytest.raises(ValueError, match=r"in epoch 1, minibatch 3 of the update .* keeps the parameters from before it\."):
        ours.train()
    # torch SB3 takes the third step too, and fails at the next; after the second it has what ours must have kept
    steps: list[np.ndarray] = []
    optimizer: Any = theirs.policy.optimizer
    optimizer_step = optimizer.step

    def step() -> None:
        optimizer_step()
        steps.append(theirs.policy.parameters_to_vector())

    optimizer.step = step
    np.random.seed(0)
    with pytest.raises(ValueError, match="invalid values"):
        theirs.train()
    assert np.all(np.isfinite(steps[1]))
    assert np.all(np.isnan(steps[2]))
    difference = np.abs(ours.policy.parameters_to_vector() - steps[1])
    assert np.mean(difference < 2e-5) > 0.98
    assert difference.max() < 3e-4
    assert ours._n_updates == 0


def test_learning_needs_an_environment() -> None:
    file = io.BytesIO()
    make_model().save(file)
    file.seek(0)
    with pytest.raises(AssertionError, match="There is no environment to learn in: pass `env` to `load`, or call `set_env`"):
        PPO.load(file).learn(48)


# --- observations -----------------------------------------------------------------------------------------------------


@pytest.mark.fault(23)
@pytest.mark.parametrize(
    ("observations", "obs"),
    [
        ("vector", np.zeros(4, np.float32)),
        ("vector", np.zeros((2, 3, 5), np.float32)),
        ("image", np.zeros((36, 36, 1), np.uint8)),
        ("discrete", np.zeros((2, 2), np.int64)),
        ("multi_discrete", np.zeros(3, np.int64)),
        ("multi_binary", np.zeros((2, 5), np.int8)),
        ("vector", (np.zeros(5, np.float32), {})),
        ("vector", {"vector": np.zeros(5, np.float32)}),
    ],
)
def test_wrong_observation_in_predict_raises_what_sb3_raises(observations: str, obs: Any) -> None:
    errors = []
    for algorithm in (PPO, sb3.PPO):
        with pytest.raises((ValueError, AssertionError)) as caught:
            make_model(observations, algorithm=algorithm).predict(obs)
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


def test_observation_with_nan_is_refused() -> None:
    for algorithm in (PPO, sb3.PPO):
        with pytest.raises(ValueError, match="NaN or infinite" if algorithm is PPO else "invalid values"):
            make_model(algorithm=algorithm).predict(np.full(5, np.nan, np.float32))


@pytest.mark.parametrize("shape", [(2, 4), (5,), (2, 1, 5)])
def test_wrong_batch_in_the_policys_methods_is_named(shape: tuple[int, ...]) -> None:
    policy = make_model().policy
    for method in (
        policy.predict_values,
        policy.get_distribution,
        policy,
        lambda obs: policy.evaluate_actions(obs, th.zeros(2)),
    ):
        with pytest.raises(ValueError, match=re.escape(f"Unexpected observation shape {shape} for Box")):
            method(th.zeros(shape))


def test_missing_key_in_a_dict_is_named() -> None:
    policy = make_model("dict").policy
    with pytest.raises(ValueError, match=r"Expected a dictionary with the keys \['image', 'number', 'vector'\]"):
        policy.predict_values({"vector": th.zeros(2, 4)})


# --- files ------------------------------------------------------------------------------------------------------------


def make_zip(**entries: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("_pth", ".pth"), content)
    return file.getvalue()


@pytest.fixture(scope="module")
def saved() -> bytes:
    file = io.BytesIO()
    make_model().save(file)
    return file.getvalue()


BAD_FILES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda saved: b"",
    "text": lambda saved: b"no model" * 100,
    "first bytes": lambda saved: saved[:10],
    "half": lambda saved: saved[: len(saved) // 2],
    "without its last bytes": lambda saved: saved[:-10],
    "bytes changed": lambda saved: saved[:2000] + bytes(500) + saved[2500:],
    "other zip": lambda saved: make_zip(readme="hello"),
    "data that are no JSON": lambda saved: make_zip(data="{", policy_pth="x"),
    "data of something else": lambda saved: make_zip(data="{}", policy_pth="x"),
    "data that are a list": lambda saved: make_zip(data="[]", policy_pth="x"),
}


@pytest.mark.parametrize("spoil", BAD_FILES.values(), ids=BAD_FILES)
def test_file_that_is_no_model_is_refused_by_name(spoil: Callable[[bytes], bytes], saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(spoil(saved))
    with pytest.raises(ValueError, match=r"model\.zip wasn't a zip-file of a saved model, or it is truncated or damaged"):
        PPO.load(path)


@pytest.mark.parametrize("kind", ["empty", "half", "without its last bytes", "bytes changed", "other zip"])
def test_file_that_is_no_model_changes_no_parameters(kind: str, saved: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    path.write_bytes(BAD_FILES[kind](saved))
    model = make_model()
    before = model.policy.parameters_to_vector()
    with pytest.raises(ValueError, match="truncated or damaged"):
        model.set_parameters(path)
    np.testing.assert_array_equal(before, model.policy.parameters_to_vector())


def test_file_that_does_not_exist() -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        PPO.load("nowhere")


OTHERS: dict[str, Callable[[], Any]] = {
    "DQN": lambda: sb3.DQN("MlpPolicy", make_env(n_envs=1), buffer_size=100),
    "SAC": lambda: sb3.SAC("MlpPolicy", make_env(actions="box", n_envs=1), buffer_size=100),
    "TD3": lambda: sb3.TD3("MlpPolicy", make_env(actions="box", n_envs=1), buffer_size=100),
    "RecurrentPPO": lambda: RecurrentPPO("MlpLstmPolicy", make_env(n_envs=1), n_steps=32, batch_size=32),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_file_of_another_algorithm_is_refused(make: Callable[[], Any]) -> None:
    file = io.BytesIO()
    make().save(file)
    file.seek(0)
    with pytest.raises(ValueError, match=r"`policy` must be one of .*that of another algorithm"):
        PPO.load(file)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"n_step": 3}, TypeError, "load() got an unexpected keyword argument 'n_step'. Did you mean 'n_steps'?"),
        ({"n_steps": 0}, ValueError, "`n_steps` must be an integer of at least 1"),
        ({"gamma": 2.0}, ValueError, "`gamma` must be a number between 0 and 1"),
        ({"device": "gpux"}, ValueError, "`device` must be"),
    ],
)
def test_wrong_argument_of_load_is_named(kwargs: dict[str, Any], error: type[Exception], message: str, saved: bytes) -> None:
    with pytest.raises(error, match=re.escape(message)):
        PPO.load(io.BytesIO(saved), **kwargs)


def test_policy_made_alone_checks_its_arguments_too() -> None:
    with pytest.raises(TypeError, match=r"'net_arhc'\. Did you mean 'net_arch'"):
        CnnPolicy(IMAGE, DISCRETE, lambda _: 1e-3, net_arhc=[4])  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"Invalid learning rate: -1\.0"):
        CnnPolicy(IMAGE, DISCRETE, lambda _: -1.0)
