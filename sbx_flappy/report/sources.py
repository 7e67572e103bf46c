"""
The files of a run, each read by one function: Monitor's, EvalCallback's, the logger's and RL-Zoo's.

Nothing in them is executed or unpickled. What cannot be read raises a :class:`LogError` that names the file.
"""

import csv
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

EVENT_FILES = "events.out.tfevents.*"


class LogError(Exception):
    """A run that is not there or cannot be read; the text is for the user."""


@dataclass
class Curve:
    """
    Numbers that were logged during a training, float64.

    :param steps: time steps since the training began, shape [n]
    :param minutes: minutes since the training began, shape [n], NaN where they are not known
    :param values: shape [n], or [n, episodes] for evaluations; what is not finite in float32 becomes NaN, which is not drawn
    """

    steps: np.ndarray
    minutes: np.ndarray
    values: np.ndarray

    def __post_init__(self) -> None:
        self.values = np.where(np.abs(self.values) <= np.finfo(np.float32).max, self.values, np.nan)


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """
    Answer errors of the block with one that names the file and what may be done.

    :param path: the file that the block reads
    :param kind: what it should be
    :raises LogError: if the file is empty, or the block fails
    """
    try:
        if path.stat().st_size == 0:
            raise ValueError("it is empty")
        yield
    except Exception as e:  # a broken zip, table or YAML can raise nearly anything
        reason = " ".join(str(e).split()) or type(e).__name__
        raise LogError(f"{path} is not {kind}: {reason}. Move it away to see the report without it.") from e


def read_monitor(path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """
    Read a ``monitor.csv`` of SB3's Monitor. A last row that is being written is left out.

    :return: its header, with ``t_start`` (seconds since 1970), and a row per episode: ``r``, ``l`` (time steps),
        ``t`` (seconds since 1970) and ``info_keywords``
    :raises LogError: if it is none
    """
    with reading(path, "a monitor file of SB3"):
        text = path.read_text(encoding="utf-8")
        lines = text.split("\n")[:-1]
        table = list(csv.reader(lines[1:]))
        if not table or not {"r", "l", "t"} <= set(table[0]):
            raise ValueError("its second line does not name the columns r, l and t")
        header = json.loads(lines[0].removeprefix("#"))
        episodes = pd.DataFrame(table[1:], columns=table[0])
        for column in {"r", "l", "t", "score"} & set(table[0]):
            episodes[column] = episodes[column].astype(float)
        if episodes[["l", "t"]].isna().any(axis=None):
            raise ValueError("a row lacks a number")
        episodes["t"] += float(header["t_start"])
    return header, episodes


def read_evaluations(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """
    Read the ``evaluations.npz`` of SB3's EvalCallback.

    :return: time steps, shape [n], and rewards, shape [n, episodes]
    :raises LogError: if it is none
    """
    with reading(path, "a file of evaluations of SB3"), np.load(path, allow_pickle=False) as archive:
        steps, rewards = (np.asarray(archive[name], dtype=np.float64) for name in ("timesteps", "results"))
        if rewards.ndim != 2 or steps.shape != rewards.shape[:1]:
            raise ValueError(f"timesteps and results have the shapes {steps.shape} and {rewards.shape}")
    return steps, rewards


def read_events(path: Path, start: float | None) -> dict[str, Curve]:
    """
    Read the scalars of a TensorBoard event file. One that ends amid a record, or is broken there, is read as far as that.

    :param path: the file
    :param start: when the training began, seconds since 1970; None: with the file
    :return: curves by SB3's keys, such as ``train/value_loss``
    :raises LogError: if no event can be read
    """
    with reading(path, "a TensorBoard event file"):
        logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it reports what it reads
        events = EventAccumulator(str(path), size_guidance={"scalars": 0}).Reload()
        try:
            begin = events.FirstEventTimestamp()
        except ValueError as e:
            raise ValueError("no event in it can be read") from e
        curves = {}
        for key in events.Tags()["scalars"]:
            scalars = events.Scalars(key)
            steps, times, values = (
                np.array([getattr(scalar, name) for scalar in scalars], dtype=np.float64)
                for name in ("step", "wall_time", "value")
            )
            curves[key] = Curve(steps, (times - (begin if start is None else start)) / 60, values)
    return curves


def begin_of_events(path: Path) -> float | None:
    """Return when an event file was begun, in whole seconds since 1970, by its name, or None for another name."""
    match = re.match(r"events\.out\.tfevents\.(\d+)\.", path.name)
    return float(match[1]) if match else None


def read_progress(path: Path) -> dict[str, Curve]:
    """
    Read a ``progress.csv`` of SB3's logger. Its minutes count from the beginning of ``learn``.

    :return: curves by SB3's keys
    :raises LogError: if it is none
    """
    with reading(path, "a progress.csv of SB3"):
        table = pd.read_csv(path)
        steps = pd.to_numeric(table["time/total_timesteps"])
        minutes = pd.to_numeric(table["time/time_elapsed"]) / 60 if "time/time_elapsed" in table else steps * np.nan
        curves = {}
        for key in table.columns:
            logged = table[key].notna() & steps.notna()
            if logged.any() and pd.api.types.is_numeric_dtype(table[key]):
                columns = (steps, minutes, table[key])
                curves[str(key)] = Curve(*(column[logged].to_numpy(dtype=np.float64) for column in columns))
    return curves


class SettingsLoader(yaml.SafeLoader):
    """Reads RL-Zoo's YAML without running what it names: an OrderedDict is a dict, other Python objects are their names."""


def _python_object(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    if suffix == "tuple" and isinstance(node, yaml.SequenceNode):
        return tuple(loader.construct_sequence(node, deep=True))
    if suffix == "object/apply:collections.OrderedDict" and isinstance(node, yaml.SequenceNode):
        return dict(*loader.construct_sequence(node, deep=True))
    return suffix.rpartition(":")[2] or suffix


SettingsLoader.add_multi_constructor("tag:yaml.org,2002:python/", _python_object)


def read_settings(path: Path) -> dict[str, Any]:
    """
    Read RL-Zoo's ``config.yml`` or ``args.yml``.

    :raises LogError: if it is none
    """
    with reading(path, "a settings file of RL-Zoo"):
        settings = yaml.load(path.read_text(encoding="utf-8"), Loader=SettingsLoader)
        return {str(key): value for key, value in settings.items()}
