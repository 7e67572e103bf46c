"""
The rules of the game as pure array programs: NumPy and jnp, any batch shape, no chance inside.

Upstream: ``flappy_bird_gymnasium/envs/flappy_bird_env.py`` (0.4), without lidar, on its own screen of 288x512. Given the
same gaps, every variable, reward and observation equals upstream's.

Batch axes come last: a field is an array ``[...]``, the fields of pipes are ``[3, ...]``, leftmost pipe first. So one game
is made of scalars, ``N`` games of arrays ``[N]``, and ``jax.vmap`` finds nothing to change.

Differences from upstream, which no player can see:

- positions are integers: the pipes' x counts tenths of a pixel, and y = 381 stands for the ground's 380.48;
- the pipes are kept from left to right, upstream's list recycles in place;
- the velocity after a crash stays what the last observation showed; upstream sets it to 0 after that observation was
  built, and nothing reads it again before the reset;
- ``flap_cooldown`` is this package's rule; 0 (off) is upstream's game.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from sbx_flappy.envs import constants as c

Array = Any  # numpy.ndarray or jax.Array


def lattice_index(pipe_x: Array) -> Array:
    """
    Return a number from 0 to 316 for each place that a pipe can be at, leftmost first, int, the shape of ``pipe_x``.

    Two lattices of a step of 4 pixels interleave: 576 - 4k of the first three pipes and 397.6 - 4k of all later ones.

    :param pipe_x: tenths of a pixel, -560 to 5760
    """
    return (pipe_x + 564) // 20


def lattice_tenths() -> Array:
    """Return the places of :func:`lattice_index` in tenths of a pixel, int32 ``[317]``."""
    index = np.arange(317, dtype=np.int32)
    return 20 * (index - 28) - np.where(index % 2 == 1, 4, 0).astype(np.int32)


def pipe_left(pipe_x: Array) -> Array:
    """
    Return upstream's x of pipes, float64 pixels, the very doubles that its repeated subtraction of 4 yields.

    :param pipe_x: tenths of a pixel, NumPy int array of any shape
    """
    entry = c.SCREEN_WIDTH + c.PIPE_WIDTH + c.SCREEN_WIDTH * 0.2
    return np.where(pipe_x % c.PIPE_STEP_TENTHS == 0, pipe_x / c.TENTHS, entry - (c.PIPE_ENTRY_TENTHS - pipe_x) / c.TENTHS)


# Upstream divides doubles. A division in float32 rounds to the same numbers in NumPy, but XLA multiplies by the reciprocal,
# which does not; so whatever is not divided by a power of two is looked up.
_X_FEATURE = (np.minimum(pipe_left(lattice_tenths()), c.SCREEN_WIDTH) / c.SCREEN_WIDTH).astype(np.float32)
_VELOCITY_FEATURE = (np.arange(c.PLAYER_FLAP_VEL_Y, c.PLAYER_MAX_VEL_Y + 1) / c.PLAYER_MAX_VEL_Y).astype(np.float32)
_ROTATION_FEATURE = (np.arange(c.PLAYER_MIN_ROT, c.PLAYER_START_ROT + 1, c.PLAYER_VEL_ROT) / 90).astype(np.float32)


class GameState(NamedTuple):
    """
    All that a game remembers. Integers are int32.

    :param player_y: top of the bird, pixels ``[...]``; 381 stands for 380.48 (on the ground)
    :param velocity: of the bird, pixels per frame, down is positive ``[...]``
    :param rotation: of the bird, degrees, 45 (up) to -90 ``[...]``
    :param wing: image of the wing on show, 0 to 2 ``[...]``
    :param wing_next: position in the cycle 0, 1, 2, 1 of the next image; survives a reset ``[...]``
    :param loop_iter: frames since the reset modulo 30 ``[...]``
    :param ground_x: left end of the ground, pixels, 0 to -44; survives a reset ``[...]``
    :param pipe_x: left end of the pipes, tenths of a pixel, leftmost pipe first ``[3, ...]``
    :param pipe_gap_index: which of the 8 gaps each pipe has ``[3, ...]``
    :param score: pipes passed since the reset ``[...]``
    :param cooldown: frames for which a flap is still ignored ``[...]``
    :param terminated: whether the bird is dead, bool ``[...]``
    """

    player_y: Array
    velocity: Array
    rotation: Array
    wing: Array
    wing_next: Array
    loop_iter: Array
    ground_x: Array
    pipe_x: Array
    pipe_gap_index: Array
    score: Array
    cooldown: Array
    terminated: Array


class Events(NamedTuple):
    """
    What one frame brought.

    :param reward: upstream's: 0.1, 1 for a pipe, -0.5 above the screen, -1 at death ``[...]``; float64, under jnp float32
    :param recycled: whether a pipe re-entered, that is whether ``next_gap`` was used up, bool ``[...]``
    """

    reward: Array
    recycled: Array


def init(gap_indices: Array, ground_x: Array | None = None, wing_next: Array | None = None, xp: ModuleType = np) -> GameState:
    """
    Return the state at the start of a game.

    :param gap_indices: gaps of the three pipes, 0 to 7, int ``[3, ...]``
    :param ground_x: what the previous game left, ``[...]``; ``None``: a new env
    :param wing_next: what the previous game left, ``[...]``; ``None``: a new env
    :param xp: ``numpy`` or ``jax.numpy``
    """
    gaps = xp.asarray(gap_indices, dtype=xp.int32)
    shape = gaps.shape[1:]

    def full(value: int) -> Array:
        return xp.full(shape, value, dtype=xp.int32)

    return GameState(
        player_y=full(c.PLAYER_START_Y),
        velocity=full(c.PLAYER_START_VEL_Y),
        rotation=full(c.PLAYER_START_ROT),
        wing=full(0),
        wing_next=full(0) if wing_next is None else xp.asarray(wing_next, dtype=xp.int32),
        loop_iter=full(0),
        ground_x=full(0) if ground_x is None else xp.asarray(ground_x, dtype=xp.int32),
        pipe_x=xp.stack([full(x) for x in c.PIPE_START_TENTHS]),
        pipe_gap_index=gaps,
        score=full(0),
        cooldown=full(0),
        terminated=xp.zeros(shape, dtype=bool),
    )


def step(
    state: GameState,
    actions: Array,
    next_gap: Array,
    pipe_gap: int = c.DEFAULT_PIPE_GAP,
    flap_cooldown: int = 0,
    xp: ModuleType = np,
) -> tuple[GameState, Events]:
    """
    Return the state one frame later and what that frame brought; the order of events is upstream's ``step``.

    Nothing here treats a game that is over: its state goes on falling, as upstream's does, and means nothing.

    :param state: state of running games
    :param actions: 0 (nothing) or 1 (flap), int ``[...]``
    :param next_gap: the gap that a re-entering pipe takes, 0 to 7, int ``[...]``
    :param pipe_gap: height of the gaps, pixels
    :param flap_cooldown: after a flap the next one is possible so many frames later, earlier ones count as action 0;
        whatever y is, also where upstream ignores the flap (y <= -48); 0 and 1: no cool-down
    :param xp: ``numpy`` or ``jax.numpy``
    """
    flap, cooldown = actions == c.FLAP, state.cooldown
    if flap_cooldown > 1:
        flap = flap & (cooldown == 0)
        cooldown = xp.where(flap, flap_cooldown - 1, xp.maximum(cooldown - 1, 0))
    flap = flap & (state.player_y > c.PLAYER_FLAP_MIN_Y)
    passed = _passing(state.pipe_x, xp)  # before the pipes move

    velocity = xp.where(flap, c.PLAYER_FLAP_VEL_Y, xp.minimum(state.velocity + c.PLAYER_ACC_Y, c.PLAYER_MAX_VEL_Y))
    rotation = xp.where(flap, c.PLAYER_FLAP_ROT, xp.maximum(state.rotation - c.PLAYER_VEL_ROT, c.PLAYER_MIN_ROT))
    player_y = xp.minimum(state.player_y + velocity, c.PLAYER_GROUNDED_Y)
    pipe_x, pipe_gap_index, recycled = _move_pipes(state, next_gap, xp)
    terminated = _crash(player_y, pipe_x, pipe_gap_index, pipe_gap)
    wing, wing_next = _move_wing(state, xp)

    reward = xp.where(passed, c.REWARD_PIPE, c.REWARD_ALIVE)
    reward = xp.where(player_y < 0, c.REWARD_ABOVE_SCREEN, reward)
    reward = xp.where(terminated, c.REWARD_DEATH, reward)
    new_state = GameState(
        player_y=player_y,
        velocity=velocity,
        rotation=rotation,
        wing=wing,
        wing_next=wing_next,
        loop_iter=(state.loop_iter + 1) % c.LOOP_PERIOD,
        ground_x=-((c.GROUND_VEL_X - state.ground_x) % c.GROUND_PERIOD),
        pipe_x=pipe_x,
        pipe_gap_index=pipe_gap_index,
        score=state.score + passed,
        cooldown=cooldown,
        terminated=terminated,
    )
    return new_state, Events(reward, recycled)


def _passing(pipe_x: Array, xp: ModuleType) -> Array:
    """
    Return whether the bird passes a pipe now, bool ``[...]``: its middle is 0 to 4 pixels beyond the pipe's.

    :param pipe_x: tenths of a pixel ``[3, ...]``
    """
    middle = c.TENTHS * (c.PLAYER_X + c.PLAYER_WIDTH // 2 - c.PIPE_WIDTH // 2)
    # The third pipe is never that far left: 144 pixels lie between two.
    near = pipe_x[:2]
    inside = (near <= middle) & (near > middle - c.PIPE_STEP_TENTHS)
    return inside[0] | inside[1]


def pipe_reenters(pipe_x: Array) -> Array:
    """
    Return whether the leftmost pipe leaves in the next frame and re-enters on the right, bool ``[...]``.

    :param pipe_x: before that frame, tenths of a pixel ``[3, ...]``
    """
    return pipe_x[0] < c.PIPE_STEP_TENTHS - c.TENTHS * c.PIPE_WIDTH


def _move_pipes(state: GameState, next_gap: Array, xp: ModuleType) -> tuple[Array, Array, Array]:
    """
    Return x and gaps of the pipes after their move and whether the leftmost one left and re-entered on the right.

    :param state: state before the move
    :param next_gap: int ``[...]``
    """
    pipe_x, recycled = state.pipe_x - c.PIPE_STEP_TENTHS, pipe_reenters(state.pipe_x)
    # Nothing enters in most frames. Under jit the choice cannot be made; count_nonzero is the fastest way to ask.
    if xp is np and not np.count_nonzero(recycled):
        return pipe_x, state.pipe_gap_index, recycled
    entering_x = xp.full_like(pipe_x[0], c.PIPE_ENTRY_TENTHS)
    entering_gap = xp.asarray(next_gap, dtype=xp.int32)
    queue_x = xp.stack([pipe_x[1], pipe_x[2], entering_x])
    queue_gap = xp.stack([state.pipe_gap_index[1], state.pipe_gap_index[2], xp.broadcast_to(entering_gap, recycled.shape)])
    return xp.where(recycled, queue_x, pipe_x), xp.where(recycled, queue_gap, state.pipe_gap_index), recycled


def _crash(player_y: Array, pipe_x: Array, pipe_gap_index: Array, pipe_gap: int) -> Array:
    """
    Return whether the bird touches the ground or a pipe, bool ``[...]``; upstream's ``_check_crash``.

    Upstream's rectangles drop the fraction of x, so 5 < int(x) < 91 overlaps the bird: 6 <= x < 91. The upper pipe reaches
    150 pixels above the screen, the lower one below the ground; no bird gets past their far ends.

    :param player_y: pixels ``[...]``
    :param pipe_x: tenths of a pixel ``[3, ...]``
    :param pipe_gap_index: int ``[3, ...]``
    :param pipe_gap: pixels
    """
    near_x = pipe_x[:2]  # the third pipe is never that far left
    left = c.TENTHS * (c.PLAYER_X - c.PIPE_WIDTH + 1)
    right = c.TENTHS * (c.PLAYER_X + c.PLAYER_WIDTH)
    below_top = player_y - (c.GAP_TOP_MIN + c.GAP_TOP_STEP * pipe_gap_index[:2])  # how far the bird is inside the gap
    outside = (below_top < 0) | (below_top > pipe_gap - c.PLAYER_HEIGHT)
    hit = outside & (near_x >= left) & (near_x < right)
    return hit[0] | hit[1] | (player_y >= c.PLAYER_CRASH_Y)


def _move_wing(state: GameState, xp: ModuleType) -> tuple[Array, Array]:
    """
    Return the wing's image and the position in its cycle; a new image every third frame.

    :param state: state before the frame
    """
    tick = state.loop_iter % c.WING_PERIOD == c.WING_PERIOD - 1
    wing = xp.where(tick, 2 - abs(state.wing_next - 2), state.wing)  # 0, 1, 2, 1
    return wing, (state.wing_next + tick) % 4


def features(state: GameState, pipe_gap: int = c.DEFAULT_PIPE_GAP, xp: ModuleType = np) -> Array:
    """
    Return upstream's 12 numbers, float32 ``[..., 12]``, equal to its doubles rounded to float32.

    For each pipe from left to right x / 288 and top and bottom of its gap / 512 (a pipe beyond the right edge shows
    1, 0, 1), then y / 512, velocity / 10, rotation / 90; upstream's ``_get_observation_features``, normalised.

    :param state: a state
    :param pipe_gap: height of the gaps, pixels
    :param xp: ``numpy`` or ``jax.numpy``
    """
    hidden = state.pipe_x > c.TENTHS * c.SCREEN_WIDTH
    x = xp.asarray(_X_FEATURE)[lattice_index(state.pipe_x)]
    gap_top = (c.GAP_TOP_MIN + c.GAP_TOP_STEP * state.pipe_gap_index).astype(xp.float32)
    top = xp.where(hidden, xp.float32(0), gap_top / xp.float32(c.SCREEN_HEIGHT))
    bottom = xp.where(hidden, xp.float32(1), (gap_top + xp.float32(pipe_gap)) / xp.float32(c.SCREEN_HEIGHT))
    player = (
        player_height(state, xp).astype(xp.float32) / xp.float32(c.SCREEN_HEIGHT),
        xp.asarray(_VELOCITY_FEATURE)[state.velocity - c.PLAYER_FLAP_VEL_Y],
        xp.asarray(_ROTATION_FEATURE)[(state.rotation - c.PLAYER_MIN_ROT) // c.PLAYER_VEL_ROT],
    )
    pipes = [row[i] for i in range(c.N_PIPES) for row in (x, top, bottom)]
    return xp.stack([*pipes, *player], axis=-1)


def player_height(state: GameState, xp: ModuleType = np) -> Array:
    """
    Return upstream's ``_player_y`` in pixels, ``[...]``: float64, under jnp float32.

    :param state: a state
    :param xp: ``numpy`` or ``jax.numpy``
    """
    return xp.where(state.player_y >= c.PLAYER_GROUNDED_Y, c.PLAYER_GROUND_Y, state.player_y)


def draw_gaps(generator: Generator, size: int) -> Array:
    """
    Return the next gaps that upstream's env with this generator draws, int64 ``[size]``.

    Upstream draws 3 at a reset and one per recycled pipe, singly; a block comes from the same stream.

    :param generator: the env's ``np_random``
    :param size: how many
    """
    return generator.integers(0, c.N_GAPS, size=size)
