"""
The numbers of the game and of the tasks made of it.

Lengths are in pixels, times in frames of the game (upstream plays 30 a second). Those of the game are upstream's:
``flappy_bird_gymnasium/envs/constants.py`` and ``flappy_bird_env.py``.
"""

from typing import Any

GLIDE, FLAP = 0, 1

SCREEN_WIDTH, SCREEN_HEIGHT = 288, 512
GAME_FPS = 30

#: Side of an observation made of pixels
FRAME_SIZE = 84
#: Weights of red, green and blue in the gray value, as in gymnasium's ``GrayscaleObservation``
GRAY_WEIGHTS = (0.2125, 0.7154, 0.0721)
N_FEATURES = 12

#: A bird of 24 pixels is within reach of a pipe for 21 frames (4 pixels each, 52 + 34 pixels of overlap). No series of flaps
#: keeps it within less than 35 pixels for as long: a smaller gap than 24 + 35 cannot be passed.
MIN_PIPE_GAP = 59
#: The lowest gap starts in row 170: with more than 512 - 170 its lower pipe leaves the screen, and the 12 numbers their space.
MAX_PIPE_GAP = 342

BIRD_COLORS = ("yellow", "blue", "red")
PIPE_COLORS = ("green", "red")
BACKGROUNDS = ("day", "night", None)
OBS_TYPES = ("pixels", "features")

#: An episode of any task ends after this many frames
EPISODE_FRAMES = 40_000
#: The games behind "-v0" (the blog's task) and "-v1" (upstream's own gap)
GAMES: dict[str, dict[str, Any]] = {
    "v0": {"pipe_gap": 150, "flap_cooldown": 4, "frame_skip": 4},
    "v1": {"pipe_gap": 100, "flap_cooldown": 2, "frame_skip": 2},
}
