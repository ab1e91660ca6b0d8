from __future__ import annotations

import random
import sqlite3
import subprocess
from pathlib import Path
from shutil import which

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import DAY, NOW, event, orphan, span, with_contents

from dashcam.contracts.identity import otel_trace_id
from dashcam.contracts.span import LogRecord
from dashcam.errors import StoreBusy, StoreError, StoreTooNew, TraceNotFound, UnreadableInput
from dashcam.store.base import Batch, EventFilter, Retention, SessionFilter, Source
from dashcam.store.sqlite.store import SqliteReader, SqliteStore


def test_a_repeated_batch_adds_nothing(store: SqliteStore) -> None:
    batch = Batch(events=[event(0), event(10)], spans=[span()], orphans=[orphan(20)])
    assert store.append(batch).new == 4
    assert store.append(batch).new == 0
    assert len(list(store.events(EventFilter()))) == 2


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_appends_are_idempotent_in_any_order_and_overlap(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    records = [event(offset, segment=name) for name in ("a", "b") for offset in range(0, 50, 5)]
    batches = data.draw(st.lists(st.lists(st.sampled_from(records), max_size=12), max_size=6))
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as store:
        new = sum(store.append(Batch(events=batch)).new for batch in batches)
        wanted = {(record.segment, record.offset) for batch in batches for record in batch}
        found = [(record.segment, record.offset) for record in store.events(EventFilter())]
        assert sorted(found) == sorted(wanted)
        assert new == len(wanted)
        assert sum(figure.events for figure in store.figures("source")) == len(wanted)


def test_two_records_at_one_step_are_both_kept_and_counted(store: SqliteStore) -> None:
    store.append(
        Batch(events=[event(0, step=3, fields='{"a":1}'), event(9, step=3, fields='{"a":2}'), event(12, step=4)])
    )
    assert [found.fields for found in store.events(EventFilter(trace_id="t"))] == ['{"a":1}', '{"a":2}', "{}"]
    assert store.shared_steps() == 1
    assert store.trace("t").shared_steps == 1


def test_rows_and_offset_commit_together_or_not_at_all(store: SqliteStore) -> None:
    bad = event(10, kind="robot")
    with pytest.raises(StoreError, match="Nothing of this batch was kept"):
        store.append(Batch(events=[event(0), bad], sources=[Source(segment="a.jsonl", offset=20)]))
    assert list(store.events(EventFilter())) == []
    assert store.sources() == []
    assert store.append(Batch(events=[event(0)], sources=[Source(segment="a.jsonl", offset=5)])).new == 1


def test_a_run_comes_in_step_order_whatever_the_order_of_arrival(store: SqliteStore) -> None:
    steps = list(range(50))
    random.Random(1).shuffle(steps)
    store.append(Batch(events=[event(offset, step=step) for offset, step in enumerate(steps)]))
    assert [found.step for found in store.events(EventFilter(trace_id="t"))] == list(range(50))


def test_an_opaque_trace_is_found_by_both_its_ids(store: SqliteStore) -> None:
    store.append(Batch(events=[event(0, trace_id="req 1")]))
    assert store.trace("req 1").trace_id == "req 1"
    assert store.trace(otel_trace_id("req 1")).trace_id == "req 1"
    with pytest.raises(TraceNotFound, match="nothing"):
        store.trace("nothing")


def test_of_two_bodies_of_a_span_the_greater_stands_in_every_order(tmp_path: Path) -> None:
    bodies = [span(end_ns=5, body=b"1"), span(end_ns=5, body=b"2"), span(end_ns=3, body=b"3")]
    winner = max(bodies, key=lambda body: body.rank)
    for number in range(6):
        order = bodies[:]
        random.Random(number).shuffle(order)
        with SqliteStore(tmp_path / f"{number}.db") as store:
            for each in order:
                store.append(Batch(spans=[each, each]))
            (found,) = store.spans("t")
            assert found.body == winner.body
        Path(tmp_path / "writer.lock").unlink()


def test_large_bodies_are_packed_and_come_back_whole(store: SqliteStore) -> None:
    large = msgspec.json.encode({"text": "long " * 10_000})
    store.append(Batch(spans=[span(body=large)], logs=[LogRecord(trace_id="t", ts=1, body=large)]))
    assert store.spans("t")[0].body == large
    assert store.logs("t")[0].body == large


def test_the_same_log_record_is_kept_once(store: SqliteStore) -> None:
    record = LogRecord(trace_id="t", ts=1, body=b'{"a":1}')
    assert store.append(Batch(logs=[record, record])).new == 1


def test_changes_follow_the_order_of_arrival_over_the_whole_log(store: SqliteStore) -> None:
    store.append(Batch(events=[event(0)], spans=[span()], orphans=[orphan(3)]))
    store.append(Batch(events=[event(9)], logs=[LogRecord(trace_id="t", ts=1)]))
    first = store.changes(limit=3)
    rest = store.changes(first.cursor)
    kinds = [type(record).__name__ for record in (*first.records, *rest.records)]
    assert kinds == ["Event", "Span", "Orphan", "Event", "LogRecord"]
    assert store.changes(rest.cursor).records == []


def test_a_number_is_never_given_twice_even_when_the_newest_rows_are_gone(path: Path) -> None:
    with SqliteStore(path) as store:
        seq = store.append(Batch(events=[event(0)])).seq
        store.retain(Retention(before=NOW + DAY))
    with SqliteStore(path) as store:
        assert store.append(Batch(events=[event(5)])).seq > seq


def test_a_second_writer_is_refused_and_told_who_has_it(store: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreBusy, match="process"):
        SqliteStore(path)


def test_a_reader_sees_what_is_committed_and_can_write_nothing(store: SqliteStore, path: Path) -> None:
    store.append(Batch(events=[event(0)]))
    with SqliteReader(path) as reader:
        assert len(list(reader.events(EventFilter()))) == 1
        with pytest.raises(sqlite3.OperationalError):
            reader._connection.execute("DELETE FROM events")


def test_a_store_of_a_newer_program_is_refused_untouched(path: Path) -> None:
    SqliteStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    for opener in (SqliteStore, SqliteReader):
        with pytest.raises(StoreTooNew, match="pip install -U dashcam"):
            opener(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_store_is_refused_clearly(path: Path) -> None:
    path.write_text("this is no database, and long enough to be sure of it " * 20)
    with pytest.raises(StoreError, match="can't be opened"):
        SqliteReader(path)


@pytest.mark.skipif(which("sqlite3") is None, reason="needs the sqlite3 command")
def test_anybody_can_open_it_with_the_sqlite3_command(store: SqliteStore, path: Path) -> None:
    store.append(Batch(events=[event(0)], contents=[b'{"role":"user"}']))
    query = "SELECT operation FROM events; SELECT body FROM contents;"
    printed = subprocess.check_output(["sqlite3", str(path), query])
    assert printed.decode().split() == ["tool_call", '{"role":"user"}']


def test_figures_are_summed_by_what_is_asked(store: SqliteStore) -> None:
    store.append(
        Batch(events=[event(0, marks=1), event(5, ts=NOW + DAY, operation="cost", marks=2)], orphans=[orphan(9)])
    )
    by_day = {figure.by: (figure.events, figure.orphans) for figure in store.figures("day")}
    assert by_day == {"2024-10-04": (1, 1), "2024-10-05": (1, 0)}
    (source,) = store.figures("source")
    assert (source.events, source.orphans, source.malformed, source.redacted) == (2, 1, 1, 1)
    assert [figure.by for figure in store.figures("day", since="2024-10-05")] == ["2024-10-05"]


def test_a_backup_is_a_whole_store_and_overwrites_nothing(store: SqliteStore, tmp_path: Path) -> None:
    store.append(Batch(events=[event(0)]))
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "copy.db"
    store.backup(target)
    store.append(Batch(events=[event(9)]))
    with SqliteReader(target) as copy:
        assert len(list(copy.events(EventFilter()))) == 1
        assert list(copy.verify()) == []
    with pytest.raises(UnreadableInput, match="never overwrites"):
        store.backup(target)
    with pytest.raises(UnreadableInput, match="can't be written"):
        store.backup(tmp_path / "nowhere" / "copy.db")


def test_retention_by_age_removes_what_is_old_and_all_that_only_it_used(store: SqliteStore) -> None:
    with_contents(store, 10, NOW)
    with_contents(store, 10, NOW + DAY)
    gone = store.retain(Retention(before=NOW + DAY))
    assert (gone.events, gone.contents, gone.contexts) == (10, 10, 10)
    assert list(store.verify()) == []
    assert [found.trace_id for found in store.events(EventFilter())] == [f"t{NOW + DAY}"] * 10
    kept = store.model_calls(f"t{NOW + DAY}")
    assert len(store.context(bytes.fromhex(kept[-1].context_digest or ""))) == 10
    assert sum(figure.events for figure in store.figures("day")) == 10


def test_retention_by_size_removes_the_oldest_until_it_fits_and_gives_the_space_back(
    store: SqliteStore, path: Path
) -> None:
    for day in range(20):
        events = [event(day * 1000 + i, ts=NOW + day * DAY + i, fields=f'{{"x":"{"y" * 500}"}}') for i in range(200)]
        store.append(Batch(events=events))
    before = store.retain(Retention(max_bytes=1 << 40)).bytes
    assert path.stat().st_size == before
    store.retain(Retention(max_bytes=before // 3))
    assert path.stat().st_size <= before // 3
    left = list(store.events(EventFilter()))
    assert 0 < len(left) < 4000
    assert max(found.ts for found in left) == NOW + 19 * DAY + 199
    assert list(store.verify()) == []


def test_the_write_ahead_log_stays_bounded(store: SqliteStore, path: Path) -> None:
    for start in range(0, 40_000, 2_000):
        store.append(Batch(events=[event(start + i, fields='{"x":"' + "y" * 400 + '"}') for i in range(2_000)]))
    assert Path(f"{path}-wal").stat().st_size < 32 << 20


def test_verify_finds_what_does_not_belong(store: SqliteStore, path: Path) -> None:
    store.append(Batch(events=[event(0)], spans=[span()], sources=[Source(segment="a.jsonl", offset=5)]))
    assert list(store.verify()) == []
    other = sqlite3.connect(path)
    other.execute("UPDATE spans SET name = 'altered'")
    other.execute('UPDATE events SET "offset" = 99')
    other.execute("UPDATE rollups SET events = 7")
    other.commit()
    other.close()
    findings = "\n".join(store.verify())
    for part in ("beyond the point", "rollups count 7", "has changed"):
        assert part in findings


def test_a_trace_is_found_by_the_beginning_of_its_id_if_no_other_has_it(store: SqliteStore) -> None:
    store.append(Batch(events=[event(0, trace_id="abcdef1"), event(5, trace_id="abcdef2"), event(9, trace_id="xyz%1")]))
    assert store.trace("xyz%").trace_id == "xyz%1"
    for unclear in ("abcdef", "xy", "xyz_"):
        with pytest.raises(TraceNotFound):
            store.trace(unclear)


def test_sessions_come_by_their_last_activity_page_by_page(store: SqliteStore) -> None:
    told = [("old", NOW - 9000), ("new", NOW + 9000), ("middle", NOW), ("also-new", NOW + 9000)]
    store.append(Batch(events=[event(i, session_id=name, ts=ts) for i, (name, ts) in enumerate(told)]))
    first = store.sessions(SessionFilter(limit=2))
    rest = store.sessions(SessionFilter(limit=9, after=first[-1].session_id))
    assert [found.session_id for found in (*first, *rest)] == ["new", "also-new", "middle", "old"]
