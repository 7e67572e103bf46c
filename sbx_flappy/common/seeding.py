"""Where the keys of JAX and the seeds of environments come from."""

import numpy as np
import torch as th


def new_key() -> np.ndarray:
    """
    Return the data of a new key, uint32 ``[2]``, drawn from torch's global generator.

    SB3's ``set_random_seed`` seeds that generator, so that everything which makes a run of torch SB3 repeatable makes
    one of this package repeatable too, and there is no second state to save.
    """
    return th.empty(2, dtype=th.int32).random_(-(2**31), 2**31 - 1).numpy().view(np.uint32)


def first_env_seed(seed: int) -> int:
    """
    Return the seed of a model's first environment; the others have the following numbers.

    The two halves of the 32 bits of a seed change places, so that models with neighbouring seeds play other games: in SB3
    environment i of seed s is environment i - 1 of seed s + 1. Each seed is still met once, and seed 0 is SB3's.

    :param seed: the model's
    """
    return ((int(seed) & 0xFFFF) << 16) + (int(seed) >> 16)
