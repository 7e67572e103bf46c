"""The settings that RL-Zoo trains with; installed as ``sbx_flappy.hyperparams``."""
