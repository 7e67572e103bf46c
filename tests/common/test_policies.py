"""Policies behave as torch SB3's with the same parameters do, over every kind of space."""

import copy
import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import stable_baselines3 as sb3
import torch as th
from gymnasium import spaces
from stable_baselines3.common import torch_layers
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy as TorchPolicy
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

from sbx_flappy import PPO
from sbx_flappy.common.buffers import draw_order, to_rollout
from sbx_flappy.common.features_extractors import BaseFeaturesExtractor, CombinedExtractor, NatureCNN
from sbx_flappy.common.torch_classes import ACTIVATIONS, get_activation
from sbx_flappy.ppo import CnnPolicy, MlpPolicy, MultiInputPolicy
from tests.compilation import compilations
from tests.oracle import ACTIONS, IMAGE, OBSERVATIONS, RandomEnv, make_env, policy_for

KWARGS: dict[str, Any] = {"n_steps": 24, "batch_size": 16, "n_epochs": 3, "gamma": 0.9, "gae_lambda": 0.8, "seed": 1}
VECTOR, DISCRETE = OBSERVATIONS["vector"], ACTIONS["discrete"]

TWINS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "discrete": ("vector", "discrete", {}),
    "box": ("vector", "box", {}),
    "multi-discrete": ("vector", "multi_discrete", {}),
    "multi-binary": ("vector", "multi_binary", {}),
    "gSDE": ("vector", "box", {"use_sde": True}),
    "gSDE squashed": ("vector", "box", {"use_sde": True, "policy_kwargs": {"squash_output": True}}),
    "matrix": ("matrix", "discrete", {}),
    "discrete observations": ("discrete", "discrete", {}),
    "multi-discrete observations": ("multi_discrete", "discrete", {}),
    "multi-binary observations": ("multi_binary", "discrete", {}),
    "image": ("image", "discrete", {}),
    "dict": ("dict", "discrete", {}),
    "separate extractors": ("dict", "box", {"policy_kwargs": {"share_features_extractor": False}}),
}


def make_twins(observations: str, actions: str, **kwargs: Any) -> tuple[PPO, sb3.PPO]:
    """Return our model and torch SB3's with the same parameters, none of which are zero."""
    env, policy = make_env(observations, actions), policy_for(observations)
    theirs = sb3.PPO(policy, env, device="cpu", **{**KWARGS, **kwargs})
    with th.no_grad():
        for parameter in theirs.policy.parameters():
            parameter.add_(0.05 * th.randn_like(parameter))
    ours = PPO(policy, env, **{**KWARGS, **kwargs})
    ours.policy.load_state_dict(theirs.policy.state_dict())
    return ours, theirs


def sample(space: spaces.Space, n: int) -> Any:
    """Return a batch of observations."""
    space.seed(0)
    rows = [space.sample() for _ in range(n)]
    if isinstance(space, spaces.Dict):
        return {key: np.array([row[key] for row in rows]) for key in space.spaces}
    return np.array(rows)


def as_actions(space: spaces.Space, n: int) -> th.Tensor:
    """Return a batch of actions, as SB3's buffer gives them."""
    actions = th.as_tensor(sample(space, n))
    if isinstance(space, spaces.Box):
        return actions.clamp(-0.9, 0.9)  # what a squashing policy may have chosen
    return actions.long() if isinstance(space, spaces.Discrete) else actions.float()


@pytest.mark.parametrize(("observations", "actions", "kwargs"), TWINS.values(), ids=TWINS)
def test_policy_computes_what_torchs_does(observations: str, actions: str, kwargs: dict[str, Any]) -> None:
    ours, theirs = make_twins(observations, actions, **kwargs)
    batch = sample(ours.observation_space, 3)
    obs = ours.policy.obs_to_tensor(batch)[0]
    chosen = as_actions(ours.action_space, 3)
    close: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
    with th.no_grad():
        th.testing.assert_close(ours.policy.predict_values(obs), theirs.policy.predict_values(obs), **close)
        for mine, other in zip(
            ours.policy.evaluate_actions(obs, chosen), theirs.policy.evaluate_actions(obs, chosen), strict=True
        ):
            th.testing.assert_close(mine, other, **close)
        distributions = [model.policy.get_distribution(obs) for model in (ours, theirs)]
        th.testing.assert_close(*(d.mode() for d in distributions), **close)
        th.testing.assert_close(*(d.log_prob(chosen) for d in distributions), **close)
        assert type(distributions[0]) is type(distributions[1])
    predicted, expected = (model.predict(batch, deterministic=True)[0] for model in (ours, theirs))
    assert predicted.shape == expected.shape
    assert predicted.dtype == expected.dtype
    np.testing.assert_allclose(predicted, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["box", "multi-binary", "gSDE squashed"])
def test_forward_is_that_of_torch(kind: str) -> None:
    observations, actions, kwargs = TWINS[kind]
    ours, theirs = make_twins(observations, actions, **kwargs)
    obs = th.as_tensor(sample(ours.observation_space, 3))
    with th.no_grad():
        for mine, other in zip(ours.policy(obs, deterministic=True), theirs.policy(obs, deterministic=True), strict=True):
            th.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["matrix", "separate extractors"])
def test_features_are_those_of_torch(kind: str) -> None:
    observations, actions, kwargs = TWINS[kind]
    ours, theirs = make_twins(observations, actions, **kwargs)
    obs, _ = ours.policy.obs_to_tensor(sample(ours.observation_space, 3))
    with th.no_grad():
        mine, other = ours.policy.extract_features(obs), theirs.policy.extract_features(obs)
    assert isinstance(mine, tuple) == isinstance(other, tuple) == (kind == "separate extractors")
    th.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("observations", "actions", "kwargs"), TWINS.values(), ids=TWINS)
