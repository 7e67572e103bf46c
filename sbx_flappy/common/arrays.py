"""Between tensors and arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch as th


def to_host(value: Any) -> Any:
    """Return tensors (in dictionaries too) as NumPy arrays that share their memory; other arrays as they are."""
    if isinstance(value, Mapping):
        return {key: to_host(item) for key, item in value.items()}
    return value.detach().cpu().numpy() if isinstance(value, th.Tensor) else value


def to_tensor(array: Any) -> th.Tensor:
    """Return an array as a tensor of its own memory."""
    return th.from_numpy(np.array(array))
