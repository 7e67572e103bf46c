"""Read a saved model's zip file without trusting it: nothing is unpickled, and memory use is bounded by the file's size."""

import hashlib
import io
import json
import math
import pathlib
import pickle
import pickletools
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.save_util import open_path

from sbx_flappy.saving.codec import KINDS, DecodingError

Path = str | pathlib.Path | io.BufferedIOBase

#: The entry that describes a model in plain JSON, and the number of its format
DESCRIPTION, FORMAT = "sbx_flappy.json", 1
#: A file may expand to this many times its own size plus this many bytes; SB3 and torch do not compress
MAX_RATIO, MAX_EXTRA = 20, 2**24
MAX_ENTRIES = 20_000

#: The exceptions that reading something other than a saved model may raise
UNREADABLE = (
    *(AssertionError, AttributeError, EOFError, ImportError, IndexError, KeyError, TypeError, UnicodeDecodeError),
    *(RuntimeError, ValueError, OverflowError, MemoryError, ArithmeticError, OSError),
    *(pickle.UnpicklingError, zipfile.BadZipFile, zlib.error),
)


class RefusedError(ValueError):
    """Raised for an intact file that cannot be read in the requested way."""


@contextmanager
def one_error(path: Path) -> Iterator[None]:
    """
    Turn every exception that reading a damaged or foreign file may raise into one error.

    :param path: for the message
    :raises ValueError: in place of any of :data:`UNREADABLE`, except for a file that does not exist
    """
    try:
        yield
    except (FileNotFoundError, RefusedError):
        raise
    except UNREADABLE as e:
        raise ValueError(
            f"Error: the file {path} wasn't a zip-file of a saved model, or it is truncated or damaged: {e}"
        ) from e


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """
    Open a saved model's archive and check its table of contents.

    :param path: path or file
    :raises ValueError: if it is not a zip file, or would expand to much more than its size
    """
    file = open_path(path, "r", suffix="zip")
    try:
        with zipfile.ZipFile(file) as archive:
            check_contents(archive)
            yield archive
    finally:
        if isinstance(path, (str, pathlib.Path)):
            file.close()
        else:
            file.seek(0)


def check_contents(
    archive: zipfile.ZipFile, compressions: tuple[int, ...] = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
) -> None:
    """
    Check a zip file's table of contents.

    :param archive: an open zip file
    :param compressions: what its entries may be compressed by
    :raises ValueError: if it has entries that no saved model has
    """
    file: Any = archive.fp
    position = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(position)
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(entries) > MAX_ENTRIES:
        raise ValueError(f"it has {len(entries)} entries")
    if len(set(names)) < len(names):
        raise ValueError("it has two entries of the same name")
    for entry in entries:
        if entry.flag_bits & 1 or entry.compress_type not in compressions:
            raise ValueError(f"its entry '{entry.filename}' is encrypted, or compressed in an unusual way")
    expanded = sum(entry.file_size for entry in entries)
    if sum(entry.compress_size for entry in entries) > size or expanded > MAX_RATIO * size + MAX_EXTRA:
        raise ValueError(f"its {size} bytes would expand to {expanded}")


def check_archive(path: Path, needs_data: bool = True) -> dict[str, Any]:
    """
    Read a saved model's archive completely, without opening the pickles in it.

    :param path: path or file
    :param needs_data: whether it must hold more than parameters
    :return: the saved attributes as JSON has them
    :raises ValueError: if it is truncated, damaged or not a saved model
    """
    with one_error(path), open_archive(path) as archive:
        damaged = archive.testzip()
        if damaged:
            raise ValueError(f"its entry '{damaged}' is damaged")
        data = json.loads(archive.read("data")) if needs_data else {}
        lacking = {"policy_class", "observation_space", "action_space"} - set(data)
        if needs_data and lacking:
            raise ValueError(f"its data lacks {sorted(lacking)}")
        archive.getinfo("policy.pth")
        for name in archive.namelist():
            if name.endswith(".pth"):
                check_names(open_nested(archive, name), name)
                check_tensors(th.load(io.BytesIO(archive.read(name)), map_location="cpu", weights_only=True), name)
        return data


def check_names(nested: zipfile.ZipFile, name: str) -> None:
    """
    Check what the pickle in an entry of torch names.

    :param nested: the zip file that torch made of tensors
    :param name: of its entry
    :raises ValueError: if its pickle names anything but torch's: torch itself lets it make byte arrays of any size
    """
    for entry in nested.namelist():
        if entry.endswith(".pkl"):
            for operation, argument, _ in pickletools.genops(nested.read(entry)):
                if operation.name == "GLOBAL" and not str(argument).startswith(("torch", "collections OrderedDict")):
                    raise ValueError(f"its entry '{name}' names {argument!r:.100}")
                if operation.name in ("STACK_GLOBAL", "INST", "BYTEARRAY8"):
                    raise ValueError(f"its entry '{name}' is not a pickle of tensors")


def check_tensors(value: Any, name: str) -> None:
    """
    Check that tensors are no larger than their memory.

    :param value: nested containers with tensors
    :param name: of the entry that they were read from
    :raises ValueError: if one repeats its memory, so that a copy would be of any size
    """
    for tensor in th.utils._pytree.tree_leaves(value):
        if isinstance(tensor, th.Tensor) and tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise ValueError(f"its entry '{name}' has a tensor that is larger than its memory")


def open_nested(archive: zipfile.ZipFile, name: str) -> zipfile.ZipFile:
    """
    Return the zip file that torch made of tensors, in memory.

    :param archive: the whole
    :param name: of the entry
    :raises ValueError: if it is not a zip file, or would expand to much more than its size
    """
    nested = zipfile.ZipFile(io.BytesIO(archive.read(name)))
    check_contents(nested, (zipfile.ZIP_STORED,))  # torch compresses nothing
    return nested


def storages(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """Yield place and bytes of each tensor in the entries that torch wrote."""
    for name in archive.namelist():
        if name.endswith(".pth"):
            nested = open_nested(archive, name)
            for inner in nested.namelist():
                if inner.rpartition("/")[0].endswith("data"):
                    yield f"{name}:{inner}", nested.read(inner)


class ArrayReader:
    """
    Reads the arrays that a description names, each from the bytes of an entry.

    :param archive: an open zip file
    :param table: for each array its entry, dtype, shape and SHA-256
    """

    def __init__(self, archive: zipfile.ZipFile, table: list[dict[str, Any]]) -> None:
        self._archive = archive
        self._table = table
        self._nested: dict[str, zipfile.ZipFile] = {}

    def __call__(self, number: int) -> np.ndarray:
        """
        Return an array.

        :param number: its place in the table
        :raises DecodingError: if the entry does not hold what the table says
        """
        if type(number) is not int or not 0 <= number < len(self._table):
            raise DecodingError(f"there is no array {number!r:.100}")
        row = self._table[number]
        entry, shape, dtype = str(row["entry"]), tuple(map(int, row["shape"])), np.dtype(row["dtype"])
        content = self._read(entry)
        if dtype.kind not in KINDS or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(content):
            raise DecodingError(f"the entry '{entry}' is not an array {shape} of {dtype}")
        if hashlib.sha256(content).hexdigest() != row["sha256"]:
            raise DecodingError(f"the entry '{entry}' is not what was saved")
        return np.frombuffer(content, dtype).reshape(shape).copy()

    def _read(self, entry: str) -> bytes:
        name, _, inner = entry.partition(":")
        if not inner:
            return self._archive.read(name)
        if name not in self._nested:
            self._nested[name] = open_nested(self._archive, name)
        return self._nested[name].read(inner)