def test_state_dict_has_the_names_shapes_and_order_of_torchs(observations: str, actions: str, kwargs: dict[str, Any]) -> None:
    ours, theirs = make_twins(observations, actions, **kwargs)
    assert [(name, tensor.shape) for name, tensor in ours.policy.state_dict().items()] == [
        (name, tensor.shape) for name, tensor in theirs.policy.state_dict().items()
    ]
    assert [name for name, _ in ours.policy.named_parameters()] == [name for name, _ in theirs.policy.named_parameters()]
    np.testing.assert_array_equal(ours.policy.parameters_to_vector(), theirs.policy.parameters_to_vector())
    vector = np.linspace(-1, 1, len(ours.policy.parameters_to_vector()), dtype=np.float32)
    for model in (ours, theirs):
        model.policy.load_from_vector(vector)
    for mine, other in zip(ours.policy.state_dict().values(), theirs.policy.state_dict().values(), strict=True):
        th.testing.assert_close(mine, other, rtol=0, atol=0)


# --- spaces -----------------------------------------------------------------------------------------------------------


@pytest.mark.fault(23)
@pytest.mark.parametrize("actions", ACTIONS)
@pytest.mark.parametrize("observations", OBSERVATIONS)
def test_every_pair_of_spaces_predicts_one_action_or_a_batch(observations: str, actions: str) -> None:
    small = {} if observations in ("image", "dict") else {"net_arch": [4]}
    model = PPO(policy_for(observations), make_env(observations, actions), policy_kwargs=small, **KWARGS)
    space = model.action_space
    action, state = model.predict(model.observation_space.sample())
    assert state is None
    assert action.shape == space.shape
    assert space.contains(np.asarray(action, space.dtype))
    actions_, _ = model.predict(sample(model.observation_space, 1))
    assert actions_.shape == (1, *space.shape)
    assert space.contains(np.asarray(actions_[0], space.dtype))


# Each kind of space at least once; tests/ppo/test_oracle.py compares the updates of more of them
@pytest.mark.fault(24)
@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        *(("vector", "box"), ("vector", "multi_discrete"), ("vector", "multi_binary"), ("image", "discrete")),
        *(("discrete", "discrete"), ("multi_discrete", "discrete"), ("multi_binary", "discrete"), ("dict", "discrete")),
    ],
)
def test_every_space_learns_and_predicts_afterwards(observations: str, actions: str) -> None:
    model = PPO(policy_for(observations), make_env(observations, actions), **KWARGS)
    before = model.policy.state_dict()
    model.learn(48)
    after = model.policy.state_dict()
    assert all(not th.equal(before[name], after[name]) for name in before)
    assert all(th.isfinite(tensor).all() for tensor in after.values())
    assert model.env is not None
    assert model.action_space.shape is not None
    obs: Any = model.env.reset()
    action, _ = model.predict(obs, deterministic=True)
    assert action.shape == (2, *model.action_space.shape)


ODD_SPACES: dict[str, tuple[spaces.Space, spaces.Space]] = {
    "float64 actions of two dimensions": (VECTOR, spaces.Box(-1, 1, (2, 3), np.float64)),
    "scalar observation, an integer": (spaces.Box(-5, 5, (), np.int64), DISCRETE),
    "binary matrix": (spaces.MultiBinary([2, 3]), DISCRETE),
}


@pytest.mark.parametrize(("observation_space", "action_space"), ODD_SPACES.values(), ids=ODD_SPACES)
def test_odd_spaces_learn(observation_space: spaces.Space, action_space: spaces.Space) -> None:
    env = DummyVecEnv([lambda: RandomEnv(observation_space, action_space)] * 2)
    model = PPO("MlpPolicy", env, n_steps=4, batch_size=8, n_epochs=1, seed=0, policy_kwargs={"net_arch": [4]}).learn(8)
    action, _ = model.predict(observation_space.sample())
    assert action_space.contains(np.asarray(action, action_space.dtype))


@pytest.mark.fault(17)
def test_predict_clips_to_bounds_that_differ_per_action() -> None:
    model = PPO("MlpPolicy", make_env(actions="box"), policy_kwargs={"log_std_init": 3.0}, **KWARGS)
    actions, _ = model.predict(np.zeros((50, 5), np.float32))
    action_space: Any = model.action_space
    low, high = action_space.low, action_space.high
    assert np.all((actions >= low) & (actions <= high))
    assert np.all((actions == low).any(axis=0) & (actions == high).any(axis=0))


@pytest.mark.fault(17, 25)
def test_predict_unscales_squashed_actions_and_scale_action_undoes_it() -> None:
    kwargs: dict[str, Any] = {"use_sde": True, "policy_kwargs": {"squash_output": True, "log_std_init": 1.0}}
    model = PPO("MlpPolicy", make_env(actions="box"), **kwargs, **KWARGS)
    actions, _ = model.predict(np.linspace(-1, 1, 50, dtype=np.float32).reshape(10, 5))
    action_space: Any = model.action_space
    assert np.all((actions >= action_space.low) & (actions <= action_space.high))
    scaled = model.policy.scale_action(actions)
    np.testing.assert_allclose(model.policy.unscale_action(scaled), actions, rtol=1e-5)
    assert np.abs(scaled).max() <= 1.0
    assert model.policy.squash_output


# --- images -----------------------------------------------------------------------------------------------------------


class FrameEnv(RandomEnv):
    """Frames with the channel last, as cameras give them."""

    def __init__(self) -> None:
        super().__init__(spaces.Box(0, 255, (36, 40, 1), np.uint8), DISCRETE)


