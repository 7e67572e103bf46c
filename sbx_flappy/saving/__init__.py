"""Saved models: their files, what is in them, and what lets a training go on where it was saved."""
