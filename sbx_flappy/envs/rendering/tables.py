"""
The pieces of which the renderer puts together its 84x84 gray frames, drawn once and kept in the user's cache folder.

A frame is cut into *cells*, 4 columns of 21 pixels (72 pixels of the game each), and each cell into rows of 21 bytes. No
cell ever shows two pipes, so what a cell shows above the ground depends on one pipe's place and gap. All rows lie in one
table, :attr:`Tables.rows`; a frame is a list of row numbers.

Each piece exists twice: as it is, and *pooled*: the maximum of it and of the piece one frame later.

The bird comes from :mod:`.bird_tables`. Where its outline runs through a pixel that a pipe touches too, the renderer draws
that pixel again from :attr:`Tables.colors`.
"""

from typing import NamedTuple

import numpy as np

from sbx_flappy.envs import constants as c
from sbx_flappy.envs.rendering.area_resize import ROW_TAPS, shrink_columns, shrink_rows, to_gray
from sbx_flappy.envs.rendering.bird_tables import BIRD_SIZE, N_PHASES, draw_birds
from sbx_flappy.envs.rendering.sprites import Sprite, Sprites, draw_pipe, paste
from sbx_flappy.envs.rules import lattice_tenths

N_CELLS = 4
CELL_WIDTH = 21  # pixels of the small frame
CELL_SOURCE = 72  # pixels of the game
GROUND_FIRST = 66  # the row that shows pipes and ground; those below it show the ground alone
CELL_ROWS = GROUND_FIRST + N_PHASES  # the row with pipes and ground, once per phase, comes last
N_GROUND_ROWS = c.FRAME_SIZE - GROUND_FIRST - 1

# Sections of Tables.colors
LOWEST_GAP_TOP = c.GAP_TOP_MIN + c.GAP_TOP_STEP * (c.N_GAPS - 1)
PIPE_LINES = c.GROUND_ROW + LOWEST_GAP_TOP - c.GAP_TOP_MIN  # the gap begins in line LOWEST_GAP_TOP
BACKGROUND_COLORS = 0
GROUND_COLORS = BACKGROUND_COLORS + c.GROUND_ROW * c.SCREEN_WIDTH
PIPE_COLORS = GROUND_COLORS + (c.SCREEN_HEIGHT - c.GROUND_ROW) * c.GROUND_WIDTH
BIRD_COLORS = PIPE_COLORS + PIPE_LINES * c.PIPE_WIDTH


class Tables(NamedTuple):
    """
    What the renderer reads.

    :param rows: all rows of all cells, first those that are not pooled, uint8 ``[n_rows, 21]``
    :param touched: 1 where a row that is not pooled differs from that of the frame without pipes, int8 ``[n, 21]``
    :param cell_start: first row of the cells without pipes, as they are and pooled, int64 ``[2, 4]``
    :param pipe_offset: what a pipe adds to these, by its place (``lattice_index``) and gap; pooled: by its place before the
        frame, int64 ``[2, 317, 8, 4]``
    :param ground_rows: rows 67 to 83, by the ground's phase (pooled: after the frame), int64 ``[2, 6, 17, 4]``
    :param bird: rows of patches, by rotation, wing, height (``height_index``) and row, int8 ``[38 * 3 * 524 * 12, 26]``:
        13 gray values (uint8; 0 where the bird leaves a pixel uncovered), then for these pixels 0, 1 or -2: covered,
        in part, uncovered
    :param colors: what the game is drawn with, red, green, blue, uint8 ``[n, 3]``: background ``[404, 288]``, ground
        ``[108, 336]``, pipes around their gap ``[474, 52]``, birds ``[38 * 3, 41, 41]``
    :param covers: whether these hide what is behind, bool ``[n]``
    """

    rows: np.ndarray
    touched: np.ndarray
    cell_start: np.ndarray
    pipe_offset: np.ndarray
    ground_rows: np.ndarray
    bird: np.ndarray
    colors: np.ndarray
    covers: np.ndarray


def build_tables(sprites: Sprites, pipe_gap: int) -> Tables:
    """
    Return the tables of a choice of colours and gap; takes about 3 seconds.

    :param sprites: see :func:`~sbx_flappy.envs.rendering.sprites.load_sprites`
    :param pipe_gap: height of the gaps, pixels
    """
    plain, pipes = _draw_cells(sprites, pipe_gap)
    builder = _RowTable()
    single = _add_single_cells(builder, plain, pipes)
    ground = _ground_sums(sprites)
    single_ground = _ground_numbers(builder.add(to_gray(ground), np.zeros(ground.shape[:-1], dtype=bool)))
    pooled = _add_pooled_cells(builder, plain, pipes)
    gray = to_gray(ground)
    pooled_ground = _ground_numbers(builder.add(np.maximum(np.roll(gray, 1, axis=0), gray)))
    rows, touched = builder.finish()
    cell_start, pipe_offset = (np.stack(pair) for pair in zip(single, pooled, strict=True))
    ground_rows = np.stack([single_ground, pooled_ground])
    return Tables(rows, touched, cell_start, pipe_offset, ground_rows, draw_birds(sprites), *_list_colors(sprites, pipe_gap))