@pytest.mark.fault(22)
def test_frames_may_come_in_either_order_of_channels_without_an_env(tmp_path: Path) -> None:
    env = VecFrameStack(make_vec_env(FrameEnv, n_envs=2, seed=0), n_stack=2)
    model = PPO("CnnPolicy", env, policy_kwargs={"features_extractor_kwargs": {"features_dim": 8}}, **KWARGS)
    assert model.observation_space.shape == (2, 36, 40)
    model.policy.load_from_vector(0.1 * np.random.default_rng(0).normal(size=len(model.policy.parameters_to_vector())))
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model")
    assert loaded.env is None
    last = np.random.default_rng(0).integers(0, 256, (5, 36, 40, 2), np.uint8)
    first = last.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(loaded.predict(last, deterministic=True)[0], loaded.predict(first, deterministic=True)[0])
    single = [loaded.predict(frames, deterministic=True)[0] for frames in (last[0], first[0])]
    assert single[0] == single[1]
    assert single[0].shape == ()
    values = loaded.policy.predict_values(loaded.policy.obs_to_tensor(last)[0])
    assert len(np.unique(values.numpy())) == 5  # the frames do matter


@pytest.mark.fault(21)
def test_normalized_images_are_not_divided_by_255() -> None:
    env = make_env("image")
    small = {"features_extractor_kwargs": {"features_dim": 8}}
    models = [PPO("CnnPolicy", env, policy_kwargs={**small, "normalize_images": flag}, **KWARGS) for flag in (True, False)]
    models[1].policy.load_state_dict(models[0].policy.state_dict())
    obs = sample(IMAGE, 3)
    values = [model.policy.predict_values(obs) for model in models]
    # ReLU networks without biases are homogeneous: values of a 255 times larger input are 255 times larger
    np.testing.assert_allclose(values[1], 255.0 * values[0], rtol=1e-4)


@pytest.mark.parametrize("extractor", [type("Mine", (NatureCNN,), {}), torch_layers.NatureCNN])
def test_float_images_are_taken_as_they_are_without_normalization(extractor: Any) -> None:
    env = DummyVecEnv([lambda: RandomEnv(spaces.Box(0.0, 1.0, (1, 36, 40), np.float32), DISCRETE)])
    policy_kwargs = {
        **{"normalize_images": False, "features_extractor_class": extractor},
        **{"features_extractor_kwargs": {"features_dim": 8}},
    }
    model = PPO("CnnPolicy", env, policy_kwargs=policy_kwargs, n_steps=48, batch_size=16)
    assert model.predict(model.observation_space.sample())[0].shape == ()


# --- what goes in and what comes out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("observations", ["vector", "dict"])
def test_tensors_give_tensors_and_arrays_give_arrays(observations: str) -> None:
    policy = PPO(policy_for(observations), make_env(observations), **KWARGS).policy
    arrays = sample(policy.observation_space, 3)
    tensors = jax.tree.map(th.as_tensor, arrays)
    jax_arrays = jax.tree.map(jnp.asarray, arrays)
    actions = np.array([0, 2, 1])
    for obs, kind in ((arrays, jax.Array), (jax_arrays, jax.Array), (tensors, th.Tensor)):
        results = (*policy.evaluate_actions(obs, actions), policy.predict_values(obs), *policy(obs))
        assert all(isinstance(result, kind) for result in results)
        assert [tuple(result.shape) for result in results] == [(3, 1), (3,), (3,), (3, 1), (3,), (3, 1), (3,)]
    np.testing.assert_array_equal(policy.predict_values(arrays), policy.predict_values(tensors).numpy())


@pytest.mark.parametrize("observations", ["vector", "image", "dict"])
def test_predict_takes_arrays_of_jax_and_tensors(observations: str) -> None:
    model = PPO(policy_for(observations), make_env(observations), **KWARGS)
    obs = sample(model.observation_space, 1)
    expected = model.predict(obs, deterministic=True)[0]
    for convert in (jnp.asarray, th.as_tensor):
        np.testing.assert_array_equal(model.predict(jax.tree.map(convert, obs), deterministic=True)[0], expected)


def test_batch_of_none_gives_none() -> None:
    model = PPO("MlpPolicy", make_env(), **KWARGS)
    assert model.predict(np.zeros((0, 5), np.float32))[0].shape == (0,)


def test_predict_passes_a_state_through_and_takes_lists() -> None:
    model = PPO("MlpPolicy", make_env(), **KWARGS)
    state = (np.ones(3),)
    obs: Any = [0.1, 0.2, 0.3, 0.4, 0.5]
    action, same = model.predict(obs, state=state, episode_start=np.array([True]), deterministic=True)
    assert same is state
    assert action == model.predict(np.array([0.1, 0.2, 0.3, 0.4, 0.5]), deterministic=True)[0]


@pytest.mark.fault(25)
def test_methods_that_wrappers_call_exist() -> None:
    policy = PPO("MlpPolicy", make_env(), **KWARGS).policy
    policy.set_training_mode(True)
    assert policy.training
    policy.set_training_mode(False)
    assert not policy.training
    assert policy.device == th.device("cpu")
    assert policy.features_dim == 5
    assert policy.is_vectorized_observation(np.zeros((3, 5)))
    assert not policy.is_vectorized_observation(np.zeros(5))
    obs, vectorized = policy.obs_to_tensor(np.zeros(5, np.float32))
    assert obs.shape == (1, 5)
    assert not vectorized
    n_parameters = sum(parameter.numel() for parameter in policy.parameters())
    assert n_parameters == len(policy.parameters_to_vector()) == 2 * (5 * 64 + 64 + 64 * 64 + 64) + 64 * 3 + 3 + 64 + 1
    assert "features_extractor" in str(policy)
    assert policy.to("cpu") is policy


