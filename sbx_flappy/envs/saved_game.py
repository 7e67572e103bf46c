"""What is saved of a game, and its checks."""

from collections.abc import Container, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from sbx_flappy.envs import constants as c
from sbx_flappy.envs.rules import GameState, lattice_tenths


class SavedGame(NamedTuple):
    """
    All that a game remembers: plain numbers and dicts, which can be pickled.

    :param state: the game
    :param generator: state of the bit generator from which it draws its gaps
    """

    state: GameState
    generator: dict[str, Any]


#: The numbers that a game can remember; `terminated` is a bool
_NUMBERS: dict[str, Container[int]] = {
    # The highest flap is followed by 9 frames, each a pixel slower, up to the turn.
    "player_y": range(c.PLAYER_FLAP_MIN_Y - sum(range(10)), c.PLAYER_GROUNDED_Y + 1),
    "velocity": range(c.PLAYER_FLAP_VEL_Y, c.PLAYER_MAX_VEL_Y + 1),
    "rotation": range(c.PLAYER_MIN_ROT, c.PLAYER_FLAP_ROT + 1, c.PLAYER_VEL_ROT),
    "wing": range(c.N_WINGS),
    "wing_next": range(4),
    "loop_iter": range(c.LOOP_PERIOD),
    "ground_x": range(4 - c.GROUND_PERIOD, 1, 4),
    "pipe_x": frozenset(lattice_tenths().tolist()),
    "pipe_gap_index": range(c.N_GAPS),
    "score": range(2**31),
    "cooldown": range(2**31),
}


def check_saved_game(saved: Any) -> SavedGame:
    """
    Return a saved game, made of Python's own numbers.

    :param saved: what a game's ``get_state`` returned
    :raises TypeError: if it is not a :class:`SavedGame`
    :raises ValueError: if it holds values that no game has
    """
    parts = (saved.state, saved.generator) if isinstance(saved, SavedGame) else ()
    if not parts or not isinstance(parts[0], GameState) or not isinstance(parts[1], dict):
        raise TypeError(f"The state must be what `get_state()` returns, SavedGame(GameState(...), {{...}}), got {saved!r}.")
    return saved._replace(state=GameState(*map(_check_field, GameState._fields, saved.state)))


def _check_field(name: str, value: Any) -> Any:
    """
    Return a field of a game's state as a bool, an int, or a tuple of ints.

    :raises ValueError: if no game has such a field
    """
    if name == "terminated":
        if isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise ValueError(f"The state's `terminated` must be a bool, got {value!r}.")
    is_pipes = name in ("pipe_x", "pipe_gap_index")
    try:
        numbers = tuple(int(index(number)) for number in (value if is_pipes else (value,)))
    except TypeError:
        numbers = ()
    if len(numbers) != (c.N_PIPES if is_pipes else 1) or any(number not in _NUMBERS[name] for number in numbers):
        expected = f"{c.N_PIPES} numbers, one per pipe, that occur" if is_pipes else "a number that occurs"
        raise ValueError(f"The state's `{name}` must be {expected} in the game, got {value!r}.")
    return numbers if is_pipes else numbers[0]


def set_generator_states(generators: Sequence[np.random.Generator], states: Sequence[dict[str, Any]]) -> None:
    """
    Set the states of random generators: all of them or, after an error, none.

    :param generators: to be changed
    :param states: of bit generators of the same kinds
    :raises ValueError: if a state does not fit its generator
    """
    before = [generator.bit_generator.state for generator in generators]
    try:
        for generator, state in zip(generators, states, strict=True):
            generator.bit_generator.state = state
    except Exception as error:  # NumPy's depends on what is wrong, and a part of the state may be set
        for generator, old in zip(generators, before, strict=True):
            generator.bit_generator.state = old
        kind = type(generator.bit_generator).__name__
        raise ValueError(f"The state's random generator does not fit this game's, a {kind}: {error!r}.") from error
