"""
Write the tables of README.md, docs/ and benchmarks/README.md from the measurements in benchmarks/results.

    python benchmarks/tables.py            # write them
    python benchmarks/tables.py --check    # fail if a page does not show what was measured

A table stands between ``<!-- begin: NAME -->`` and ``<!-- end -->``, and :data:`TABLES` says what makes it.
"""

import argparse
import csv
import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ENV_IDS = ("FlappyBird-v0", "FlappyBird-v1", "FlappyBirdFeatures-v0", "FlappyBirdFeatures-v1")
#: For people: the algorithms by RL-Zoo's names
LABELS = {
    "ppo_jax": "PPO (sbx_flappy)",
    "ppo": "PPO (torch SB3)",
    "ppo_lstm": "RecurrentPPO",
    "trpo": "TRPO",
    "qrdqn": "QR-DQN",
}
#: Tables that are shown as they are
TRIALS = ("recipes-pixels", "recipes-gamma", "recipes-v1", "blog-cartpole", "blog-flappy")
#: Pipes whose first checkpoint the table of learning curves names
MARKS = (50, 500, 1000)
MARKED = re.compile(r"(<!-- begin: ([\w-]+) -->\n)(.*?)(\n?<!-- end -->)", re.DOTALL)

Row = dict[str, str]