# --- gSDE -------------------------------------------------------------------------------------------------------------


@pytest.mark.fault(20)
def test_sde_noise_is_kept_until_it_is_reset() -> None:
    policy = PPO("MlpPolicy", make_env(actions="box"), use_sde=True, **KWARGS).policy
    obs = sample(VECTOR, 2)
    policy.reset_noise(2)
    first, same = np.asarray(policy(obs)[0]), np.asarray(policy(obs)[0])
    np.testing.assert_array_equal(first, same)
    policy.reset_noise(2)
    assert not np.array_equal(first, policy(obs)[0])


def test_sde_gives_each_environment_its_own_noise_and_others_a_common_one() -> None:
    policy = PPO("MlpPolicy", make_env(actions="box"), use_sde=True, **KWARGS).policy
    policy.reset_noise(2)
    noise = policy.exploration_noise
    assert noise is not None
    row = sample(VECTOR, 1)
    twice, thrice = (np.asarray(policy(np.repeat(row, n, axis=0))[0]) for n in (2, 3))
    assert not np.allclose(twice[0], twice[1])
    np.testing.assert_allclose(thrice[0], thrice[1], rtol=1e-6)
    distribution = policy.get_distribution(th.as_tensor(np.repeat(row, 2, axis=0)))
    np.testing.assert_allclose(distribution.sample().numpy(), twice, rtol=1e-4, atol=1e-5)
    assert noise.matrices.shape == (2, 64, 2)
    assert noise.matrix.shape == (64, 2)


def test_reset_noise_needs_sde() -> None:
    policy = PPO("MlpPolicy", make_env(actions="box"), **KWARGS).policy
    with pytest.raises(AssertionError, match=r"reset_noise\(\) is only available when using gSDE"):
        policy.reset_noise()


# --- construction -----------------------------------------------------------------------------------------------------


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    "net_arch", [None, [], [7], (7, 5), {"pi": [7], "vf": [5, 3]}, {"pi": [7]}, {"vf": [7]}, {}, [{"pi": [7], "vf": [5]}]]
)
@pytest.mark.filterwarnings("ignore:As shared layers in the mlp_extractor are removed:UserWarning")
def test_net_arch_makes_the_layers_of_torchs(net_arch: Any) -> None:
    shapes = []
    for algorithm in (PPO, sb3.PPO):
        model = algorithm("MlpPolicy", make_env(), policy_kwargs={"net_arch": copy.deepcopy(net_arch)}, **KWARGS)
        shapes.append([(name, tuple(tensor.shape)) for name, tensor in model.policy.state_dict().items()])
    assert shapes[0] == shapes[1]


def test_old_form_of_net_arch_warns_as_sb3_does() -> None:
    messages = []
    for algorithm in (PPO, sb3.PPO):
        with pytest.warns(UserWarning, match="shared layers in the mlp_extractor are removed") as caught:
            algorithm("MlpPolicy", make_env(), policy_kwargs={"net_arch": [{"pi": [7], "vf": [5]}]}, **KWARGS)
        messages.append(str(caught[0].message))
    assert messages[0] == messages[1]


