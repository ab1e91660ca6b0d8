"""Records for the store's tests, each whole, with what a test says changed."""

from __future__ import annotations

from dashcam.contracts.call import ModelCall
from dashcam.contracts.content import context_digest, digest_of
from dashcam.contracts.event import Event, Orphan
from dashcam.contracts.span import Span
from dashcam.store.base import Batch, Context, Projection, Store

DAY = 86_400_000_000
NOW = 20_000 * DAY


def event(offset: int, **given: object) -> Event:
    told = {"segment": "a.jsonl", "session_id": "s", "trace_id": "t", "step": offset, "kind": "user"}
    return Event(**{**told, "offset": offset, "operation": "tool_call", "ts": NOW + offset, **given})  # type: ignore[arg-type]


def span(**given: object) -> Span:
    return Span(**{"trace_id": "t", "span_id": "p", "start_ns": 1, "end_ns": 2, **given})  # type: ignore[arg-type]


def call(**given: object) -> ModelCall:
    told = {"session_id": "s", "trace_id": "t", "step": 0, "kind": "user", "ts": NOW, "model": "m"}
    return ModelCall(**{**told, **given})  # type: ignore[arg-type]


def orphan(offset: int, **given: object) -> Orphan:
    told = {"segment": "a.jsonl", "offset": offset, "reason": "no tuple", "body": b"{}", "ts": NOW, **given}
    return Orphan(**told)  # type: ignore[arg-type]


def with_contents(store: Store, count: int, ts: int) -> None:
    """A trace with one model call for each of `count` messages, all of them kept."""
    bodies = [f'{{"n":{ts},"i":{i}}}'.encode() * 20 for i in range(count)]
    digests = [digest_of(body) for body in bodies]
    contexts = [Context(tuple(digests[: i + 1])) for i in range(count)]
    trace = f"t{ts}"
    events = [event(ts + i, trace_id=trace, step=i, ts=ts, operation="model_call") for i in range(count)]
    store.append(Batch(events=events, contents=bodies, contexts=contexts))
    calls = [
        call(trace_id=trace, step=i, ts=ts, context_digest=context_digest(digests[: i + 1]).hex()) for i in range(count)
    ]
    store.replace({trace: Projection(model_calls=calls)}, cursor=store.unprojected().cursor)
