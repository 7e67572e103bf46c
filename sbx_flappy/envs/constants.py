"""
The numbers of the game and of the tasks made of it.

Lengths are in pixels, times in frames of the game (upstream plays 30 a second). Those of the game are upstream's:
``flappy_bird_gymnasium/envs/constants.py`` and ``flappy_bird_env.py``.
"""

from typing import Any

NO_FLAP, FLAP = 0, 1

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

# What follows is read by the native rules and renderer. Speeds are in pixels per frame, angles in degrees.

PLAYER_X = 57  # int(288 * 0.2)
PLAYER_WIDTH = 34
PLAYER_HEIGHT = 24
PLAYER_START_Y = 244  # int((512 - 24) / 2)
PLAYER_START_VEL_Y = -9
PLAYER_FLAP_VEL_Y = -9
PLAYER_MAX_VEL_Y = 10
PLAYER_ACC_Y = 1
PLAYER_FLAP_MIN_Y = -48  # at this height and above, upstream ignores a flap

PLAYER_START_ROT = 45
PLAYER_FLAP_ROT = 45
PLAYER_VEL_ROT = 3
PLAYER_MIN_ROT = -90
PLAYER_VISIBLE_ROT = 20  # the sprite is never turned further up than this

GROUND_TOP = 404.48  # 512 * 0.79
GROUND_ROW = 404  # the ground is drawn from this row on, over the whole width
# The bird's y is a whole number on every frame but one: the ground stops it at 404.48 - 24 = 380.48, where it is dead.
# Our y stays an integer throughout, and PLAYER_GROUNDED_Y, the next integer, stands for that height.
PLAYER_GROUND_Y = GROUND_TOP - PLAYER_HEIGHT
PLAYER_GROUNDED_Y = 381
PLAYER_CRASH_Y = 380  # y + 24 >= 404.48 - 1

GROUND_VEL_X = 100  # per frame, modulo GROUND_PERIOD
GROUND_WIDTH = 336
GROUND_PERIOD = 48  # width of the ground's sprite less the screen's

# Pipes start on whole pixels and re-enter at 288 + 52 + 57.6 = 397.6, so their x is counted in tenths of a pixel: integers
# that NumPy and JAX hold exactly (upstream's doubles are 397.6 - 4k, each subtraction exact).
TENTHS = 10
N_PIPES = 3
PIPE_WIDTH = 52
PIPE_HEIGHT = 320
PIPE_STEP_TENTHS = 40
PIPE_START_TENTHS = (2880, 4320, 5760)
PIPE_ENTRY_TENTHS = 3976

N_GAPS = 8  # the generator draws one of 8 gaps
GAP_TOP_MIN = 100  # 20 + int(404.48 * 0.2)
GAP_TOP_STEP = 10
DEFAULT_PIPE_GAP = 100

N_WINGS = 3
WING_PERIOD = 3  # frames between two images of the wing, which are played in the order 0, 1, 2, 1
LOOP_PERIOD = 30

REWARD_ALIVE = 0.1
REWARD_PIPE = 1.0
REWARD_ABOVE_SCREEN = -0.5
REWARD_DEATH = -1.0
