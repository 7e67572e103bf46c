"""Two-dimensional convolution as this project runs it on a CPU and on a GPU."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# XLA's CPU back end hands convolutions and their gradients to a path that is several times slower than its own
# fused loops. The option exists only in some versions of jaxlib, so it is probed once.
_FAST_CONVOLUTION = {"xla_cpu_experimental_ynn_fusion_type": ""}


@functools.cache
def compiler_options() -> dict[str, Any] | None:
    """
    Return the options with which programs that hold convolutions are compiled, for ``jax.jit(compiler_options=...)``.

    :return: the options that this version of jaxlib takes, or None
    """
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x + 1.0, compiler_options=_FAST_CONVOLUTION)(np.float32(0.0))
    except Exception:  # the type of the error differs between versions of jaxlib
        return None
    return _FAST_CONVOLUTION


def conv_output_size(size: int, kernel: int, stride: int) -> int:
    """
    Return the number of positions of a kernel over ``size`` pixels without padding.

    :param size: pixels
    :param kernel: pixels
    :param stride: pixels
    :raises ValueError: if the kernel is larger than the input
    """
    if size < kernel:
        raise ValueError(f"A convolution with a kernel of {kernel} pixels needs an image of at least that size, got {size}.")
    return (size - kernel) // stride + 1


def pad_same(x: jax.Array, kernel_size: int, stride: int) -> jax.Array:
    """
    Surround images with zeros such that a convolution without padding has an output per ``stride`` pixels.

    That is ``padding="SAME"`` of XLA and Flax: where the number of lines is odd, the extra one comes at the bottom and right.

    :param x: images, ``[B, H, W, C]``
    :param kernel_size: pixels
    :param stride: pixels
    :return: ``[B, H', W', C]``, from which a convolution makes ``ceil(H / stride)`` times ``ceil(W / stride)`` positions
    """
    padding = [(0, 0)]
    for size in x.shape[1:3]:
        total = max((-(-size // stride) - 1) * stride + kernel_size - size, 0)
        padding.append((total // 2, total - total // 2))
    return jnp.pad(x, [*padding, (0, 0)])


def _pad_or_crop(x: jax.Array, axis: int, size: int) -> jax.Array:
    if x.shape[axis] >= size:
        return jax.lax.slice_in_dim(x, 0, size, axis=axis)
    padding = [(0, 0)] * x.ndim
    padding[axis] = (0, size - x.shape[axis])
    return jnp.pad(x, padding)


def space_to_depth(x: jax.Array, stride: int) -> jax.Array:
    """
    Move each ``stride x stride`` block of pixels into the channels.

    :param x: ``[B, H, W, C]``, H and W multiples of the stride
    :param stride: pixels
    :return: ``[B, H / stride, W / stride, stride * stride * C]``
    """
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // stride, stride, width // stride, stride, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height // stride, width // stride, stride * stride * channels)


def conv2d(x: jax.Array, kernel: jax.Array, stride: int = 1) -> jax.Array:
    """
    Cross-correlate images with a kernel, without padding ("VALID"), as ``torch.nn.Conv2d`` does.

    A convolution with stride s is the same sum as one with stride 1 over an image whose s x s blocks became channels,
    and the gradients of the latter are much faster on a CPU. A kernel no larger than its stride reads each pixel once:
    that is one matrix product, and 2.5 times faster again.

    :param x: images, float ``[B, H, W, C]``
    :param kernel: float ``[KH, KW, C, F]``
    :param stride: pixels, the same in both directions
    :return: float ``[B, (H - KH) // stride + 1, (W - KW) // stride + 1, F]``
    :raises ValueError: if the kernel is larger than the image
    """
    out_sizes = [conv_output_size(x.shape[1 + i], kernel.shape[i], stride) for i in range(2)]
    blocks = [-(-kernel.shape[i] // stride) for i in range(2)]
    if stride > 1:
        for axis in range(2):
            # Only the pixels that some kernel position reads, up to whole blocks
            x = _pad_or_crop(x, 1 + axis, (out_sizes[axis] - 1 + blocks[axis]) * stride)
            kernel = _pad_or_crop(kernel, axis, blocks[axis] * stride)
        x = space_to_depth(x, stride)
        kernel = space_to_depth(kernel.transpose(3, 0, 1, 2), stride).transpose(1, 2, 3, 0)
    if blocks == [1, 1]:
        return x @ kernel[0, 0]
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
