"""SB3's ``device`` argument, for JAX."""

from typing import Any

import jax
import torch as th

#: torch's name for each of JAX's platforms
TORCH_TYPES = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "rocm": "cuda", "tpu": "xla"}


def get_jax_device(device: Any = "auto") -> jax.Device:
    """
    Return the JAX device that a ``device`` argument means. As in SB3, a GPU that is not there becomes the CPU.

    :param device: "auto" (the fastest), "cpu", "cuda", "cuda:1", "gpu", "tpu", a torch device or a JAX device
    :raises ValueError: if the name is unknown
    """
    if isinstance(device, jax.Device):
        return device
    name, _, index = str(device).partition(":")
    if name == "auto":
        return jax.local_devices()[0]
    if name not in TORCH_TYPES and name != "xla":
        raise ValueError(f"`device` must be 'auto', 'cpu', 'cuda', 'gpu', 'tpu' or a device, got {device!r}.")
    wanted = TORCH_TYPES.get(name, name)
    matching = [d for d in jax.local_devices() if TORCH_TYPES.get(d.platform) == wanted]
    return (matching or jax.local_devices(backend="cpu"))[int(index or 0) if matching else 0]


def get_torch_device(device: jax.Device) -> th.device:
    """
    Return torch's word for a JAX device, the type of SB3's ``model.device``.

    :param device: a JAX device
    """
    name = TORCH_TYPES.get(device.platform, "cpu")
    return th.device(name) if name == "cpu" else th.device(name, device.local_hardware_id or 0)
