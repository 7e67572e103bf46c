"""What all tests share."""

import os

# No test needs a screen: plots are drawn into memory.
os.environ.setdefault("MPLBACKEND", "Agg")
