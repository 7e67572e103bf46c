"""
84x84 gray frames straight from the state, without pygame and cv2: upstream's frames, pixel by pixel.

What is shown is upstream's "rgb_array" frame, resized to 84x84 by area and then turned to gray, in that order, or the maximum
of two successive ones. A frame is gathered from the rows of :mod:`.tables` at once, and the bird is laid upon it. The few
pixels in which the bird's outline meets a pipe or another phase of the ground are drawn again (:mod:`.repaint`).

For a few games the time goes into the number of NumPy calls, for many into the bytes they move; the code below saves both.
"""

from typing import Any, NamedTuple

import numpy as np

from sbx_flappy.envs import constants as c
from sbx_flappy.envs.options import Colors
from sbx_flappy.envs.rendering.bird_tables import (
    BIRD_MIN_Y,
    LOW_BIRD_Y,
    N_HEIGHTS,
    N_PHASES,
    PATCH_LEFT,
    PATCH_MARGIN,
    PATCH_ROWS,
    PATCH_WIDTH,
    height_index,
    patch_row,
)
from sbx_flappy.envs.rendering.repaint import Scene, repaint
from sbx_flappy.envs.rendering.sprites import rotation_index
from sbx_flappy.envs.rendering.table_cache import get_tables
from sbx_flappy.envs.rendering.tables import CELL_WIDTH, GROUND_FIRST, N_CELLS
from sbx_flappy.envs.rules import GameState, lattice_index

SIZE = c.FRAME_SIZE
WINDOW_ROWS = PATCH_ROWS - PATCH_MARGIN  # rows that hold the bird of two successive frames
PATCH = slice(PATCH_LEFT, PATCH_LEFT + PATCH_WIDTH)
# Rows of the index that are filled at once: long inner loops are what makes NumPy fast.
BLOCK_ROWS = 22
LOW_BIRD_ROW = LOW_BIRD_Y * 21 // 128 - PATCH_MARGIN  # no bird of two frames is low if the upper one begins above
MIXED, GROUND = GROUND_FIRST * N_CELLS, (GROUND_FIRST + 1) * N_CELLS


class Frames(NamedTuple):
    """
    What the renderer needs to know of F successive frames of N games.

    :param player_y: pixels, not above -42, int32 ``[F, N]``
    :param bird: rotation and wing, 0 to 113, int32 ``[F, N]``
    :param pipe_key: place and gap of each pipe, a row of ``pipe_offset``, int32 ``[F, 3, N]``
    :param ground_x: pixels, int32 ``[F, N]``
    """

    player_y: np.ndarray
    bird: np.ndarray
    pipe_key: np.ndarray
    ground_x: np.ndarray


