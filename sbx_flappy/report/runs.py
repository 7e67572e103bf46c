"""A training run: where it lies, and what its files say."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sbx_flappy.report.sources import (
    EVENT_FILES,
    Curve,
    LogError,
    begin_of_events,
    read_evaluations,
    read_events,
    read_monitor,
    read_progress,
    read_settings,
)

#: What tells a run's folder from others
RUN_FILES = ("*monitor.csv", "evaluations.npz", "progress.csv", "*/args.yml", "*/config.yml")
VIDEO_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}


@dataclass
class Run:
    """
    What is known of a training run. What was not logged is None or empty.

    :param folder: where it lies
    :param name: what the page calls it
    :param args: RL-Zoo's ``args.yml``
    :param config: RL-Zoo's ``config.yml``, the hyperparameters
    :param env_id: environment ID
    :param begin: time steps before this training, if it went on where another was saved
    :param has_monitor: whether Monitor wrote files, also without an episode
    :param episodes: reward of each episode
    :param scores: pipes passed in each episode
    :param evaluations: rewards of each evaluation's episodes, shape [n, episodes]
    :param scalars: what SB3's logger wrote, by its keys
    :param video: the newest video
    :param notes: what else the reader should know, one sentence each
    """

    folder: Path
    name: str = ""
    args: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    env_id: str = ""
    begin: float = 0.0
    has_monitor: bool = False
    episodes: Curve | None = None
    scores: Curve | None = None
    evaluations: Curve | None = None
    scalars: dict[str, Curve] = field(default_factory=dict)
    video: Path | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def algo(self) -> str:
        """The algorithm; without ``args.yml``, the folder above, which RL-Zoo names after it."""
        return str(self.args.get("algo") or self.folder.resolve().parent.name)

    def curves(self) -> list[Curve]:
        """Return all that has time steps and minutes."""
        return [curve for curve in (self.episodes, self.evaluations, *self.scalars.values()) if curve is not None]


def find_run(folder: Path) -> Path:
    """
    Return the run's folder: the given one, or the only one beneath it.

    :raises LogError: if there is none or more than one
    """
    if not folder.is_dir():
        raise LogError(f"{folder} is not a folder.")
    if _has(folder, *RUN_FILES, EVENT_FILES):
        return folder
    runs = sorted(path for path in folder.rglob("*") if path.is_dir() and _has(path, *RUN_FILES))
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise LogError(
            f"No run in {folder}: neither *.monitor.csv nor evaluations.npz nor anything else that a training leaves."
        )
    names = [*map(str, runs[:20]), *(["..."] if len(runs) > 20 else [])]
    raise LogError("\n  ".join([f"{folder} holds {len(runs)} runs; name one of them:", *names]))


def _has(folder: Path, *patterns: str) -> bool:
    return any(True for pattern in patterns for _ in folder.glob(pattern))


def read_run(folder: Path, tensorboard_log: Path | None = None) -> Run:
    """
    Read what a training has left.

    :param folder: of the run, or one that holds a single run
    :param tensorboard_log: a TensorBoard folder or event file (default: what ``args.yml`` names)
    :raises LogError: if the run is not there, or a file of it is broken
    """
    run = Run(find_run(folder))
    for settings, name in ((run.args, "args.yml"), (run.config, "config.yml")):
        for path in sorted(run.folder.glob(f"*/{name}"))[:1]:
            settings.update(read_settings(path))
    run.env_id = str(run.args.get("env") or "")
    start, end = _read_monitors(run)
    _read_scalars(run, tensorboard_log, start, end)
    _shift_resumed(run)
    path = run.folder / "evaluations.npz"
    if path.is_file():
        steps, rewards = read_evaluations(path)
        run.evaluations = Curve(steps, _minutes_at(steps, run), rewards)
    videos = [path for path in run.folder.glob("videos/*") if path.suffix in VIDEO_TYPES and path.is_file()]
    videos = [path for path in videos if path.stat().st_size > 0]
    run.video = max(videos, key=lambda path: path.stat().st_mtime, default=None)
    return run


def _read_monitors(run: Run) -> tuple[float | None, float | None]:
    """Read the episodes of all environments; return when the first file was begun and the last episode ended, or None."""
    files = [read_monitor(path) for path in sorted(run.folder.glob("*monitor.csv"))]
    if not files:
        return None, None
    run.has_monitor = True
    run.env_id = run.env_id or str(files[0][0].get("env_id", ""))
    start = min(float(header["t_start"]) for header, _ in files)
    episodes = pd.concat([table for _, table in files]).sort_values("t", kind="stable")
    if episodes.empty:
        return start, None
    steps, minutes = np.cumsum(episodes["l"].to_numpy()), (episodes["t"].to_numpy() - start) / 60
    run.episodes = Curve(steps, minutes, episodes["r"].to_numpy())
    if "score" in episodes:
        run.scores = Curve(steps, minutes, episodes["score"].to_numpy())
    return start, float(episodes["t"].iloc[-1])


def _read_scalars(run: Run, tensorboard_log: Path | None, start: float | None, end: float | None) -> None:
    """Read what the logger wrote: to TensorBoard, else to ``progress.csv``."""
    if tensorboard_log is not None and not _exists(tensorboard_log):
        raise LogError(f"--tensorboard-log: {tensorboard_log} is not there.")
    logged = str(run.args.get("tensorboard_log") or "")
    places = [tensorboard_log] if tensorboard_log is not None else [run.folder, *_places(run, logged)]
    found = [_event_files(place, run.env_id) for place in places if _exists(place)]
    files = [path for paths in found for path in paths]
    if start is not None and not (tensorboard_log is not None and len(files) == 1):
        # A TensorBoard folder holds many runs. The logger begins its file (whole seconds in its name) after the monitors
        # were opened and before an episode ends; the first such file is it.
        begins = {path: begin_of_events(path) for path in files}
        files = [path for path, t in begins.items() if t is not None and start - 1 < t <= (end or np.inf)]
    files.sort(key=lambda path: begin_of_events(path) or 0)
    if files and (start is not None or len(files) == 1):
        run.scalars = read_events(files[0], start)
    if len(files) > 1:
        seen = f"the first, {files[0]}, is shown" if run.scalars else "none is shown"
        run.notes.append(f"{len(files)} event files may be this run's; {seen}. --tensorboard-log names the right one.")
    elif not files and (logged or tensorboard_log is not None):
        place = tensorboard_log or logged
        run.notes.append(f"No event file of this run in {place}. --tensorboard-log names the folder if it is elsewhere.")
    path = run.folder / "progress.csv"
    if not run.scalars and path.is_file():
        run.scalars = read_progress(path)


def _places(run: Run, logged: str) -> list[Path]:
    """Return where the TensorBoard folder that train was given may be: from here, and from where the log folder was."""
    if not logged or "\0" in logged:  # which is in no path
        return []
    places = [Path(logged)]
    depth = len(Path(str(run.args.get("log_folder") or "logs")).parts) + 1  # log folder/algo/run
    parents = run.folder.resolve().parents
    if not Path(logged).is_absolute() and depth < len(parents) and (parents[depth] / logged).resolve() != places[0].resolve():
        places.append(parents[depth] / logged)
    return places


def _exists(path: Path) -> bool:
    """Return whether a path is there; not what is no path at all, such as one of too many letters."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _event_files(place: Path, env_id: str) -> list[Path]:
    """Return the event files in a folder; only the environment's if the folder holds some, as RL-Zoo's does."""
    if place.is_file():
        return [place]
    of_env = place / env_id.replace("/", "-") if env_id else place
    return sorted(of_env.rglob(EVENT_FILES)) or sorted(place.rglob(EVENT_FILES))


