"""When what streams in is written: each chunk within milliseconds, or a step or a turn at a time."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Literal, Protocol

import msgspec

from dashcam.sdk import emit

SaveOn = Literal["chunk", "step", "turn"]

SOON = 0.005  # seconds that what came in may wait
IDLE = 1.0  # seconds without work after which the thread ends
# A stream that comes faster than SOON is written when it has grown by this share: a line a word for a short text,
# and for one of 100,000 words a few thousand lines instead of as many.
SHARE = 1_000
HELD_SHARE = 10  # the same for a text of which much can't be told yet: looking at it again takes long
GRACE = 0.2  # seconds that looking for secrets in one text may take before it is held to a share of the time
SLACK = 256  # characters that a part may grow without being written again as a whole


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """How much may wait, and how long, where a step or a turn is saved as a whole."""

    on: SaveOn = "chunk"
    buffer_chars: int = 65_536
    buffer_seconds: float = 2.0


class Waiting(Protocol):
    def flush_if_due(self) -> bool:
        """Write what waits, if it has waited long enough; whether something still waits."""


class Flusher:
    """One thread a process that writes what is left waiting when a stream pauses. It lives while there is work."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew: after a fork the thread is the parent's, and its lock may be held for ever."""
        self._lock = threading.Lock()
        self._waiting: weakref.WeakSet[Waiting] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def soon(self, writer: Waiting) -> None:
        with self._lock:
            self._waiting.add(writer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="dashcam-save", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        idle_since = time.monotonic()
        while True:
            time.sleep(SOON)
            with self._lock:
                writers = list(self._waiting)
                self._waiting.clear()
                if not writers and time.monotonic() - idle_since > IDLE:
                    self._thread = None
                    return
            for writer in writers:
                idle_since = time.monotonic()
                try:
                    if writer.flush_if_due():
                        self.soon(writer)
                except Exception:
                    emit.recorder().lost()


FLUSHER = Flusher()
os.register_at_fork(after_in_child=FLUSHER.restart)