class Renderer:
    """
    Draws the frames of ``n_envs`` games into arrays of the caller.

    :param n_envs: number of games
    :param colors: of the sprites
    :param pipe_gap: height of the gaps, pixels
    """

    def __init__(self, n_envs: int, colors: Colors, pipe_gap: int) -> None:
        self.n_envs, self.colors, self.pipe_gap = n_envs, colors, pipe_gap
        self.tables = tables = get_tables(colors, pipe_gap)
        self._n_keys = tables.pipe_offset[0, ..., 0].size
        self._pipe_offset = tables.pipe_offset.reshape(-1, N_CELLS)
        # The bird is never beyond the second cell.
        self._near_offset = np.ascontiguousarray(tables.pipe_offset[0, ..., :2].reshape(-1, 2))
        self._ground_rows = tables.ground_rows.reshape(2 * N_PHASES, -1)
        self._games = np.arange(n_envs)
        self._single = np.zeros(n_envs, dtype=np.intp)
        self._index = np.zeros((n_envs, SIZE * N_CELLS), dtype=np.intp)
        self._upper_index = self._index[:, :MIXED].reshape(n_envs, -1, BLOCK_ROWS * N_CELLS)
        self._tile = np.tile(np.arange(N_CELLS), BLOCK_ROWS)
        self._upper_rows = np.repeat(np.arange(GROUND_FIRST), N_CELLS).reshape(-1, BLOCK_ROWS * N_CELLS)
        self._window = np.arange(WINDOW_ROWS)
        self._window_cells = (self._window[:, None] + np.zeros(2, dtype=np.intp)).ravel()
        self._two_cells = np.tile(np.arange(2), WINDOW_ROWS)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options alone: the tables come from the cache again."""
        return Renderer, (self.n_envs, self.colors, self.pipe_gap)

    def draw(self, state: GameState, out: np.ndarray) -> None:
        """
        Draw a frame of each game.

        :param state: fields ``[n_envs]``, pipes ``[3, n_envs]``
        :param out: uint8 ``[n_envs, 84, 84, 1]``, contiguous; overwritten
        """
        self._draw((state,), self._single, out)

    def draw_pooled(self, before: GameState, after: GameState, pooled: np.ndarray, out: np.ndarray) -> None:
        """
        Draw the maximum of two successive frames of each game, or one frame.

        :param before: state before the last frame, fields ``[n_envs]``, pipes ``[3, n_envs]``
        :param after: state after it
        :param pooled: bool ``[n_envs]``; where it is False the two states of a game must be the same
        :param out: uint8 ``[n_envs, 84, 84, 1]``, contiguous; overwritten
        """
        self._draw((before, after), pooled.astype(np.intp), out)

    def _draw(self, states: tuple[GameState, ...], pooled: np.ndarray, out: np.ndarray) -> None:
        """
        Draw one frame of each game or two.

        :param pooled: 0 or 1, int64 ``[n_envs]``
        """
        self.draw_frames(self._read(states), pooled, out)

    def draw_frames(self, frames: Frames, pooled: np.ndarray, out: np.ndarray) -> None:
        """
        Draw one frame of each game or two, given what the renderer needs to know of them.

        :param pooled: 0 or 1, int64 ``[n_envs]``; 0 where the two frames are the same, or where there is one
        :param out: uint8 ``[n_envs, 84, 84, 1]``, contiguous; overwritten
        """
        phase = ground_phase(frames.ground_x)
        self._draw_scene(frames, phase[-1], pooled, out)
        self._draw_birds(frames, phase, out)

    def _read(self, states: tuple[GameState, ...]) -> Frames:
        """Return what is needed of the states."""
        shape = (len(states), self.n_envs)
        player_y, bird, ground_x = np.empty((3, *shape), dtype=np.int32)
        pipe_key = np.empty((len(states), c.N_PIPES, self.n_envs), dtype=np.int32)
        for i, state in enumerate(states):
            np.maximum(state.player_y, BIRD_MIN_Y, out=player_y[i])
            np.add(rotation_index(state.rotation) * c.N_WINGS, state.wing, out=bird[i])
            np.add(lattice_index(state.pipe_x) * c.N_GAPS, state.pipe_gap_index, out=pipe_key[i])
            ground_x[i] = state.ground_x
        return Frames(player_y, bird, pipe_key, ground_x)

    def _draw_scene(self, frames: Frames, phase: np.ndarray, pooled: np.ndarray, out: np.ndarray) -> None:
        """
        Draw background, pipes and ground.

        :param phase: of the ground after the last frame, int ``[n_envs]``
        :param pooled: 0 or 1, int64 ``[n_envs]``
        """
        tables, index = self.tables, self._index
        offset = self._pipe_offset.take(frames.pipe_key[0] + pooled * self._n_keys, axis=0)
        start = tables.cell_start.take(pooled, axis=0)
        for pipe in offset:
            start += pipe
        np.add(start.take(self._tile, axis=1)[:, None], self._upper_rows, out=self._upper_index)
        np.add(start, (phase + GROUND_FIRST)[:, None], out=index[:, MIXED:GROUND])
        index[:, GROUND:] = self._ground_rows.take(phase + pooled * N_PHASES, axis=0)
        # mode="clip" writes to `out` directly, "raise" would go through a copy; no index is out of range
        tables.rows.take(index, axis=0, out=out.reshape(*index.shape, CELL_WIDTH), mode="clip")

    def _draw_birds(self, frames: Frames, phase: np.ndarray, out: np.ndarray) -> None:
        """
        Replace the window around the bird by the maximum of what the frames show there.

        :param phase: of the ground, int ``[F, n_envs]``
        """
        row = patch_row(frames.player_y)
        top = row.min(axis=0)
        height = frames.player_y - BIRD_MIN_Y
        if top.max() >= LOW_BIRD_ROW:
            height = height_index(frames.player_y, phase)
        first = (frames.bird * N_HEIGHTS + height) * PATCH_ROWS + (PATCH_MARGIN + top - row)
        patches = self.tables.bird.take(first[..., None] + self._window, axis=0)
        gray, cover = patches[..., :PATCH_WIDTH].view(np.uint8), patches[..., PATCH_WIDTH:]
        seen, touched = self._window_scene(frames, top, phase)
        seen &= (cover >> 7).view(np.uint8)
        seen |= gray
        touched &= cover
        if np.count_nonzero(touched):
            self._repaint(frames, top, touched, seen)
        windows: np.ndarray = np.ndarray(
            (self.n_envs, SIZE - WINDOW_ROWS + 1, WINDOW_ROWS, PATCH_WIDTH),
            np.uint8,
            out,
            PATCH_LEFT,
            (SIZE * SIZE, SIZE, SIZE, 1),
        )
        windows[self._games, top] = seen[0] if len(seen) == 1 else np.maximum(seen[0], seen[1])

    def _window_scene(self, frames: Frames, top: np.ndarray, phase: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Return what each frame shows behind the bird, and where it is not what the bird was drawn upon.

        :param top: first row of the window, int ``[n_envs]``
        :param phase: of the ground, int ``[F, n_envs]``
        :return: uint8 and int8 (0 or 1) ``[F, n_envs, 10, 13]``, to be overwritten
        """
        tables = self.tables
        near = self._near_offset.take(frames.pipe_key[:, :2], axis=0)  # the third pipe is never near the bird
        start = near[:, 0] + near[:, 1]
        start += tables.cell_start[0, :2]
        start += top[:, None]
        index = start.take(self._two_cells, axis=-1)
        index += self._window_cells
        if top.max() > GROUND_FIRST - WINDOW_ROWS:
            self._window_ground(index.reshape(*phase.shape, WINDOW_ROWS, 2), top, phase)
        shape = (*phase.shape, WINDOW_ROWS, 2 * CELL_WIDTH)
        seen, touched = (table.take(index, axis=0).reshape(shape)[..., PATCH] for table in (tables.rows, tables.touched))
        return np.ascontiguousarray(seen), touched

    def _window_ground(self, index: np.ndarray, top: np.ndarray, phase: np.ndarray) -> None:
        """
        Set the row numbers of windows that reach down to the ground, in place.

        :param index: int64 ``[F, n_envs, 10, 2]``
        :param top: first row of the window, int ``[n_envs]``
        :param phase: of the ground, int ``[F, n_envs]``
        """
        rows = top[:, None] + self._window
        index += np.where(rows == GROUND_FIRST, phase[..., None], 0)[..., None]
        ground = self.tables.ground_rows[0, phase[..., None], np.maximum(rows - GROUND_FIRST - 1, 0), :2]
        np.copyto(index, ground, where=(rows > GROUND_FIRST)[:, :, None])

    def _repaint(self, frames: Frames, top: np.ndarray, wanted: np.ndarray, seen: np.ndarray) -> None:
        """
        Draw single pixels of the windows again, in place.

        :param top: first row of the window, int ``[n_envs]``
        :param wanted: where, int8 ``[F, n_envs, 10, 13]``
        :param seen: uint8 ``[F, n_envs, 10, 13]``
        """
        where = np.flatnonzero(wanted)
        cell, column = np.divmod(where, PATCH_WIDTH)
        item, row = np.divmod(cell, WINDOW_ROWS)
        scene = Scene(
            frames.player_y.take(item),
            frames.bird.take(item),
            frames.pipe_key[:, 0].take(item),
            frames.pipe_key[:, 1].take(item),
            frames.ground_x.take(item),
        )
        row += top.take(item % self.n_envs)
        column += PATCH_LEFT
        seen.reshape(-1)[where] = repaint(self.tables, scene, row, column)


def ground_phase(ground_x: np.ndarray) -> np.ndarray:
    """
    Return the phase of the ground's pattern, 0 to 5, int ``[...]``.

    :param ground_x: left end of the ground, pixels ``[...]``
    """
    return (-ground_x >> 2) % N_PHASES
