"""
The bird as the renderer lays it upon a frame: patches of 12 x 13 gray pixels, one per rotation, wing and height.

A patch shows the bird upon the frame without pipes, and tells for each pixel how much of it the bird covers.
"""

import numpy as np

from sbx_flappy.envs import constants as c
from sbx_flappy.envs.rendering.area_resize import COLUMN_TAPS, ROW_TAPS, shrink_columns, to_gray
from sbx_flappy.envs.rendering.sprites import Sprite, Sprites, paste

N_PHASES = 6  # the ground's pattern repeats after 24 pixels
PATCH_ROWS, PATCH_LEFT, PATCH_WIDTH = 12, 16, 13
PATCH_SOURCE, PATCH_SOURCE_END = 54, 100  # columns of the game that it shows
PATCH_MARGIN = 2  # rows above the bird: as many as it can fall or rise in a frame
BIRD_MIN_Y, BIRD_MAX_Y = -42, c.PLAYER_GROUNDED_Y  # above, nothing of it is on the screen
BIRD_SIZE = 41  # no rotated bird is wider or higher
LOW_BIRD_Y = 403 - BIRD_SIZE  # from here on it may reach line 402, whose pixels show the ground's pattern (line 408) too
N_HEIGHTS = LOW_BIRD_Y - BIRD_MIN_Y + (BIRD_MAX_Y + 1 - LOW_BIRD_Y) * N_PHASES
# How much of a pixel the bird covers: the sign says nothing, so that shifted right it becomes a mask of the pixels to keep;
# and the lowest bit says in part.
COVERED, COVERED_IN_PART, UNCOVERED = 0, 1, -2


def _bare_frame(sprites: Sprites, phase: int) -> np.ndarray:
    """
    Return a frame of background and ground, uint8 ``[512, 288, 3]``.

    :param phase: of the ground
    """
    frame = sprites.background.copy()
    paste(frame, sprites.ground, -4 * phase, c.GROUND_ROW)
    return frame


def _patch_columns(image: np.ndarray) -> np.ndarray:
    """
    Return the columns of the patch, shrunk, float32 ``[..., 13, 3]``.

    :param image: from the patch's first column on, uint8 ``[..., 46, 3]``
    """
    return shrink_columns(image, PATCH_LEFT, PATCH_LEFT + PATCH_WIDTH, PATCH_SOURCE)


def patch_row(player_y: np.ndarray) -> np.ndarray:
    """
    Return the row of the small frame in which the bird begins, 0 to 62; its patch begins two rows above.

    :param player_y: pixels, int ``[...]``
    """
    return np.maximum(player_y, 0) * 21 // 128  # 84 / 512


