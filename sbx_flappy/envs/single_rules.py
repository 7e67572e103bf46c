"""
The rules of :mod:`.rules` for one game, on Python's own integers.

For a single game the cost of NumPy's calls is a hundred times that of the arithmetic; this plays 20 frames while
``rules.step`` plays one. A test holds both in lock-step. The state is the same :class:`~.rules.GameState`, made of ints,
a bool and, for the pipes, tuples of ints.
"""

from collections.abc import Callable, Sequence

from sbx_flappy.envs import constants as c
from sbx_flappy.envs.rules import GameState

_PASSING = c.TENTHS * (c.PLAYER_X + c.PLAYER_WIDTH // 2 - c.PIPE_WIDTH // 2)
_LEAVING = -c.TENTHS * c.PIPE_WIDTH
_NEAR_LEFT = c.TENTHS * (c.PLAYER_X - c.PIPE_WIDTH + 1)
_NEAR_RIGHT = c.TENTHS * (c.PLAYER_X + c.PLAYER_WIDTH)
_WINGS = (0, 1, 2, 1)


def init(gap_indices: Sequence[int], ground_x: int = 0, wing_next: int = 0) -> GameState:
    """
    Return the state at the start of a game.

    :param gap_indices: gaps of the three pipes, 0 to 7
    :param ground_x: what the previous game left; 0: a new env
    :param wing_next: what the previous game left; 0: a new env
    """
    return GameState(
        player_y=c.PLAYER_START_Y,
        velocity=c.PLAYER_START_VEL_Y,
        rotation=c.PLAYER_START_ROT,
        wing=0,
        wing_next=wing_next,
        loop_iter=0,
        ground_x=ground_x,
        pipe_x=c.PIPE_START_TENTHS,
        pipe_gap_index=tuple(gap_indices),
        score=0,
        cooldown=0,
        terminated=False,
    )


def step(
    state: GameState, action: int, draw_gap: Callable[[], int], pipe_gap: int, flap_cooldown: int
) -> tuple[GameState, float]:
    """
    Return the state one frame later and the frame's reward; see :func:`.rules.step`.

    :param state: state of a running game
    :param action: 0 or 1
    :param draw_gap: called for the gap of a pipe that re-enters
    :param pipe_gap: height of the gaps, pixels
    :param flap_cooldown: frames from a flap to the next possible one
    """
    player_y, velocity, rotation, wing, wing_next, loop_iter, ground_x, pipe_x, pipe_gap_index, score, cooldown, _ = state
    flap = action == c.FLAP
    if flap_cooldown > 1:
        flap = flap and cooldown == 0
        cooldown = flap_cooldown - 1 if flap else max(cooldown - 1, 0)
    if flap and player_y > c.PLAYER_FLAP_MIN_Y:
        velocity, rotation = c.PLAYER_FLAP_VEL_Y, c.PLAYER_FLAP_ROT
    else:
        velocity = min(velocity + c.PLAYER_ACC_Y, c.PLAYER_MAX_VEL_Y)
        rotation = max(rotation - c.PLAYER_VEL_ROT, c.PLAYER_MIN_ROT)
    player_y = min(player_y + velocity, c.PLAYER_GROUNDED_Y)

    first, second, third = pipe_x
    passed = _PASSING - c.PIPE_STEP_TENTHS < first <= _PASSING or _PASSING - c.PIPE_STEP_TENTHS < second <= _PASSING
    pipe_x = (first - c.PIPE_STEP_TENTHS, second - c.PIPE_STEP_TENTHS, third - c.PIPE_STEP_TENTHS)
    if pipe_x[0] < _LEAVING:
        pipe_x, pipe_gap_index = (*pipe_x[1:], c.PIPE_ENTRY_TENTHS), (*pipe_gap_index[1:], draw_gap())
    if loop_iter % c.WING_PERIOD == c.WING_PERIOD - 1:
        wing, wing_next = _WINGS[wing_next], (wing_next + 1) % 4

    terminated = _crashes(player_y, pipe_x, pipe_gap_index, pipe_gap)
    reward = c.REWARD_PIPE if passed else c.REWARD_ALIVE
    if player_y < 0:
        reward = c.REWARD_ABOVE_SCREEN
    if terminated:
        reward = c.REWARD_DEATH
    loop_iter = (loop_iter + 1) % c.LOOP_PERIOD
    ground_x = -((c.GROUND_VEL_X - ground_x) % c.GROUND_PERIOD)
    moved = (player_y, velocity, rotation, wing, wing_next, loop_iter, ground_x, pipe_x, pipe_gap_index)
    return GameState(*moved, score + passed, cooldown, terminated), reward


def _crashes(player_y: int, pipe_x: Sequence[int], pipe_gap_index: Sequence[int], pipe_gap: int) -> bool:
    """Return whether the bird touches the ground or one of the two pipes that may be near."""
    if player_y >= c.PLAYER_CRASH_Y:
        return True
    for pipe in (0, 1):
        if _NEAR_LEFT <= pipe_x[pipe] < _NEAR_RIGHT:
            below_top = player_y - (c.GAP_TOP_MIN + c.GAP_TOP_STEP * pipe_gap_index[pipe])
            return not 0 <= below_top <= pipe_gap - c.PLAYER_HEIGHT
    return False
