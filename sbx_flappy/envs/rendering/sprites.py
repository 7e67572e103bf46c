"""
Upstream's sprites as arrays, and full-size frames drawn with them for people.

The sprites are those of the installed flappy-bird-gymnasium, read with pygame (``flappy_bird_gymnasium/envs/utils.py``); the
order of drawing is that of ``_draw_surface`` in ``flappy_bird_env.py``. Frames equal upstream's pixel by pixel.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from sbx_flappy.envs import constants as c
from sbx_flappy.envs.options import Colors
from sbx_flappy.envs.rules import Array, GameState, player_height

N_ROTATIONS = 38  # what is on show: 20, 18, 15, ... -90 degrees


class Sprite(NamedTuple):
    """
    An image and where it covers what lies below.

    :param pixels: red, green, blue, uint8 ``[height, width, 3]``
    :param mask: bool ``[height, width]``
    """

    pixels: np.ndarray
    mask: np.ndarray


class Sprites(NamedTuple):
    """
    All images of a choice of colours.

    :param background: uint8 ``[512, 288, 3]``
    :param ground: 112 x 336
    :param pipes: the upper and the lower one, 320 x 52
    :param birds: by rotation and wing, up to 41 x 41 ``[38][3]``
    :param digits: 0 to 9, 36 high
    """

    background: np.ndarray
    ground: Sprite
    pipes: tuple[Sprite, Sprite]
    birds: list[list[Sprite]]
    digits: list[Sprite]


def _to_sprite(surface: Any) -> Sprite:
    """
    Return a pygame surface as arrays: what two blits, onto black and onto white, have in common is the image.

    :param surface: of any depth, whose pixels are opaque or absent
    """
    import pygame

    views = []
    for color in ((0, 0, 0), (255, 255, 255)):
        canvas = pygame.Surface(surface.get_size(), 0, 32)
        canvas.fill(color)
        canvas.blit(surface, (0, 0))
        views.append(pygame.surfarray.array3d(canvas).transpose(1, 0, 2))
    return Sprite(np.ascontiguousarray(views[0]), (views[0] == views[1]).all(axis=-1))


@cache
def load_sprites(colors: Colors) -> Sprites:
    """
    Return upstream's sprites.

    :param colors: which of them
    """
    import pygame
    from flappy_bird_gymnasium.envs.constants import FILL_BACKGROUND_COLOR
    from flappy_bird_gymnasium.envs.utils import load_images

    bird_color, pipe_color, background = colors
    images = load_images(convert=False, bird_color=bird_color, pipe_color=pipe_color, bg_type=background)
    empty = np.full((c.SCREEN_HEIGHT, c.SCREEN_WIDTH, 3), FILL_BACKGROUND_COLOR, dtype=np.uint8)
    rotations = [visible_rotation(index) for index in range(N_ROTATIONS)]
    return Sprites(
        background=empty if background is None else _to_sprite(images["background"]).pixels,
        ground=_to_sprite(images["base"]),
        pipes=(_to_sprite(images["pipe"][0]), _to_sprite(images["pipe"][1])),
        birds=[[_to_sprite(pygame.transform.rotate(wing, rotation)) for wing in images["player"]] for rotation in rotations],
        digits=[_to_sprite(digit) for digit in images["numbers"]],
    )


def rotation_index(rotation: Array) -> Array:
    """
    Return which of the 38 rotations on show belongs to the bird's rotation, int ``[...]``.

    :param rotation: degrees, 45 - 3k ``[...]``
    """
    return np.maximum((21 - rotation) // c.PLAYER_VEL_ROT, 0)


def visible_rotation(index: int) -> int:
    """
    Return the degrees of one of the 38 rotations on show: 20, 18, 15, ... -90.

    :param index: see :func:`rotation_index`
    """
    return c.PLAYER_VISIBLE_ROT if index == 0 else 21 - c.PLAYER_VEL_ROT * index


def paste(canvas: np.ndarray, sprite: Sprite, x: int, y: int) -> None:
    """
    Draw a sprite in place, cut off at the edges.

    :param canvas: uint8 ``[height, width, 3]``
    :param x: pixels from the left edge
    :param y: pixels from the upper edge
    """
    height, width = sprite.mask.shape
    top, bottom = max(y, 0), min(y + height, canvas.shape[0])
    left, right = max(x, 0), min(x + width, canvas.shape[1])
    if top >= bottom or left >= right:
        return
    inside = np.s_[top - y : bottom - y, left - x : right - x]
    np.copyto(canvas[top:bottom, left:right], sprite.pixels[inside], where=sprite.mask[inside][..., None])


def draw_pipe(canvas: np.ndarray, sprites: Sprites, x: int, gap_top: int, pipe_gap: int) -> None:
    """
    Draw an upper and a lower pipe in place.

    :param canvas: uint8 ``[height, width, 3]``
    :param x: left end, pixels
    :param gap_top: end of the upper pipe, pixels
    :param pipe_gap: from there to the lower pipe, pixels
    """
    paste(canvas, sprites.pipes[0], x, gap_top - c.PIPE_HEIGHT)
    paste(canvas, sprites.pipes[1], x, gap_top + pipe_gap)


def draw_frame(state: GameState, sprites: Sprites, pipe_gap: int, show_score: bool = False) -> np.ndarray:
    """
    Return a full-size frame, uint8 ``[512, 288, 3]``: what upstream's "rgb_array" shows, with the score what "human" shows.

    :param state: one game, fields without batch axes (pipes ``[3]``)
    :param sprites: see :func:`load_sprites`
    :param pipe_gap: height of the gaps, pixels
    :param show_score: whether to draw the score, behind the bird
    """
    canvas = sprites.background.copy()
    for x, gap in zip(state.pipe_x, state.pipe_gap_index, strict=True):
        draw_pipe(canvas, sprites, int(x / c.TENTHS), c.GAP_TOP_MIN + c.GAP_TOP_STEP * int(gap), pipe_gap)
    paste(canvas, sprites.ground, int(state.ground_x), c.GROUND_ROW)
    if show_score:
        _draw_score(canvas, sprites, int(state.score))
    bird = sprites.birds[int(rotation_index(state.rotation))][int(state.wing)]
    paste(canvas, bird, c.PLAYER_X, int(player_height(state)))
    return canvas


def _draw_score(canvas: np.ndarray, sprites: Sprites, score: int) -> None:
    """
    Draw the score in place, centred, a tenth below the upper edge; upstream's ``_draw_score``.

    :param canvas: uint8 ``[512, 288, 3]``
    """
    digits = [sprites.digits[int(digit)] for digit in str(score)]
    x = (c.SCREEN_WIDTH - sum(digit.mask.shape[1] for digit in digits)) / 2
    for digit in digits:
        paste(canvas, digit, int(x), int(c.SCREEN_HEIGHT * 0.1))
        x += digit.mask.shape[1]
