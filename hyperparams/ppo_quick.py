"""``ppo_quick.yml`` as a Python module, for ``-conf sbx_flappy.hyperparams.ppo_quick``."""

from sbx_flappy.hyperparams import load

hyperparams = load("ppo_quick")
