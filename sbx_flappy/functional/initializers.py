"""
Initial parameters on the host: the same distributions as Flax's and torch's, without a program to compile per shape.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sbx_flappy.functional.types import PyTree

#: Decomposes a matrix into Q and R, as numpy.linalg.qr does
QR = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

#: The gain of each part's orthogonal initialization, SB3's (and OpenAI Baselines')
ORTHOGONAL_GAINS = {
    "features_extractor": float(np.sqrt(2)),
    "vf_features_extractor": float(np.sqrt(2)),
    "mlp_extractor": float(np.sqrt(2)),
    "action_net": 0.01,
    "value_net": 1.0,
}


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float, qr: QR = np.linalg.qr) -> np.ndarray:
    """
    Return a kernel whose columns (or rows, whichever are fewer) are orthogonal, https://arxiv.org/abs/1312.6120.

    :param rng: source of chance
    :param shape: the last entry counts the outputs
    :param gain: length of each column
    :param qr: NumPy's, or a faster one
    :return: float32 of that shape
    """
    n_rows, n_columns = int(np.prod(shape[:-1])), shape[-1]
    normal = rng.standard_normal((max(n_rows, n_columns), min(n_rows, n_columns)))
    q, r = qr(normal)
    q = q * np.sign(np.diag(r))  # the decomposition alone is not uniform over orthogonal matrices
    return (gain * (q.T if n_rows < n_columns else q)).reshape(shape).astype(np.float32)


def torch_default(rng: np.random.Generator, kernel_shape: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """
    Return torch's default initial values of a kernel or bias, uniform within 1 / sqrt(fan_in).

    :param rng: source of chance
    :param kernel_shape: the kernel's, whose last entry counts the outputs
    :param shape: the kernel's or the bias's
    :return: float32 of that shape
    """
    bound = 1.0 / np.sqrt(np.prod(kernel_shape[:-1]))
    return rng.uniform(-bound, bound, shape).astype(np.float32)


def is_layer(tree: Any) -> bool:
    """Return whether a branch of the parameter tree is a dense or a convolutional layer."""
    return isinstance(tree, Mapping) and getattr(tree.get("kernel"), "ndim", 0) in (2, 4)


def initialize(rng: np.random.Generator, tree: PyTree, gain: float | None, qr: QR = np.linalg.qr) -> PyTree:
    """
    Return new parameters for all the dense and convolutional layers of a tree, and everything else as it is.

    :param rng: source of chance
    :param tree: nested dictionaries of arrays, or of their shapes
    :param gain: of orthogonal kernels with biases of zero; None for torch's default
    :param qr: see :func:`orthogonal`
    """
    if not is_layer(tree):
        return {k: initialize(rng, branch, gain, qr) for k, branch in tree.items()} if isinstance(tree, Mapping) else tree
    kernel_shape = tree["kernel"].shape
    if gain is None:
        return {name: torch_default(rng, kernel_shape, leaf.shape) for name, leaf in tree.items()}
    kernel = orthogonal(rng, kernel_shape, gain, qr)
    return {name: kernel if name == "kernel" else np.zeros(leaf.shape, np.float32) for name, leaf in tree.items()}
