"""Retention: sound wherever it is interrupted, and fair between events and the rest."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from chat_rows import turn
from records import DAY, NOW, event, orphan, span, with_contents

from dashcam.contracts.content import context_digest, digest_of
from dashcam.contracts.span import LogRecord
from dashcam.errors import StoreError
from dashcam.record.projector import project_all
from dashcam.store.base import Batch, Context, EventFilter, Retention
from dashcam.store.sqlite import retain
from dashcam.store.sqlite.store import SqliteStore


class Killed(BaseException):
    """Nobody catches it, as nobody catches SIGKILL."""


def fill(store: SqliteStore) -> None:
    """Three days of everything, several chunks of each."""
    for day in range(3):
        at = NOW + day * DAY
        events = [event(day * 1000 + i, ts=at + i, marks=i % 4, session_id=f"s{i % 3}") for i in range(25)]
        orphans = [orphan(day * 1000 + i, ts=at + i, operation="lost") for i in range(25)]
        spans = [span(span_id=f"{day}.{i}", end_ns=(at + i) * 1000) for i in range(25)]
        logs = [LogRecord(trace_id="t", ts=at + i, body=f'{{"n":{i}}}'.encode()) for i in range(25)]
        chat = [row for i in range(4) for row in turn(f"s{day}.{i}", (at + i) // 1000)]
        store.append(Batch(events=events, orphans=orphans, spans=spans, logs=logs, chat=chat))
        with_contents(store, 15, at)


@pytest.mark.slow
def test_a_kill_between_any_two_chunks_leaves_a_sound_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retain, "CHUNK", 10)
    monkeypatch.setattr(retain, "SESSIONS", 3)
    ended, alive = False, 0
    while not ended:
        alive += 1
        path = tmp_path / str(alive) / "sessions.db"
        path.parent.mkdir()
        with SqliteStore(path) as store:
            fill(store)
            left = alive

            @contextmanager
            def until_killed(store: SqliteStore = store) -> Iterator[None]:
                nonlocal left
                if not left:
                    raise Killed
                left -= 1
                with store._transaction():
                    yield

            try:
                retain.retain(store._connection, until_killed, Retention(before=NOW + 2 * DAY + 5))
                ended = True
            except Killed:
                pass
        with SqliteStore(path) as store:
            assert list(store.verify()) == []
            figures = store.figures("day"), store.figures("kind"), store.figures("operation")
            store.forget_projections()
            assert figures == (store.figures("day"), store.figures("kind"), store.figures("operation"))
    assert alive > 15


def test_a_large_quarantine_makes_room_too(store: SqliteStore) -> None:
    body = b'{"lost":"' + b"x" * 2000 + b'"}'
    events = [event(i, ts=NOW + i * 1000) for i in range(500)]
    orphans = [orphan(i, ts=NOW + i * 1000 + 1, body=body) for i in range(500)]
    store.append(Batch(events=events, orphans=orphans))
    size = store.retain(Retention(max_bytes=1 << 40)).bytes
    gone = store.retain(Retention(max_bytes=size // 2))
    assert gone.bytes <= size // 2
    assert 150 < gone.events < 450
    assert abs(gone.events - gone.orphans) <= 1
    assert list(store.verify()) == []


def test_spans_and_logs_alone_are_held_to_the_size_as_well(store: SqliteStore) -> None:
    noise = [sha256(str(i).encode()).hexdigest() * 10 for i in range(600)]
    spans = [span(span_id=str(i), end_ns=(NOW + i) * 1000, body=f'{{"x":"{noise[i]}"}}'.encode()) for i in range(600)]
    logs = [LogRecord(trace_id="t", ts=NOW + i, body=f'{{"x":"{noise[i]}"}}'.encode()) for i in range(600)]
    store.append(Batch(spans=spans, logs=logs))
    size = store.retain(Retention(max_bytes=1 << 40)).bytes
    gone = store.retain(Retention(max_bytes=size * 2 // 3))
    assert gone.bytes <= size * 2 // 3
    assert 0 < gone.spans < 600
    assert 0 < gone.logs < 600


def test_an_error_in_retention_is_ours_and_leaves_no_transaction_open(store: SqliteStore) -> None:
    store.append(Batch(events=[event(0)]))
    store._connection.execute(
        "CREATE TEMP TRIGGER no BEFORE DELETE ON main.events BEGIN SELECT RAISE(ABORT, 'the disk says no'); END"
    )
    with pytest.raises(StoreError, match="the disk says no"):
        store.retain(Retention(before=NOW + DAY))
    assert not store._connection.in_transaction
    assert len(list(store.events(EventFilter()))) == 1
    assert list(store.verify()) == []


def test_retention_of_a_store_that_another_process_writes_is_told_as_that(store: SqliteStore, path: Path) -> None:
    store.append(Batch(events=[event(0)]))
    store._connection.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"locked.*try again"):
        store.retain(Retention(before=NOW + DAY))
    other.close()
    assert store.retain(Retention(before=NOW + DAY)).events == 1


def test_what_a_malformed_model_call_names_stays_as_long_as_it_does(store: SqliteStore) -> None:
    body, prompt, catalog = b'{"role":"user"}', "Be kind.", "[]"
    messages = (digest_of(body),)
    named = {
        "context_digest": context_digest(messages).hex().upper(),
        "system_prompt_digest": sha256(prompt.encode()).hexdigest(),
        "tool_catalog_digest": sha256(catalog.encode()).hexdigest(),
    }
    told = event(0, ts=NOW + DAY, operation="model_call", fields=msgspec.json.encode(named).decode(), marks=1)
    store.append(
        Batch(
            events=[told, event(9, operation="model_call", fields="no JSON _digest", ts=NOW)],
            contents=[body],
            contexts=[Context(messages)],
            system_prompts=[prompt],
            tool_catalogs=[catalog],
        )
    )
    store.retain(Retention(before=NOW + 1))
    project_all(store)
    assert store.model_calls("t") == []
    assert store.retain(Retention(before=NOW + 2)).contexts == 0
    assert store.context(context_digest(messages)) == [*messages]
    assert store.system_prompt(named["system_prompt_digest"]) == prompt
    assert store.tool_catalog(named["tool_catalog_digest"]) == catalog
    gone = store.retain(Retention(before=NOW + 2 * DAY))
    assert (gone.events, gone.contents, gone.contexts) == (1, 1, 1)
