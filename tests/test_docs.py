"""What README.md and the documentation show is so: code runs, commands exist, links lead somewhere, figures were measured."""

import argparse
import ast
import importlib.util
import os
import re
import runpy
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, NoReturn

import pytest
import rl_zoo3.exp_manager
import rl_zoo3.train
import yaml
from jaxlib import xla_client
from pip._internal.commands import create_command

from sbx_flappy.zoo.evaluation import make_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = {str(path.relative_to(ROOT)): path.read_text() for path in PAGES}
README = TEXTS["README.md"]
#: Language and content of each block of code, by page
BLOCKS = {name: re.findall(r"^```(.*?)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE) for name, text in TEXTS.items()}


def blocks_of(language: str) -> list[Any]:
    """Return the pages' blocks in one language, each once, as parameters of a test."""
    first: dict[str, str] = {}
    for name, blocks in BLOCKS.items():
        for i, (its_language, code) in enumerate(blocks):
            if its_language == language:
                first.setdefault(code, f"{name}-{i}")
    return [pytest.param(code, id=place) for code, place in first.items()]


# --- Code -------------------------------------------------------------------------------------------------------------


def test_every_block_is_in_a_language_that_is_tested() -> None:
    assert all(text.count("```") == 2 * len(BLOCKS[name]) for name, text in TEXTS.items())
    directives = {"{toctree}", "{eval-rst}"}  # `make docs` runs these, on the pages of the site
    for name, blocks in BLOCKS.items():
        others = {language for language, _ in blocks} - {"python", "bash", "yaml", "text"}
        assert others <= (directives if name.startswith("docs/") else set()), name


@pytest.mark.expensive
@pytest.mark.filterwarnings("ignore:rich is experimental")  # SB3's progress bar
@pytest.mark.parametrize("block", blocks_of("python"))
def test_python_in_the_documentation_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "documentation", "exec"), {"__name__": "documentation"})


def test_there_is_python_in_the_documentation() -> None:
    assert len(blocks_of("python")) >= 15