def _shift_resumed(run: Run) -> None:
    """Let the episodes of a training that went on (``-i``) begin where the logger's time steps do."""
    logged = run.scalars.get("time/fps")
    if run.episodes is None or logged is None or len(logged.steps) < 2 or not run.args.get("trained_agent"):
        return
    run.begin = max(0.0, float(2 * logged.steps[0] - logged.steps[1]))  # the logger writes at the end of each iteration
    for curve in (run.episodes, run.scores):
        if curve is not None:
            curve.steps = curve.steps + run.begin


def _minutes_at(steps: np.ndarray, run: Run) -> np.ndarray:
    """Return when the training was at these time steps, between the points that are known."""
    clock = run.scalars.get("eval/mean_reward") or run.episodes or run.scalars.get("time/fps")
    if clock is None:
        return np.full(len(steps), np.nan)
    return np.interp(steps, clock.steps, clock.minutes)


def name_runs(runs: Sequence[Run]) -> list[Run]:
    """
    Name runs as RL-Zoo does, algo/env_id_1, or by their whole paths where that is not enough.

    :raises LogError: if a run is given twice
    """
    paths = [run.folder.resolve() for run in runs]
    names = ["/".join(path.parts[-2:]) for path in paths]
    for run, path, name in zip(runs, paths, names, strict=True):
        if paths.count(path) > 1:
            raise LogError(f"{run.folder} is given twice.")
        run.name = name if Counter(names)[name] == 1 else str(path)
    return list(runs)
