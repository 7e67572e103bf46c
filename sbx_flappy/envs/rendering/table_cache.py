"""
Where the renderer's tables are kept: in memory, and as a file per choice of options in the user's cache folder.

The environment variable SBX_FLAPPY_CACHE_DIR names another folder; set to nothing, no file is read or written.

A file is written completely or not at all, so that processes may start together. A damaged one is found by its checksums and
drawn again. Without a writable folder the tables are drawn in each process. A file has the umask's permissions, so that a
folder can be shared.
"""

import os
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from sbx_flappy.atomic_files import replace_file
from sbx_flappy.envs.options import Colors
from sbx_flappy.envs.rendering.sprites import load_sprites
from sbx_flappy.envs.rendering.tables import Tables, build_tables

TABLE_FORMAT = 5  # raise it with every change of what the tables hold


@lru_cache(maxsize=4)
def get_tables(colors: Colors, pipe_gap: int) -> Tables:
    """
    Return the tables, shared by all renderers of the process with the same options; read-only.

    :param colors: of the sprites
    :param pipe_gap: height of the gaps, pixels
    """
    path = table_path(colors, pipe_gap)
    tables = read_tables(path) if path else None
    if tables is None:
        tables = build_tables(load_sprites(colors), pipe_gap)
        if path:
            write_tables(path, tables)
    for array in tables:
        array.setflags(write=False)
    return tables


def cache_folder() -> Path | None:
    """
    Return the folder for this package's files: ``SBX_FLAPPY_CACHE_DIR``, else one in ``XDG_CACHE_HOME`` or the platform's.

    :return: ``None`` if ``SBX_FLAPPY_CACHE_DIR`` is set to nothing, or if the user has no home
    """
    ours = os.environ.get("SBX_FLAPPY_CACHE_DIR")
    if ours is not None:
        return Path(ours) if ours else None
    chosen = os.environ.get("XDG_CACHE_HOME")
    if not chosen and sys.platform == "win32":
        chosen = os.environ.get("LOCALAPPDATA")
    if chosen:
        return Path(chosen) / "sbx_flappy"
    try:
        home = Path.home()
    except RuntimeError:  # neither HOME nor an entry in the list of users, as in some containers
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "sbx_flappy"


def table_path(colors: Colors, pipe_gap: int) -> Path | None:
    """
    Return the file of these options, or ``None`` without a folder, drawn by these versions of what the tables depend on.

    cv2 is not among them: its resizing is done by :mod:`.area_resize`.
    """
    folder = cache_folder()
    pygame_version = _version("pygame") or _version("pygame-ce")
    versions = f"v{TABLE_FORMAT}-{_version('flappy-bird-gymnasium')}-{pygame_version}"
    name = f"tables-{versions}-{colors.bird_color}-{colors.pipe_color}-{colors.background or 'plain'}-{pipe_gap}.npz"
    return folder / name if folder else None


def _version(package: str) -> str:
    """Return a package's version, or nothing if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def read_tables(path: Path) -> Tables | None:
    """
    Return the tables of a file, or ``None`` if there is none or it is damaged.

    :param path: see :func:`table_path`
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            return Tables(*(arrays[name] for name in Tables._fields))
    except Exception:  # zipfile, zlib, lzma and NumPy have a dozen names for damage, up to a MemoryError
        return None


def write_tables(path: Path, tables: Tables) -> None:
    """
    Write a file, or do nothing where that is impossible.

    :param path: see :func:`table_path`
    """
    with suppress(OSError):  # missing, read-only or full: the tables in memory are enough
        path.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(path, prefix="tables-", keep_permissions=False, sync=False) as file:
            np.savez(file, allow_pickle=False, **tables._asdict())
