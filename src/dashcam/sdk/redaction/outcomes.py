"""What became of texts that were looked into, so that none is looked into twice."""

from __future__ import annotations

import sys
import threading

MAX_KNOWN = 4_096


class Outcomes:
    """What became of long texts, by digest; the oldest go first. Holds no secret: outcomes are clean."""

    def __init__(self, entries: int = 4_096, size: int = 16_000_000) -> None:
        self._entries, self._size, self._held = entries, size, 0
        self._found: dict[bytes, str] = {}
        self._lock = threading.Lock()

    def get(self, digest: bytes) -> str | None:
        return self._found.get(digest)

    def put(self, digest: bytes, outcome: str) -> None:
        weight = _weight(outcome)
        with self._lock:
            if digest in self._found or weight > self._size // 4:
                return
            self._found[digest] = outcome
            self._held += weight
            while len(self._found) > self._entries or self._held > self._size:
                self._held -= _weight(self._found.pop(next(iter(self._found))))


def remember(text: str, known: set[str]) -> None:
    """Add to what is known; when that is too much, begin anew."""
    if len(known) >= MAX_KNOWN:
        known.clear()
    known.add(text)


def _weight(outcome: str) -> int:
    return 128 + sys.getsizeof(outcome)
