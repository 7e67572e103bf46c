"""Torch SB3 is the oracle: from the same parameters and rollout, an update ends in the same parameters and logs."""

import re
from collections.abc import Generator
from typing import Any

import numpy as np
import optax
import pytest
import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common.buffers import RolloutBuffer as TorchRolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.torch_layers import FlattenExtractor as TorchFlattenExtractor
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sbx_flappy import PPO, FlapJaxCNN, FlapJaxMlp, FlappyVecEnv
from sbx_flappy.common.buffers import RolloutBuffer
from sbx_flappy.interchange import torch_policies
from tests.oracle import make_env, make_pair, policy_for, train_both

#: Nine steps in float32. Adam divides by the root of the second moment, which magnifies the rounding of gradients near
#: zero: a few parameters in a hundred may differ by more, but by less than one step's length (the learning rate, 3e-4).
RELATIVE, ABSOLUTE, STEP_LENGTH, SHARE = 1e-4, 2e-5, 3e-4, 0.98

SETTINGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mlp": ("vector", "discrete", {}),
    "cnn": ("image", "discrete", {}),
    "dict": ("dict", "discrete", {}),
    "matrix observations": ("matrix", "discrete", {}),
    "discrete observations": ("discrete", "discrete", {}),
    "multi-discrete observations": ("multi_discrete", "discrete", {}),
    "multi-binary observations": ("multi_binary", "discrete", {}),
    "box": ("vector", "box", {}),
    "multi-discrete": ("vector", "multi_discrete", {}),
    "multi-binary": ("vector", "multi_binary", {}),
    "clip_range_vf": ("vector", "discrete", {"clip_range_vf": 0.05}),
    "entropy": ("vector", "box", {"ent_coef": 0.1, "vf_coef": 0.3}),
    "gradient clipping": ("vector", "discrete", {"max_grad_norm": 0.01}),
    "advantages as they are": ("vector", "discrete", {"normalize_advantage": False}),
    "ragged last minibatch": ("vector", "box", {"batch_size": 20}),
    "ragged last minibatch of images": ("image", "discrete", {"batch_size": 20}),
    "last minibatch of one": ("vector", "discrete", {"batch_size": 47}),
    "minibatch larger than the buffer": ("vector", "discrete", {"batch_size": 100}),
    "gSDE": ("vector", "box", {"use_sde": True}),
    "gSDE with expln": ("vector", "box", {"use_sde": True, "policy_kwargs": {"use_expln": True, "log_std_init": 0.5}}),
    "gSDE with one std per feature": ("vector", "box", {"use_sde": True, "policy_kwargs": {"full_std": False}}),
    "gSDE on an actor without layers": ("vector", "box", {"use_sde": True, "policy_kwargs": {"net_arch": []}}),
    "gSDE with squashed output": (
        "vector",
        "box",
        {"use_sde": True, "ent_coef": 0.01, "policy_kwargs": {"squash_output": True}},
    ),
    "linear": ("vector", "discrete", {"policy_kwargs": {"net_arch": []}}),
    "unequal layers": ("vector", "box", {"policy_kwargs": {"net_arch": {"pi": [7], "vf": [9, 5]}}}),
    "separate features extractors": ("image", "discrete", {"policy_kwargs": {"share_features_extractor": False}}),
    "separate extractors of a dict": ("dict", "box", {"policy_kwargs": {"share_features_extractor": False}}),
    "small features": ("image", "box", {"policy_kwargs": {"features_extractor_kwargs": {"features_dim": 64}}}),
    "relu": ("vector", "discrete", {"policy_kwargs": {"activation_fn": th.nn.ReLU}}),
    "gelu": ("vector", "discrete", {"policy_kwargs": {"activation_fn": th.nn.GELU}}),
    "AdamW": ("vector", "discrete", {"policy_kwargs": {"optimizer_class": th.optim.AdamW}}),
    "Adam with L2": ("vector", "discrete", {"policy_kwargs": {"optimizer_kwargs": {"weight_decay": 0.1, "eps": 1e-5}}}),
    "SGD": (
        *("vector", "discrete"),
        {"policy_kwargs": {"optimizer_class": th.optim.SGD, "optimizer_kwargs": {"momentum": 0.9, "nesterov": True}}},
    ),
    "RMSprop": (
        *("vector", "discrete"),
        {"policy_kwargs": {"optimizer_class": th.optim.RMSprop, "optimizer_kwargs": {"alpha": 0.9, "eps": 1e-3}}},
    ),
    "RMSprop as TensorFlow's": (
        *("vector", "discrete"),
        {"policy_kwargs": {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"alpha": 0.9, "eps": 1e-5}}},
    ),
}


