"""The blog's networks and settings, and the page about them: docs/flapjax.md."""

import importlib.util
import inspect
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest
import rl_zoo3.enjoy
import rl_zoo3.exp_manager
import rl_zoo3.record_video
import rl_zoo3.train
import torch as th
import yaml
from gymnasium import spaces

import sbx_flappy.zoo.cli
import sbx_flappy.zoo.evaluation
from sbx_flappy import PPO, FlapJaxCNN, FlapJaxMlp
from sbx_flappy.functional.convolution import pad_same
from sbx_flappy.functional.networks import Conv2d
from tests.oracle import make_env
from tests.zoo.commands import run
from tests.zoo.test_zoo import NO_EVAL, TINY

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "flapjax.md").read_text()
SETTINGS = ROOT / "hyperparams" / "ppo_flapjax.yml"
KWARGS: dict[str, Any] = {"n_steps": 24, "batch_size": 16, "n_epochs": 2, "seed": 1}
#: Small, with a kernel of odd, even and one pixel, and strides that do not divide the image's 36 x 40 pixels
SMALL = {"features_dim": 8, "layers": [[4, 5, 3], [6, 4, 2], [5, 1, 2]]}


def make(name: str, **changes: Any) -> PPO:
    """Return a model with one of the networks, none of whose parameters are zero."""
    policy, observations, cls, kwargs = {
        "cnn": ("CnnPolicy", "image", FlapJaxCNN, SMALL),
        "mlp": ("MlpPolicy", "vector", FlapJaxMlp, {"features_dim": 8}),
    }[name]
    policy_kwargs = {"features_extractor_class": cls, "features_extractor_kwargs": kwargs, "net_arch": [], **changes}
    model = PPO(policy, make_env(observations), policy_kwargs=policy_kwargs, **KWARGS)
    n_parameters = len(model.policy.parameters_to_vector())
    model.policy.load_from_vector(0.3 * np.random.default_rng(0).normal(size=n_parameters).astype(np.float32))
    return model


def sample(model: PPO) -> np.ndarray:
    """Return three observations."""
    space = model.observation_space
    space.seed(0)
    return np.array([space.sample() for _ in range(3)])


