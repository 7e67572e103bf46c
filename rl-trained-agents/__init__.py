"""Trained agents in RL-Zoo's layout; installed as ``sbx_flappy.rl_trained_agents``."""