@pytest.mark.parametrize("block", blocks_of("yaml"))
def test_settings_in_the_documentation_make_what_they_name(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = type("TwoLayers", (), {})
    module = types.ModuleType("my_package.my_module")
    vars(module)["TwoLayers"] = extractor
    monkeypatch.setitem(sys.modules, "my_package", types.ModuleType("my_package"))
    monkeypatch.setitem(sys.modules, "my_package.my_module", module)
    policy_kwargs = eval(yaml.safe_load(block)["policy_kwargs"], vars(rl_zoo3.exp_manager))  # as RL-Zoo does it
    assert policy_kwargs == {"features_extractor_class": extractor, "net_arch": []}


# --- Commands ---------------------------------------------------------------------------------------------------------

#: What makes a command short; RL-Zoo takes the last of several
BUDGETS = {
    "train": ["-n", "128", "-params", "n_envs:2", "n_steps:32", "batch_size:32", "n_epochs:1"],
    "enjoy": ["-n", "50"],
    "record_video": ["-n", "20"],
    "evaluate": ["-n", "2", "--max-episode-steps", "20"],
    "demo": ["-n", "64", "--eval-episodes", "1", "--video-length", "5", "-params", "n_envs:2", "n_steps:16", "batch_size:32"],
}
TINY = "sbx-flappy train --eval-freq -1"
#: What was done before the first command of a page
BEFORE = {
    "docs/getting-started.md": ["python -m venv --without-pip .venv"],
    "docs/interchange.md": [f"{TINY} --algo ppo_jax --env FlappyBirdFeatures-v0"],
    "docs/report.md": [f"{TINY} --algo {algo} --env CartPole-v1" for algo in ("ppo_jax", "ppo")],
}
#: Commands that take minutes or hours: their arguments are parsed
LONG = re.compile(r"python (benchmarks|docs)/|pip install|sbx-flappy .* (-optimize|--load-checkpoint) ")


def commands_of(blocks: list[tuple[str, str]]) -> list[str]:
    """Return the lines of the blocks of bash."""
    lines = [line for language, code in blocks if language == "bash" for line in code.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.strip()]


COMMANDS = {name: commands_of(blocks) for name, blocks in BLOCKS.items()}
SHORT = {name: [line for line in lines if not LONG.match(line)] for name, lines in COMMANDS.items()}


def run(arguments: list[str], folder: Path) -> str:
    """Run a command as in a shell where the package is installed; return what it printed."""
    environment = {**os.environ, "MPLBACKEND": "Agg", "SDL_VIDEODRIVER": "dummy", "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    result = subprocess.run(arguments, cwd=folder, env=environment, timeout=600, check=False, **pipes)  # type: ignore[call-overload]
    assert result.returncode == 0, result.stdout
    return result.stdout


def run_command(line: str, folder: Path) -> str:
    """Run a line of the documentation, short; return what it printed."""
    command = shlex.split(line, comments=True)
    if command[0] == "sbx-flappy":
        budget = BUDGETS.get(command[1], [])
        return run([sys.executable, "-m", "sbx_flappy.zoo", *command[1:], *budget], folder)
    if command[:2] == ["python", "-m"]:
        return run([sys.executable, *command[1:], *BUDGETS.get(command[2].removeprefix("rl_zoo3."), [])], folder)
    if command[0] == "make":
        # As if everything were installed; inside of `make pytest` it would name the folder otherwise
        return run(["make", "--no-print-directory", "-n", "-o", ".venv/.installed", *command[1:]], ROOT)
    return run(["bash", "-c", line], folder)


class ParsedError(Exception):
    """Says that the arguments of a command are valid."""


def parse_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let a command parse its arguments, and no more.

    :raises ParsedError: if they are valid
    :raises SystemExit: if they are not
    """
    program, *arguments = shlex.split(line, comments=True)
    if program == "pip":
        create_command(arguments[0]).parse_args(arguments[1:])
        raise ParsedError
    parse = argparse.ArgumentParser.parse_known_args

    def parse_only(self: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> NoReturn:
        _, unknown = parse(self, args, namespace)
        if unknown:
            self.error(f"unknown arguments: {unknown}")
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", parse_only)
    monkeypatch.setattr(sys, "argv", arguments)
    if program == "python":
        monkeypatch.syspath_prepend(
            str(ROOT / arguments[0]).rpartition("/")[0]
        )  # where Python looks for a script's neighbours
        runpy.run_path(str(ROOT / arguments[0]))["main"]()
    elif arguments[0] == "evaluate":
        make_parser("evaluate").parse_args(arguments[1:])
    else:
        assert arguments[0] == "train"
        rl_zoo3.train.train()


@pytest.mark.expensive
@pytest.mark.parametrize("page", [name for name, lines in SHORT.items() if lines])
def test_commands_of_the_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    for line in BEFORE.get(page, []) + SHORT[page]:
        run_command(line, tmp_path)
    pages = {name for line in SHORT[page] for name in re.findall(r"-o (\S+\.html)", line)}
    assert all((tmp_path / name).stat().st_size > 10_000 for name in pages)


@pytest.mark.parametrize("line", [line for lines in COMMANDS.values() for line in lines if LONG.match(line)])
def test_arguments_of_a_long_command_are_valid(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParsedError):
        parse_command(line, monkeypatch)


@pytest.mark.parametrize(
    "line",
    [
        "python benchmarks/learning.py train --sedes 0",
        "python docs/figures.py cartpool",
        "sbx-flappy train -optimize --n-trails 15",
        "sbx-flappy evaluate --env FlappyBird-v0 --load-checkpoint last",
        "pip install --constrains constraints.txt",
    ],
)
def test_a_wrong_argument_would_be_found(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        parse_command(line, monkeypatch)


@pytest.mark.expensive
def test_make_train_runs(tmp_path: Path) -> None:
    """What ``make train`` would run, in another folder and with a smaller budget; ``make pytest`` is what runs this test."""
    printed = run_command("make train", tmp_path).splitlines()[-1]
    assert printed.startswith(".venv/bin/sbx-flappy demo")
    assert "After training:  score" in run_command(printed.removeprefix(".venv/bin/"), tmp_path)


# --- Links and settings -----------------------------------------------------------------------------------------------


def places_of(path: Path) -> set[str]:
    """Return what a link may name in a page: its headings, as code hosts name them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_to_files_and_headings(page: str) -> None:
    for file, place in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", TEXTS[page]):
        path = (ROOT / page).parent / file if file else ROOT / page
        assert path.exists(), file
        assert not place or place in places_of(path), f"{file}#{place}"


def test_readme_is_for_newcomers() -> None:
    assert len(README.splitlines()) <= 150


@pytest.mark.fault(37)
def test_setting_for_gpu_memory_is_documented_and_read_by_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "docs/getting-started.md#on-a-gpu" in README
    (setting,) = set(re.findall(r"`(XLA_PYTHON_CLIENT_PREALLOCATE=\w+)`", TEXTS["docs/getting-started.md"]))
    name, _, value = setting.partition("=")
    monkeypatch.delenv(name, raising=False)
    assert "preallocate" not in xla_client.generate_pjrt_gpu_plugin_options()
    monkeypatch.setenv(name, value)
    assert xla_client.generate_pjrt_gpu_plugin_options()["preallocate"] is False


# --- Figures ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tables() -> Any:
    """Return the script that writes the tables, as a module."""
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", TEXTS)
def test_tables_show_what_was_measured(page: str, tables: Any) -> None:
    assert tables.update(TEXTS[page]) == TEXTS[page]
    assert TEXTS[page].count("<!-- begin: ") == TEXTS[page].count("<!-- end -->") == len(tables.MARKED.findall(TEXTS[page]))


def test_every_table_that_the_script_makes_is_on_a_page(tables: Any) -> None:
    assert set(re.findall(r"<!-- begin: (.*) -->", "".join(TEXTS.values()))) == tables.TABLES.keys()
    assert {ROOT / page for page, text in TEXTS.items() if "<!-- begin: " in text} <= set(tables.pages())


@pytest.mark.parametrize("right", ["2,042 ± 30", "| 34 to 41 s", "0.61, 0.78", "173 to 175 s", "64,076 (79)"])
def test_a_wrong_figure_is_corrected(right: str, tables: Any) -> None:
    text = "".join(TEXTS.values())
    assert right in text
    assert tables.update(text.replace(right, "| 7")) == text


# --- docs/faults.md ---------------------------------------------------------------------------------------------------


def marked_tests() -> set[tuple[int, str]]:
    """Return (number, file::name) of each number in a ``fault`` marker."""
    marked = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for function in ast.parse(path.read_text()).body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                marks = [mark for mark in function.decorator_list if ast.unparse(mark).startswith("pytest.mark.fault(")]
                numbers = [ast.literal_eval(number) for mark in marks if isinstance(mark, ast.Call) for number in mark.args]
                marked |= {(number, f"{path.name}::{function.name}") for number in numbers}
    return marked


def test_every_known_fault_has_a_test_that_names_it() -> None:
    text = (ROOT / "docs" / "faults.md").read_text()
    items = re.findall(r"^(\d+)\. \S.*\n((?:   - `.*`\n)*)", text, re.MULTILINE)
    assert [int(number) for number, _ in items] == list(range(1, 46))
    named = {(int(number), test) for number, tests in items for test in re.findall(r"`(.*)`", tests)}
    assert {number for number, _ in named} == set(range(1, 46))
    assert named == marked_tests()