def assert_same_parameters(ours: PPO, theirs: Any) -> None:
    expected = theirs.policy.state_dict()
    actual = ours.policy.state_dict()
    assert list(actual) == list(expected)
    for name, tensor in expected.items():
        difference = np.abs(actual[name].numpy() - tensor.numpy())
        close = difference <= ABSOLUTE + RELATIVE * np.abs(tensor.numpy())
        assert close.mean() >= SHARE, (name, close.mean())
        assert difference.max() < STEP_LENGTH, (name, difference.max())


@pytest.mark.fault(4, 5, 6, 7, 9, 10, 14, 19)
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size:UserWarning")
@pytest.mark.parametrize(("observations", "actions", "kwargs"), SETTINGS.values(), ids=SETTINGS)
def test_update_is_that_of_torch(observations: str, actions: str, kwargs: dict) -> None:
    ours, theirs = make_pair(observations, actions, **kwargs)
    before = theirs.policy.state_dict()["action_net.weight"].clone()
    train_both(ours, theirs)
    assert not th.allclose(before, theirs.policy.state_dict()["action_net.weight"])
    assert_same_parameters(ours, theirs)
    expected, actual = theirs.logger.name_to_value, ours.logger.name_to_value
    assert list(actual) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(actual[key], value, rtol=1e-3, atol=1e-4, err_msg=key)


@pytest.mark.fault(5)
@pytest.mark.parametrize("observations", ["vector", "image"])
def test_target_kl_stops_at_the_same_step(observations: str, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = make_pair(observations, target_kl=0.003, learning_rate=3e-3, n_epochs=5, verbose=1)
    capsys.readouterr()
    np.random.seed(3)
    ours.train()
    our_words, our_next_number = capsys.readouterr().out, np.random.rand()
    np.random.seed(3)
    theirs.train()
    assert capsys.readouterr().out == our_words
    assert "Early stopping at step" in our_words
    assert ours._n_updates == theirs._n_updates < 5
    assert np.random.rand() == our_next_number  # the generators stand at the same place
    assert_same_parameters(ours, theirs)
    for key, value in theirs.logger.name_to_value.items():
        np.testing.assert_allclose(ours.logger.name_to_value[key], value, rtol=1e-3, atol=1e-4, err_msg=key)


def test_second_update_goes_on_from_the_same_moments() -> None:
    ours, theirs = make_pair("vector", "box")
    train_both(ours, theirs)
    our_state, their_state = ours.policy.optimizer.state_dict(), theirs.policy.optimizer.state_dict()
    assert our_state["param_groups"][0].keys() == their_state["param_groups"][0].keys()
    for i, expected in their_state["state"].items():
        assert expected.keys() == our_state["state"][i].keys()
        for name, tensor in expected.items():
            np.testing.assert_allclose(our_state["state"][i][name].numpy(), tensor.numpy(), rtol=1e-3, atol=1e-6)


def test_buffer_of_the_users_own_is_sampled_through_its_get() -> None:
    class Halved(TorchRolloutBuffer):
        def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
            for samples in super().get(batch_size):
                yield samples._replace(advantages=samples.advantages * 0.5)

    kwargs: dict[str, Any] = {"rollout_buffer_class": Halved, "normalize_advantage": False}
    ours, theirs = make_pair("vector", "discrete", **kwargs)
    assert type(ours.rollout_buffer) is Halved
    train_both(ours, theirs)
    assert_same_parameters(ours, theirs)


@pytest.mark.parametrize("observations", ["vector", "dict"])
def test_reading_the_buffer_before_the_update_changes_nothing(observations: str) -> None:
    ours, theirs = make_pair(observations)
    for model in (ours, theirs):
        next(model.rollout_buffer.get(5))
    train_both(ours, theirs)
    assert_same_parameters(ours, theirs)


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.9, 0.7), (1.0, 1.0), (0.99, 0.0)])
def test_gae_is_that_of_torch(gamma: float, gae_lambda: float) -> None:
    n_steps, n_envs = 7, 3
    env = make_env(n_envs=n_envs)
    args = (n_steps, env.observation_space, env.action_space)
    kwargs: dict[str, Any] = {"gamma": gamma, "gae_lambda": gae_lambda, "n_envs": n_envs}
    ours, theirs = RolloutBuffer(*args, **kwargs), TorchRolloutBuffer(*args, device="cpu", **kwargs)
    rng = np.random.default_rng(0)
    for buffer in (ours, theirs):
        rng = np.random.default_rng(0)
        for name in ("rewards", "values"):
            setattr(buffer, name, rng.normal(size=(n_steps, n_envs)).astype(np.float32))
        buffer.episode_starts = (rng.random((n_steps, n_envs)) < 0.3).astype(np.float32)
    last_values, dones = th.as_tensor(rng.normal(size=(n_envs, 1)).astype(np.float32)), np.array([True, False, False])
    for buffer in (ours, theirs):
        buffer.compute_returns_and_advantage(last_values, dones)
    np.testing.assert_allclose(ours.advantages, theirs.advantages, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.returns, theirs.returns, rtol=1e-5, atol=1e-6)


