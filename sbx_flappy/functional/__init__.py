"""The pure core: arrays in, arrays out. Nothing here knows Stable-Baselines3, Gymnasium or torch."""
