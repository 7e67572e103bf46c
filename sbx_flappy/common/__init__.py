"""The half of the package that speaks Stable-Baselines3: policies, buffers, callbacks and the on-policy algorithm."""