class Cell(NamedTuple):
    """
    What a cell shows down to the row with pipes and ground.

    :param gray: uint8 ``[..., 72, 21]``
    :param touched: whether it differs from the cell without pipes, bool ``[..., 72, 21]``
    """

    gray: np.ndarray
    touched: np.ndarray


class _RowTable:
    """Rows of 21 bytes that grow block by block."""

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._touched: list[np.ndarray] = []
        self._size = 0

    def add(self, gray: np.ndarray, touched: np.ndarray | None = None) -> int:
        """
        Append rows and return the number of the first.

        :param gray: uint8 ``[..., 21]``
        :param touched: bool ``[..., 21]``; ``None`` for pooled rows, which come last
        """
        rows = np.ascontiguousarray(gray).reshape(-1, CELL_WIDTH)
        self._rows.append(rows)
        if touched is not None:
            self._touched.append(np.ascontiguousarray(touched).reshape(-1, CELL_WIDTH))
        self._size += len(rows)
        return self._size - len(rows)

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """Return ``rows`` and ``touched`` of :class:`Tables`."""
        return np.concatenate(self._rows), np.concatenate(self._touched).astype(np.int8)


def _shrunk_ground(sprites: Sprites) -> np.ndarray:
    """Return the ground of each phase, columns shrunk, float32 ``[6, 108, 84, 3]``."""
    strips = []
    for phase in range(N_PHASES):
        strip = np.zeros((c.SCREEN_HEIGHT - c.GROUND_ROW, c.SCREEN_WIDTH, 3), dtype=np.uint8)
        paste(strip, sprites.ground, -4 * phase, 0)
        strips.append(strip)
    return shrink_columns(np.stack(strips), 0, c.FRAME_SIZE)