@pytest.mark.fault(18)
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda cls: cls.__name__)
def test_activation_is_torchs(activation: type[th.nn.Module]) -> None:
    x = np.linspace(-7, 7, 141, dtype=np.float32)
    function: Any = get_activation(activation)
    np.testing.assert_allclose(function(x), activation()(th.as_tensor(x)).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.fault(18)
@pytest.mark.parametrize("activation", [th.nn.Tanh, th.nn.ReLU, th.nn.ELU, th.nn.LeakyReLU], ids=lambda cls: cls.__name__)
def test_activations_of_rl_zoos_settings_and_search_compute_what_torchs_do(activation: type[th.nn.Module]) -> None:
    ours, theirs = make_twins("vector", "discrete", policy_kwargs={"activation_fn": activation})
    obs = th.as_tensor(sample(VECTOR, 3))
    th.testing.assert_close(ours.policy.predict_values(obs), theirs.policy.predict_values(obs).detach(), rtol=1e-4, atol=1e-5)


def test_activation_may_be_a_function() -> None:
    torchs, ours = (
        PPO("MlpPolicy", make_env(), policy_kwargs={"activation_fn": activation}, **KWARGS)
        for activation in (th.nn.ReLU, nn.relu)
    )
    ours.policy.load_state_dict(torchs.policy.state_dict())
    obs = sample(VECTOR, 3)
    np.testing.assert_array_equal(torchs.policy.predict_values(obs), ours.policy.predict_values(obs))


GAINS = {"features_extractor": 2**0.5, "mlp_extractor": 2**0.5, "action_net": 0.01, "value_net": 1.0}


@pytest.mark.fault(8)
@pytest.mark.parametrize("observations", ["vector", "image", "dict"])
def test_orthogonal_weights_have_the_gains_of_sb3(observations: str) -> None:
    state_dict = PPO(policy_for(observations), make_env(observations), **KWARGS).policy.state_dict()
    for name, tensor in state_dict.items():
        if name.endswith("bias"):
            assert th.all(tensor == 0)
            continue
        part = "features_extractor" if "features_extractor" in name else name.split(".")[0]
        matrix = tensor.flatten(1).numpy().astype(np.float64)
        product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
        np.testing.assert_allclose(product, GAINS[part] ** 2 * np.eye(len(product)), atol=1e-5, err_msg=name)


def test_separate_extractors_start_with_different_weights() -> None:
    policy_kwargs = {"share_features_extractor": False}
    state_dict = PPO("CnnPolicy", make_env("image"), policy_kwargs=policy_kwargs, **KWARGS).policy.state_dict()
    assert not th.equal(state_dict["pi_features_extractor.cnn.0.weight"], state_dict["vf_features_extractor.cnn.0.weight"])
    assert th.equal(state_dict["pi_features_extractor.cnn.0.weight"], state_dict["features_extractor.cnn.0.weight"])


@pytest.mark.parametrize("observations", ["vector", "image"])
def test_weights_without_orthogonal_initialization_are_those_of_torch(observations: str) -> None:
    env, kwargs = make_env(observations), {"policy_kwargs": {"ortho_init": False}, **KWARGS}
    ours, theirs = (algorithm(policy_for(observations), env, **kwargs).policy.state_dict() for algorithm in (PPO, sb3.PPO))
    for name, tensor in ours.items():
        # Uniform within 1 / sqrt(fan_in), weights and biases alike
        fan_in = ours[name.replace("bias", "weight")][0].numel()
        bound = fan_in**-0.5
        assert tensor.abs().max() <= bound
        assert theirs[name].abs().max() <= bound
        if tensor.numel() > 1000:
            assert tensor.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
            assert theirs[name].std().item() == pytest.approx(bound / 3**0.5, rel=0.1)


def test_log_std_starts_as_asked() -> None:
    for use_sde, shape in ((False, (2,)), (True, (64, 2))):
        policy_kwargs = {"log_std_init": -1.5}
        policy = PPO("MlpPolicy", make_env(actions="box"), use_sde=use_sde, policy_kwargs=policy_kwargs, **KWARGS).policy
        assert policy.log_std.shape == shape
        assert th.all(policy.log_std == -1.5)
    assert not hasattr(PPO("MlpPolicy", make_env(), **KWARGS).policy, "log_std")


def test_center_and_scale_are_applied_to_vectors_after_each_other() -> None:
    center: Any = [1.0, 2.0, 3.0, 4.0, 5.0]
    scale: Any = [2.0, 1.0, 0.5, 1.0, 1.0]
    plain = PPO("MlpPolicy", make_env(), **KWARGS)
    scaled = PPO("MlpPolicy", make_env(), policy_kwargs={"obs_center": center, "obs_scale": np.array(scale)}, **KWARGS)
    scaled.policy.load_state_dict(plain.policy.state_dict())
    obs = sample(VECTOR, 3)
    expected = plain.policy.predict_values((obs - np.float32(center)) * np.float32(scale))
    np.testing.assert_allclose(scaled.policy.predict_values(obs), expected, rtol=1e-5, atol=1e-6)


def test_center_and_scale_are_applied_to_images_after_they_became_0_to_1() -> None:
    small = {"features_extractor_kwargs": {"features_dim": 8}}
    plain = PPO("CnnPolicy", make_env("image"), policy_kwargs=small, **KWARGS).policy
    scaled = PPO("CnnPolicy", make_env("image"), policy_kwargs={**small, "obs_center": 0.2, "obs_scale": 3.0}, **KWARGS).policy
    dark: Any = [[[[51]]]]  # 51 / 255 = 0.2
    white: Any = [[[[255]]]]
    np.testing.assert_allclose(scaled.preprocess(np.uint8(dark)), 0.0, atol=1e-6)
    np.testing.assert_allclose(scaled.preprocess(np.uint8(white)), (1.0 - 0.2) * 3.0, rtol=1e-6)
    np.testing.assert_allclose(plain.preprocess(np.uint8(dark)), 0.2, rtol=1e-6)


def test_action_bias_sets_the_first_probabilities() -> None:
    probabilities = np.array([0.1, 0.3, 0.6])
    policy_kwargs = {"action_bias_init": np.log(probabilities).tolist()}
    policy = PPO("MlpPolicy", make_env(), policy_kwargs=policy_kwargs, **KWARGS).policy
    distribution: Any = policy.get_distribution(th.zeros(1, 5)).distribution
    np.testing.assert_allclose(distribution.probs.numpy()[0], probabilities, rtol=1e-3)


def test_defaults_of_the_three_policies_and_their_order_of_arguments() -> None:
    schedule: Callable[[float], float] = lambda _: 1e-3  # noqa: E731
    assert MlpPolicy(VECTOR, DISCRETE, schedule).net_arch == {"pi": [64, 64], "vf": [64, 64]}
    cnn = CnnPolicy(IMAGE, DISCRETE, schedule)
    assert (cnn.net_arch, cnn.features_dim, cnn.features_extractor_class) == ([], 512, NatureCNN)
    both = MultiInputPolicy(OBSERVATIONS["dict"], DISCRETE, schedule)
    assert (both.features_dim, both.features_extractor_class) == (256 + 4 + 3, CombinedExtractor)
    positional: list[Any] = [VECTOR, DISCRETE, schedule, [4], th.nn.ReLU, False, False, -1.0, True, False, False]
    assert len(MlpPolicy(*positional).state_dict()) == len(TorchPolicy(*positional).state_dict())
    assert cnn.optimizer.param_groups[0]["lr"] == 1e-3


# --- features extractors and policies of the user's own ---------------------------------------------------------------


class TwoLayers(BaseFeaturesExtractor):
    """One with a base class of ours, and an argument of its own."""

    width: int = 6

    @nn.compact
    def __call__(self, observations: jax.Array) -> jax.Array:
        x = nn.LayerNorm()(nn.Dense(self.width)(observations))
        return nn.relu(nn.Dense(self.width + 1)(x))


class Plain(nn.Module):
    """A module of Flax that knows nothing of us, with a list as its argument."""

    features: tuple[int, ...] = (6,)

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for size in self.features:
            x = nn.tanh(nn.Dense(size)(x))
        return x


class OfDict(BaseFeaturesExtractor):
    """One for dictionaries, that derives an argument from the space."""

    n_numbers: int = 0

    @nn.compact
    def __call__(self, observations: dict[str, jax.Array]) -> jax.Array:
        assert observations["number"].shape[1] == self.n_numbers
        assert observations["image"].shape[1:] == (1, 36, 40)
        x = nn.Conv(2, (5, 5), strides=5)(observations["image"].transpose(0, 2, 3, 1))
        return jnp.concatenate([x.reshape(len(x), -1), observations["vector"], observations["number"]], axis=-1)

    @classmethod
    def for_space(cls, observation_space: Any, **kwargs: Any) -> BaseFeaturesExtractor:
        return super().for_space(observation_space, n_numbers=int(observation_space["number"].n), **kwargs)


class WithoutParameters(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.concatenate([x, x**2], axis=-1)


CUSTOM: dict[str, tuple[type, dict[str, Any], str, int, bool]] = {
    "base class": (TwoLayers, {"width": 4}, "vector", 5, True),
    "plain module, one each": (Plain, {"features": [6, 3]}, "vector", 3, False),
    # 8 x 8 positions of 2 channels, 4 numbers and 3 one-hot ones
    "dict": (OfDict, {}, "dict", 8 * 8 * 2 + 4 + 3, True),
    "without parameters": (WithoutParameters, {}, "vector", 10, True),
}


@pytest.mark.parametrize(("cls", "kwargs", "observations", "features_dim", "share"), CUSTOM.values(), ids=CUSTOM)
def test_own_features_extractor_is_trained_saved_and_loaded(
    cls: type, kwargs: dict[str, Any], observations: str, features_dim: int, share: bool, tmp_path: Path
) -> None:
    policy_kwargs = {
        **{"features_extractor_class": cls, "features_extractor_kwargs": kwargs},
        **{"share_features_extractor": share, "net_arch": []},
    }
    model = PPO(policy_for(observations), make_env(observations), policy_kwargs=policy_kwargs, **KWARGS)
    assert model.policy.features_dim == features_dim
    before = model.policy.state_dict()
    model.learn(48)
    after = model.policy.state_dict()
    assert all(not th.equal(before[name], after[name]) for name in before)
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model")
    obs = sample(model.observation_space, 3)
    np.testing.assert_array_equal(loaded.policy.predict_values(obs), model.policy.predict_values(obs))


def test_dense_layers_of_an_own_extractor_become_orthogonal_unless_told_otherwise() -> None:
    for ortho_init in (True, False):
        policy_kwargs = {"features_extractor_class": TwoLayers, "ortho_init": ortho_init}
        state_dict = PPO("MlpPolicy", make_env(), policy_kwargs=policy_kwargs, **KWARGS).policy.state_dict()
        weight = state_dict["features_extractor.Dense_0.weight"].numpy()  # 6 x 5: its columns are orthogonal
        assert np.allclose(weight.T @ weight, 2.0 * np.eye(5), atol=1e-5) == ortho_init
        assert th.all(state_dict["features_extractor.LayerNorm_0.weight"] == 1)


class BatchNormAndDropout(BaseFeaturesExtractor):
    """An extractor whose layers differ when the network learns."""

    @nn.compact
    def __call__(self, observations: jax.Array, train: bool = False) -> jax.Array:
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9, name="batch_norm")(observations)
        return nn.Dropout(0.5, deterministic=not train)(x)


def make_batch_norm_model(**policy_kwargs: Any) -> PPO:
    policy_kwargs = {"features_extractor_class": BatchNormAndDropout, "net_arch": [16], **policy_kwargs}
    return PPO("MlpPolicy", make_env(), policy_kwargs=policy_kwargs, **KWARGS)


def running_averages(model: PPO) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in model.policy.state_dict().items() if "running" in name}


