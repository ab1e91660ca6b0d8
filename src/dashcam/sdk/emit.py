"""The path of every record: identity, shape, redaction, encoding, journal."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dashcam.contracts.identity import MARKS, RESERVED, fault_of_id
from dashcam.errors import MalformedEvent, ReservedField, SettingsError, UnjoinableRecord, UnknownEvent
from dashcam.sdk import mint
from dashcam.sdk.catalog import VOCABULARY
from dashcam.sdk.encode import frame, line_of, middle, tamed
from dashcam.sdk.journal import Journal
from dashcam.sdk.redaction import Redactor
from dashcam.sdk.settings import Settings, settings_from
from dashcam.sdk.steps import counter_of
from dashcam.sdk.trace import Trace, moved_to

if TYPE_CHECKING:
    from dashcam.sdk.ship import Shipper

log = logging.getLogger("dashcam")

_shapes = VOCABULARY.shapes

# Names and fields come from code, so there are few; where they come from data, they are forgotten in time.
MAX_PLANS = 1_024


class Plan(NamedTuple):
    """What is the same for every record with this name and these fields, found out once."""

    checks: tuple[tuple[str, frozenset[type]], ...]  # the types that its shape asks for
    middle: bytes
    innocent: bool = False  # no name among the fields is that of a secret


class Recorder:
    """What one process records with: its settings, its journal and its counts."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.journal = Journal(settings)
        self.redactor = Redactor(settings.redaction)
        self.shipper = _shipper_for(settings)
        self.malformed = self.redacted = self.unencodable = self.failed = 0
        self.last_failure: str | None = None
        self._plans: dict[tuple[str, ...], Plan] = {}

    def record(
        self, trace: Trace, operation: str, fields: dict[str, Any], parent_span: bool, hidden: Sequence[str] = ()
    ) -> Trace:
        """Write one record and return the trace one step on. `hidden` is where secrets were taken out before.

        Above the `try` are the caller's mistakes, which are told; inside it everything that is not
        the caller's fault, which is counted and never reaches the host. One function, because this is
        what every operation of the host waits for.
        """
        require_trace(trace, operation)
        if type(operation) is not str:
            operation = _name_of(operation)
        parent = trace.parent_span_id if parent_span else None
        start, where = frame(trace.session_id, trace.trace_id, trace.span_id, parent)
        marks = None
        plan = self._plans.get((trace.kind, operation, *fields))
        if plan is None:
            plan, marks = self._plan(trace.kind, operation, fields)
        for name, types in plan.checks:
            if type(fields[name]) not in types:
                marks = self._judge(operation, fields)
                break
        counter = counter_of(trace.trace_id)
        step = trace.step if counter is None else counter.take(trace.step)
        try:
            if not plan.innocent or marks or hidden or not self.redactor.are_harmless(fields.values()):
                fields = self._redacted(fields, marks, hidden)
            try:
                line = line_of(start, step, plan.middle, mint.now(), where, fields)
            except Exception:
                self.unencodable += "unencodable" not in fields.get(MARKS, ())
                line = line_of(start, step, plan.middle, mint.now(), where, tamed(fields))
            self.journal.write(line)
        except Exception:
            self.lost()
        return moved_to(trace, step + 1)

    def keep(self, trace: Trace, operation: str, fields: dict[str, Any]) -> None:
        """Write a row that belongs to the trace's present step, and takes none of its own.

        What may hold secrets has been through `redactor` before: a digest and its body must agree.
        """
        require_trace(trace, operation)
        start, where = frame(trace.session_id, trace.trace_id, trace.span_id, None)
        between = middle(trace.kind, operation)
        try:
            try:
                line = line_of(start, trace.step, between, mint.now(), where, fields)
            except Exception:
                self.unencodable += 1
                line = line_of(start, trace.step, between, mint.now(), where, tamed(fields))
            self.journal.write(line)
        except Exception:
            self.lost()

    def lost(self) -> None:
        """Count a record that is gone through our own fault, and say so once."""
        self.failed += 1
        self.last_failure = f"{sys.exc_info()[1]!r:.200}"
        if self.failed == 1:
            with suppress(Exception):  # a handler of the host's may fail, too
                log.warning("A record was lost inside dashcam; the agent goes on.", exc_info=True)

    def _plan(self, kind: str, operation: str, fields: dict[str, Any]) -> tuple[Plan, dict[str, Any] | None]:
        """The plan for such a record, remembered if only types can be wrong with it; and its marks."""
        if fault := fault_of_id(operation, "operation"):
            raise UnjoinableRecord(f"{fault}: a record says what happened. Print the names with `dashcam events`.")
        if not RESERVED.isdisjoint(fields):
            raise ReservedField(next(iter(RESERVED & fields.keys())), operation)
        shape = _shapes.get(operation)
        if shape is None or not shape.has_names(fields):
            return Plan((), middle(kind, operation)), self._judge(operation, fields)
        plan = Plan(shape.checks_for(fields), middle(kind, operation), self.redactor.learns(fields))
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        self._plans[(kind, operation, *fields)] = plan
        return plan, None

    def _judge(self, operation: str, fields: dict[str, Any]) -> dict[str, Any] | None:
        """What is wrong with this event: raised in strict mode, otherwise the mark that it is kept with."""
        shape = _shapes.get(operation)
        faults = [VOCABULARY.unknown(operation)] if shape is None else shape.faults(fields)
        if not faults:
            return None
        if self.settings.strict:
            if shape is None:
                raise UnknownEvent(faults[0])
            raise MalformedEvent(f"{operation} breaks its shape: {'; '.join(faults)}.")
        self.malformed += 1
        return {"malformed": faults}

    def _redacted(self, fields: dict[str, Any], marks: dict[str, Any] | None, hidden: Sequence[str]) -> dict[str, Any]:
        """The fields without secrets, with our remarks on them if there are any."""
        fields, taken, replaced = self.redactor.apply(fields)
        if taken or hidden:
            self.redacted += 1
            marks = {**(marks or {}), "redacted": [*hidden, *taken]}
        if replaced:
            self.unencodable += 1
            marks = {**(marks or {}), "unencodable": replaced}
        if not RESERVED.isdisjoint(fields):
            # Only the host's own function can bring these in; what identifies a record is not for it to say.
            marks = {**(marks or {}), "refused": sorted(RESERVED & fields.keys())}
            fields = {name: value for name, value in fields.items() if name not in RESERVED}
        return {**fields, MARKS: marks} if marks else fields

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
            "last_error": journal.last_error or self.last_failure,
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


