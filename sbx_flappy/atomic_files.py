"""Files that are written completely or not at all."""

import glob
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

#: End of the names of temporary files
SUFFIX = ".tmp"
#: Temporary files older than this many seconds were left by a killed process and are removed
STALE_SECONDS = 3600


@contextmanager
def replace_file(
    path: Path, *, prefix: str | None = None, keep_permissions: bool = True, sync: bool = True
) -> Iterator[BinaryIO]:
    """
    Open a file whose content replaces that of a path in one step, when the ``with`` block ends.

    If the block raises an exception, or the process ends before that, the path keeps its old content.

    :param path: neither a link nor a folder nor a device, in a folder that exists
    :param prefix: beginning of the names of temporary files, in the same folder (default: a dot and the path's name).
        Stale files with such names are removed.
    :param keep_permissions: whether the file keeps the permissions that it has; otherwise, and for a new file, they are the
        umask's
    :param sync: whether to wait until the content is on the disk, so that it outlives a loss of power
    :raises OSError: if the file cannot be written
    """
    prefix = f".{path.name}." if prefix is None else prefix
    _remove_stale(path.parent, prefix)
    temporary = path.with_name(f"{prefix}{secrets.token_hex(8)}{SUFFIX}")
    try:
        with open(temporary, "xb") as file:  # unlike tempfile's, with the umask's permissions
            if keep_permissions and path.exists():
                os.chmod(temporary, path.stat().st_mode & 0o777)
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:  # also after a KeyboardInterrupt
        temporary.unlink(missing_ok=True)
    if sync:
        _sync_folder(path.parent)


def _remove_stale(folder: Path, prefix: str) -> None:
    """Remove what killed processes left under names with a prefix."""
    for path in folder.glob(f"{glob.escape(prefix)}*{SUFFIX}"):
        with suppress(OSError):  # another process was faster, or owns it
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()


def _sync_folder(folder: Path) -> None:
    """Wait until a file's new name is on the disk, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
