"""
Single pixels of the small frame, put together from the colours of the game's own pixels.

Exact and slow; the renderer asks for the few pixels that its tables do not hold.
"""

from typing import NamedTuple

import numpy as np

from sbx_flappy.envs import constants as c
from sbx_flappy.envs.rendering.area_resize import COLUMN_TAPS, ROW_TAPS, to_gray
from sbx_flappy.envs.rendering.bird_tables import BIRD_SIZE
from sbx_flappy.envs.rendering.tables import BIRD_COLORS, GROUND_COLORS, LOWEST_GAP_TOP, PIPE_COLORS, Tables
from sbx_flappy.envs.rules import lattice_tenths

# Where a pipe is drawn, by its place: upstream drops the fraction of x. int64 [317]
_DRAWN_X = np.trunc(lattice_tenths() / c.TENTHS).astype(np.int64)
# The taps of the small frame's columns and rows; an unused tap repeats the first and has the weight 0.
_COLUMNS, _COLUMN_WEIGHTS = np.where(COLUMN_TAPS[1] > 0, COLUMN_TAPS[0], COLUMN_TAPS[0][:1]), COLUMN_TAPS[1]
_ROWS, _ROW_WEIGHTS = np.where(ROW_TAPS[1] > 0, ROW_TAPS[0], ROW_TAPS[0][:1]), ROW_TAPS[1]


class Scene(NamedTuple):
    """
    What the frame of each of K pixels shows. Integers ``[K]``.

    :param player_y: pixels; 381 stands for 380
    :param bird: rotation and wing, 0 to 113
    :param first_pipe: place (``lattice_index``) times 8 plus gap of the leftmost pipe
    :param second_pipe: of the second
    :param ground_x: pixels
    """

    player_y: np.ndarray
    bird: np.ndarray
    first_pipe: np.ndarray
    second_pipe: np.ndarray
    ground_x: np.ndarray


def repaint(tables: Tables, scene: Scene, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """
    Return the gray values of pixels, uint8 ``[K]``.

    :param tables: of which ``colors`` and ``covers`` are used
    :param scene: in the frame of each pixel
    :param row: of the pixels, 0 to 83, int ``[K]``
    :param column: of the pixels, 0 to 83, int ``[K]``
    """
    y, x = _ROWS.take(row, axis=1)[:, None], _COLUMNS.take(column, axis=1)
    number = np.minimum(y, c.GROUND_ROW - 1) * c.SCREEN_WIDTH + x  # of the background's color
    for part, inside in (_pipe(scene, y, x), _ground(scene, y, x), _bird(scene, y, x)):
        part *= inside
        np.copyto(number, part, where=inside & tables.covers.take(part))
    color = tables.colors.take(number, axis=0).astype(np.float32)
    # Both sums add one tap after the other in float32, as OpenCV does.
    color *= _COLUMN_WEIGHTS.take(column, axis=1)[..., None]
    lines = np.add.accumulate(color, axis=1)[:, -1]
    lines *= _ROW_WEIGHTS.take(row, axis=1)[..., None]
    return to_gray(np.add.accumulate(lines, axis=0)[-1])


def _pipe(scene: Scene, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Return the numbers of a pipe's colours and where it may be, int and bool ``[8, 5, K]``.

    The pipes are too far apart for a pixel to show both.

    :param y: rows of the game, int ``[8, 1, K]``
    :param x: columns of the game, int ``[5, K]``
    """
    second = x.max(axis=0) >= _DRAWN_X.take(scene.second_pipe >> 3)
    pipe = np.where(second, scene.second_pipe, scene.first_pipe)
    left = _DRAWN_X.take(pipe >> 3)
    inside = (x >= left) & (x < left + c.PIPE_WIDTH) & (y < c.GROUND_ROW)
    line = y + (LOWEST_GAP_TOP - c.GAP_TOP_MIN - c.GAP_TOP_STEP * (pipe & 7))
    return line * c.PIPE_WIDTH + (x + (PIPE_COLORS - left)), inside


def _ground(scene: Scene, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same of the ground; bool ``[8, 1, K]``."""
    return (y - c.GROUND_ROW) * c.GROUND_WIDTH + (x - scene.ground_x + GROUND_COLORS), y >= c.GROUND_ROW


def _bird(scene: Scene, y: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the same of the bird; bool ``[8, 5, K]``."""
    line = y - np.minimum(scene.player_y, int(c.PLAYER_GROUND_Y))
    column = x - c.PLAYER_X
    inside = (line >= 0) & (line < BIRD_SIZE) & ((column >= 0) & (column < BIRD_SIZE))
    return (scene.bird * BIRD_SIZE + line) * BIRD_SIZE + (column + BIRD_COLORS), inside
