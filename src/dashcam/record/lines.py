"""Writing the lines of one session: events at their steps, rows at the step where they belong, spans around both."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from dashcam.sdk import emit, mint
from dashcam.sdk.steps import count_steps
from dashcam.sdk.trace import Trace, moved_to

_all: weakref.WeakSet[Lines] = weakref.WeakSet()


class Lines:
    """The one place of a recorder that writes. It knows at which step its trace is."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.lock = threading.RLock()  # one at a time: the host's threads, and the one that saves
        _all.add(self)
        self.open()

    def open(self) -> None:
        """Hold the trace's counter until closed: other traces don't push it out."""
        self._counter = count_steps(self.trace.trace_id, self.trace.step)
        self._counter.users += 1

    def event(self, operation: str, fields: dict[str, Any], *, hidden: Sequence[str] = ()) -> None:
        self._write(self.trace, operation, fields, hidden=hidden)

    def row(self, operation: str, fields: dict[str, Any]) -> bool:
        """Write a row whose secrets are gone already; whether it was written."""
        recorder = emit.recorder()
        lost = recorder.journal.dropped + recorder.failed
        recorder.keep(self.trace, operation, fields)
        return recorder.journal.dropped + recorder.failed == lost

    def span(self, name: str, fields: dict[str, Any], parent: OpenSpan | None = None) -> OpenSpan:
        """Begin a span inside `parent`; it is ended by hand, since a stream has no block to leave."""
        return OpenSpan(self, name, fields, parent.trace if parent else self.trace)

    def inside(self, span: OpenSpan | None) -> None:
        """Let what is written from now on belong to this span, or to none."""
        base = span.trace if span else Trace(self.trace.session_id, self.trace.trace_id, kind=self.trace.kind)
        self.trace = moved_to(base, self.trace.step)

    def close(self) -> None:
        self._counter.users -= 1

    def _write(self, trace: Trace, operation: str, fields: dict[str, Any], **more: Any) -> None:
        moved = emit.write(moved_to(trace, self.trace.step), operation, fields, **more)
        self.trace = moved_to(self.trace, moved.step)


class OpenSpan:
    """A span that has begun. Two records, so that a process that dies in between leaves the beginning behind."""

    def __init__(self, lines: Lines, name: str, fields: dict[str, Any], parent: Trace) -> None:
        source = mint.source()
        self._lines, self._name = lines, name
        self._at, self._ns = source.now(), source.monotonic_ns()
        span_id = source.span_id()
        self.trace = Trace(parent.session_id, parent.trace_id, 0, parent.kind, span_id, parent.span_id)
        lines._write(self.trace, "span_started", {**fields, "name": name}, parent_span=True)

    @property
    def elapsed_ms(self) -> float:
        return (mint.source().monotonic_ns() - self._ns) / 1e6

    def end(self, fields: dict[str, Any] | None = None, error: dict[str, str] | None = None) -> None:
        outcome: dict[str, Any] = {
            **(fields or {}),
            "name": self._name,
            "started_at": self._at,
            "duration_ms": self.elapsed_ms,
            "status": "error" if error else "ok",
        }
        if error:
            outcome["error"] = error
        self._lines._write(self.trace, "span_ended", outcome, parent_span=True)


def _after_fork_in_child() -> None:
    for lines in list(_all):
        lines.lock = threading.RLock()  # another thread of the parent's may have held it, for ever


os.register_at_fork(after_in_child=_after_fork_in_child)


def place() -> tuple[int, int, int]:
    """Which journal segment is being written.

    Segments may be collected in any order, those of a parent after its child's: each tells all that it builds on.
    """
    journal = emit.recorder().journal
    return os.getpid(), id(journal), journal.segments