@pytest.mark.parametrize("shared", [True, False])
def test_rollouts_and_predictions_leave_running_averages_alone_and_updates_do_not(shared: bool) -> None:
    model = make_batch_norm_model(share_features_extractor=shared)
    before = running_averages(model)
    assert set(before) == {
        f"{head}features_extractor.batch_norm.running_{name}" for head in ("", "pi_", "vf_") for name in ("mean", "var")
    }
    _, callback = model._setup_learn(48)
    assert model.env is not None
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    obs: Any = model.env.reset()
    actions = [model.predict(obs, deterministic=True)[0] for _ in range(5)]
    assert all(np.array_equal(action, actions[0]) for action in actions)
    for name, value in running_averages(model).items():
        np.testing.assert_array_equal(value, before[name])
    model.train()
    after = running_averages(model)
    assert all(not np.allclose(after[name], before[name]) for name in before)
    assert all(th.is_tensor(parameter) for parameter in model.policy.parameters())
    assert not any("running" in name for name, _ in model.policy.named_parameters())


def test_running_averages_are_those_of_the_minibatches() -> None:
    """One epoch over a rollout in minibatches: each moves the mean by a tenth of the way to its own."""
    model = make_batch_norm_model()
    model.n_epochs, model.batch_size = 1, 24
    orders = np.random.RandomState(1)
    _, callback = model._setup_learn(48)
    assert model.env is not None
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    rollout = to_rollout(model.rollout_buffer, model.action_space)
    np.random.set_state(orders.get_state())
    order = draw_order(model.rollout_buffer)
    np.random.set_state(orders.get_state())
    model.train()
    mean = np.zeros(5)
    for start in range(0, len(order), 24):
        mean = 0.9 * mean + 0.1 * rollout.observations[order[start : start + 24]].mean(axis=0)
    np.testing.assert_allclose(
        running_averages(model)["features_extractor.batch_norm.running_mean"], mean, rtol=1e-4, atol=1e-6
    )


