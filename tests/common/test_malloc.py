"""Memory that compiled programs free stays with the process, so that the kernel need not clear it again at each step."""

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from sbx_flappy.common import malloc

ROOT = Path(__file__).parents[2]
FAULTS_OF_A_STEP = """
import ctypes, resource, sys
from sbx_flappy.common.malloc import keep_freed_memory
if sys.argv[1] == "program":
    import jax
    from sbx_flappy.common.programs import program
    program()(lambda x: x + 1.0)(1.0)
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes, libc.free.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], [ctypes.c_void_p]
size = 1 << 26
faults = []
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = libc.malloc(size)
    libc.memset(block, 1, size)
    libc.free(block)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(*faults, keep_freed_memory())
"""


def page_faults(what: str, **environment: str) -> tuple[int, int, bool]:
    """Return the page faults of taking 64 MiB for the first and for the second time, and whether the setting was made."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", FAULTS_OF_A_STEP, what]
    run = subprocess.run(command, cwd=ROOT, env={**own, **environment}, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    first, second, kept = run.stdout.split()
    return int(first), int(second), kept == "True"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_memory_is_kept_once_a_program_is_compiled() -> None:
    first, second, kept = page_faults("program")
    assert kept
    if first < 20:  # pages of many megabytes, or a kernel that does not count
        pytest.skip(f"64 MiB take {first} page faults here")
    assert second < first / 10
    first, second, _ = page_faults("import")  # importing the package changes nothing
    assert second > first / 2


@pytest.mark.parametrize("name", ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_settings_of_the_user_stay(name: str) -> None:
    value = "glibc.malloc.mmap_threshold=1048576" if name == "GLIBC_TUNABLES" else "1048576"
    assert not page_faults("program", **{name: value})[2]


@pytest.mark.parametrize(("largest", "kept"), [(1 << 30, 1 << 28), (1 << 25, 1 << 25), (1 << 20, None)])
def test_a_c_library_may_refuse_a_large_threshold(largest: int, kept: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[int, int] = {}

    class Library:
        def mallopt(self, parameter: int, value: int) -> int:
            if parameter == malloc._M_MMAP_THRESHOLD and value > largest:
                return 0
            made[parameter] = value
            return 1

    for name in [name for name in os.environ if name.startswith(("MALLOC_", "GLIBC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Library())
    monkeypatch.setattr("sys.platform", "linux")
    assert malloc.keep_freed_memory.__wrapped__() is (kept is not None)
    assert made.get(malloc._M_MMAP_THRESHOLD) == kept
