"""How the C library hands memory to compiled programs."""

import ctypes
import functools
import os
import sys

# Parameters of mallopt(3), see malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Blocks below this many bytes are taken from memory that the process has already: the largest that glibc takes of these
MMAP_THRESHOLDS = (1 << 28, 1 << 25)
#: Free bytes at the end of the heap that are kept
TRIM_THRESHOLD = 1 << 29


@functools.cache
def keep_freed_memory() -> bool:
    """
    Let the C library keep memory that is freed, instead of asking the kernel for the same pages again and again.

    A compiled step on images works in some tens of megabytes, which it allocates and frees. By default glibc maps such a block
    again each time, and the kernel has to clear it page by page: a third of a step's time with the settings of FlappyBird-v0.
    The setting is one of the process. Where the user has made it (``GLIBC_TUNABLES``, ``MALLOC_MMAP_THRESHOLD_`` or
    ``MALLOC_TRIM_THRESHOLD_`` in the environment) it stays theirs.

    :return: whether the setting was made; not without glibc
    """
    own = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
    if not sys.platform.startswith("linux") or any(name in os.environ for name in own):
        return False
    if "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    is_set = any(mallopt(_M_MMAP_THRESHOLD, threshold) for threshold in MMAP_THRESHOLDS)
    return is_set and bool(mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD))
