"""
Learning curves: train in a fresh process for each seed, then score the checkpoints, then draw.

    python benchmarks/learning.py train --env FlappyBird-v0 --seeds 0 1 2 3 4 --algo ppo_jax ppo --save-freq 250000
    python benchmarks/learning.py plot --env FlappyBird-v0
    python benchmarks/learning.py table --env FlappyBirdFeatures-v0

``train`` runs RL-Zoo's command ``sbx-flappy train`` with the settings of hyperparams/, one run after the other, the algorithms
in turn for each seed. Then it scores them and appends to benchmarks/results/ENV.csv: a row for each checkpoint, with the
seconds since the process was started (imports and compilation are in them, scoring is not) and the pipes passed in 20
deterministic episodes on seeds that no training uses. A run whose rows are there already is left out. ``plot`` draws
docs/images/learning-ENV.png from the table, ``table`` prints it in Markdown, one line for each algorithm.
"""

import argparse
import csv
import itertools
import multiprocessing
import re
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import torch
from huggingface_sb3 import EnvironmentName
from rl_zoo3.utils import ALGOS
from stable_baselines3 import PPO as TorchPPO
from tables import LABELS, RESULTS, ROOT, read_csv, read_curves, steps_table

from sbx_flappy.zoo import register_algorithms
from sbx_flappy.zoo.evaluation import SEED, evaluate_scores, load_kwargs, make_env, read_hyperparams

IMAGES = ROOT / "docs" / "images"
COLUMNS = ["algo", "conf", "seed", "steps", "seconds", "episodes", "limit", "mean", "median", "min", "max"]
COLOURS = {"ppo_jax": "#0072b2", "ppo": "#d55e00", "ppo_lstm": "#009e73", "qrdqn": "#cc79a7", "trpo": "#e69f00"}


