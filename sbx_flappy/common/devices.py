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
    :raises ValueError: if the name or its number is unknown
    """
    if isinstance(device, jax.Device):
        return device
    name, _, index = str(device).partition(":")
    if name == "auto":
        return jax.local_devices()[0]
    if name not in (*TORCH_TYPES, *TORCH_TYPES.values()) and not devices_of(name):
        raise ValueError(f"`device` must be 'auto', 'cpu', 'cuda', 'gpu', 'tpu' or a device, got {device!r}.")
    matching = devices_of(TORCH_TYPES.get(name, name))
    if not matching:
        return devices_of("cpu")[0]
    if not (index or "0").isdigit() or int(index or 0) >= len(matching):
        raise ValueError(f"`device` {device!r} does not exist, there are {len(matching)} of its kind, counted from 0.")
    return matching[int(index or 0)]


def devices_of(torch_type: str) -> list[jax.Device]:
    """
    Return the devices that torch would give one type.

    :param torch_type: "cpu", "cuda" or "xla", or the name of a platform that torch has no type for
    """
    devices = [*jax.local_devices(), *jax.local_devices(backend="cpu")]
    return [d for d in dict.fromkeys(devices) if TORCH_TYPES.get(d.platform, d.platform) == torch_type]


def get_device_name(device: jax.Device) -> str:
    """
    Return a name from which :func:`get_jax_device` finds the device again, and which can be copied and pickled.

    :param device: a JAX device
    """
    torch_type = TORCH_TYPES.get(device.platform, device.platform)
    return f"{torch_type}:{devices_of(torch_type).index(device)}"


def get_torch_device(device: jax.Device) -> th.device:
    """
    Return torch's word for a JAX device, the type of SB3's ``model.device``.

    :param device: a JAX device
    """
    name = TORCH_TYPES.get(device.platform, "cpu")
    return th.device(name) if name == "cpu" else th.device(name, device.local_hardware_id or 0)
