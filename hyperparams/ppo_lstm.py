"""``ppo_lstm.yml`` as a Python module, for ``-conf sbx_flappy.hyperparams.ppo_lstm``: no file path is needed."""

from sbx_flappy.hyperparams import load

hyperparams = load("ppo_lstm")
