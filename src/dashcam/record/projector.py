"""From the log of a trace to what is derived from it. Pure but for its one loop over the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.event import REDACTED, Event
from dashcam.contracts.identity import MARKS
from dashcam.errors import RecordRefused, StoreError
from dashcam.record.trace_rows import EVER
from dashcam.record.trace_tools import left_open
from dashcam.record.traces import Judged
from dashcam.store.base import Projection, Reader, Store, TraceLog

_COUNTS = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read", "cache_write")
_NUMBERS = {"cost_usd": "cost_usd", "first_token_ms": "first_token_ms", "duration_ms": "latency_ms"}
_TEXTS = ("span_id", "message_id", "provider", "wire", "response_id", "stop_reason", "error") + (
    "system_prompt_digest",
    "tool_catalog_digest",
    "context_digest",
    "envelope_digest",
    "output_digest",
)
UNANSWERED = "no answer was recorded"
GROUP = 20  # traces that are replaced in one transaction, so that who appends waits for some 20 ms at most

Refused = Callable[[str, Exception], None]

_logger = logging.getLogger("dashcam")


def project_all(store: Store, *, group: int = GROUP) -> int:
    """Project every trace whose log grew, or that is to be judged again; return how many."""
    done = 0
    while found := project_some(store, group=group):
        done += found
    return done


def project_some(store: Store, *, group: int = GROUP, refused: Refused | None = None) -> int:
    """Project the next few traces in one transaction; return how many. Nobody else who writes waits longer than that.

    A trace that the store refuses to hold is told to `refused` and stays without a session; its log is complete.
    """
    page = store.unprojected(limit=group)
    judged = judge_all(store, page.trace_ids, refused)
    replace(store, judged, page.cursor, refused)
    if others := concerned(store, judged.values()):
        replace(store, judge_all(store, sorted(others), refused), page.cursor, refused)
    return len(page.trace_ids)


def judge_all(store: Reader, trace_ids: Sequence[str], refused: Refused | None = None) -> dict[str, Judged]:
    """Everything that follows from the logs of these traces, and the traces that each concerns.

    One that nobody thought of is not to stop the others: it stays without a session, and is told.
    """
    try:
        logs = store.trace_logs(trace_ids)
    except StoreError:
        logs = {}  # one of them is damaged, or none can be read
    judged: dict[str, Judged] = {}
    failed: dict[str, Exception] = {}
    for trace_id in trace_ids:
        try:
            judged[trace_id] = judge(store, trace_id, logs.get(trace_id) or store.trace_logs([trace_id])[trace_id])
        except Exception as error:
            failed[trace_id] = error
    if not judged and (faults := [fault for fault in failed.values() if isinstance(fault, StoreError)]):
        raise faults[0]  # not the fault of a trace: they are tried again
    for trace_id, fault in failed.items():
        (refused or _tell)(trace_id, fault)
    return judged | dict.fromkeys(failed, Judged())


def _tell(trace_id: str, error: Exception) -> None:
    _logger.error("trace %s stays without a session: %s: %s", trace_id, type(error).__name__, error)


def concerned(store: Reader, judged: Iterable[Judged]) -> set[str]:
    """The traces that are to be projected again because of these."""
    others: set[str] = set()
    for each in judged:
        others |= each.others
        for session_id, tools in each.closed.items():
            others |= left_open(tools, store.told_before(session_id, EVER))
    return others


def replace(store: Store, judged: dict[str, Judged], cursor: str, refused: Refused | None) -> None:
    """Put what follows from these traces in the place of what did."""
    try:
        store.replace({trace_id: each.projection for trace_id, each in judged.items()}, cursor=cursor)
    except RecordRefused as error:
        if len(judged) > 1:
            for trace_id, each in judged.items():
                replace(store, {trace_id: each}, cursor, refused)
            return
        (trace_id,) = judged
        store.replace({trace_id: Projection()}, cursor=cursor)
        (refused or _tell)(trace_id, error)


def judge(store: Reader, trace_id: str, log: TraceLog) -> Judged:
    """Everything that follows from the log of one trace."""
    calls = calls_of_events(log.calls)
    if not log.spans and not log.logs:
        return Judged(Projection(model_calls=calls))
    from dashcam.record.trace_readings import judge_spans  # brings OpenTelemetry's messages along

    judged = judge_spans(store, trace_id, log.spans, log.logs)
    if not calls:
        return judged
    whole = msgspec.structs.replace(judged.projection, model_calls=[*calls, *judged.projection.model_calls])
    return msgspec.structs.replace(judged, projection=whole)


def calls_of_events(events: Iterable[Event]) -> list[ModelCall]:
    """The model calls that the events of a trace tell."""
    calls: list[ModelCall] = []
    asked: dict[int, ModelCall] = {}  # by the step of the request
    for event in events:
        if event.operation not in ("model_call", "model_request"):
            continue
        call = model_call_of(event)
        if call and event.operation == "model_request":
            asked[event.step] = call
        elif call:
            asked.pop(_count(event.data().get("request_step")) or -1, None)
            calls.append(call)
    calls += [msgspec.structs.replace(call, error=UNANSWERED) for call in asked.values()]
    return sorted(calls, key=lambda call: (call.step, call.ts))


def model_call_of(event: Event) -> ModelCall | None:
    """The call that an event tells of; what is not told, or not legible, is unknown and never 0."""
    fields = event.data()
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        return None  # a malformed event names no model: it stays in the log, and is counted there
    told: dict[str, Any] = {name: _count(fields.get(name)) for name in _COUNTS}
    told |= {name: _number(fields.get(source)) for name, source in _NUMBERS.items()}
    told |= {name: value if isinstance(value := fields.get(name), str) else None for name in _TEXTS}
    settings = fields.get("settings")
    return ModelCall(
        session_id=event.session_id,
        trace_id=event.trace_id,
        step=event.step,
        kind=event.kind,
        ts=event.ts,
        model=model,
        settings=msgspec.json.encode(settings).decode() if isinstance(settings, dict) else "{}",
        redacted=bool(event.marks & REDACTED),
        redacted_paths=_redacted_paths(fields),
        **told,
    )


def _redacted_paths(fields: dict[str, Any]) -> str:
    """Where secrets were taken out, as our remarks say."""
    remarks = fields.get(MARKS)
    paths = remarks.get("redacted") if isinstance(remarks, dict) else None
    return msgspec.json.encode(
        [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
    ).decode()


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _number(value: object) -> float | None:
    """A number that can be added to others: not one of 400 digits, nor infinity."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and abs(value) < 1e300 else None  # type: ignore[arg-type]
