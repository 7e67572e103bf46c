"""
The charts of a page, each an inline SVG that matplotlib draws.

An SVG holds no name of a run and no other text of the user's: legends are the page's. Its colours are CSS variables of the
page, so that it is readable on light and dark ground.
"""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from sbx_flappy.report.runs import Run
from sbx_flappy.report.sources import Curve

#: A line has at most this many points
MAX_POINTS = 500
#: Episodes that are averaged, as for SB3's ``rollout/ep_rew_mean``; fewer in a run of less than ten times as many
WINDOW = 100
#: matplotlib's colours in a chart, and the page's variables that stand for them
INK, GRID = "#010203", "#040506"
VARIABLES = {INK: "var(--ink)", GRID: "var(--grid)"}
#: Where two lines are one above the other, as equal learning rates are, both are seen
DASHES = ("-", "--")
TICKS = [1, 2, 2.5, 5, 10]
STYLE: Any = {
    "svg.fonttype": "none",
    "font.size": 8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.edgecolor": GRID,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 5),
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.dashed_pattern": (5, 1),
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.constrained_layout.use": True,
}


@dataclass
class Line:
    """
    A line to draw, and where there is one the band around it.

    :param curve: at most ``MAX_POINTS`` points
    :param low: lower edge of the band, shape [n]
    :param high: upper edge of the band, shape [n]
    :param window: episodes that a point averages, 0 for numbers that are drawn as they were logged
    """

    curve: Curve
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    window: int = 0


@dataclass(frozen=True)
class Chart:
    """
    A kind of chart.

    :param title: what stands above it
    :param label: the vertical axis and its unit
    :param line: returns a run's line, or None if the run did not log it
    :param x: "steps" or "minutes"
    :param points: whether each point is drawn
    :param floor: the vertical axis is cut below this
    :param from_zero: whether the vertical axis begins at 0
    :param key: of SB3's logger, if the numbers are its
    :param note: what the reader should know
    """

    title: str
    label: str
    line: Callable[[Run], Line | None]
    x: str = "steps"
    points: bool = False
    floor: float | None = None
    from_zero: bool = False
    key: str = ""
    note: str = ""


