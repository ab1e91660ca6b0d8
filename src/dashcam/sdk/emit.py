"""The path of every record: identity, shape, redaction, encoding, journal."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from dashcam.contracts.identity import MARKS, RESERVED, fault_of_id, root_span_id
from dashcam.errors import MalformedEvent, ReservedField, UnjoinableRecord, UnknownEvent
from dashcam.sdk import mint
from dashcam.sdk.catalog import VOCABULARY
from dashcam.sdk.encode import encode_line
from dashcam.sdk.journal import Journal
from dashcam.sdk.redact import Redactor
from dashcam.sdk.settings import Settings, settings_from
from dashcam.sdk.steps import counter_of
from dashcam.sdk.trace import Trace

if TYPE_CHECKING:
    from dashcam.sdk.ship import Shipper

log = logging.getLogger("dashcam")

_shapes = VOCABULARY.shapes


class Recorder:
    """What one process records with: its settings, its journal and its counts."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.journal = Journal(settings)
        self.redactor = Redactor(settings.redaction)
        self.shipper = _shipper_for(settings)
        self.malformed = self.redacted = self.unencodable = self.failed = 0

    def record(self, trace: Trace, operation: str, fields: dict[str, Any], parent_span: bool) -> Trace:
        """Write one record and return the trace one step on.

        Above the `try` are the caller's mistakes, which are told; inside it everything that is not
        the caller's fault, which is counted and never reaches the host. One function, because this is
        what every operation of the host waits for.
        """
        # A Trace is checked when it is made; this is for one that was tampered with since.
        if not isinstance(trace, Trace) or not trace.session_id or not trace.trace_id:
            raise UnjoinableRecord(
                f"{operation!r:.80}: got {type(trace).__name__} instead of a Trace with its ids. "
                "Start from dashcam.new_trace(session_id=...)."
            )
        shape = _shapes.get(operation) if type(operation) is str else None
        marks = None if shape is not None and shape.fits(fields) else self._malformed(operation, fields)
        if not RESERVED.isdisjoint(fields):
            raise ReservedField(next(iter(RESERVED & fields.keys())), operation)
        counter = counter_of(trace.trace_id)
        step = trace.step if counter is None else counter.take(trace.step)
        try:
            fields, hidden = self.redactor.apply(fields)
            line = {
                "session_id": trace.session_id,
                "trace_id": trace.trace_id,
                "step": step,
                "kind": trace.kind,
                "operation": operation,
                "ts": mint.now(),
            }
            if trace.span_id != root_span_id(trace.trace_id):
                line["span_id"] = trace.span_id
                if parent_span:
                    line["parent_span_id"] = trace.parent_span_id
            line.update(fields)
            if hidden or marks:
                line[MARKS] = self._marked(marks, hidden)
            encoded, replaced = encode_line(line)
            if replaced:
                self.unencodable += 1
            self.journal.write(encoded)
        except Exception:
            self.failed += 1
            if self.failed == 1:
                log.warning("A record was lost inside dashcam; the agent goes on.", exc_info=True)
        return trace.at(step + 1)

    def _marked(self, marks: dict[str, Any] | None, hidden: list[str]) -> dict[str, Any]:
        if hidden:
            self.redacted += 1
            return {**(marks or {}), "redacted": hidden}
        return marks or {}

    def _malformed(self, operation: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Raise in strict mode; otherwise the mark that the record is kept with."""
        if fault := fault_of_id(operation, "operation"):
            raise UnjoinableRecord(f"{fault}: a record says what happened. Print the names with `dashcam events`.")
        shape = _shapes.get(operation)
        if shape is None:
            faults = [VOCABULARY.unknown(operation)]
            error: type[Exception] = UnknownEvent
        else:
            faults = shape.faults(fields)
            error = MalformedEvent
        if self.settings.strict:
            what = faults[0] if shape is None else f"{operation} breaks its shape: {'; '.join(faults)}."
            raise error(what)
        self.malformed += 1
        return {"malformed": faults}

    def stats(self) -> dict[str, Any]:
        journal = self.journal
        return {
            "written": journal.written,
            "bytes": journal.written_bytes,
            "dropped": journal.dropped + self.failed,
            "torn": journal.torn,
            "segments": journal.segments,
            "malformed": self.malformed,
            "redacted": self.redacted,
            "unencodable": self.unencodable,
            "last_error": journal.last_error,
            "journals": str(self.settings.journals),
            **({"ship": self.shipper.stats()} if self.shipper else {}),
        }

    def close(self) -> None:
        self.journal.close()
        if self.shipper:
            self.shipper.close()


def _shipper_for(settings: Settings) -> Shipper | None:
    """The thread that sends journals on, where there is an address to send them to."""
    if settings.url is None:
        return None
    from dashcam.sdk.ship import Shipper  # an HTTP client is nothing to load for who doesn't ship

    return Shipper(settings)


_recorder: Recorder | None = None
_starting = threading.RLock()


def recorder() -> Recorder:
    """The process's recorder, made from the environment when first needed."""
    global _recorder
    if _recorder is None:
        with _starting:
            if _recorder is None:
                _recorder = Recorder(settings_from(os.environ))
    return _recorder


def write(trace: Trace, operation: str, fields: dict[str, Any], *, parent_span: bool = False) -> Trace:
    """Write one record of `trace`. The one way in for everything in the package that records."""
    return (_recorder or recorder()).record(trace, operation, fields, parent_span)


def log_event(trace: Trace, operation: str, /, **fields: Any) -> Trace:
    """Record one operation of a trace, and return the trace one step on.

    `trace = log_event(trace, "tool_call", tool="search")`. When it returns, the line is in the journal.
    """
    return (_recorder or recorder()).record(trace, operation, fields, False)


def configure(**settings: Any) -> None:
    """Record with these settings from now on; what isn't given comes from the environment.

    data, project, strict, fsync, segment_bytes, segment_seconds, url, api_key, redaction.
    """
    before = use_recorder(Recorder(settings_from(os.environ, **settings)))
    if before:
        before.close()


def use_recorder(fresh: Recorder | None) -> Recorder | None:
    """Record with `fresh` from now on; return what was used before, open as it is."""
    global _recorder
    with _starting:
        before, _recorder = _recorder, fresh
    return before


def stats() -> dict[str, Any]:
    """What this process recorded, and what it could not."""
    return recorder().stats()


def _after_fork_in_child() -> None:
    global _starting
    _starting = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)