def append(env_id: str, rows: list[dict[str, object]]) -> None:
    """Add rows to the table."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{env_id}.csv"
    is_new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


def train(
    env_id: str, algo: str, seed: int, folder: Path, save_freq: int, options: list[str]
) -> list[tuple[int, float, Path]]:
    """
    Train in a new process.

    :return: time steps, seconds since the start of the process, and file of each checkpoint and of the last model
    """
    command = [sys.executable, "-m", "sbx_flappy.zoo", "train", "--algo", algo, "--env", env_id, "--seed", str(seed)]
    command += ["-f", str(folder), "--eval-freq", "-1", "--save-freq", str(save_freq), *options]
    folder.mkdir(parents=True, exist_ok=True)
    start = time.time()
    with open(folder / f"{algo}-{env_id}-{seed}.log", "w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    output = (folder / f"{algo}-{env_id}-{seed}.log").read_text()
    run = Path(re.findall(r"^Saving to (.*)$", output, re.MULTILINE)[-1])
    last = int(re.findall(r"total_timesteps\s*\|\s*(\d+)", output)[-1])
    files = [(int(path.stem.split("_")[-2]), path) for path in run.glob("rl_model_*_steps.zip")]
    files = [(steps, path) for steps, path in sorted(files) if steps < last] + [(last, run / f"{env_id}.zip")]
    return [(steps, path.stat().st_mtime - start, path) for steps, path in files]


def score(algo: str, env_name: EnvironmentName, path: Path, episodes: int, limit: int) -> dict[str, float]:
    """Return what deterministic episodes, one in each game, come to; observations as the model had them when it was saved."""
    register_algorithms(ppo=TorchPPO)
    torch.set_num_threads(1)  # there are several such processes, and torch's threads wait by spinning
    hyperparams, statistics = read_hyperparams(path, env_name)
    hyperparams["env_kwargs"]["max_episode_steps"] = limit
    with redirect_stdout(None):  # RL-Zoo says that it loads statistics
        env = make_env(env_name.gym_id, episodes, SEED, hyperparams, statistics)
    model = ALGOS[algo].load(path, device="cpu", **load_kwargs(algo))
    scores = evaluate_scores(model, env, episodes).scores
    env.close()
    assert scores is not None
    return {
        "mean": float(scores.mean()),
        "median": float(np.median(scores)),
        "min": int(scores.min()),
        "max": int(scores.max()),
    }


def run(args: argparse.Namespace, options: list[str]) -> None:
    """Train all seeds, then score them; those before a training that fails, too."""
    done = {(row["algo"], row["conf"], row["seed"]) for row in read_csv(args.env)}
    conf = ["-conf", args.conf] if args.conf else []
    trained, failure = [], None
    for seed, algo in itertools.product(args.seeds, args.algo):
        if (algo, args.conf, str(seed)) in done:
            continue
        try:
            checkpoints = train(args.env, algo, seed, args.folder, args.save_freq, [*conf, *options])
        except subprocess.CalledProcessError as e:
            failure = e
            break
        print(f"{algo}, seed {seed}: {checkpoints[-1][0]} time steps in {checkpoints[-1][1]:.0f} s", flush=True)
        trained.append((algo, seed, checkpoints))
    score_all(trained, args)
    if failure is not None:
        raise failure


def score_all(trained: list[tuple[str, int, list[tuple[int, float, Path]]]], args: argparse.Namespace) -> None:
    """
    Score the checkpoints of trainings, and append them to the table.

    :param trained: algorithm, seed, and what :func:`train` returns
    """
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        played = [
            [pool.submit(score, algo, EnvironmentName(args.env), path, args.episodes, args.limit) for *_, path in checkpoints]
            for algo, _, checkpoints in trained
        ]
        for (algo, seed, checkpoints), scores in zip(trained, played, strict=True):
            run = {"algo": algo, "conf": args.conf, "seed": seed, "episodes": args.episodes, "limit": args.limit}
            rows = [
                {**run, "steps": steps, "seconds": round(seconds, 1), **each.result()}
                for (steps, seconds, _), each in zip(checkpoints, scores, strict=True)
            ]
            append(args.env, rows)
            print(f"{algo}, seed {seed}: {', '.join(str(row['mean']) for row in rows)}", flush=True)


def plot(env_id: str) -> None:
    """Draw the curves against steps and minutes: the mean over seeds, with a band from the lowest to the highest."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
    for (algo, conf), curves in read_curves(env_id).items():
        settings = f", {Path(conf).stem}" if conf else ""
        label = f"{LABELS[algo]}{settings} ({len(curves)} {'seeds' if len(curves) > 1 else 'seed'})"
        for axis, column, unit in ((axes[0], "steps", 1e6), (axes[1], "seconds", 60.0)):
            longest = max(float(curve[-1][column]) for curve in curves)
            x = np.linspace(0.0, longest, 200)
            y = [
                np.interp(x, [0.0, *(float(row[column]) for row in curve)], [0.0, *(float(row["mean"]) for row in curve)])
                for curve in curves
            ]
            axis.plot(x / unit, np.mean(y, axis=0), label=label, color=COLOURS[algo], linestyle="--" if conf else "-")
            axis.fill_between(x / unit, np.min(y, axis=0), np.max(y, axis=0), color=COLOURS[algo], alpha=0.2, linewidth=0)
    axes[0].set(xlabel="time steps (millions)", ylabel="pipes passed, mean of 20 episodes", title=env_id)
    axes[1].set(xlabel="minutes since the process was started")
    for axis in axes:
        axis.grid(alpha=0.3)
        if env_id == "FlappyBird-v0":
            axis.axhline(50, color="0.3", linestyle=":", linewidth=1, label="the blog: about 50, after 42 hours on a GPU")
    axes[0].legend(fontsize="small")
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / f"learning-{env_id}.png", dpi=100, pil_kwargs={"optimize": True})


def main() -> None:
    """Train, plot or print, as the command line says."""
    parser = argparse.ArgumentParser(description="Learning curves. Further options of `train` go to sbx-flappy train.")
    parser.add_argument("command", choices=["train", "plot", "table"])
    parser.add_argument("--env", default="FlappyBird-v0")
    parser.add_argument("--algo", nargs="+", default=["ppo_jax"], choices=list(LABELS))
    parser.add_argument("--conf", default="", help="settings (default: this package's for the algorithm)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--save-freq", type=int, default=100_000, help="time steps between checkpoints")
    parser.add_argument("--spacing", type=int, default=250_000, help="time steps between the columns of the table")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2, help="processes that score")
    parser.add_argument("--limit", type=int, default=20_000, help="agent steps of an episode")
    parser.add_argument("-f", "--folder", type=Path, default=Path("logs", "learning"))
    args, options = parser.parse_known_args()
    if args.command == "plot":
        plot(args.env)
    elif args.command == "table":
        print(steps_table(args.env, args.spacing))
    else:
        run(args, options)


if __name__ == "__main__":
    main()
