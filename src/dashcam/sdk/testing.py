"""For tests of your own: ids and a clock that count, and a tape of what was recorded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from dashcam.sdk import emit, mint
from dashcam.sdk.journal import order_of
from dashcam.sdk.steps import swap_counters


class CountingSource:
    """Ids 1, 2, 3 … and a clock that moves on by one millisecond whenever it is read."""

    def __init__(self, start: datetime | None = None, tick: timedelta = timedelta(milliseconds=1)) -> None:
        self._now = start or datetime(2030, 1, 1, tzinfo=UTC)
        self._tick = tick
        self._traces = self._spans = 0
        self._elapsed = timedelta()

    def trace_id(self) -> str:
        self._traces += 1
        return f"{self._traces:032x}"

    def span_id(self) -> str:
        # Far from the trace ids, whose low half names the root span.
        self._spans += 1
        return f"{0xA << 60 | self._spans:016x}"

    def now(self) -> datetime:
        self._elapsed += self._tick
        return self._now + self._elapsed

    def monotonic_ns(self) -> int:
        self._elapsed += self._tick
        return self._elapsed // timedelta(microseconds=1) * 1000


class Tape:
    """What was recorded inside `recording()`; it can be read in the block and after it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: list[dict[str, Any]] | None = None

    @property
    def records(self) -> list[dict[str, Any]]:
        """Every record so far, in the order in which they were written."""
        if self._kept is not None:
            return self._kept
        segments = sorted(self.folder.rglob("*.jsonl"), key=lambda path: order_of(path.name))
        return [msgspec.json.decode(line) for path in segments for line in path.read_bytes().splitlines()]

    def keep(self) -> None:
        """Hold what there is, since the folder may go."""
        self._kept = self.records


@contextmanager
def recording(folder: Path | None = None, **settings: Any) -> Iterator[Tape]:
    """Record into `folder` (a temporary one by default), strictly, with counting ids and clock.

    Whatever this machine is set up for, and whatever the code under test configures: it records here and
    ships nowhere. Settings given here stand; redaction, if not given, is what the host configured before.
    """
    with tempfile.TemporaryDirectory(prefix="dashcam-") as temporary:
        pinned = {"data": folder or Path(temporary), "project": "default", "strict": True, "url": "", **settings}
        host = emit.use_recorder(None)
        if host:
            settings.setdefault("redaction", host.settings.redaction)
        pinned_before = emit.pin(pinned)
        source_before = mint.use_source(CountingSource())
        counters_before = swap_counters({})
        tape = Tape(pinned["data"])
        try:
            emit.configure(**settings)
            tape.folder = emit.recorder().settings.journals
            yield tape
        finally:
            swap_counters(counters_before)
            mint.use_source(source_before)
            emit.pin(pinned_before)
            ours = emit.use_recorder(host)
            if ours:
                ours.close()
            tape.keep()
