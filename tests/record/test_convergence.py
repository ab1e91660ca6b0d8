"""Spans arrive late, twice and in any order: what is read in the end depends on what arrived alone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agent_traces import request_of, session_requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashcam.dialects.otlp import wire
from dashcam.record import pipeline as projecting
from dashcam.record.pipeline import Pipeline
from dashcam.record.projector import project_all
from dashcam.store.base import Batch, Context, SessionFilter, TraceFilter
from dashcam.store.sqlite.store import SqliteReader, SqliteStore


def append(store: SqliteStore, spans: list[Any]) -> None:
    received = wire.receive_traces(wire.parse_traces(request_of(spans), "protobuf"), None)
    contexts = [Context(digests) for digests in received.contexts]
    store.append(Batch(spans=received.spans, contents=received.contents, contexts=contexts))


def reads(store: SqliteStore) -> dict[str, Any]:
    """Everything that is derived, as a reader sees it."""
    sessions = store.sessions(SessionFilter(kind=None))
    ids = [session.session_id for session in sessions]
    return {
        "sessions": sessions,
        "rows": [store.chat_session(session_id) for session_id in ids],
        "messages": [list(store.chat_messages(session_id)) for session_id in ids],
        "parts": [sorted(store.chat_parts(session_id), key=lambda part: part.id) for session_id in ids],
        "calls": [store.model_calls(session_id=session_id) for session_id in ids],
        "traces": store.trace_list(TraceFilter()),
    }


def texts(store: SqliteStore, session_id: str) -> list[str]:
    return [part.data()["text"] for part in store.chat_parts(session_id) if part.type == "text"]


@st.composite
def _arrivals(draw: st.DrawFn) -> tuple[list[Any], list[list[Any]]]:
    """The spans of a session, and batches that hold each of them at least once."""
    traces = session_requests(
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
        per_trace=draw(st.integers(1, 2)),
        session=draw(st.sampled_from(["s", None])),
        failing=draw(st.lists(st.integers(0, 3), max_size=2)),
        apart=draw(st.booleans()),
    )
    spans = [span for trace in traces for span in trace]
    spans = draw(st.permutations(spans))[: max(1, len(spans) - draw(st.integers(0, 3)))]  # some never come
    order = draw(st.permutations(spans)) + draw(st.lists(st.sampled_from(spans), max_size=5))
    batches: list[list[Any]] = [[]]
    for span in order:
        if draw(st.booleans()):
            batches.append([])
        batches[-1].append(span)
    return spans, [batch for batch in batches if batch]


@pytest.fixture
def one_trace_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a trace is judged while the one before it, of the same session, is being written."""
    monkeypatch.setattr(projecting, "GROUP", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("one_trace_a_group")
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(_arrivals())
def test_any_order_of_arrival_ends_in_the_same_reads(arrivals: tuple[list[Any], list[list[Any]]]) -> None:
    spans, batches = arrivals
    with TemporaryDirectory() as folder:
        with SqliteStore(Path(folder) / "at-once.db") as store:
            append(store, spans)
            project_all(store)
            at_once = reads(store)
        path = Path(folder) / "bit-by-bit.db"
        with SqliteStore(path) as store, SqliteReader(path) as reader, closing(Pipeline(store, reader)) as pipeline:
            for batch in batches:
                append(store, batch)
                while pipeline.project_some():
                    pass
                for session in store.sessions(SessionFilter(kind=None)):
                    answers = [text for text in texts(store, session.session_id) if text.startswith("answer")]
                    assert len(answers) == len(set(answers))
            for parts in at_once["parts"]:
                tools = [part.tool_call_id for part in parts if part.tool_call_id]
                assert len(tools) == len(set(tools))
            assert reads(store) == at_once
            store.forget_projections()
            project_all(store)
            assert reads(store) == at_once


def test_turns_that_a_late_trace_tells_are_told_by_it_alone(store: SqliteStore) -> None:
    first, second = session_requests(2, 1)
    append(store, second)
    project_all(store)
    assert texts(store, "s") == ["question 0", "answer 0.0", "question 1", "answer 1.0"]
    assert [bool(message.metadata().get("history")) for message in store.chat_messages("s")] == [
        True,
        True,
        False,
        False,
    ]
    append(store, first)
    project_all(store)
    assert texts(store, "s") == ["question 0", "answer 0.0", "question 1", "answer 1.0"]
    assert not any(message.metadata().get("history") for message in store.chat_messages("s"))


def test_traces_without_a_session_find_each_other_by_what_was_said(store: SqliteStore) -> None:
    traces = session_requests(3, 2, session=None)
    for trace in reversed(traces):
        append(store, trace)
        project_all(store)
    (session,) = store.sessions(SessionFilter())
    assert (session.session_id, session.turns, session.traces) == (f"trace:{'01' * 16}", 3, 3)
    assert store.session_by() == {"context": 2, "none": 1}