# --- the networks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "kernel_size", "stride"),
    [((84, 84), 8, 4), ((21, 21), 4, 2), ((11, 11), 3, 1), ((13, 10), 5, 3), ((9, 7), 2, 2), ((8, 7), 1, 3), ((3, 2), 5, 2)],
)
def test_same_convolution_and_its_gradients_are_those_of_flax(size: tuple[int, int], kernel_size: int, stride: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, *size, 3)).astype(np.float32)
    params = {
        "kernel": rng.normal(size=(kernel_size, kernel_size, 3, 4)).astype(np.float32) / kernel_size,
        "bias": rng.normal(size=4).astype(np.float32),
    }
    theirs = nn.Conv(4, (kernel_size, kernel_size), (stride, stride), padding="SAME")
    expected: Any = theirs.apply({"params": params}, x)
    weights = rng.normal(size=expected.shape).astype(np.float32) / expected.size

    def evaluate(module: nn.Module) -> Any:
        def weighted(params: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            y: Any = module.apply({"params": params}, x)
            return jnp.sum(weights * y), y

        return jax.grad(weighted, argnums=(0, 1), has_aux=True)(params, x)

    for mine, other in zip(
        *(map(jax.tree.leaves, map(evaluate, (Conv2d(4, kernel_size, stride, "SAME"), theirs)))), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


def test_an_odd_border_has_its_extra_line_at_the_bottom_and_right() -> None:
    # 11 positions of 4 pixels, 2 apart, reach over 10 * 2 + 4 = 24 pixels, which are 3 more than 21
    padded = pad_same(jnp.ones((1, 21, 21, 1)), 4, 2)
    expected = np.zeros((24, 24))
    expected[1:22, 1:22] = 1.0
    np.testing.assert_array_equal(padded[0, :, :, 0], expected)


class BlogCnn(nn.Module):
    """The blog's network in Flax's own layers; flattened channels first, as the parameters that it is given have it."""

    layers: Any
    features_dim: int

    @nn.compact
    def __call__(self, images: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = jnp.asarray(images, jnp.float32).transpose(0, 2, 3, 1) / 255.0
        for i, (features, kernel_size, stride) in enumerate(self.layers):
            x = nn.relu(nn.Conv(features, (kernel_size, kernel_size), (stride, stride), name=f"cnn{2 * i}")(x))
        x = nn.relu(nn.Dense(self.features_dim, name="linear0")(x.transpose(0, 3, 1, 2).reshape(len(x), -1)))
        return nn.Dense(3, name="action_net")(x), nn.Dense(1, name="value_net")(x)


def test_network_for_pixels_is_the_blogs_in_flax() -> None:
    model = make("cnn")
    params = model.policy.params
    extractor = params["features_extractor"]
    layers = {f"{part}{i}": layer for part, branch in extractor.items() for i, layer in branch.items()}
    heads = {name: params[name] for name in ("action_net", "value_net")}
    images = sample(model)
    outputs: Any = BlogCnn(SMALL["layers"], 8).apply({"params": {**layers, **heads}}, images)
    logits, values = outputs
    assert np.ptp(np.asarray(values)) > 1e-2
    np.testing.assert_allclose(model.policy.predict_values(images), values, rtol=1e-5, atol=1e-5)
    distribution: Any = model.policy.get_distribution(th.as_tensor(images)).distribution
    np.testing.assert_allclose(distribution.probs, jax.nn.softmax(logits), rtol=1e-5, atol=1e-5)


def test_network_for_cartpole_is_one_layer_under_both_heads() -> None:
    model = make("mlp")
    params, x = model.policy.params, sample(model)
    layer = params["features_extractor"]["linear"]["0"]
    hidden = np.maximum(x @ layer["kernel"] + layer["bias"], 0.0)
    values = hidden @ params["value_net"]["kernel"] + params["value_net"]["bias"]
    np.testing.assert_allclose(model.policy.predict_values(x), values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("observation_space", "policy", "cls", "expected"),
    [
        # 4 numbers to 512, 512 to 2 actions and to 1 value
        (spaces.Box(-1, 1, (4,), np.float32), "MlpPolicy", FlapJaxMlp, 4 * 512 + 512 + 512 * 2 + 2 + 512 + 1),
        # 84 pixels become ceil(84 / 4) = 21, ceil(21 / 2) = 11 and 11 positions
        (
            spaces.Box(0, 255, (84, 84, 1), np.uint8),
            "CnnPolicy",
            FlapJaxCNN,
            *((8 * 8 * 1 + 1) * 32 + (4 * 4 * 32 + 1) * 64 + (3 * 3 * 64 + 1) * 64 + (11 * 11 * 64 + 1) * 256 + 257 * 3,),
        ),
    ],
)
def test_sizes_are_the_blogs_and_nothing_lies_between_features_and_heads(
    observation_space: spaces.Space, policy: str, cls: Any, expected: int
) -> None:
    class Env(gym.Env):
        action_space = spaces.Discrete(2)

    env = Env()
    env.observation_space = observation_space
    model = PPO(policy, env, policy_kwargs={"features_extractor_class": cls, "net_arch": []})
    assert len(model.policy.parameters_to_vector()) == expected
    assert "mlp_extractor" not in model.policy.params


@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_actor_and_critic_share_the_features(name: str) -> None:
    model = make(name)
    x = sample(model)
    policy: Any = model.policy
    before = [np.asarray(policy.predict_values(x)), policy.get_distribution(th.as_tensor(x)).distribution.logits]
    policy.load_state_dict(
        {
            key: 1.5 * tensor if key.startswith("features_extractor.") else tensor
            for key, tensor in policy.state_dict().items()
            if not key.startswith(("pi_", "vf_"))
        },
        strict=False,
    )
    after = [np.asarray(policy.predict_values(x)), policy.get_distribution(th.as_tensor(x)).distribution.logits]
    for first, second in zip(before, after, strict=True):
        assert np.abs(np.asarray(first) - np.asarray(second)).max() > 1e-3


@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_network_learns_and_survives_in_files_and_in_torch(name: str, tmp_path: Path) -> None:
    model = make(name).learn(48)
    model.save(tmp_path / "ours")
    model.save(tmp_path / "torch", as_torch=True)
    theirs, x = model.to_torch(), sample(model)
    loaded = [PPO.load(tmp_path / "ours"), PPO.load(tmp_path / "ours", safe=True), PPO.load(tmp_path / "torch")]
    for other in [*loaded, PPO.from_torch(theirs)]:
        assert other.policy.features_extractor == model.policy.features_extractor
        np.testing.assert_array_equal(other.policy.predict_values(x), model.policy.predict_values(x))
    with th.no_grad():
        values = theirs.policy.predict_values(th.as_tensor(x))
    np.testing.assert_allclose(values, model.policy.predict_values(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("policy", "observations", "policy_kwargs", "error", "message"),
    [
        ("MultiInputPolicy", "dict", {"features_extractor_class": FlapJaxMlp}, ValueError, "FlapJaxMlp takes one array"),
        ("MultiInputPolicy", "dict", {"features_extractor_class": FlapJaxCNN}, AssertionError, "FlapJaxCNN must be used"),
        ("MlpPolicy", "vector", {"features_extractor_class": FlapJaxCNN}, AssertionError, "You should use FlapJaxCNN only"),
        (
            *(
                "MlpPolicy",
                "vector",
                {"features_extractor_class": FlapJaxMlp, "features_extractor_kwargs": {"features_dim": 0}},
            ),
            *(ValueError, "`features_dim` must be an integer of at least 1"),
        ),
    ],
)
def test_what_a_network_cannot_take_is_refused(
    policy: str, observations: str, policy_kwargs: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        PPO(policy, make_env(observations), policy_kwargs=policy_kwargs, **KWARGS)


# --- the settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("env_id", "expected"), [("CartPole-v1", FlapJaxMlp()), ("FlappyBird-v0", FlapJaxCNN())])
def test_rl_zoo_finds_the_networks_that_the_settings_name(env_id: str, expected: Any) -> None:
    text = yaml.safe_load(SETTINGS.read_text())[env_id]["policy_kwargs"]
    policy_kwargs = eval(text, vars(rl_zoo3.exp_manager))  # as RL-Zoo does it
    assert policy_kwargs.pop("features_extractor_class")() == expected
    assert policy_kwargs == {"net_arch": []}


@pytest.mark.parametrize(
    ("env_id", "conf"),
    [
        ("FlappyBird-v0", str(SETTINGS)),
        pytest.param("CartPole-v1", "sbx_flappy.hyperparams.ppo_flapjax", marks=pytest.mark.expensive),
        pytest.param("CartPole-v1", str(SETTINGS.with_suffix(".py")), marks=pytest.mark.expensive),
    ],
)
def test_rl_zoo_trains_the_settings(env_id: str, conf: str, tmp_path: Path) -> None:
    agent = ["--algo", "ppo", "--env", env_id, "--gym-packages", "sbx_flappy.zoo"]
    run("rl_zoo3.train", *agent, "-conf", conf, *TINY, *NO_EVAL, cwd=tmp_path)
    model = PPO.load(tmp_path / f"logs/ppo/{env_id}_1/{env_id}.zip")
    settings = yaml.safe_load(SETTINGS.read_text())[env_id]
    for key in ("gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm"):
        assert getattr(model, key) == settings[key]
    assert model.policy.features_extractor == {"CartPole-v1": FlapJaxMlp(), "FlappyBird-v0": FlapJaxCNN()}[env_id]
    assert model.policy.net_arch == []


# --- the page ---------------------------------------------------------------------------------------------------------


def figures_module() -> Any:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "docs" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pictures_of_the_preprocessing_are_made_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["figures.py", "preprocessing", "-o", str(tmp_path)])
    figures_module().main()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["frame.png", "maximum.png", "observations.png"]
    for name in names:
        images = [matplotlib.image.imread(folder / name) for folder in (tmp_path, ROOT / "docs" / "images")]
        assert images[0].shape == images[1].shape
        assert np.ptp(images[0]) > 0.5  # something is drawn


def test_every_picture_is_on_a_page_and_small() -> None:
    pages = (ROOT / "README.md").read_text() + "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    shown = {Path(name).name for name in re.findall(r"!\[.+?\]\((?:docs/)?images/(.+?)\)", pages)}
    files = list((ROOT / "docs" / "images").iterdir())
    assert shown == {file.name for file in files}
    assert all(file.stat().st_size < (500_000 if file.suffix == ".gif" else 100_000) for file in files)


COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines() if line]


def test_there_are_commands_on_the_page() -> None:
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_the_page_exists(line: str) -> None:
    program, command, *arguments = shlex.split(line, comments=True)
    if program == "python":
        known = {"docs/figures.py": figures_module().FIGURES, "benchmarks/learning.py": ("train", "plot")}
        assert arguments[0] in known[command]
        return
    assert program == "sbx-flappy"
    assert command in sbx_flappy.zoo.cli.COMMANDS
    scripts = {"train": rl_zoo3.train, "enjoy": rl_zoo3.enjoy, "record_video": rl_zoo3.record_video, "demo": rl_zoo3.train}
    scripts["evaluate"] = sbx_flappy.zoo.evaluation
    source = inspect.getsource(scripts[command]) + inspect.getsource(sbx_flappy.zoo.cli)
    for i, argument in enumerate(arguments):
        if argument.startswith("-") and not argument.lstrip("-").isdigit():
            assert f'"{argument}"' in source, argument
        if argument == "--env":
            gym.spec(arguments[i + 1])
        if argument == "-conf":
            assert (ROOT / arguments[i + 1].removeprefix("sbx_flappy.").replace(".", "/")).with_suffix(".py").is_file()
