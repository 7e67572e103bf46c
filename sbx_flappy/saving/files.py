"""
Saved models: SB3's zip file with a description in plain JSON beside the pickles, written whole or not at all.

The description, the entry :data:`archive.DESCRIPTION`, holds all that a model is made of in the form of ``saving.codec``.
Tensors are not stored twice: it says where in the entries that torch wrote each one's bytes lie.
"""

import hashlib
import io
import json
import os
import pathlib
import warnings
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.save_util import open_path
from stable_baselines3.common.utils import get_system_info

from sbx_flappy.atomic_files import replace_file
from sbx_flappy.saving.archive import DESCRIPTION, FORMAT, ArrayReader, Path, RefusedError, one_error, open_archive, storages
from sbx_flappy.saving.codec import DecodingError, Encoder, EncodingError, decode

#: What stands in a description for an attribute that only its pickle holds
UNSUPPORTED = "$unsupported"
#: Attributes that are made of others when a model is built
DERIVED = frozenset({"lr_schedule"})


def add_description(file: io.BytesIO, attributes: Mapping[str, Any], parameters: dict[str, Any]) -> None:
    """
    Add the description of a model to its zip file.

    :param file: the whole file as SB3 writes it
    :param attributes: values of the attributes that the file holds; those of other kinds are noted as such
    :param parameters: state dicts by name
    """
    with zipfile.ZipFile(file, mode="r") as archive:
        places = {hashlib.sha256(content).hexdigest(): place for place, content in storages(archive)}
        names = json.loads(archive.read("data"))
    encode = Encoder()
    data = {}
    for name in names:
        try:
            data[name] = encode(attributes[name], name)
        except EncodingError as e:
            data[name] = {UNSUPPORTED: str(e)}
    description = {"format": FORMAT, "data": data, "parameters": encode(parameters, "parameters")}
    with zipfile.ZipFile(file, mode="a") as archive:
        description["arrays"] = [_place(archive, array, places) for array in encode.arrays]
        archive.writestr(DESCRIPTION, json.dumps(description, allow_nan=False))


def _place(archive: zipfile.ZipFile, array: np.ndarray, places: dict[str, str]) -> dict[str, Any]:
    """Return where an array's bytes lie; those that torch did not write become an entry of their own."""
    content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest not in places:
        places[digest] = f"arrays/{digest}"
        archive.writestr(places[digest], content)
    dtype = array.dtype.newbyteorder("<").str
    return {"entry": places[digest], "dtype": dtype, "shape": list(array.shape), "sha256": digest}


