"""The Python in the README and the documentation runs as it stands, and docs/faults.md names the tests that there are."""

import ast
import re
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


@pytest.mark.fault(37)
def test_readme_names_the_setting_for_gpu_memory() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "JAX takes three quarters of its memory at the start; `XLA_PYTHON_CLIENT_PREALLOCATE=false` stops that" in readme


# --- docs/faults.md ---------------------------------------------------------------------------------------------------


def marked_tests() -> set[tuple[int, str]]:
    """Return (number, file::name) of each number in a ``fault`` marker."""
    marked = set()
    for path in (ROOT / "tests").glob("test_*.py"):
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
