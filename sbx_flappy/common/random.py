"""Where the keys of JAX come from."""

import numpy as np
import torch as th


def new_key() -> np.ndarray:
    """
    Return the data of a new key, uint32 ``[2]``, drawn from torch's global generator.

    SB3's ``set_random_seed`` seeds that generator, so that everything which makes a run of torch SB3 repeatable makes
    one of this package repeatable too, and there is no second state to keep.
    """
    return th.empty(2, dtype=th.int32).random_(-(2**31), 2**31 - 1).numpy().view(np.uint32)
