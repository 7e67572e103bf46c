"""
OpenCV's ``resize(..., (84, 84), interpolation=INTER_AREA)`` in NumPy, bit by bit, and gymnasium's gray.

The tables of the renderer are drawn with these, so that they need no cv2, and can shrink a part of a frame alone.
"""

import numpy as np

from sbx_flappy.envs.constants import FRAME_SIZE, GRAY_WEIGHTS, SCREEN_HEIGHT, SCREEN_WIDTH


def area_taps(source: int, target: int) -> tuple[np.ndarray, np.ndarray]:
    """
    Return which source pixels make up each target pixel, and with which weights: ``[taps, target]``, int64 and float32.

    OpenCV's ``computeResizeAreaTab`` (modules/imgproc/src/resize.cpp). Unused taps have the weight 0.

    :param source: length before
    :param target: length after, smaller
    """
    scale = source / target
    n_taps = int(np.ceil(scale)) + 1
    index, weight = np.zeros((n_taps, target), dtype=np.int64), np.zeros((n_taps, target), dtype=np.float32)
    for pixel in range(target):
        start, end = pixel * scale, (pixel + 1) * scale
        last = min(int(np.floor(end)), source - 1)
        first = min(int(np.ceil(start)), last)
        taps = [(first - 1, (first - start) / scale)] if first - start > 1e-3 else []
        taps += [(s, 1.0 / scale) for s in range(first, last)]
        if end - last > 1e-3:
            taps.append((last, min(end - last, 1.0) / scale))
        for tap, (s, w) in enumerate(taps):
            index[tap, pixel], weight[tap, pixel] = s, w
    return index, weight


COLUMN_TAPS = area_taps(SCREEN_WIDTH, FRAME_SIZE)
ROW_TAPS = area_taps(SCREEN_HEIGHT, FRAME_SIZE)


def shrink_columns(image: np.ndarray, first: int, last: int, offset: int = 0) -> np.ndarray:
    """
    Return the columns ``first`` to ``last - 1`` of 84, float32 ``[..., last - first, 3]``, not rounded.

    :param image: uint8 ``[..., width, 3]``, whose first column is the column ``offset`` of 288
    """
    index, weight = COLUMN_TAPS[0][:, first:last], COLUMN_TAPS[1][:, first:last]
    pixels = image.astype(np.float32)
    result = np.zeros((*image.shape[:-2], last - first, 3), dtype=np.float32)
    for tap in range(len(index)):  # one by one in float32: the order in which OpenCV adds
        result += np.take(pixels, np.maximum(index[tap] - offset, 0), axis=-2) * weight[tap][:, None]
    return result


def shrink_rows(rows: np.ndarray, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """
    Return sums of rows, float32 ``[..., n, width, 3]``, not rounded.

    :param rows: float32 ``[..., height, width, 3]``, what :func:`shrink_columns` returns
    :param index: rows that make up a new one, int ``[taps, n]``
    :param weight: their weights, float32 ``[taps, n]``
    """
    result = np.zeros((*rows.shape[:-3], index.shape[1], *rows.shape[-2:]), dtype=np.float32)
    for tap in range(len(index)):
        result += np.take(rows, index[tap], axis=-3) * weight[tap][:, None, None]
    return result


def to_gray(sums: np.ndarray) -> np.ndarray:
    """
    Return gray values, uint8 ``[...]``: rounded to uint8 as OpenCV does, then gymnasium's ``GrayscaleObservation``.

    :param sums: red, green, blue from 0 to 255, float32 ``[..., 3]``
    """
    color = np.rint(sums).astype(np.uint8)
    gray = color[..., 0] * GRAY_WEIGHTS[0]  # red, green, blue: the order in which gymnasium's sum adds them
    gray += color[..., 1] * GRAY_WEIGHTS[1]
    gray += color[..., 2] * GRAY_WEIGHTS[2]
    return gray.astype(np.uint8)