def height_index(player_y: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """
    Return which of the 524 patches of a rotation and wing belongs to a height, int ``[...]``.

    :param player_y: pixels, -42 to 381, int ``[...]``
    :param phase: of the ground, which matters only to a low bird ``[...]``
    """
    low = LOW_BIRD_Y - BIRD_MIN_Y + (player_y - LOW_BIRD_Y) * N_PHASES + phase
    return np.where(player_y < LOW_BIRD_Y, player_y - BIRD_MIN_Y, low)


def _patch_taps(player_y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """
    Return which rows of the game make up the rows of patches, and their weights: ``[8, n, 12]``, 0 outside the frame.

    :param player_y: pixels, int ``[n]``
    """
    row = patch_row(player_y)[:, None] - PATCH_MARGIN + np.arange(PATCH_ROWS)
    inside = (row >= 0) & (row < c.FRAME_SIZE)
    row = np.where(inside, row, 0)
    return ROW_TAPS[0][:, row], ROW_TAPS[1][:, row] * inside


def draw_birds(sprites: Sprites) -> np.ndarray:
    """Return ``bird`` of :class:`Tables`."""
    low, phase = np.meshgrid(np.arange(LOW_BIRD_Y, BIRD_MAX_Y + 1), np.arange(N_PHASES), indexing="ij")
    high = np.arange(BIRD_MIN_Y, LOW_BIRD_Y)
    heights = np.minimum(np.concatenate([high, low.ravel()]), int(c.PLAYER_GROUND_Y))
    phases = np.concatenate([np.zeros_like(high), phase.ravel()])
    taps = _patch_taps(heights)
    bare = np.stack([_bare_frame(sprites, phase) for phase in range(N_PHASES)])[:, :, PATCH_SOURCE:PATCH_SOURCE_END]
    flat = bare.reshape(N_PHASES * c.SCREEN_HEIGHT, -1)
    kinds, kind_of_row = np.unique(flat, axis=0, return_inverse=True)
    canvas = kinds.reshape(len(kinds), -1, 3)
    behind = _patch_columns(bare).reshape(N_PHASES * c.SCREEN_HEIGHT, -1)
    patches = []
    for sprite in (wing for rotation in sprites.birds for wing in rotation):
        cover = _covers(sprite, heights, taps)
        lines = _bird_lines(sprite, canvas)
        gray = _bird_patches(lines, kind_of_row, behind, heights, phases, taps)
        patches.append(np.concatenate([np.where(cover == UNCOVERED, 0, gray).view(np.int8), cover], axis=-1))
    return np.concatenate(patches).reshape(-1, 2 * PATCH_WIDTH)


def _bird_lines(sprite: Sprite, canvas: np.ndarray) -> np.ndarray:
    """
    Return each line of the bird upon each kind of background, columns shrunk, float32 ``[height, kinds, 13, 3]``.

    :param canvas: the kinds of lines of the background, uint8 ``[kinds, 46, 3]``
    """
    height, width = sprite.mask.shape
    lines = np.repeat(canvas[None], height, axis=0)
    left = c.PLAYER_X - PATCH_SOURCE
    inside = lines[:, :, left : left + width]
    np.copyto(inside, sprite.pixels[:, None], where=sprite.mask[:, None, :, None])
    return _patch_columns(lines)


def _bird_patches(
    lines: np.ndarray,
    kind_of_row: np.ndarray,
    behind: np.ndarray,
    player_y: np.ndarray,
    phase: np.ndarray,
    taps: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:
    """
    Return the bird at each height upon the bare frame, uint8 ``[n, 12, 13]``.

    :param lines: see :func:`_bird_lines`
    :param kind_of_row: which kind of line each row of the bare frames is, int ``[6 * 512]``
    :param behind: the bare frames of all phases, columns shrunk, float32 ``[6 * 512, 13 * 3]``
    :param player_y: heights, int ``[n]``
    :param phase: of the ground, int ``[n]``
    :param taps: see :func:`_patch_taps`
    """
    height, n_kinds = lines.shape[:2]
    source = np.concatenate([lines.reshape(height * n_kinds, -1), behind])
    index, weight = taps
    line = index - player_y[:, None]
    row = index + phase[:, None] * c.SCREEN_HEIGHT
    number = np.where((line >= 0) & (line < height), line * n_kinds + kind_of_row[row], height * n_kinds + row)
    sums = np.zeros((*index.shape[1:], source.shape[1]), dtype=np.float32)
    for tap in range(len(index)):
        sums += source.take(number[tap], axis=0) * weight[tap][..., None]
    return to_gray(sums.reshape(*sums.shape[:-1], PATCH_WIDTH, 3))


def _covers(sprite: Sprite, player_y: np.ndarray, taps: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """
    Return how much of each pixel the bird covers: COVERED, COVERED_IN_PART or UNCOVERED, int8 ``[n, 12, 13]``.

    :param player_y: heights, int ``[n]``
    :param taps: see :func:`_patch_taps`
    """
    index, weight = taps
    height, width = sprite.mask.shape
    line = index - player_y[:, None]
    line = np.where((line >= 0) & (line < height) & (weight > 0), line, height)  # the last line is the one without bird
    column, column_weight = (part[:, PATCH_LEFT : PATCH_LEFT + PATCH_WIDTH] for part in COLUMN_TAPS)
    mask = np.zeros((height + 1, c.SCREEN_WIDTH), dtype=bool)
    mask[:height, c.PLAYER_X : c.PLAYER_X + width] = sprite.mask
    used = column_weight > 0
    some = np.any(mask[:, column] & used, axis=1)
    every = np.all(mask[:, column] | ~used, axis=1)
    any_covered = np.any(some[line], axis=0)
    all_covered = np.all(every[line] | (weight <= 0)[..., None], axis=0)
    cover = np.where(all_covered, COVERED, COVERED_IN_PART)
    return np.where(any_covered, cover, UNCOVERED).astype(np.int8)
