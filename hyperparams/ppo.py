"""``ppo.yml`` as a Python module, for ``-conf sbx_flappy.hyperparams.ppo``: after an install no file path is needed."""

from importlib.resources import files
from typing import Any

import yaml

# By resource, not by __file__: RL-Zoo runs a path that ends in .py through exec(), which sets no __file__.
hyperparams: dict[str, dict[str, Any]] = yaml.safe_load(files("sbx_flappy.hyperparams").joinpath("ppo.yml").read_text())