def test_an_optimizer_of_optax_is_torchs() -> None:
    kwargs = {"optimizer_class": optax.adamw, "optimizer_kwargs": {"eps": 1e-8, "weight_decay": 1e-2}}
    ours, theirs = make_pair(policy_kwargs={"optimizer_class": th.optim.AdamW})
    assert ours.env is not None
    with_optax = PPO("MlpPolicy", ours.env, n_steps=24, batch_size=16, n_epochs=3, seed=1, policy_kwargs=kwargs)
    with_optax.policy.load_state_dict(ours.policy.state_dict())
    with_optax.rollout_buffer, with_optax._logger = ours.rollout_buffer, ours.logger
    np.random.seed(3)
    with_optax.train()
    np.random.seed(3)
    theirs.train()
    assert_same_parameters(with_optax, theirs)


# --- the same seed ----------------------------------------------------------------------------------------------------

SAME_SEED = (
    *("mlp", "cnn", "dict", "box", "multi-discrete", "multi-binary", "gSDE", "gSDE with squashed output", "linear"),
    *("separate features extractors", "separate extractors of a dict", "gSDE with one std per feature"),
)


class NoteActions(BaseCallback):
    """Keeps what was done."""

    def __init__(self) -> None:
        super().__init__()
        self.actions: list[np.ndarray] = []

    def _on_step(self) -> bool:
        self.actions.append(np.array(self.locals["actions"]))
        return True


@pytest.mark.parametrize("ortho_init", [True, False])
@pytest.mark.parametrize("name", SAME_SEED)
def test_same_seed_gives_torchs_initial_parameters(name: str, ortho_init: bool) -> None:
    observations, actions, kwargs = SETTINGS[name]
    policy_kwargs = {**kwargs.get("policy_kwargs", {}), "ortho_init": ortho_init}
    kwargs = {**kwargs, "policy_kwargs": policy_kwargs, "seed": 7, "device": "cpu", "n_steps": 24, "batch_size": 16}
    parameters, states = [], []
    for algorithm in (PPO, sb3.PPO):
        parameters.append(algorithm(policy_for(observations), make_env(observations, actions), **kwargs).policy.state_dict())
        states.append(th.get_rng_state())
    assert list(parameters[0]) == list(parameters[1])
    for key, tensor in parameters[1].items():
        np.testing.assert_allclose(parameters[0][key].numpy(), tensor.numpy(), rtol=1e-5, atol=1e-6, err_msg=key)
    assert th.equal(*states)


@pytest.mark.parametrize("name", SAME_SEED)
def test_same_seed_gives_torchs_run(name: str) -> None:
    """Seed 0, with which the games are torch SB3's too. What rounding does to actions stays small in three updates."""
    observations, actions, kwargs = SETTINGS[name]
    kwargs = {"n_steps": 24, "batch_size": 16, "n_epochs": 2, "seed": 0, "device": "cpu", **kwargs}
    runs, models = [NoteActions(), NoteActions()], []
    for algorithm, note in zip((PPO, sb3.PPO), runs, strict=True):
        models.append(algorithm(policy_for(observations), make_env(observations, actions), **kwargs).learn(144, callback=note))
    ours, theirs = (np.array(note.actions) for note in runs)
    assert ours.shape == theirs.shape
    assert len(ours) == 72
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    assert len(np.unique(ours)) > 1
    for key, tensor in models[1].policy.state_dict().items():
        np.testing.assert_allclose(models[0].policy.state_dict()[key].numpy(), tensor.numpy(), atol=2e-3, err_msg=key)