def average(curve: Curve) -> Line:
    """Return the moving average over episodes; the band leaves out a tenth of them above and a tenth below."""
    n = len(curve.values)
    window = min(WINDOW, max(1, n // 10))
    ends = _spread(n)
    parts = [curve.values[max(0, end + 1 - window) : end + 1] for end in ends]
    low, high = np.array([np.quantile(part, (0.1, 0.9)) for part in parts]).T
    means = np.array([part.mean() for part in parts])
    return Line(Curve(curve.steps[ends], curve.minutes[ends], means), low, high, window)


def thin(curve: Curve | None) -> Line | None:
    """Return the curve with means of neighbours in place of too many points, or None for one without a finite number."""
    if curve is None or not np.isfinite(curve.values).any():
        return None
    if len(curve.values) > MAX_POINTS:
        columns = (curve.steps, curve.minutes, curve.values)
        curve = Curve(*(np.array([part.mean() for part in np.array_split(column, MAX_POINTS)]) for column in columns))
    return Line(curve)


def _spread(n: int) -> np.ndarray:
    """Return at most ``MAX_POINTS`` of the indices of n points, the last among them."""
    return np.unique(np.linspace(n - 1, 0, min(n, MAX_POINTS)).round().astype(int))


def _rewards(run: Run) -> Line | None:
    return average(run.episodes) if run.episodes is not None else thin(run.scalars.get("rollout/ep_rew_mean"))


def _scores(run: Run) -> Line | None:
    return average(run.scores) if run.scores is not None else thin(run.scalars.get("rollout/ep_score_mean"))


def _evaluations(run: Run) -> Line | None:
    if run.evaluations is None or run.evaluations.values.size == 0:
        return None
    shown = _spread(len(run.evaluations.steps))
    steps, minutes, rewards = run.evaluations.steps[shown], run.evaluations.minutes[shown], run.evaluations.values[shown]
    mean, std = rewards.mean(axis=1), rewards.std(axis=1)
    return Line(Curve(steps, minutes, mean), mean - std, mean + std)


def _scalar(title: str, key: str, label: str, note: str = "", **options: Any) -> Chart:
    return Chart(title, label, lambda run: thin(run.scalars.get(key)), key=key, note=f"{key}{note}", **options)


def _both(title: str, label: str, line: Callable[[Run], Line | None], points: bool = False, note: str = "") -> list[Chart]:
    return [Chart(f"{title} over {x}", label, line, x.split()[-1], points, note=note) for x in ("time steps", "minutes")]


LEARNING = [
    *_both("Episode reward", "reward per episode", _rewards),
    *_both("Pipes passed", "pipes per episode", _scores),
    *_both(
        "Evaluation", "reward per episode", _evaluations, True, "Points: mean of an evaluation. Band: ± 1 standard deviation."
    ),
]
OPTIMISATION = [
    _scalar("Policy loss", "train/policy_gradient_loss", "loss"),
    _scalar("Value loss", "train/value_loss", "loss (squared return)"),
    _scalar("Entropy loss", "train/entropy_loss", "negative entropy (nats)"),
    _scalar("Approximate KL divergence", "train/approx_kl", "KL divergence (nats)"),
    _scalar("Clip fraction", "train/clip_fraction", "fraction of samples"),
    _scalar(
        "Explained variance", "train/explained_variance", "fraction of variance", "; 1 is best, below −1 is cut off", floor=-1
    ),
    _scalar(
        "Throughput",
        "time/fps",
        "time steps per second",
        ", the mean since the beginning, evaluations included",
        from_zero=True,
    ),
    _scalar("Learning rate", "train/learning_rate", "learning rate"),
]


def draw(chart: Chart, lines: Sequence[Line | None]) -> str:
    """
    Return a chart as SVG, without an XML header, for the inside of a page.

    :param chart: its kind
    :param lines: one for each run, in the order of their colours; None for a run that did not log it
    """
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": chart.title}):
        figure = Figure(figsize=(4.4, 2.5))
        axes = figure.subplots()
        figure.patch.set_visible(False)
        axes.patch.set_visible(False)
        for i, line in enumerate(lines):
            if line is not None:
                _draw_line(axes, chart, line, i)
        low, high = axes.get_ylim()
        if chart.from_zero or (chart.floor is not None and low < chart.floor < high):
            axes.set_ylim(bottom=0 if chart.from_zero else chart.floor)
        axes.set_xlabel("time steps" if chart.x == "steps" else "minutes since the beginning")
        axes.set_ylabel(chart.label)
        axes.set_xlim(0, 1.02 * axes.dataLim.xmax or 1)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=TICKS))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=TICKS))
        if chart.x == "steps":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _inline(stream.getvalue(), len(lines), f"{chart.title}: {chart.label}")


def _draw_line(axes: Axes, chart: Chart, line: Line, i: int) -> None:
    x, y, colour = getattr(line.curve, chart.x), line.curve.values, _colour(i)
    if line.low is not None and line.high is not None:
        axes.fill_between(x, line.low, line.high, color=colour, alpha=0.18, linewidth=0)
        if len(x) == 1:  # a band has no width there
            axes.vlines(x, line.low, line.high, color=colour)
    axes.plot(x, y, DASHES[i % 2], color=colour, marker="o" if chart.points or len(x) == 1 else "", markersize=3)


def _colour(i: int) -> str:
    """Return the colour that stands for run i in the SVG until it becomes the page's."""
    return f"#0a0b{i:02x}"


def _inline(svg: str, n_runs: int, label: str) -> str:
    """Return matplotlib's SVG without what a page does not need or has once only, in the page's colours and font."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<svg [^>]*viewBox=(\"[^\"]*\")[^>]*>", rf'<svg viewBox=\1 role="img" aria-label="{label}">', svg, count=1)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    svg = re.sub(r"font-family: [^;\"]*;? ?", "", svg)
    svg = svg.replace("xlink:href", "href")
    for colour, variable in {**VARIABLES, **{_colour(i): f"var(--run-{i})" for i in range(n_runs)}}.items():
        svg = svg.replace(colour, variable)
    return re.sub(r"\s*\n\s*", "\n", svg)
