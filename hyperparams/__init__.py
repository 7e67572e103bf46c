"""The settings that RL-Zoo trains with; installed as ``sbx_flappy.hyperparams``."""

from importlib.resources import files
from typing import Any

import yaml


def load(name: str) -> dict[str, dict[str, Any]]:
    """
    Return the settings of a YAML file of this folder, by environment.

    By resource, not by ``__file__``: RL-Zoo runs a path that ends in .py through exec(), which sets no ``__file__``.

    :param name: the file's, without its ending
    """
    return yaml.safe_load(files("sbx_flappy.hyperparams").joinpath(f"{name}.yml").read_text())
