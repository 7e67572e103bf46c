"""The command ``sbx-flappy evaluate``: how many pipes a trained agent passes, over many episodes."""

import argparse
import csv
import math
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from huggingface_sb3 import EnvironmentName
from rl_zoo3.utils import ALGOS, StoreDict, create_test_env, get_saved_hyperparams
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import check_for_correct_spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sbx_flappy.envs.registration import ENV_IDS
from sbx_flappy.envs.vec_env import FlappyVecEnv
from sbx_flappy.zoo.agents import explaining, find_agent, find_model

#: The first of the seeds that games are evaluated on. Trainings use seeds whose low 16 bits are below their number of envs.
SEED = 50_000
#: Games that play side by side
MAX_ENVS = 100


class Episodes(NamedTuple):
    """
    What was seen of episodes, in the order in which they ended.

    :param scores: pipes passed, int64 ``[E]``, or None where the environment counts none
    :param rewards: sums of rewards, float64 ``[E]``
    :param lengths: agent steps, int64 ``[E]``
    """

    scores: np.ndarray | None
    rewards: np.ndarray
    lengths: np.ndarray


def evaluate_scores(model: BaseAlgorithm, env: VecEnv, n_episodes: int, deterministic: bool = True) -> Episodes:
    """
    Play episodes, equally many in each game, so that short ones do not count more than long ones.

    :param model: any algorithm of SB3's interface
    :param env: games, which are reset first
    :param n_episodes: E
    :param deterministic: whether to take the most likely actions
    """
    scores: list[int] = []

    def note_score(locals_: dict[str, Any], _globals: dict[str, Any]) -> None:
        if locals_["done"] and "score" in locals_["info"]:
            scores.append(locals_["info"]["score"])

    rewards, lengths = evaluate_policy(
        model, env, n_episodes, deterministic, callback=note_score, return_episode_rewards=True, warn=False
    )
    return Episodes(np.array(scores) if scores else None, np.array(rewards), np.array(lengths))


def load_kwargs(algo: str) -> dict[str, Any]:
    """Return arguments for ``load`` with which a model that only plays has no replay buffer of gigabytes."""
    return {"buffer_size": 1, "optimize_memory_usage": False} if issubclass(ALGOS[algo], OffPolicyAlgorithm) else {}


def summarize(values: np.ndarray) -> dict[str, float]:
    """Return mean, standard error of the mean, median, smallest and largest of numbers ``[E]``."""
    error = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
    return {
        "mean": float(np.mean(values)),
        "error": error,
        "median": float(np.median(values)),
        "min": float(np.min(values)),
        "max": float(np.max(values)),
    }


def read_hyperparams(path: Path, env_name: EnvironmentName) -> tuple[dict[str, Any], Path | None]:
    """
    Return what RL-Zoo kept of a training's settings, and VecNormalize's statistics: a checkpoint's own if it has them.

    :param path: the model's file, in the run's folder
    :param env_name: RL-Zoo's form of the environment's id
    :return: settings, with ``env_kwargs`` as the training's command line had them, and a file; both are for :func:`make_env`
    :raises ValueError: if the observations were normalized, and the statistics are not there
    """
    settings = path.parent / env_name
    hyperparams, _ = get_saved_hyperparams(str(settings), norm_reward=False, test_mode=True)
    if (settings / "args.yml").is_file():
        args = yaml.load((settings / "args.yml").read_text(), Loader=yaml.UnsafeLoader) or {}  # as RL-Zoo reads it
        hyperparams["env_kwargs"] = args.get("env_kwargs") or hyperparams.get("env_kwargs")
    hyperparams["env_kwargs"] = dict(hyperparams.get("env_kwargs") or {})
    if not hyperparams.get("normalize"):
        return hyperparams, None
    own = path.with_name(path.name.replace("rl_model_", "rl_model_vecnormalize_")).with_suffix(".pkl")
    statistics = own if own.is_file() else settings / "vecnormalize.pkl"
    if statistics.is_file():
        return hyperparams, statistics
    if hyperparams["normalize_kwargs"].get("norm_obs", True):
        raise ValueError(f"The agent's observations are normalized, but {statistics} does not exist.")
    return {**hyperparams, "normalize": False}, None


def make_env(env_id: str, n_envs: int, seed: int, hyperparams: dict[str, Any], statistics: Path | None) -> VecEnv:
    """
    Return games as the agent was trained in, rewards as they are.

    :param env_id: environment ID
    :param n_envs: how many
    :param seed: of the first, the others count up
    :param hyperparams: settings of the training, with the environment's arguments; see :func:`read_hyperparams`
    :param statistics: VecNormalize's, if any
    """
    hyperparams = {"normalize": False, **hyperparams}
    env_kwargs = hyperparams.pop("env_kwargs")
    vec_env_cls = FlappyVecEnv if env_id in ENV_IDS and env_kwargs.get("engine") != "pygame" else DummyVecEnv
    with tempfile.TemporaryDirectory() as folder:  # RL-Zoo takes a folder with a file of this name
        if statistics is not None:
            shutil.copy(statistics, Path(folder, "vecnormalize.pkl"))
        return create_test_env(env_id, n_envs, folder, seed, None, False, hyperparams, env_kwargs, vec_env_cls=vec_env_cls)


