"""The figures at the top of a page, and what was not logged."""

import shlex
from collections.abc import Sequence

import numpy as np

from sbx_flappy.report.charts import OPTIMISATION, WINDOW
from sbx_flappy.report.runs import Run

UNKNOWN = "–"


def figures(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Return the final figures: a row's title, and a cell for each run. Rows that no run knows are left out."""
    rows = [
        ("Environment", [run.env_id or UNKNOWN for run in runs]),
        ("Algorithm", [run.algo for run in runs]),
        ("Seed", [str(run.args.get("seed", UNKNOWN)) for run in runs]),
        ("Time steps", [_time_steps(run) for run in runs]),
        ("Minutes", [_number(_last(run, "minutes")) for run in runs]),
        ("Episodes", [UNKNOWN if run.episodes is None else f"{len(run.episodes.values):,}" for run in runs]),
        (f"Reward, last {WINDOW} episodes", [_number(_final(run, "episodes", "rollout/ep_rew_mean")) for run in runs]),
        (f"Pipes passed, last {WINDOW} episodes", [_number(_final(run, "scores", "rollout/ep_score_mean")) for run in runs]),
        ("Last evaluation", [_evaluation(run, best=False) for run in runs]),
        ("Best evaluation", [_evaluation(run, best=True) for run in runs]),
    ]
    rates = throughput(runs)
    rows.append(("Time steps per second", [_number(rate, 0) for rate in rates]))
    if len(runs) > 1:
        ratios = [None if rate is None or not rates[-1] else rate / rates[-1] for rate in rates]
        rows.append((f"Throughput, against {runs[-1].name}", [UNKNOWN if x is None else f"{x:.2f} ×" for x in ratios]))
    return [(title, cells) for title, cells in rows if set(cells) != {UNKNOWN}]


def throughput(runs: Sequence[Run]) -> list[float | None]:
    """
    Return the time steps per second of each run, in one way for all of them.

    It is the logger's last ``time/fps`` where all runs have it, else all steps over all seconds, start-up included.
    """
    logged = [run.scalars.get("time/fps") for run in runs]
    last = [None if curve is None else float(curve.values[-1]) for curve in logged]
    if all(rate is not None for rate in last):
        return last
    rates: list[float | None] = []
    for run in runs:
        steps, minutes = _last(run, "steps"), _last(run, "minutes")
        rates.append(None if steps is None or not minutes else (steps - run.begin) / (60 * minutes))
    return rates


def not_logged(run: Run) -> list[str]:
    """Return a sentence for each source that is missing: what it would show, and the option of ``train`` that logs it."""
    algo, env_id = run.algo, run.env_id or "ENV"
    missing = []
    if run.episodes is None:
        has_none = (
            "no episode has ended yet" if run.has_monitor else "no *.monitor.csv, which train writes to its log folder (-f)"
        )
        missing.append(f"Episode reward: {has_none}.")
    if run.scores is None and "rollout/ep_score_mean" not in run.scalars and env_id.startswith("FlappyBird"):
        option = "-params \"monitor_kwargs:dict(info_keywords=('score',))\""
        missing.append(f"Pipes passed: sbx-flappy train logs them with -tb FOLDER, and RL-Zoo's own, too, with {option}.")
    if run.evaluations is None:
        missing.append(
            "Evaluations: no evaluations.npz, which train writes with --eval-freq N, for an N below its time steps."
        )
    if not run.scalars:
        missing.append("Losses and throughput: no TensorBoard log, which train writes with -tb FOLDER.")
    else:
        absent = [chart.title.lower() for chart in OPTIMISATION if chart.key not in run.scalars]
        if absent:
            missing.append(f"The log has no {', '.join(absent)}: {algo} does not log it, or had not come so far.")
    for settings, name, title in ((run.config, "config.yml", "Hyperparameters"), (run.args, "args.yml", "Options of train")):
        if not settings:
            missing.append(f"{title}: no {name}, which train writes to the run's folder.")
    if run.video is None:
        folder = shlex.quote(str(run.args.get("log_folder") or run.folder.parent.parent))
        number = run.folder.name.rpartition("_")[2]
        exp_id = f" --exp-id {number}" if number.isdecimal() else ""
        missing.append(f"Video: sbx-flappy record_video --algo {algo} --env {env_id} -f {folder}{exp_id} records one.")
    return [*missing, *run.notes]


def _time_steps(run: Run) -> str:
    """Return how far the run has come, and how far it was to go if the log ends earlier."""
    steps, logged = _last(run, "steps"), run.scalars.get("time/fps")
    if steps is None or logged is None:
        return _number(steps, 0) + (" in ended episodes" if run.episodes is not None and run.evaluations is None else "")
    planned = [run.args.get("n_timesteps"), None if run.args.get("trained_agent") else run.config.get("n_timesteps")]
    goal = next((number for number in planned if isinstance(number, int | float) and number > 0), 0)  # -n, or -1; settings
    interval = float(np.diff(logged.steps, prepend=0).max())  # what came after the last entry is not in the log
    return _number(steps, 0) + (f" of {_number(goal, 0)}" if steps + interval < run.begin + goal else "")


def _last(run: Run, name: str) -> float | None:
    """Return how far the run has come, in "steps" or "minutes", or None if nothing says."""
    ends = [np.nanmax(values) for values in (getattr(curve, name) for curve in run.curves()) if np.isfinite(values).any()]
    return float(max(ends)) if ends else None


def _final(run: Run, name: str, key: str) -> float | None:
    """Return the mean of the last episodes, by the monitors, else by the logger."""
    curve = getattr(run, name)
    if curve is not None:
        return float(curve.values[-WINDOW:].mean())
    return float(run.scalars[key].values[-1]) if key in run.scalars else None


def _evaluation(run: Run, best: bool) -> str:
    if run.evaluations is None or run.evaluations.values.size == 0:
        return UNKNOWN
    rewards = run.evaluations.values
    means = np.nan_to_num(rewards.mean(axis=1), nan=-np.inf)
    i = int(np.argmax(means)) if best else len(rewards) - 1
    at = f"after {_number(run.evaluations.steps[i], 0)} steps" if best else f"{rewards.shape[1]} episodes"
    return f"{_number(rewards[i].mean())} ± {_number(rewards[i].std())} ({at})"


def _number(value: float | None, digits: int = 2) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"