def read_csv(name: str) -> list[Row]:
    """Return the rows of a table of results, or none where there is no such table."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def read_curves(env_id: str) -> dict[tuple[str, str], list[list[Row]]]:
    """Return the checkpoints of each seed, by algorithm and settings."""
    curves: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in sorted(read_csv(env_id), key=lambda row: (row["algo"], row["conf"], row["seed"])):
        curves.setdefault((row["algo"], row["conf"]), {}).setdefault(row["seed"], []).append(row)
    return {key: list(seeds.values()) for key, seeds in curves.items()}


def read_speed() -> dict[str, Any]:
    """Return what was measured against torch SB3 and SBX."""
    measured: dict[str, Any] = json.loads((RESULTS / "speed.json").read_text())
    return measured


def to_markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in line) for line in lines)


def span(values: Sequence[float], unit: str = "", digits: int = 0) -> str:
    """Return the lowest and the highest of some numbers, or the only one."""
    texts = list(dict.fromkeys(f"{each:,.{digits}f}" for each in (min(values), max(values))))
    return " to ".join(texts) + f" {unit}".rstrip()


def duration(seconds: Sequence[float]) -> str:
    """Return a range of times, in seconds up to three minutes."""
    if max(seconds) <= 180:
        return span(seconds, "s")
    minutes = [each / 60 for each in seconds]
    return span(minutes, "min", 1 if max(minutes) < 10 else 0)


def trials(name: str) -> str:
    """Return a table of results as it is: single measurements, each described in words."""
    rows = read_csv(name)
    return to_markdown(list(rows[0]), [list(row.values()) for row in rows])


# --- Agents -----------------------------------------------------------------------------------------------------------


def score(row: Row, detailed: bool) -> str:
    """Return what an agent scored in some episodes."""
    text = f"{int(row['mean']):,} ± {row['error']}"
    if not detailed:
        return text
    if row["min"] == row["max"]:
        return f"{text}, all at the limit"
    return f"{text}, median {int(row['median']):,}, {int(row['min']):,} to {int(row['max']):,}"


def agents(detailed: bool) -> str:
    """Return the scores of the agents that come with the package."""
    header = ["agent", "training", "native engine", "upstream's game"]
    if detailed:
        header = [*header[:2], "native engine, deterministic", "stochastic", "upstream's game, deterministic", "stochastic"]
    rows = []
    for env_id in ENV_IDS:
        own = [row for row in read_csv("agents") if row["env_id"] == env_id]
        kinds = [row for row in own if detailed or row["actions"] == "deterministic"]
        training = f"{int(own[0]['steps']) / 1e6:g} million steps, {own[0]['minutes']} min"
        rows.append([f"`{env_id}`", training, *(score(row, detailed) for row in kinds)])
    return to_markdown(header, rows)


# --- Learning curves --------------------------------------------------------------------------------------------------


def first_checkpoints(curves: list[list[Row]], mark: int) -> str:
    """Return when the seeds had a checkpoint of at least so many pipes."""
    first = [next((float(row["seconds"]) for row in curve if float(row["mean"]) >= mark), None) for curve in curves]
    reached = [seconds for seconds in first if seconds is not None]
    never = len(first) - len(reached)
    if not reached:
        return "never"
    return duration(reached) + (f", {never} of {len(first)} seeds never" if never else "")


def learning() -> str:
    """Return how fast the trainings of several seeds learnt, and where they ended."""
    header = ["environment", "algorithm", "seeds", *(f"{mark:,} pipes" for mark in MARKS), "at the end", "each seed", "time"]
    rows = []
    for env_id in ENV_IDS:
        for (algo, _), curves in sorted(read_curves(env_id).items(), key=lambda item: item[0][0] != "ppo_jax"):
            if len(curves) == 1:
                continue
            ends = [float(curve[-1]["mean"]) for curve in curves]
            each = ", ".join(f"{end:,.0f}" for end in ends)
            minutes = [float(curve[-1]["seconds"]) / 60 for curve in curves]
            time = span(minutes, "min", 1 if max(minutes) < 10 else 0)
            marks = [first_checkpoints(curves, mark) for mark in MARKS]
            rows.append([f"`{env_id}`", LABELS[algo], str(len(curves)), *marks, f"{statistics.fmean(ends):,.0f}", each, time])
    return to_markdown(header, rows)


def steps_table(env_id: str, spacing: int = 250_000, without: Sequence[int] = ()) -> str:
    """
    Return each algorithm's score and minutes, as means over seeds, at multiples of ``spacing`` time steps.

    :param env_id: environment ID
    :param spacing: time steps between two columns
    :param without: columns that are left out
    """
    algorithms = read_curves(env_id)
    steps = [int(row["steps"]) for curves in algorithms.values() for curve in curves for row in curve]
    marks = sorted({round(step / spacing) * spacing for step in steps} - {0, *without})
    rows = []
    for (algo, conf), curves in sorted(algorithms.items(), key=lambda item: list(LABELS).index(item[0][0])):
        settings = f", {Path(conf).stem}" if conf else ""
        cells = [f"{LABELS[algo]}{settings}, {len(curves)} seed{'s' * (len(curves) > 1)}"]
        for mark in marks:
            nearest = [min(curve, key=lambda row: abs(int(row["steps"]) - mark)) for curve in curves]
            there = [row for row in nearest if abs(int(row["steps"]) - mark) <= 0.1 * spacing]
            pipes, seconds = ([float(row[column]) for row in there] for column in ("mean", "seconds"))
            cells.append(f"{statistics.fmean(pipes):,.0f} ({statistics.fmean(seconds) / 60:.1f} min)" if there else "")
        rows.append(cells)
    return to_markdown([f"`{env_id}`", *(f"{mark:,} steps" for mark in marks)], rows)


# --- Speed ------------------------------------------------------------------------------------------------------------


def whole_trainings() -> list[list[str]]:
    """Return the trainings of which both libraries had the same number of cores to themselves."""
    rows = []
    for env_id, cores, seeds in (
        ("FlappyBird-v0", "two cores", ("2", "3", "4")),
        ("FlappyBirdFeatures-v0", "one core", ("1", "2", "3", "4")),
        ("FlappyBirdFeatures-v1", "one core", ("1", "2", "3", "4")),
    ):
        curves = read_curves(env_id)
        ours = [float(curve[-1]["seconds"]) for curve in curves["ppo_jax", ""] if curve[-1]["seed"] in seeds]
        # Of the features, torch SB3 trained one seed, on one core
        theirs = [curve[-1] for curve in curves["ppo", ""] if curve[-1]["seed"] in seeds or len(curves["ppo", ""]) == 1]
        torchs = [float(row["seconds"]) for row in theirs]
        ratio = f"{statistics.fmean(ours) / statistics.fmean(torchs):.2f}"
        steps = f"{int(theirs[0]['steps']) / 1e6:.1f} million steps of `{env_id}`, {cores}"
        rows.append([steps, span(ours, "s"), span(torchs, "s"), ratio])
    return rows


def update_times() -> list[list[str]]:
    """Return the times of iterations and updates, and what they are of torch SB3's."""
    rows = []
    for task in read_speed()["tasks"]:
        ours, torchs = (", ".join(f"{run[name]:.2f} s" for run in task["runs"]) for name in ("sbx_flappy", "torch"))
        ratio = ", ".join(f"{run['ratio']:.2f}" for run in task["runs"])
        rows.append(
            [task["task"], ours, torchs, ratio + (f" (SBX: about {task['sbx_ratio']})" if "sbx_ratio" in task else "")]
        )
    return rows


