"""What all tests share."""

import os
import tempfile

# No test needs a screen: plots are drawn into memory.
os.environ.setdefault("MPLBACKEND", "Agg")
# The tables of the native engine are drawn in a cache folder of the tests' own, also by the processes that tests start.
_CACHE = tempfile.TemporaryDirectory(prefix="sbx_flappy_cache_")
os.environ["SBX_FLAPPY_CACHE_DIR"] = _CACHE.name
