"""A span: a named part of a trace, with a beginning, an end and an outcome."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from dashcam.sdk import emit, mint
from dashcam.sdk.trace import Before, Trace, make_current, restore_current


class _Opened(NamedTuple):
    """What must be remembered between the beginning and the end of a span."""

    at: datetime
    ns: int
    before: Before


class Span(Trace, frozen=True, kw_only=True, eq=False, gc=True):
    """A Trace inside its parent's; `with` records when it began, how long it took and how it ended.

    Two records are written, so that a process that dies in between leaves the beginning behind.
    """

    name: str
    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    opened: list[_Opened] = msgspec.field(default_factory=list)  # a stack: a span may be entered again inside itself

    def __enter__(self) -> Trace:
        source = mint.source()
        at, ns = source.now(), source.monotonic_ns()
        emit.write(self, "span_started", {**self.fields, "name": self.name}, parent_span=True)
        inside = Trace(self.session_id, self.trace_id, self.step, self.kind, self.span_id, self.parent_span_id)
        self.opened.append(_Opened(at, ns, make_current(inside)))
        return inside

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        began = self.opened.pop()
        restore_current(began.before)
        failed = error is not None and not isinstance(error, GeneratorExit)  # that is a reader who had enough
        outcome: dict[str, Any] = {
            "name": self.name,
            "started_at": began.at,
            "duration_ms": (mint.source().monotonic_ns() - began.ns) / 1e6,
            "status": "error" if failed else "ok",
        }
        if error is not None and failed:
            outcome["error"] = {"type": type(error).__qualname__, "message": _message_of(error)}
        emit.write(self, "span_ended", outcome, parent_span=True)


def _message_of(error: BaseException) -> str:
    """What the error says. Its own __str__ is the host's code, and may fail."""
    try:
        return str(error)
    except Exception:
        return "(the error can't be shown)"
