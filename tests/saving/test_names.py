"""Files of version 0.1.0, which held dotted paths in place of names, and the names that files hold now."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common.env_util import make_vec_env

from sbx_flappy import PPO, FlappyVecEnv
from sbx_flappy.common import buffers, features_extractors, torch_classes
from sbx_flappy.saving import codec, names

OLD_FILES = Path(__file__).parent / "files_0_1_0"
VALUES = json.loads((OLD_FILES / "values.json").read_text())


def predict_values(model: Any) -> np.ndarray:
    """Return the values that files_0_1_0/make.py noted for a model."""
    model.observation_space.seed(0)
    observations = np.array([model.observation_space.sample() for _ in range(3)])
    return model.policy.predict_values(th.as_tensor(observations)).detach().numpy().ravel()


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("name", VALUES)
def test_old_file_gives_the_model_that_was_saved(name: str, safe: bool, tmp_path: Path) -> None:
    model = PPO.load(OLD_FILES / f"{name}.zip", device="cpu", safe=safe)
    # to rounding, because another processor adds up in another order
    np.testing.assert_allclose(predict_values(model), VALUES[name], rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "again")
    again = PPO.load(tmp_path / "again", device="cpu", safe=safe)
    assert again.policy_class is model.policy_class
    unequal = {key for key, value in model.policy_kwargs.items() if value != again.policy_kwargs[key]}
    assert unequal <= (set() if safe else {"activation_fn"})  # a pickle holds flax's function by value
    np.testing.assert_array_equal(predict_values(again), predict_values(model))


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("name", ["cartpole_resumable", "features_resumable"])
def test_old_file_goes_on_as_if_the_training_had_never_stopped(name: str, safe: bool) -> None:
    def make_env() -> Any:
        return (
            make_vec_env("CartPole-v1", n_envs=2) if name.startswith("cartpole") else FlappyVecEnv(2, "FlappyBirdFeatures-v0")
        )

    resumed = PPO.load(OLD_FILES / f"{name}.zip", make_env(), device="cpu", safe=safe)
    settings = {key: getattr(resumed, key) for key in ("learning_rate", "n_steps", "batch_size", "n_epochs", "seed")}
    whole = PPO("MlpPolicy", make_env(), policy_kwargs=resumed.policy_kwargs, device="cpu", **settings)
    # make.py trained for 64 steps, and the schedule of the next 64 starts again: so it does here
    whole.learn(64).learn(64, reset_num_timesteps=False)
    resumed.learn(64, reset_num_timesteps=False)
    assert resumed.num_timesteps == whole.num_timesteps == 128
    for key, parameter in whole.policy.state_dict().items():
        np.testing.assert_allclose(resumed.policy.state_dict()[key], parameter, rtol=1e-4, atol=1e-5, err_msg=key)
    np.testing.assert_array_equal(resumed.rollout_buffer.actions, whole.rollout_buffer.actions)


def test_old_file_of_as_torch_is_read_by_torch_sb3_and_by_this_package() -> None:
    theirs = sb3.PPO.load(OLD_FILES / "pixels_as_torch.zip", device="cpu")
    np.testing.assert_allclose(predict_values(theirs), VALUES["pixels"], rtol=1e-4, atol=1e-5)
    ours = PPO.load(OLD_FILES / "pixels_as_torch.zip", device="cpu")
    np.testing.assert_allclose(predict_values(ours), VALUES["pixels"], rtol=1e-5, atol=1e-6)
    assert ours.policy.features_extractor_class is features_extractors.NatureCNN
    assert (ours.policy.obs_center, ours.policy.obs_scale) == (0.25, 2.0)


def test_old_file_of_torch_sb3_with_this_packages_policies_is_read_by_both() -> None:
    theirs = sb3.PPO.load(OLD_FILES / "torch_policies.zip", device="cpu")
    ours = PPO.load(OLD_FILES / "torch_policies.zip", device="cpu")
    np.testing.assert_allclose(predict_values(ours), predict_values(theirs), rtol=1e-4, atol=1e-5)


def test_every_name_of_old_files_is_still_known() -> None:
    for name in json.loads((OLD_FILES / "names.json").read_text()):
        assert names.get_object(name) is not None


def test_what_has_a_counterpart_here_has_a_name() -> None:
    values: list[Any] = [*PPO.policy_aliases.values(), *torch_classes.ACTIVATIONS, *torch_classes.OPTIMIZERS]
    for table in (buffers.BUFFERS, features_extractors.TORCH_EXTRACTORS):
        values += [*table.keys(), *table.values()]
    for value in values:
        name = names.get_name(value)
        assert name in names.NAMES
        assert names.get_object(name) is value


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "sbx_flappy.saving.names.NAMES", "", None, ["x"], 3])
def test_nothing_else_has_a_name(name: Any) -> None:
    with pytest.raises(codec.DecodingError, match="the name"):
        codec.decode({"$name": name}, lambda place: np.zeros(place))


def test_new_files_hold_names_and_no_paths_of_this_package(tmp_path: Path) -> None:
    model = PPO.load(OLD_FILES / "features_resumable.zip", device="cpu", safe=True)
    model.save(tmp_path / "model.zip")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        description = archive.read("sbx_flappy.json").decode()
    assert '{"$name": "MlpPolicy"}' in description
    assert '{"$name": "FlapJaxMlp"}' in description
    assert '{"$name": "optax.adamw"}' in description
    assert '{"$name": "flax.linen.relu"}' in description
    assert "sbx_flappy." not in description
    assert "._src" not in description