def test_training_mode_is_the_layers_training_mode() -> None:
    model = make_batch_norm_model()
    obs = np.random.default_rng(0).normal(2.0, 1.0, (64, 5)).astype(np.float32)
    policy: Any = model.policy
    policy.set_training_mode(False)
    features = np.array(policy.extract_features(obs))
    np.testing.assert_array_equal(policy.extract_features(obs), features)
    assert not np.any(features == 0.0)
    policy.set_training_mode(True)
    dropped = np.array(policy.extract_features(obs))
    assert 0.3 < np.mean(dropped == 0.0) < 0.7
    assert not np.array_equal(policy.extract_features(obs), dropped)  # each call drops others
    assert not np.allclose(running_averages(model)["features_extractor.batch_norm.running_mean"], 0.0)
    for call in (
        lambda: policy(obs)[1],
        lambda: policy.predict_values(obs),
        lambda: policy.evaluate_actions(obs, np.zeros(64, int))[1],
        lambda: policy.get_distribution(obs).distribution.probs,
    ):
        first, second = np.asarray(call()), np.asarray(call())
        assert not np.allclose(first, second)
        assert np.all(np.isfinite(first))
    policy.set_training_mode(False)
    np.testing.assert_array_equal(policy.predict_values(obs), policy.predict_values(obs))


def test_running_averages_are_saved_copied_and_set(tmp_path: Path) -> None:
    model = make_batch_norm_model().learn(48)
    model.save(tmp_path / "model")
    obs = sample(model.observation_space, 3)
    other = make_batch_norm_model()
    other.set_parameters(model.get_parameters())
    for copied in (model, PPO.load(tmp_path / "model"), copy.deepcopy(model), other):
        copied.policy.set_training_mode(False)
        for name, value in running_averages(model).items():
            np.testing.assert_array_equal(running_averages(copied)[name], value)
        np.testing.assert_array_equal(copied.policy.predict_values(obs), model.policy.predict_values(obs))


def test_dropout_is_drawn_from_the_seed() -> None:
    first, second = (make_batch_norm_model().learn(96).policy.parameters_to_vector() for _ in range(2))
    np.testing.assert_array_equal(first, second)


class AlwaysInTraining(BaseFeaturesExtractor):
    @nn.compact
    def __call__(self, observations: jax.Array) -> jax.Array:
        return nn.Dropout(0.5, deterministic=False)(nn.BatchNorm(use_running_average=False)(observations))


def test_layers_without_an_eval_mode_are_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"argument `train: bool = False`.*use_running_average=not train"):
        PPO("MlpPolicy", make_env(), policy_kwargs={"features_extractor_class": AlwaysInTraining})


class ConstantValue(MlpPolicy):
    """A policy of the user's own whose value is a constant in rollouts."""

    constant_value = 1.0

    def forward(self, obs: Any, deterministic: bool = False) -> tuple[Any, Any, Any]:
        actions, values, log_probs = super().forward(obs, deterministic)
        return actions, th.full_like(values, self.constant_value), log_probs


