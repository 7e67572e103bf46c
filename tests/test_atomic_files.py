"""Files that are written completely or not at all."""

import os
import stat
import time
from pathlib import Path

import pytest

from sbx_flappy.atomic_files import STALE_SECONDS, replace_file


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with content."""
    path = tmp_path / "name[1].bin"
    path.write_bytes(b"old")
    return path


@pytest.mark.parametrize("sync", [True, False])
def test_the_path_has_its_old_content_until_the_block_ends(path: Path, sync: bool) -> None:
    with replace_file(path, sync=sync) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(path.parent) == [path.name]


def write_half(path: Path, error: type[BaseException]) -> None:
    with replace_file(path) as file:
        file.write(b"half")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_error_in_the_block_leaves_the_old_file_and_no_other(path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        write_half(path, error)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
@pytest.mark.parametrize(("keep_permissions", "expected"), [(True, 0o600), (False, 0o644)])
def test_permissions_are_the_files_or_the_umasks(path: Path, keep_permissions: bool, expected: int) -> None:
    """A file of one user alone stays so also while it is written."""
    path.chmod(0o600)
    before = os.umask(0o022)
    try:
        with replace_file(path, keep_permissions=keep_permissions) as file:
            assert mode_of(Path(file.name)) == expected
    finally:
        os.umask(before)
    assert mode_of(path) == expected


def test_stale_files_with_the_same_prefix_are_removed(path: Path) -> None:
    """The name's brackets are no pattern: they stand for themselves."""
    ages = {f".{path.name}.a.tmp": 2, f".{path.name}.b.tmp": 0.5, ".name1.bin.c.tmp": 2, f".{path.name}.d": 2}
    for name, age in ages.items():
        (path.parent / name).write_bytes(b"half")
        os.utime(path.parent / name, (time.time() - age * STALE_SECONDS,) * 2)
    with replace_file(path):
        pass
    assert sorted(os.listdir(path.parent)) == sorted([*list(ages)[1:], path.name])


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replace_file(tmp_path / "missing" / "file"):
        pass
