"""What all tests share."""

import os
import tempfile
from pathlib import Path

# No test needs a screen: plots are drawn into memory.
os.environ.setdefault("MPLBACKEND", "Agg")

# Set where the first process of a session begins, and inherited: the workers of pytest-xdist and the processes that tests
# start share what they compile, and the tables of the native engine.
if "SBX_FLAPPY_TESTS_CACHE" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="sbx_flappy_cache_")
    os.environ["SBX_FLAPPY_TESTS_CACHE"] = _CACHE.name
_FOLDER = Path(os.environ["SBX_FLAPPY_TESTS_CACHE"])
os.environ["SBX_FLAPPY_CACHE_DIR"] = str(_FOLDER / "engine")
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_FOLDER / "programs")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
