"""Writes the files beside it. Run it with the version that they are to come from: sbx_flappy 0.1.0 at commit 4c290ca."""

import json
from pathlib import Path
from typing import Any

import flax.linen as nn
import numpy as np
import optax
import stable_baselines3 as sb3
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule

from sbx_flappy import PPO, FlapJaxCNN, FlapJaxMlp, FlappyVecEnv
from sbx_flappy.common.codec import named_objects
from sbx_flappy.common.torch_policies import CnnPolicy

FOLDER = Path(__file__).parent
#: Settings of each model, with small networks
SHORT: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "seed": 3, "device": "cpu"}
LAYERS = ((4, 8, 8), (4, 4, 4))


def save(name: str, model: Any, **kwargs: Any) -> None:
    """Write a model, and what it says of its environment's first observations."""
    model.save(FOLDER / f"{name}.zip", **kwargs)


def main() -> None:
    """Write all the files."""
    th.set_num_threads(1)
    cartpole = PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2), policy_kwargs={"net_arch": [8]}, **SHORT)
    save("cartpole_resumable", cartpole.learn(64), resumable=True)

    games = FlappyVecEnv(2, "FlappyBirdFeatures-v0")
    settings = {"activation_fn": nn.relu, "features_extractor_class": FlapJaxMlp, "net_arch": []}
    settings |= {"features_extractor_kwargs": {"features_dim": 8}, "optimizer_class": optax.adamw, "obs_center": 0.5}
    features = PPO("MlpPolicy", games, learning_rate=LinearSchedule(1e-3, 1e-4, 1.0), policy_kwargs=settings, **SHORT)
    save("features_resumable", features.learn(64), resumable=True)

    settings = {"features_extractor_kwargs": {"features_dim": 8, "layers": LAYERS}, "obs_center": 0.25, "obs_scale": 2.0}
    pixels = PPO("CnnPolicy", FlappyVecEnv(2, "FlappyBird-v0"), policy_kwargs=settings, **SHORT).learn(32)
    save("pixels", pixels)
    save("pixels_as_torch", pixels, as_torch=True)

    settings = {"features_extractor_class": FlapJaxCNN, "features_extractor_kwargs": {"features_dim": 8, "layers": LAYERS}}
    settings |= {"optimizer_class": th.optim.RMSprop, "net_arch": []}
    save("flapjax_cnn", PPO("CnnPolicy", FlappyVecEnv(1, "FlappyBird-v0"), policy_kwargs=settings, **SHORT).learn(16))

    pendulum = PPO("MlpPolicy", "Pendulum-v1", use_sde=True, policy_kwargs={"net_arch": [8]}, **SHORT)
    save("pendulum_sde", pendulum.learn(16))

    settings = {"features_extractor_kwargs": {"features_dim": 8, "layers": LAYERS}, "obs_center": 0.25}
    theirs = sb3.PPO(CnnPolicy, FlappyVecEnv(2, "FlappyBird-v0"), policy_kwargs=settings, **SHORT).learn(32)
    save("torch_policies", theirs)

    actions = {}
    for name in ("cartpole_resumable", "features_resumable", "pixels", "flapjax_cnn", "pendulum_sde"):
        model = PPO.load(FOLDER / f"{name}.zip", device="cpu")
        model.observation_space.seed(0)
        observations = np.array([model.observation_space.sample() for _ in range(3)])
        actions[name] = model.policy.predict_values(th.as_tensor(observations)).numpy().ravel().tolist()
    (FOLDER / "values.json").write_text(json.dumps(actions, indent=1) + "\n")
    (FOLDER / "names.json").write_text(json.dumps(sorted(named_objects()), indent=0) + "\n")


if __name__ == "__main__":
    main()