def require_trace(trace: object, operation: object) -> None:
    """Raise UnjoinableRecord for what is no Trace."""
    if not isinstance(trace, Trace):
        raise UnjoinableRecord(
            f"{operation!r:.80}: got {type(trace).__name__} instead of a Trace. "
            "Start from dashcam.new_trace(session_id=...)."
        )


def _name_of(operation: object) -> str:
    """The text of an operation that is some kind of text (an Enum's member, say); anything else is refused."""
    if isinstance(operation, str):
        return str.__str__(operation)
    raise UnjoinableRecord(f"operation is {type(operation).__name__}, not text: a record says what happened.")


_recorder: Recorder | None = None
_starting = threading.RLock()
# What configure() can't change: a test's own folder stays a test's own folder.
_pinned: dict[str, Any] = {}


def recorder() -> Recorder:
    """The process's recorder, made from the environment when first needed."""
    global _recorder
    if _recorder is None:
        with _starting:
            if _recorder is None:
                _recorder = Recorder(_settings_of_environment())
    return _recorder


def _settings_of_environment() -> Settings:
    """The environment is not the caller: what can't be used there is told once, and left out."""
    try:
        return settings_from(os.environ, **_pinned)
    except SettingsError as error:
        log.warning("%s Recording with the defaults instead.", error)
        kept = {name: value for name, value in os.environ.items() if name in ("DASHCAM_DATA", "XDG_DATA_HOME")}
        return settings_from(kept, **_pinned)
    except Exception as error:
        # No home, no working directory: there is nowhere to record to, and every record counts as dropped.
        log.warning("There is no folder to record in (%s). Set DASHCAM_DATA to an absolute path.", error)
        return Settings(data=Path(os.devnull))


def write(
    trace: Trace, operation: str, fields: dict[str, Any], *, parent_span: bool = False, hidden: Sequence[str] = ()
) -> Trace:
    """Write one record of `trace`. The one way in for everything in the package that records."""
    return (_recorder or recorder()).record(trace, operation, fields, parent_span, hidden)


def log_event(trace: Trace, operation: str, /, **fields: Any) -> Trace:
    """Record one operation of a trace, and return the trace one step on.

    `trace = log_event(trace, "tool_call", tool="search")`. When it returns, the line is in the journal.
    """
    return (_recorder or recorder()).record(trace, operation, fields, False)


def configure(**settings: Any) -> None:
    """Record with these settings from now on; what isn't given comes from the environment.

    data, project, strict, fsync, segment_bytes, segment_seconds, url, api_key, redaction.
    """
    before = use_recorder(Recorder(settings_from(os.environ, **{**settings, **_pinned})))
    if before:
        before.close()


def use_recorder(fresh: Recorder | None) -> Recorder | None:
    """Record with `fresh` from now on; return what was used before, open as it is."""
    global _recorder
    with _starting:
        before, _recorder = _recorder, fresh
    return before


def pin(settings: dict[str, Any]) -> dict[str, Any]:
    """Let these stand whatever configure() says; return what was pinned before."""
    global _pinned
    before, _pinned = _pinned, settings
    return before


def stats() -> dict[str, Any]:
    """What this process recorded, and what it could not."""
    return recorder().stats()


def _after_fork_in_child() -> None:
    global _starting
    _starting = threading.RLock()
    if _recorder is not None:  # the parent's counts are the parent's
        _recorder.malformed = _recorder.redacted = _recorder.unencodable = _recorder.failed = 0


os.register_at_fork(after_in_child=_after_fork_in_child)
