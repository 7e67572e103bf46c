"""What JAX compiles while a test runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax.monitoring

#: Reported once for each program, also where a persistent compilation cache holds it already
COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def compilations() -> Iterator[list[str]]:
    """Yield a list that grows by a name, such as ``jit(act)``, for each program that is compiled within the context."""
    names: list[str] = []

    def listen(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event == COMPILED:
            names.append(str(kwargs.get("fun_name", "unnamed")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield names
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
