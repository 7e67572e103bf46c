"""``trpo.yml`` as a Python module, for ``-conf sbx_flappy.hyperparams.trpo``: after an install no file path is needed."""

from sbx_flappy.hyperparams import load

hyperparams = load("trpo")