class StoreKwargs(StoreDict):
    """RL-Zoo's action for ``NAME:VALUE``, which names what it cannot read."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Read the values, see RL-Zoo's action."""
        try:
            super().__call__(parser, namespace, values, option_string)
        except Exception as e:  # the value is a Python expression
            raise argparse.ArgumentError(self, f"NAME:VALUE with a value in Python's notation is expected: {e}") from e


def describe(episodes: Episodes, kind: str) -> str:
    """Return one line for people."""
    name, values = ("reward", episodes.rewards) if episodes.scores is None else ("score", episodes.scores)
    summary = summarize(values)
    text = f"mean {summary['mean']:.2f} +- {summary['error']:.2f}  median {summary['median']:g}"
    limits = f"min {summary['min']:g}  max {summary['max']:g}"
    return f"{kind + ':':15}{name} {text}  {limits}  ({len(values)} episodes, mean length {np.mean(episodes.lengths):.0f})"


def make_parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog=prog, description="Evaluate a trained agent: pipes passed, or reward; mean +- standard error, median, min, max."
    )
    parser.add_argument("--algo", default="ppo", choices=list(ALGOS), help="RL Algorithm (default: ppo)")
    parser.add_argument("--env", required=True, type=EnvironmentName, help="environment ID")
    parser.add_argument("-f", "--folder", help="Log folder (default: the agents that come with the package)")
    parser.add_argument("--exp-id", default=0, type=int, help="Experiment ID (default: 0: latest, -1: no exp folder)")
    parser.add_argument("--load-best", action="store_true", help="Evaluate the best model instead of the last one")
    parser.add_argument(
        "--load-checkpoint", type=int, metavar="STEPS", help="Evaluate the checkpoint saved after this many time steps"
    )
    parser.add_argument("-n", "--n-episodes", default=100, type=int, help="Episodes of each kind (default: 100)")
    parser.add_argument(
        "--seed", default=SEED, type=int, help=f"Seed of the first game (default: {SEED}, not used in training)"
    )
    parser.add_argument("--only", choices=["deterministic", "stochastic"], help="One kind of actions instead of both")
    parser.add_argument("--max-episode-steps", type=int, help="Limit of an episode (default: the training's)")
    parser.add_argument("--engine", choices=["native", "pygame"], help="Flappy Bird's engine (default: the training's)")
    parser.add_argument("--env-kwargs", nargs="+", action=StoreKwargs, default={}, help="Further arguments for the env")
    parser.add_argument("-o", "--output", type=Path, help="Write each episode as a row of this CSV file")
    return parser


def write_table(path: Path, played: dict[str, Episodes]) -> None:
    """
    Write episodes as a CSV file, one row for each.

    :param path: path of the file
    :param played: episodes by kind of actions
    """
    rows: list[tuple[Any, ...]] = [("actions", "score", "reward", "length")]
    for kind, (scores, rewards, lengths) in played.items():
        numbers = [""] * len(rewards) if scores is None else scores.tolist()
        rows += zip([kind] * len(rewards), numbers, rewards.tolist(), lengths.tolist(), strict=True)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def evaluate(arguments: list[str], prog: str) -> None:
    """
    Print how a trained agent plays, deterministically and stochastically, and write each episode to a table if asked to.

    :param arguments: of the command line
    :param prog: the command's name, for its help
    """
    parser = make_parser(prog)
    args = parser.parse_args(arguments)
    if args.n_episodes < 1:
        parser.error(f"--n-episodes must be at least 1, got {args.n_episodes}")
    if not 0 <= args.seed < 2**32:
        parser.error(f"--seed must be between 0 and 2**32 - 1, got {args.seed}")
    if args.output is not None and not args.output.parent.is_dir():
        parser.error(f"--output: the folder {args.output.parent} does not exist")
    options = {"max_episode_steps": args.max_episode_steps, "engine": args.engine}
    env_kwargs = {**args.env_kwargs, **{name: value for name, value in options.items() if value is not None}}
    # Games that have equal shares of the episodes, but for one episode in some
    n_envs = math.ceil(args.n_episodes / math.ceil(args.n_episodes / MAX_ENVS))
    folder, algo = (args.folder, args.algo) if args.folder else find_agent(args.algo, args.env)
    with explaining(parser):
        path = find_model(args, folder, algo)
    with explaining(parser, f"The settings in {path.parent / args.env}: ", (Exception,)):
        hyperparams, statistics = read_hyperparams(path, args.env)
    hyperparams["env_kwargs"].update(env_kwargs)
    print(f"Loading {path}")
    with explaining(parser, f"{path} cannot be loaded as a model of {algo}: ", (Exception,)):
        model = ALGOS[algo].load(path, device="cpu", **load_kwargs(algo))
    with explaining(parser, f"{args.env.gym_id} with the arguments {hyperparams['env_kwargs']}: ", (Exception,)):
        env = model._wrap_env(make_env(args.env.gym_id, n_envs, args.seed, hyperparams, statistics), verbose=0)
        check_for_correct_spaces(env, model.observation_space, model.action_space)
    played = {}
    for kind in [args.only] if args.only else ["deterministic", "stochastic"]:
        env.seed(args.seed)
        model.set_random_seed(args.seed)
        played[kind] = evaluate_scores(model, env, args.n_episodes, kind == "deterministic")
        print(describe(played[kind], kind), flush=True)
        if args.output is not None:
            write_table(args.output, played)
    env.close()
