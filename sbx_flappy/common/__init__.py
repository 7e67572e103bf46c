"""The half of the package that speaks Stable-Baselines3: policies, buffers, the on-policy algorithm, interchange."""