def _cell_sums(above: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """
    Return the colours of cells down to the row with pipes and ground, float32 ``[..., 72, 21, 3]``.

    :param above: what is above the ground, columns shrunk, float32 ``[..., 404, 21, 3]``
    :param ground: the ground of each phase there, float32 ``[6, 108, 21, 3]``
    """
    index, weight = ROW_TAPS
    upper = shrink_rows(above, index[:, :GROUND_FIRST], weight[:, :GROUND_FIRST])
    last = slice(GROUND_FIRST, GROUND_FIRST + 1)
    mixed = []
    for phase in range(N_PHASES):
        below = np.broadcast_to(ground[phase], (*above.shape[:-3], *ground.shape[1:]))
        start = c.GROUND_ROW - 8
        both = np.concatenate([above[..., start:, :, :], below[..., :8, :, :]], axis=-3)
        mixed.append(shrink_rows(both, np.maximum(index[:, last] - start, 0), weight[:, last]))
    return np.concatenate([upper, *mixed], axis=-3)


def _to_cell(sums: np.ndarray, plain: np.ndarray) -> Cell:
    """
    Return a cell from its colours.

    :param sums: float32 ``[..., 72, 21, 3]``
    :param plain: those of the cell without pipes, float32 ``[72, 21, 3]``
    """
    return Cell(to_gray(sums), (sums != plain).any(axis=-1))


def _draw_cells(sprites: Sprites, pipe_gap: int) -> tuple[list[Cell], list[dict[int, Cell]]]:
    """Return for each cell what it shows without a pipe, ``[72, 21]``, and by place what with one, ``[8, 72, 21]``."""
    ground = _shrunk_ground(sprites)
    plain, pipes = [], []
    for cell in range(N_CELLS):
        left, columns = cell * CELL_SOURCE, slice(cell * CELL_WIDTH, (cell + 1) * CELL_WIDTH)
        background = sprites.background[: c.GROUND_ROW, left : left + CELL_SOURCE]
        empty = _cell_sums(shrink_columns(background, columns.start, columns.stop, left), ground[:, :, columns])
        places = {}
        for place, x in enumerate(int(tenths / c.TENTHS) - left for tenths in lattice_tenths()):
            if -c.PIPE_WIDTH < x < CELL_SOURCE:
                strips = _pipe_strips(sprites, background, x, pipe_gap)
                shrunk = shrink_columns(strips, columns.start, columns.stop, left)
                places[place] = _to_cell(_cell_sums(shrunk, ground[:, :, columns]), empty)
        plain.append(_to_cell(empty, empty))
        pipes.append(places)
    return plain, pipes


def _pipe_strips(sprites: Sprites, background: np.ndarray, x: int, pipe_gap: int) -> np.ndarray:
    """
    Return a cell with a pipe of each gap at full size, uint8 ``[8, 404, 72, 3]``.

    :param background: uint8 ``[404, 72, 3]``
    :param x: left end of the pipe, from the cell's
    """
    strips = np.repeat(background[None], c.N_GAPS, axis=0)
    for gap, strip in enumerate(strips):
        draw_pipe(strip, sprites, x, c.GAP_TOP_MIN + c.GAP_TOP_STEP * gap, pipe_gap)
    return strips


def _pool(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """
    Return the maximum of two frames' cells, uint8 ``[..., 72, 21]``; in the last rows the phase is that after the frame.

    :param before: uint8 ``[..., 72, 21]``
    :param after: uint8 ``[..., 72, 21]``
    """
    upper = np.maximum(before[..., :GROUND_FIRST, :], after[..., :GROUND_FIRST, :])
    earlier = np.roll(before[..., GROUND_FIRST:, :], 1, axis=-2)
    return np.concatenate([upper, np.maximum(earlier, after[..., GROUND_FIRST:, :])], axis=-2)


def _empty_cell_index() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return zeros for ``cell_start`` and ``pipe_offset`` of one kind, and where the gaps of a place begin, ``[8]``."""
    offset = np.zeros((len(lattice_tenths()), c.N_GAPS, N_CELLS), dtype=np.int64)
    return np.zeros(N_CELLS, dtype=np.int64), offset, CELL_ROWS * np.arange(c.N_GAPS)


def _add_single_cells(builder: _RowTable, plain: list[Cell], pipes: list[dict[int, Cell]]) -> tuple[np.ndarray, np.ndarray]:
    """Fill the table with the cells as they are; return their ``cell_start`` and ``pipe_offset``."""
    start, offset, gaps = _empty_cell_index()
    for cell in range(N_CELLS):
        start[cell] = builder.add(*plain[cell])
        for place, block in pipes[cell].items():
            offset[place, :, cell] = builder.add(*block) - start[cell] + gaps
    return start, offset


def _add_pooled_cells(builder: _RowTable, plain: list[Cell], pipes: list[dict[int, Cell]]) -> tuple[np.ndarray, np.ndarray]:
    """Fill the table with the pooled cells; return their ``cell_start`` and ``pipe_offset``."""
    start, offset, gaps = _empty_cell_index()
    for cell in range(N_CELLS):
        start[cell] = builder.add(_pool(plain[cell].gray, plain[cell].gray))
        for place in range(2, len(offset)):  # a frame takes a pipe from one place to the last but one before it
            if place in pipes[cell] or place - 2 in pipes[cell]:
                before, after = (pipes[cell].get(p, plain[cell]).gray for p in (place, place - 2))
                block = np.broadcast_to(_pool(before, after), (c.N_GAPS, CELL_ROWS, CELL_WIDTH))
                offset[place, :, cell] = builder.add(block) - start[cell] + gaps
    return start, offset


def _ground_sums(sprites: Sprites) -> np.ndarray:
    """Return the rows that show the ground alone, float32 ``[6, 17, 84, 3]``."""
    index, weight = (taps[:, GROUND_FIRST + 1 :] for taps in ROW_TAPS)
    return shrink_rows(_shrunk_ground(sprites), np.maximum(index - c.GROUND_ROW, 0), weight)


def _ground_numbers(first: int) -> np.ndarray:
    """
    Return the numbers of these rows, int64 ``[6, 17, 4]``.

    :param first: of them
    """
    return first + np.arange(N_PHASES * N_GROUND_ROWS * N_CELLS).reshape(N_PHASES, N_GROUND_ROWS, N_CELLS)


def _list_colors(sprites: Sprites, pipe_gap: int) -> Sprite:
    """Return ``colors`` and ``covers`` of :class:`Tables`."""
    background = Sprite(sprites.background[: c.GROUND_ROW], np.ones((c.GROUND_ROW, c.SCREEN_WIDTH), dtype=bool))
    ground = Sprite(*(part[: c.SCREEN_HEIGHT - c.GROUND_ROW] for part in sprites.ground))
    # Both pipes once in some color and once in another: what they have in common is theirs.
    views = [np.full((PIPE_LINES, c.PIPE_WIDTH, 3), value, dtype=np.uint8) for value in (0, 255)]
    for view in views:
        draw_pipe(view, sprites, 0, LOWEST_GAP_TOP, pipe_gap)
    pipe = Sprite(views[0], (views[0] == views[1]).all(axis=-1))
    birds = []
    for sprite in (wing for rotation in sprites.birds for wing in rotation):
        padding = tuple((0, BIRD_SIZE - length) for length in sprite.mask.shape)
        birds.append(Sprite(np.pad(sprite.pixels, (*padding, (0, 0))), np.pad(sprite.mask, padding)))
    parts = (background, ground, pipe, *birds)
    return Sprite(np.concatenate([s.pixels.reshape(-1, 3) for s in parts]), np.concatenate([s.mask.ravel() for s in parts]))
