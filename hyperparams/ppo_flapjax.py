"""``ppo_flapjax.yml`` as a Python module, for ``-conf sbx_flappy.hyperparams.ppo_flapjax``."""

from sbx_flappy.hyperparams import load

hyperparams = load("ppo_flapjax")
