"""Verifying a whole store: one moment, every join, and damage as a finding."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from records import NOW, event, orphan, span, with_contents

from dashcam.contracts.identity import otel_trace_id
from dashcam.errors import StoreError
from dashcam.store.base import Batch, EventFilter
from dashcam.store.sqlite.audit import verify
from dashcam.store.sqlite.connection import open_reader
from dashcam.store.sqlite.store import SqliteReader, SqliteStore


def change(path: Path, *statements: str) -> None:
    other = sqlite3.connect(path)
    for statement in statements:
        other.execute(statement)
    other.commit()
    other.close()


def test_a_writer_at_work_causes_no_findings(store: SqliteStore, path: Path) -> None:
    with_contents(store, 5, NOW)
    reader = open_reader(path)
    at = 0

    def write_between(statement: str) -> None:
        nonlocal at
        at += 10
        store.append(Batch(events=[event(at, trace_id=f"during {at}")], spans=[span(span_id=str(at))]))

    reader.set_trace_callback(write_between)
    assert list(verify(reader)) == []
    assert at > 100
    assert not reader.in_transaction
    reader.close()


def test_a_check_that_is_left_half_way_holds_nobody_up(store: SqliteStore, path: Path) -> None:
    store.append(Batch(events=[event(0)]))
    change(path, "UPDATE rollups SET events = 7, orphans = 7")
    left = store.verify()
    next(left)
    assert store.append(Batch(events=[event(9)])).new == 1
    with SqliteReader(path) as reader:
        next(iter(reader.verify()))
        assert not reader._connection.in_transaction
    on_the_writer = verify(store._connection)
    next(on_the_writer)
    on_the_writer.close()  # type: ignore[attr-defined]
    assert not store._connection.in_transaction


def test_within_a_transaction_of_the_caller_it_leaves_that_open(store: SqliteStore) -> None:
    with store._transaction():
        store._log.put_events([event(0)])
        assert list(verify(store._connection)) == []
        assert store._connection.in_transaction
    assert len(list(store.events(EventFilter()))) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE model_calls SET step = 99 WHERE step = 2",
        "UPDATE model_calls SET session_id = 'other' WHERE step = 2",
        "UPDATE model_calls SET trace_id = 'other' WHERE step = 2",
        "UPDATE events SET operation = 'tool_call' WHERE step = 2",
    ],
)
def test_a_model_call_that_no_event_tells_of_is_found(store: SqliteStore, path: Path, statement: str) -> None:
    with_contents(store, 5, NOW)
    assert list(store.verify()) == []
    change(path, statement)
    (found,) = store.verify()
    assert "tells of this model call" in found


def test_a_wrong_alias_is_found(store: SqliteStore, path: Path) -> None:
    store.append(Batch(events=[event(0, trace_id="req 1")]))
    assert list(store.verify()) == []
    change(path, "UPDATE trace_aliases SET trace_id = 'req 2'")
    (found,) = store.verify()
    assert otel_trace_id("req 2") in found


def damage(path: Path, table: str) -> None:
    """Overwrite every page of a table but its root, as a failing disk would."""
    connection = sqlite3.connect(path)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    raw = bytearray(path.read_bytes())
    kept = raw[(root - 1) * size : root * size]
    marker = b"findme" * 10
    for page in range(len(raw) // size):
        if marker in raw[page * size : (page + 1) * size]:
            raw[page * size : (page + 1) * size] = b"\xff" * size
    raw[(root - 1) * size : root * size] = kept
    path.write_bytes(raw)


def test_a_damaged_file_is_a_finding_and_for_others_an_error_of_ours(path: Path) -> None:
    fields = '{"x":"' + "findme" * 50 + '"}'
    with SqliteStore(path) as store:
        store.append(Batch(events=[event(i, fields=fields) for i in range(500)], orphans=[orphan(9)]))
    damage(path, "events")
    with SqliteReader(path) as reader:
        findings = list(reader.verify())
        assert any("The file is damaged: database disk image is malformed" in found for found in findings)
        told = r"malformed.*dashcam verify"
        with pytest.raises(StoreError, match=told):
            list(reader.events(EventFilter()))
        with pytest.raises(StoreError, match=told):
            reader.changes(limit=1000)
        assert len(list(reader.orphans())) == 1


def test_a_body_that_cannot_be_unpacked_is_an_error_of_ours_and_a_finding(store: SqliteStore, path: Path) -> None:
    store.append(Batch(spans=[span(body=b'{"x":"' + b"y" * 5000 + b'"}')]))
    change(path, "UPDATE packs SET body = x'0102'")
    with pytest.raises(StoreError, match="can't be used"):
        store.spans("t")
    assert any("damaged" in found for found in store.verify())
