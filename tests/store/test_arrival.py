"""Reads don't depend on the order of arrival, and what can't be held is refused whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import NOW, event, orphan, span

from dashcam.contracts.event import Event
from dashcam.contracts.span import LogRecord
from dashcam.errors import RecordRefused, StoreError
from dashcam.record.projector import project_all
from dashcam.store.base import Batch, EventFilter, SessionFilter
from dashcam.store.sqlite.store import SqliteReader, SqliteStore

places = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 9))
told = st.tuples(st.integers(0, 2), st.integers(0, 1), st.sampled_from(["t", "u"]))


def told_of(place: tuple[str, int], what: tuple[int, int, str]) -> Event:
    segment, offset = place
    step, later, trace_id = what
    fields = msgspec.json.encode({"model": f"{segment}{offset}"}).decode()
    return event(
        offset, segment=segment, step=step, ts=NOW + later, trace_id=trace_id, operation="model_call", fields=fields
    )


def reads(store: SqliteStore) -> list[Any]:
    """Everything that is read of events, but for the number of arrival."""
    filters = [EventFilter(), EventFilter(session_id="s"), EventFilter(trace_id="t"), EventFilter(limit=3)]
    found: list[Any] = [[msgspec.structs.replace(each, seq=0) for each in store.events(wanted)] for wanted in filters]
    found += [
        store.model_calls("t"),
        store.model_calls("u"),
        store.traces("s"),
        store.sessions(SessionFilter(kind=None)),
    ]
    return [*found, store.figures("source"), store.shared_steps()]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.dictionaries(places, told, min_size=1, max_size=20), st.data())
def test_the_same_events_in_any_order_of_arrival_read_the_same(
    tmp_path_factory: pytest.TempPathFactory, recorded: dict[tuple[str, int], tuple[int, int, str]], data: st.DataObject
) -> None:
    events = [told_of(place, what) for place, what in recorded.items()]
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as one:
        one.append(Batch(events=events))
        project_all(one)
        expected = reads(one)
        one.forget_projections()
        project_all(one)
        assert reads(one) == expected
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as other:
        for each in data.draw(st.permutations(events)):
            other.append(Batch(events=[each]))
            project_all(other)
        assert reads(other) == expected


HUGE = 2**63


@pytest.mark.parametrize(
    "batch",
    [
        Batch(events=[event(0, ts=HUGE)]),
        Batch(events=[event(0, step=HUGE)]),
        Batch(events=[event(0, kind="robot")]),
        Batch(events=[event(0, session_id="\ud800")]),
        Batch(events=[event(0, fields={"a": 1})]),
        Batch(spans=[span(end_ns=HUGE)]),
        Batch(spans=[span(start_ns=-HUGE - 1)]),
        Batch(spans=[span(name="\ud800")]),
        Batch(logs=[LogRecord(trace_id="t", ts=HUGE)]),
        Batch(orphans=[orphan(0, ts=HUGE)]),
        Batch(orphans=[orphan(0, reason="")]),
    ],
)
def test_a_record_that_cannot_be_held_is_refused_with_all_of_its_batch(store: SqliteStore, batch: Batch) -> None:
    good = event(99)
    whole = msgspec.structs.replace(batch, events=[good, *batch.events])
    with pytest.raises(RecordRefused, match="Nothing of this batch was kept"):
        store.append(whole)
    assert list(store.events(EventFilter())) == []
    assert store.append(Batch(events=[good])).new == 1
    assert list(store.verify()) == []


def test_a_store_that_cannot_be_written_refuses_no_record(store: SqliteStore, path: Path) -> None:
    store._connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked") as busy:
        store.append(Batch(events=[event(0)]))
    other.close()
    store._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError, match="readonly") as readonly:
        store.append(Batch(events=[event(0)]))
    assert RecordRefused not in (busy.type, readonly.type)


@pytest.mark.parametrize(
    "insert",
    [
        "INSERT INTO trace_aliases (otel_trace_id, trace_id) VALUES ('', 't')",
        "INSERT INTO logs (seq, digest, trace_id, ts, name, severity, scope_id, body_at, body_size) VALUES (1, x'', 't', 1, '', '', 1, 0, 0)",
    ],
)
def test_no_id_is_empty(store: SqliteStore, insert: str) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        store._connection.execute(insert)


def test_a_reader_backs_up_what_another_is_writing(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    store.append(Batch(events=[event(0)]))
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "copy.db"
    with SqliteReader(path) as reader, store._transaction():
        store._log.put_events([event(9)])
        reader.backup(target)
    with SqliteReader(target) as copy:
        assert len(list(copy.events(EventFilter()))) == 1
        assert list(copy.verify()) == []
