"""From the log of a trace to what is derived from it. Pure but for its one loop over the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.event import REDACTED, Event
from dashcam.contracts.identity import MARKS
from dashcam.store.base import EventFilter, Projection, Store

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


def project_all(store: Store) -> int:
    """Project every trace whose log grew; return how many."""
    done = 0
    while True:
        page = store.unprojected()
        if not page.trace_ids:
            return done
        replaced = {trace_id: project(store.events(EventFilter(trace_id=trace_id))) for trace_id in page.trace_ids}
        store.replace(replaced, cursor=page.cursor)
        done += len(replaced)


def project(events: Iterable[Event]) -> Projection:
    """Everything that follows from the log of one trace."""
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
    return Projection(model_calls=sorted(calls, key=lambda call: (call.step, call.ts)))


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
