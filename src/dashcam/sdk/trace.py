"""The joinable signal: who a record belongs to, carried by value through the call path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from dashcam.contracts.identity import fault_of_id, require_identity, root_span_id
from dashcam.errors import UnjoinableRecord
from dashcam.sdk import mint
from dashcam.sdk.steps import StepCounter, count_steps

if TYPE_CHECKING:
    from dashcam.sdk.span import Span

_set = msgspec.structs.force_setattr


class Trace(msgspec.Struct, frozen=True, gc=False):  # gc: it holds nothing that could hold it
    """One operation of one session, and where in it we are. Nothing in it ever changes.

    Rules: `session_id` and `trace_id` are never empty; `step` counts from 0; `kind` is `user` or
    `system:<source>`; `span_id` is the span that records belong to (the trace's root, until `span()`).
    """

    # Never optional; a default only so that leaving one out is told as what it is, an UnjoinableRecord.
    session_id: str = ""
    trace_id: str = ""
    step: int = 0
    kind: str = "user"
    span_id: str = ""
    parent_span_id: str | None = None

    def __post_init__(self) -> None:
        require_identity(self.session_id, self.trace_id, self.step, self.kind)
        if not self.span_id:
            _set(self, "span_id", root_span_id(self.trace_id))
        for name in ("span_id", "parent_span_id"):
            value = getattr(self, name)
            if value is not None and (fault := fault_of_id(value, name)):
                raise UnjoinableRecord(f"{fault}: it could not be joined to its span.")
        for name in ("session_id", "trace_id", "kind", "span_id", "parent_span_id"):
            value = getattr(self, name)
            if type(value) is not str and value is not None:
                _set(self, name, str.__str__(value))  # an Enum's member, say: kept as the text that it is

    def tick(self) -> Trace:
        """The same trace, one step on."""
        return moved_to(self, self.step + 1)

    def span(self, name: str, /, **fields: Any) -> Span:
        """A child of this trace, for the part of the work called `name`.

        It is a Trace to pass on, and a context manager that makes itself current and records its
        start, duration and error.
        """
        from dashcam.sdk.span import Span

        count_steps(self.trace_id, self.step)
        return Span(
            session_id=self.session_id,
            trace_id=self.trace_id,
            step=self.step,
            kind=self.kind,
            span_id=mint.source().span_id(),
            parent_span_id=self.span_id,
            name=name,
            fields=fields,
        )


def moved_to(trace: Trace, step: int) -> Trace:
    """The same trace at a later step. A copy isn't checked again: only the step differs."""
    moved: Trace = trace.__copy__()  # type: ignore[attr-defined]  # msgspec's own, four times as fast as copy()
    _set(moved, "step", step)
    return moved


def new_trace(session_id: str = "", *, trace_id: str | None = None, kind: str = "user") -> Trace:
    """Start a trace: one turn, one run, one request of `session_id`.

    The session id is never optional. It has a default only so that leaving it out is told as what it
    is, an UnjoinableRecord, like an empty one.
    """
    # Only None means "mint one": an empty trace id from outside is a fault to tell, not to paper over.
    return Trace(session_id, mint.source().trace_id() if trace_id is None else trace_id, kind=kind)


def system_trace(source: str, *, session_id: str | None = None) -> Trace:
    """Start a trace of the agent's own background traffic, told apart from its users' by its kind."""
    kind = f"system:{source}" if isinstance(source, str) else ""
    # Without a session of somebody's, all traffic of one source is one session.
    return new_trace(kind if session_id is None else session_id, kind=kind)


_current: ContextVar[Trace | None] = ContextVar("dashcam_trace", default=None)


def current_trace() -> Trace:
    """The trace that this thread or task works for."""
    trace = _current.get()
    if trace is None:
        raise UnjoinableRecord(
            "There is no current trace here. Enter one with `with dashcam.use_trace(trace):`; a new thread "
            "starts without one unless it runs in contextvars.copy_context()."
        )
    return trace


@contextmanager
def use_trace(trace: Trace) -> Iterator[Trace]:
    """Make `trace` current inside the block, for this thread or task and the tasks it starts."""
    before = make_current(trace)
    try:
        yield trace
    finally:
        restore_current(before)


class Before(NamedTuple):
    """What was current before, and the counter that is held meanwhile."""

    token: Token[Trace | None]
    counter: StepCounter


def make_current(trace: Trace) -> Before:
    if not isinstance(trace, Trace):
        raise UnjoinableRecord(f"got {type(trace).__name__} instead of a Trace. Start from dashcam.new_trace().")
    counter = count_steps(trace.trace_id, trace.step)
    counter.users += 1
    return Before(_current.set(trace), counter)


def restore_current(before: Before) -> None:
    before.counter.users -= 1
    # ValueError: left in another context than it was entered in, as async generators do. That context
    # never had this trace, so there is nothing to put back, and it is no fault of the host's.
    with suppress(ValueError):
        _current.reset(before.token)