SMALL_CNN = {"features_extractor_kwargs": {"features_dim": 16, "layers": [[4, 7, 7], [8, 2, 2]]}}
SCALED = {"obs_center": 0.66, "obs_scale": 4.0, "action_bias_init": [0.0, -2.2]}
#: Policy, environment and ``policy_kwargs`` that only this package's policies know, in JAX and in torch
OWN_SETTINGS: dict[str, tuple[type, str, dict[str, Any]]] = {
    "pixels": (torch_policies.CnnPolicy, "FlappyBird-v0", {**SMALL_CNN, **SCALED}),
    "numbers": (torch_policies.MlpPolicy, "FlappyBirdFeatures-v0", {"obs_center": [0.4] * 12, "obs_scale": [3.0] * 12}),
    "nothing": (torch_policies.MlpPolicy, "FlappyBirdFeatures-v1", {}),
    "layers after pixels": (torch_policies.CnnPolicy, "FlappyBird-v1", {**SMALL_CNN, "net_arch": [8]}),
    "blog's CNN": (
        torch_policies.CnnPolicy,
        "FlappyBird-v0",
        {"features_extractor_class": FlapJaxCNN, "features_extractor_kwargs": {"features_dim": 16}, "net_arch": []},
    ),
    "blog's MLP": (
        torch_policies.MlpPolicy,
        "FlappyBirdFeatures-v0",
        {"features_extractor_class": FlapJaxMlp, "features_extractor_kwargs": {"features_dim": 16}, "net_arch": []},
    ),
}


@pytest.mark.parametrize("name", OWN_SETTINGS)
def test_settings_that_sb3_does_not_know_train_torch_alike(name: str) -> None:
    policy, env_id, policy_kwargs = OWN_SETTINGS[name]
    runs, starts, models = [NoteActions(), NoteActions()], [], []
    for algorithm, note in zip((PPO, sb3.PPO), runs, strict=True):
        kwargs: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "seed": 0, "device": "cpu"}
        models.append(algorithm(policy, FlappyVecEnv(2, env_id), policy_kwargs=policy_kwargs, **kwargs))
        starts.append({key: tensor.clone() for key, tensor in models[-1].policy.state_dict().items()})
        models[-1].learn(96, callback=note)
    assert policy_kwargs == OWN_SETTINGS[name][2]
    our_actions, their_actions = (np.array(note.actions) for note in runs)
    np.testing.assert_array_equal(our_actions, their_actions)
    ends = [model.policy.state_dict() for model in models]
    for (ours, theirs), atol in ((starts, 1e-6), (ends, 1e-3)):
        assert list(ours) == list(theirs)
        for key, tensor in theirs.items():
            np.testing.assert_allclose(ours[key].numpy(), tensor.numpy(), rtol=1e-5, atol=atol, err_msg=key)
    if "action_bias_init" in policy_kwargs:
        assert starts[1]["action_net.bias"].tolist() == pytest.approx(policy_kwargs["action_bias_init"])


@pytest.mark.parametrize("algorithm", [PPO, sb3.PPO])
@pytest.mark.parametrize(
    ("policy_kwargs", "message"),
    [
        ({"action_bias_init": [0.5]}, "`action_bias_init` must be 2 finite numbers"),
        ({"action_bias_init": [0.5, np.nan]}, "`action_bias_init` must be 2 finite numbers"),
        ({"obs_scale": np.nan}, "`obs_scale` must be finite"),
        ({"obs_center": [0.5] * 11}, "`obs_center` must be one number or of the observations' shape"),
        ({"obs_center": "sky"}, "`obs_center` must be a number or nested lists of numbers"),
    ],
)
def test_settings_that_do_not_fit_are_errors_in_torch_too(
    algorithm: type, policy_kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        algorithm(torch_policies.MlpPolicy, "FlappyBirdFeatures-v0", policy_kwargs=policy_kwargs, device="cpu")


class OwnTorchExtractor(TorchFlattenExtractor):
    """Knows neither centre nor scale."""


def test_an_extractor_of_ones_own_in_torch_is_not_centred() -> None:
    policy_kwargs = {"features_extractor_class": OwnTorchExtractor, "obs_center": 0.5}
    with pytest.raises(ValueError, match=r"`obs_center` and `obs_scale` are for the extractors .*, not for OwnTorchExtractor"):
        sb3.PPO(torch_policies.MlpPolicy, "FlappyBirdFeatures-v0", policy_kwargs=policy_kwargs, device="cpu")
    sb3.PPO(torch_policies.MlpPolicy, "FlappyBirdFeatures-v0", policy_kwargs={"features_extractor_class": OwnTorchExtractor})