def read_description(path: Path, replaced: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    Return a model's attributes and its state dicts from its description, without unpickling anything.

    :param path: path or file
    :param replaced: values of attributes that are not to be read (``custom_objects``)
    :raises ValueError: if the file is damaged, has no description, or one that lacks an attribute's value
    """
    with one_error(path), open_archive(path) as archive:
        if DESCRIPTION not in archive.namelist():
            raise RefusedError(
                f"{path} has no entry '{DESCRIPTION}', which models saved by sbx_flappy have. It could only be unpickled, "
                "which can run any code. If you trust its author, load it without safe=True and save it again."
            )
        damaged = archive.testzip()
        if damaged:
            raise ValueError(f"its entry '{damaged}' is damaged")
        try:
            description = json.loads(archive.read(DESCRIPTION))
            if description["format"] != FORMAT:
                raise DecodingError(f"its format is {description['format']!r:.20}, but this package reads {FORMAT}")
            reader = ArrayReader(archive, description["arrays"])
            data = {name: _value(name, value, reader, replaced) for name, value in description["data"].items()}
            parameters = decode(description["parameters"], reader)
            check_parameters(parameters)
            return {name: data[name] for name in data if data[name] is not _Missing}, parameters
        except RecursionError as e:
            raise ValueError(f"its entry '{DESCRIPTION}' is nested too deeply") from e


def is_ours(path: str | pathlib.Path) -> bool:
    """Return whether a file is a model that this package saved, and not for torch; False for what is no zip file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return DESCRIPTION in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def check_attributes(data: Mapping[str, Any], owner: type) -> None:
    """
    Check the attributes that make a model.

    :param data: a model's attributes
    :param owner: the model's class
    :raises ValueError: if one would take the place of a method, or one that every model has is missing
    """
    for name in data:
        if not name.isidentifier() or callable(getattr(owner, name, None)):
            raise ValueError(f"its attribute '{name:.100}' is not an attribute of a model")
    kinds = {"observation_space": spaces.Space, "action_space": spaces.Space, "policy_kwargs": dict, "policy_class": type}
    for name, kind in {**kinds, "verbose": int, "use_sde": bool}.items():
        if not isinstance(data.get(name), kind):
            raise ValueError(f"its attribute '{name}' is {data.get(name)!r:.100}")


def check_parameters(parameters: Any) -> None:
    """
    Check the state dicts of a policy and of its optimizer.

    :param parameters: state dicts by name, of the policy and of its optimizer
    :raises DecodingError: if they are none
    """
    policy, optimizer = parameters["policy"], parameters["policy.optimizer"]
    if not all(isinstance(tensor, th.Tensor) for tensor in policy.values()):
        raise DecodingError("the parameters are not tensors")
    groups, moments = optimizer["param_groups"], optimizer["state"]
    if not all(isinstance(group["params"], list) for group in groups) or not all(map(dict.items, moments.values())):
        raise DecodingError("the optimizer's state is not valid")


def count(state_dict: Mapping[str, Any]) -> int:
    """Return how many numbers the tensors of a state dict hold."""
    return sum(int(tensor.numel()) for tensor in state_dict.values())


def print_system_info(path: Path) -> None:
    """Print the current system's description, and that of the system on which a file was saved."""
    print("== CURRENT SYSTEM INFO ==")
    get_system_info()
    with one_error(path), open_archive(path) as archive:
        print("== SAVED MODEL SYSTEM INFO ==")
        print(archive.read("system_info.txt").decode())


class _Missing:
    """Stands for an attribute that is made when the model is built."""


def _value(name: str, value: Any, reader: ArrayReader, replaced: Mapping[str, Any]) -> Any:
    if name in replaced:
        return replaced[name]
    if isinstance(value, dict) and UNSUPPORTED in value:
        if name in DERIVED:
            return _Missing
        raise RefusedError(
            f"The saved attribute '{name}' has no plain form ({value[UNSUPPORTED]}): it could only be unpickled, which can "
            f"run any code. Pass custom_objects={{'{name}': ...}} in its place, or load without safe=True if you trust "
            "the file's author."
        )
    return decode(value, reader)


def begin(path: Path) -> io.BytesIO:
    """
    Return the empty content of a file.

    :param path: path, or an open file, which is looked at before anything is made
    :raises TypeError: if it is neither
    :raises ValueError: if it is an open file that cannot be written to
    """
    if not isinstance(path, (str, pathlib.Path)):
        open_path(path, "w")
    return io.BytesIO()


def write(path: Path, content: io.BytesIO) -> None:
    """
    Write a file in SB3's way: with the suffix ".zip", making folders, never over a folder.

    A path has the new content or, if the process ends at any moment before, the old one.

    :param path: path, or an open file, which is written to directly
    :param content: the whole file
    """
    if not isinstance(path, (str, pathlib.Path)):
        path.write(content.getbuffer())
        return
    target = _target(pathlib.Path(path))
    if target.exists() and not target.is_file():
        target.write_bytes(content.getbuffer())  # a device or a pipe
        return
    with replace_file(target) as file:
        file.write(content.getbuffer())


def _target(path: pathlib.Path) -> pathlib.Path:
    if path.suffix == "":
        path = path.with_name(f"{path.name}.zip")
    if path.is_dir():
        warnings.warn(f"Path '{path}' is a folder. Will save instead to {path}_2", stacklevel=4)
        path = pathlib.Path(f"{path}_2")
    if not path.parent.exists():
        warnings.warn(f"Path '{path.parent}' does not exist. Will create it.", stacklevel=4)
        path.parent.mkdir(exist_ok=True, parents=True)
    return pathlib.Path(os.path.realpath(path))  # a link stays one
