"""
The Python in the README and the documentation runs as it stands, the README's commands with a small budget, and docs/faults.md
names the tests that there are.
"""

import ast
import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{i}")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL))
]


@pytest.mark.expensive
@pytest.mark.filterwarnings("ignore:rich is experimental")  # SB3's progress bar
@pytest.mark.parametrize("block", BLOCKS)
def test_python_in_the_documentation_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "documentation", "exec"), {"__name__": "documentation"})


def test_there_is_python_in_the_documentation() -> None:
    assert len(BLOCKS) >= 4


README = (ROOT / "README.md").read_text()
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.strip()
]
#: What makes a command short; RL-Zoo takes the last of several
BUDGETS = {
    "train": ["-n", "128", "-params", "n_envs:2", "n_steps:32", "batch_size:32", "n_epochs:1"],
    "enjoy": ["-n", "50"],
    "record_video": ["-n", "20"],
    "evaluate": ["-n", "2", "--max-episode-steps", "20"],
    "demo": ["-n", "64", "--eval-episodes", "1", "--video-length", "5"],
}


def run_command(command: list[str], folder: Path) -> str:
    """Run one of the README's commands as in a shell where the package is installed, but short; return what it printed."""
    subcommand = command[1] if command[0] == "sbx-flappy" else command[2].removeprefix("rl_zoo3.")
    if command[0] == "sbx-flappy":
        command = [sys.executable, "-m", "sbx_flappy.zoo", *command[1:]]
    elif command[0] == "python":
        command = [sys.executable, *command[1:]]
    environment = {**os.environ, "MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy", "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    arguments = [*command, *BUDGETS.get(subcommand, [])]
    result = subprocess.run(arguments, cwd=folder, env=environment, timeout=600, check=False, **pipes)  # type: ignore[call-overload]
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.mark.expensive
def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    commands = [command for command in COMMANDS if command[0] != "make"]
    assert len(commands) >= 12
    for command in commands:
        run_command(command, tmp_path)
    assert (tmp_path / "comparison.html").stat().st_size > 10_000
    assert list(tmp_path.glob("videos/*.mp4")), "record_video of the package's own agent writes to the working folder"


@pytest.mark.expensive
def test_make_train_runs(tmp_path: Path) -> None:
    """What ``make train`` would run, in another folder and with a smaller budget; ``make pytest`` is what runs this test."""
    assert [command[1] for command in COMMANDS if command[0] == "make"] == ["train", "pytest"]
    # As if everything were installed; inside of `make pytest` it would name the folder otherwise
    dry_run = ["make", "--no-print-directory", "-n", "-o", ".venv/.installed", "train"]
    printed = subprocess.run(dry_run, cwd=ROOT, capture_output=True, text=True, check=True)
    command = shlex.split(printed.stdout.splitlines()[-1])
    assert command[0] == ".venv/bin/sbx-flappy"
    output = run_command(["sbx-flappy", *command[1:], "-params", "n_envs:2", "n_steps:16", "batch_size:32"], tmp_path)
    assert "After training:  score" in output


@pytest.mark.fault(37)
def test_readme_names_the_setting_for_gpu_memory() -> None:
    assert "JAX takes three quarters of its memory at the start; `XLA_PYTHON_CLIENT_PREALLOCATE=false` stops that" in README


# --- docs/faults.md ---------------------------------------------------------------------------------------------------


def marked_tests() -> set[tuple[int, str]]:
    """Return (number, file::name) of each number in a ``fault`` marker."""
    marked = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                marks = [mark for mark in function.decorator_list if ast.unparse(mark).startswith("pytest.mark.fault(")]
                numbers = [ast.literal_eval(number) for mark in marks for number in mark.args]
                marked |= {(number, f"{path.name}::{function.name}") for number in numbers}
    return marked


def test_every_known_fault_has_a_test_that_names_it() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    items = re.findall(r"^(\d+)\. \S.*\n((?:   - `.*`\n)*)", text, re.MULTILINE)
    assert [int(number) for number, _ in items] == list(range(1, 46))
    named = {(int(number), test) for number, tests in items for test in re.findall(r"`(.*)`", tests)}
    assert {number for number, _ in named} == set(range(1, 46))
    assert named == marked_tests()


#: A row of README's table of learning curves: environment, seeds, means at the end, and after how many minutes
LEARNT = r"^\| (`[\w-]+`|the same, torch SB3) \| (\d+) \|.*\| ([\d, ]+) after ([\d.]+) to ([\d.]+) minutes \|$"


def test_learning_curves_of_the_readme_are_those_of_the_tables() -> None:
    env_id, found = "", []
    for name, n_seeds, ends, shortest, longest in re.findall(LEARNT, README, re.MULTILINE):
        algo = "ppo" if "torch" in name else "ppo_jax"
        env_id = env_id if algo == "ppo" else name.strip("`")
        with open(ROOT / "benchmarks" / "results" / f"{env_id}.csv", newline="") as file:
            # A later row is a later checkpoint
            last = {row["seed"]: row for row in csv.DictReader(file) if row["algo"] == algo}
        assert len(last) == int(n_seeds)
        assert ends == ", ".join(f"{float(last[seed]['mean']):,.0f}" for seed in sorted(last))
        minutes = [float(row["seconds"]) / 60 for row in last.values()]
        digits = len(shortest.partition(".")[2])
        assert [shortest, longest] == [f"{each:.{digits}f}" for each in (min(minutes), max(minutes))]
        found.append((env_id, algo))
    assert len(found) == 5
