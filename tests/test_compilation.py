"""The listener on which the tests against needless compilation rest."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.compilation import compilations


def test_a_new_program_is_heard_and_one_that_was_compiled_before_is_not() -> None:
    def double(x: jax.Array) -> jax.Array:
        return 2 * x

    program = jax.jit(double)
    with compilations() as compiled:
        program(np.ones(3, np.float32))
        assert compiled == ["jit(double)"]
        program(np.zeros(3, np.float32))
        assert compiled == ["jit(double)"]
        program(np.ones(4, np.float32))
        assert compiled == ["jit(double)"] * 2
    program(np.ones(5, np.float32))  # after the context nobody listens
    assert len(compiled) == 2


SCRIPT = """
import jax
import numpy as np
from tests.compilation import compilations

hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("/cache_hits") else None)
with compilations() as compiled:
    jax.jit(lambda x: 2 * x)(np.ones(3, np.float32))
print(len(compiled), len(hits))
"""


def test_a_program_from_a_persistent_cache_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    command, root = [sys.executable, "-c", SCRIPT], Path(__file__).parents[1]
    first, second = (
        subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=True).stdout for _ in range(2)
    )
    assert (first, second) == ("1 0\n", "1 1\n")