class OneAtTheEnd(gym.Env[np.ndarray, np.ndarray]):
    """Eight steps and a reward of 1 in the last."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return np.zeros(2, np.float32), float(self.count == 8), self.count == 8, False, {}


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(1.0, 1.0), (0.9, 1.0), (1.0, 0.8), (0.9, 0.8)])
def test_advantages_follow_from_the_values_of_a_forward_of_the_users_own(gamma: float, gae_lambda: float) -> None:
    model = PPO(ConstantValue, OneAtTheEnd(), n_steps=16, batch_size=16, n_epochs=1, gamma=gamma, gae_lambda=gae_lambda)
    model.learn(16)
    advantages = np.zeros(9)
    for t in reversed(range(8)):
        delta = (1.0 if t == 7 else gamma * 1.0) - 1.0  # the value is 1 everywhere, and 0 after the end
        advantages[t] = delta + gamma * gae_lambda * advantages[t + 1]
    expected = np.tile(advantages[:8], 2)
    np.testing.assert_allclose(model.rollout_buffer.advantages.flatten(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.rollout_buffer.returns.flatten(), expected + 1.0, rtol=1e-5)


class Cautious(MlpPolicy):
    """Acts by the mode, always."""

    def forward(self, obs: Any, deterministic: bool = False) -> tuple[Any, Any, Any]:
        return super().forward(obs, deterministic=True)


def test_policy_of_the_users_own_decides_what_is_done() -> None:
    model = PPO(Cautious, make_env(actions="box"), learning_rate=0.0, **KWARGS).learn(48)
    rollout = to_rollout(model.rollout_buffer, model.action_space)
    mode = model.policy.get_distribution(th.as_tensor(rollout.observations)).mode()
    np.testing.assert_allclose(rollout.actions, mode.numpy(), rtol=1e-5, atol=1e-6)


def test_own_policy_may_have_other_defaults() -> None:
    class Small(MlpPolicy):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{"net_arch": [4], "activation_fn": th.nn.ReLU, **kwargs})

    class Own(PPO):
        policy_aliases = {**PPO.policy_aliases, "Small": Small}

    model = Own("Small", make_env(), **KWARGS).learn(48)
    assert model.policy.state_dict()["mlp_extractor.policy_net.0.weight"].shape == (4, 5)


def test_torchs_policy_classes_stand_for_ours() -> None:
    model = PPO(TorchPolicy, make_env(), **KWARGS)
    assert type(model.policy) is MlpPolicy
    policy_kwargs = {"features_extractor_class": torch_layers.CombinedExtractor}
    both = PPO("MultiInputPolicy", make_env("dict"), policy_kwargs=policy_kwargs, **KWARGS)
    assert both.policy.features_extractor_class is CombinedExtractor


# --- optimizers -------------------------------------------------------------------------------------------------------


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    ("cls", "kwargs"),
    [
        (th.optim.Adam, {"betas": [0.8, 0.95], "amsgrad": True}),
        (th.optim.SGD, {"momentum": 0.9}),
        (th.optim.RMSprop, {"momentum": 0.5, "centered": True}),
        (RMSpropTFLike, {"eps": 1e-5}),
        (optax.lion, {"b1": 0.8}),
        (optax.adafactor, None),
        (optax.nadam, {"mu_dtype": jnp.bfloat16}),
    ],
)
def test_optimizers_state_survives_in_a_file(cls: Any, kwargs: dict[str, Any] | None, tmp_path: Path) -> None:
    policy_kwargs = {"optimizer_class": cls, "net_arch": [4]} | ({} if kwargs is None else {"optimizer_kwargs": kwargs})
    model = PPO("MlpPolicy", make_env(), policy_kwargs=policy_kwargs, **KWARGS)
    optimizer, rng = model.policy.optimizer, np.random.default_rng(0)
    update = jax.jit(optimizer.spec.make().update)
    for _ in range(3):
        gradients = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), model.policy.params)
        _, optimizer.opt_state = update(gradients, optimizer.opt_state, model.policy.params)
    model.save(tmp_path / "model")
    loaded = PPO.load(tmp_path / "model").policy.optimizer.opt_state
    saved_leaves, loaded_leaves = (jax.tree.leaves(state.inner_state) for state in (optimizer.opt_state, loaded))
    assert len(saved_leaves) > 0
    structures: list[Any] = [jax.tree.structure(state) for state in (loaded, optimizer.opt_state)]
    assert structures[0] == structures[1]
    for a, b in zip(saved_leaves, loaded_leaves, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.fault(8)
def test_optimizer_looks_like_torchs() -> None:
    ours, theirs = (algorithm("MlpPolicy", make_env(), **KWARGS).policy.optimizer.state_dict() for algorithm in (PPO, sb3.PPO))
    assert ours == theirs  # before the first step: no state, and Adam's numbers


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["discrete", "gSDE", "image"])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_copy_of_a_policy_is_equal_and_apart(kind: str, duplicate: Callable[[Any], Any]) -> None:
    observations, actions, kwargs = TWINS[kind]
    policy = PPO(policy_for(observations), make_env(observations, actions), **kwargs, **KWARGS).policy
    other = duplicate(policy)
    obs = sample(policy.observation_space, 2)
    values = np.array(policy.predict_values(obs))
    with compilations() as compiled:
        np.testing.assert_array_equal(other.predict_values(obs), values)
    assert compiled == []  # an equal network shares its programs
    other.load_from_vector(np.zeros_like(other.parameters_to_vector()))
    np.testing.assert_array_equal(policy.predict_values(obs), values)
    assert other.optimizer.state_dict().keys() == policy.optimizer.state_dict().keys()
    other.optimizer.load_state_dict(policy.optimizer.state_dict())
    assert other.optimizer._policy_reference() is other


def test_an_optimizer_outlives_its_policy_and_says_what_it_can_no_longer_do() -> None:
    optimizer = PPO("MlpPolicy", make_env(), **KWARGS).learn(48).policy.optimizer
    gc.collect()
    for alone in (optimizer, copy.deepcopy(optimizer)):
        assert len(alone.state_dict()["state"]) == 12  # two layers and a last one for each of actor and critic
        with pytest.raises(ReferenceError, match="keep the model, or the policy"):
            alone.load_state_dict(alone.state_dict())


def test_copy_of_a_model_learns_on_its_own() -> None:
    model = PPO("MlpPolicy", make_env(), **KWARGS).learn(48)
    before = model.policy.parameters_to_vector()
    for other in (copy.deepcopy(model), cloudpickle.loads(cloudpickle.dumps(model))):
        other.learn(48)
        assert not np.array_equal(other.policy.parameters_to_vector(), before)
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), before)


@pytest.mark.parametrize("kind", ["discrete", "gSDE squashed", "dict"])
def test_policy_saves_and_loads_alone(kind: str, tmp_path: Path) -> None:
    observations, actions, kwargs = TWINS[kind]
    ours, theirs = make_twins(observations, actions, **kwargs)
    ours.policy.save(str(tmp_path / "ours.pth"))
    theirs.policy.save(str(tmp_path / "theirs.pth"))
    obs = sample(ours.observation_space, 3)
    for name in ("ours", "theirs"):
        loaded = type(ours.policy).load(str(tmp_path / f"{name}.pth"))
        np.testing.assert_array_equal(loaded.parameters_to_vector(), ours.policy.parameters_to_vector())
        np.testing.assert_array_equal(
            loaded.predict(obs, deterministic=True)[0], ours.policy.predict(obs, deterministic=True)[0]
        )


def test_policy_with_functions_of_jax_saves_and_loads(tmp_path: Path) -> None:
    policy_kwargs = {"activation_fn": nn.relu, "optimizer_class": optax.adamw, "net_arch": [4]}
    policy = PPO("MlpPolicy", make_env(), policy_kwargs=policy_kwargs, **KWARGS).policy
    policy.save(str(tmp_path / "policy.pth"))
    loaded = MlpPolicy.load(str(tmp_path / "policy.pth"), device=jax.local_devices()[0])
    obs = sample(VECTOR, 3)
    np.testing.assert_array_equal(loaded.predict_values(obs), policy.predict_values(obs))


def test_env_of_gymnasium_is_enough() -> None:
    model = PPO("MlpPolicy", gym.make("CartPole-v1"), n_steps=48, batch_size=16, n_epochs=3).learn(48)
    assert model.num_timesteps == 48
