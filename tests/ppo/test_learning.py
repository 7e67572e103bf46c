"""The algorithm learns, with the settings that people use."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import rl_zoo3
import yaml
from rl_zoo3.utils import SimpleLinearSchedule, get_class_by_name
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from torch import nn

from sbx_flappy import PPO, FlappyVecEnv
from sbx_flappy.hyperparams.ppo import hyperparams as own_settings

ENGINES = ("native", "pygame")
ZOO_SETTINGS = yaml.safe_load((Path(rl_zoo3.__file__).parent / "hyperparams" / "ppo.yml").read_text())


def make_model(env_id: str, settings: dict[str, Any], seed: int, vec_env_cls: Any = None) -> PPO:
    """Return a model as RL-Zoo makes it of an entry of its YAML files."""
    settings = dict(settings)
    del settings["n_timesteps"]
    settings.pop("monitor_kwargs", None)
    if "." in settings["policy"]:
        settings["policy"] = get_class_by_name(settings["policy"])
    normalize = settings.pop("normalize", None)
    for key in ("learning_rate", "clip_range"):
        if isinstance(settings.get(key), str):
            settings[key] = SimpleLinearSchedule(settings[key].removeprefix("lin_"))
    if isinstance(settings.get("policy_kwargs"), str):
        settings["policy_kwargs"] = eval(settings["policy_kwargs"], {"nn": nn, "dict": dict})
    env: VecEnv = make_vec_env(env_id, n_envs=settings.pop("n_envs"), seed=seed, vec_env_cls=vec_env_cls)
    if normalize is not None:
        env = VecNormalize(env, **eval(normalize), gamma=settings["gamma"])
    return PPO(env=env, seed=seed, **settings)


@pytest.mark.expensive
def test_cartpole_with_rl_zoos_settings_reaches_475() -> None:
    settings = ZOO_SETTINGS["CartPole-v1"]
    model = make_model("CartPole-v1", settings, seed=0).learn(int(settings["n_timesteps"]))
    reward, _ = evaluate_policy(model, make_vec_env("CartPole-v1", seed=1000), n_eval_episodes=20)
    assert cast(float, reward) >= 475


def play(model: PPO, env_id: str, n_episodes: int, **env_kwargs: Any) -> list[int]:
    """Return the scores of deterministic episodes on seeds that were not trained on."""
    scores: list[int] = []

    def note_score(locals_: dict[str, Any], _globals: dict[str, Any]) -> None:
        if locals_["done"]:
            scores.append(locals_["info"]["score"])

    env = make_vec_env(env_id, seed=10_000, env_kwargs=env_kwargs)
    evaluate_policy(model, env, n_eval_episodes=n_episodes, callback=note_score)
    return scores


@pytest.mark.expensive
@pytest.mark.parametrize("env_id", ["FlappyBirdFeatures-v0", "FlappyBirdFeatures-v1"])
def test_features_learn_with_our_settings_and_score_the_same_in_upstreams_game(env_id: str) -> None:
    model = make_model(env_id, own_settings[env_id], seed=0)
    before = np.mean(play(model, env_id, 10))
    model.learn(250_000)  # an eighth of the entry's length, with a schedule as much shorter
    scores = play(model, env_id, 10)
    assert before < 1
    assert np.mean(scores) >= 20
    assert play(model, env_id, 10, engine="pygame") == scores  # the same seeds: the same games


@pytest.mark.expensive
def test_pixels_learn_with_our_settings_and_score_the_same_in_upstreams_game() -> None:
    """Pixels of the engines differ in one of a million, if at all, so that games of the same seed may part, but rarely."""
    model = make_model("FlappyBird-v0", own_settings["FlappyBird-v0"], seed=0, vec_env_cls=FlappyVecEnv).learn(100_000)
    scores, in_pygame = (play(model, "FlappyBird-v0", 20, engine=engine, max_episode_steps=500) for engine in ENGINES)
    assert np.mean(scores) >= 5
    assert np.mean(np.equal(scores, in_pygame)) >= 0.9
