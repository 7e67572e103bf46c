"""The Python in the README and the documentation runs as it stands."""

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