def speed() -> str:
    """Return the times of updates and of whole trainings."""
    header = ["", "sbx_flappy", "torch SB3", "time relative to torch SB3's"]
    return to_markdown(header, [*update_times(), *whole_trainings()])


def commands() -> str:
    """Return what was measured by which command."""
    measured = read_speed()
    rows = []
    for task in measured["tasks"]:
        runs = "; ".join(f"{run['sbx_flappy']:.2f} s vs. {run['torch']:.2f} s, ratio {run['ratio']}" for run in task["runs"])
        busy = f"; beside two other trainings {task['busy_ratio']}" if "busy_ratio" in task else ""
        rows.append([f"{task['task']} ({task['details']})", f"`{task['command']}`", runs + busy])
    trainings = measured["trainings"]
    figures = f"{trainings['sbx_flappy']:,} vs. {trainings['torch']:,} steps/s, ratio of the times {trainings['ratio']}"
    rows.append([trainings["task"], f"`{trainings['command']}`", figures])
    game = measured["pygame_engine"]
    figures = f"{game['blog']} vs. {game['sbx_flappy']} steps/s, ratio {game['ratio']}"
    rows.append([game["task"], f"`{game['command']}`", figures])
    rows.append(["agent steps per second of `FlappyBird-v0`, one core", "`python benchmarks/engine.py`", "the table below"])
    return to_markdown(["what", "command", "figure"], rows)


def engine() -> str:
    """Return the steps per second of the game's engines, in each run."""
    rows = read_csv("engine")
    runs = sorted({row["run"] for row in rows})
    cells = []
    for name in dict.fromkeys(row["engine"] for row in rows):
        own = [row for row in rows if row["engine"] == name]
        cells.append([name, *(f"{int(row['steps_per_second']):,} ({row['ratio']})" for row in own)])
    return to_markdown(["agent steps per second (times pygame's)", *(f"run {run}" for run in runs)], cells)


TABLES: dict[str, Callable[[], str]] = {
    "agents": partial(agents, detailed=False),
    "agents-in-detail": partial(agents, detailed=True),
    "learning": learning,
    "speed": speed,
    "speed-commands": commands,
    "engine": engine,
    **{name: partial(trials, name) for name in TRIALS},
    **{f"steps-{env_id}": partial(steps_table, env_id, without=(1_250_000, 1_750_000)) for env_id in ENV_IDS[2:]},
}


def pages() -> list[Path]:
    """Return the pages that may hold tables."""
    return [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def update(text: str) -> str:
    """
    Return a page with its tables as they were measured.

    :raises KeyError: if a table has no name in :data:`TABLES`
    """
    return MARKED.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}\n<!-- end -->", text)


def main() -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if a page is not current")
    args = parser.parse_args()
    outdated = [page for page in pages() if update(page.read_text()) != page.read_text()]
    names = ", ".join(str(page.relative_to(ROOT)) for page in outdated)
    if args.check and outdated:
        raise SystemExit(f"Not current: {names}. `python benchmarks/tables.py` writes their tables.")
    for page in outdated:
        page.write_text(update(page.read_text()))
    print(f"Written: {names}" if outdated else "All tables are current.")


if __name__ == "__main__":
    main()
