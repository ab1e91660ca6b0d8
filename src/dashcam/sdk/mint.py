"""Where ids and time come from: the system, or a counter in tests."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from functools import partial
from typing import Protocol


class Source(Protocol):
    """What a trace needs from outside. `dashcam.testing.CountingSource` is the other one."""

    def trace_id(self) -> str: ...
    def span_id(self) -> str: ...
    def now(self) -> datetime: ...
    def monotonic_ns(self) -> int: ...


class SystemSource:
    """Random ids and the machine's clock."""

    def trace_id(self) -> str:
        # os.urandom, not `random`: after a fork two processes must not mint the same id.
        return _nonzero(16)

    def span_id(self) -> str:
        return _nonzero(8)

    # No functions of our own around these: a record asks for the time whatever else it does.
    now = partial(datetime.now, UTC)
    monotonic_ns = staticmethod(time.monotonic_ns)


def _nonzero(size: int) -> str:
    """Random hex digits; OpenTelemetry calls an id of only zeros invalid."""
    while True:
        digits = os.urandom(size).hex()
        # The low half of a trace id is its root span's id, so that mustn't be zero either.
        if digits[-16:].strip("0"):
            return digits


_source: Source = SystemSource()
now = _source.now  # the one that every record asks for, without a detour


def source() -> Source:
    return _source


def use_source(new: Source) -> Source:
    """Take ids and time from `new` from now on; return what was used before."""
    global _source, now
    before, _source, now = _source, new, new.now
    return before
