"""Ctrl-C and SIGTERM, as one exception that lets a training be saved."""

import signal
import threading
from types import FrameType
from typing import Any


class Interruption:
    """
    A context in which the first SIGINT or SIGTERM raises ``KeyboardInterrupt``.

    Before it is raised, the handlers that were there before are back: a second signal does what it always does. A signal
    that the process ignores (as a shell lets its background jobs ignore Ctrl-C) stays ignored. Outside of the main thread,
    where Python allows no handlers, nothing changes.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        """The signal's name"""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_exception: Any) -> None:
        self._restore()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._restore()
        self.received = signal.Signals(number).name
        raise KeyboardInterrupt(self.received)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def check(self) -> None:
        """
        Raise again what was raised where Python drops exceptions, as in a destructor.

        :raises KeyboardInterrupt: after a signal
        """
        if self.received is not None:
            raise KeyboardInterrupt(self.received)
