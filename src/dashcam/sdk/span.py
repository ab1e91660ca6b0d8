"""A span: a named part of a trace, with a beginning, an end and an outcome."""

from __future__ import annotations

from contextvars import ContextVar, Token
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from dashcam.sdk import emit, mint
from dashcam.sdk.trace import Trace, _current


class _Open(NamedTuple):
    """What must be remembered between the beginning and the end of a span."""

    started: datetime
    started_ns: int
    token: Token[Trace | None]
    below: _Open | None


# Kept here and not on the Span, which is a value like its Trace. Enter and exit see the same context.
_open: ContextVar[_Open | None] = ContextVar("dashcam_open_spans", default=None)


class Span(Trace, frozen=True, kw_only=True):
    """A Trace inside its parent's; `with` records when it began, how long it took and how it ended.

    Two records are written, so that a process that dies in between leaves the beginning behind.
    """

    name: str
    fields: dict[str, Any] = msgspec.field(default_factory=dict)

    def __enter__(self) -> Trace:
        source = mint.source()
        started, started_ns = source.now(), source.monotonic_ns()
        emit.write(self, "span_started", {"name": self.name, **self.fields}, parent_span=True)
        inside = Trace(self.session_id, self.trace_id, self.step, self.kind, self.span_id, self.parent_span_id)
        _open.set(_Open(started, started_ns, _current.set(inside), _open.get()))
        return inside

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        opened = _open.get()
        assert opened is not None, "a span ends in the context in which it began"
        _open.set(opened.below)
        _current.reset(opened.token)
        elapsed_ms = (mint.source().monotonic_ns() - opened.started_ns) / 1e6
        outcome: dict[str, Any] = {
            "name": self.name,
            "started_at": opened.started,
            "duration_ms": elapsed_ms,
            "status": "ok" if error is None else "error",
        }
        if error is not None:
            outcome["error"] = {"type": type(error).__qualname__, "message": str(error)}
        emit.write(self, "span_ended", outcome, parent_span=True)
