"""Journals into the store: beside the bare insert of the same rows, and beside a busy Python thread."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure, at_least, at_most, plain
from dashcam.contracts.event import Event
from dashcam.record.collect import collect_journals, parse_block
from dashcam.sdk.settings import Settings, settings_from
from dashcam.store.sqlite.store import SqliteStore

EVENTS = int(os.environ.get("BENCH_EVENTS", "1000000"))
A_TRACE = 100  # events
BATCH = 10_000

_SCHEMA = """
CREATE TABLE sources (id INTEGER PRIMARY KEY);
CREATE TABLE events (seq INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, "offset" INTEGER NOT NULL, session_id TEXT NOT NULL,
  trace_id TEXT NOT NULL, step INTEGER NOT NULL, kind TEXT NOT NULL, operation TEXT NOT NULL, ts INTEGER NOT NULL,
  marks INTEGER NOT NULL, fields TEXT NOT NULL);
CREATE UNIQUE INDEX events_identity ON events (source_id, "offset");
CREATE INDEX events_trace ON events (trace_id, step);
CREATE INDEX events_session ON events (session_id, ts);
"""

_WRITER = """
import sys, dashcam
for number in range(int(sys.argv[1])):
    trace = dashcam.new_trace(session_id=f"chat-{number // 10}")
    for _ in range(int(sys.argv[2])):
        trace = dashcam.log_event(trace, "tool_call_completed", tool="search", latency_ms=42, tool_call_id="call_1a2b3c4d",
            output="A user asked why the order was late and the agent looked it up in the table of deliveries")
"""


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        settings = record(Path(folder))
        size = sum(path.stat().st_size for path in settings.journals.iterdir())
        rows = rows_of(settings)
        bare = max(bare_insert(rows, Path(folder) / f"bare{size}.db", size) for size in (1, 200))
        rows = rows[:20_000]  # the others would only make the garbage collector's rounds longer
        ours = collect(settings, "alone.db")
        stored = (settings.folder / "alone.db").stat().st_size
        with busy_thread():
            beside = collect(settings, "beside.db")
            naive = bare_insert(rows, Path(folder) / "naive.db", 1)
    return [
        plain("events", EVENTS, ""),
        plain("bare insert, the better of executemany and many-row statements", bare, "rows/s"),
        plain("collected", ours, "rows/s"),
        plain("collected beside one busy Python thread", beside, "rows/s"),
        at_least("collected / bare insert", ours / bare, 0.5),
        plain("naive writer (executemany) beside a busy thread / alone", naive / bare, "x"),
        at_least("beside a busy thread / alone", beside / ours, 1 / 3),
        at_most("store / JSONL bytes", stored / size, 1.3),
    ]


def record(folder: Path) -> Settings:
    """The journal that is to be collected, written by the SDK in a process of its own."""
    import subprocess

    environment = {**os.environ, "DASHCAM_DATA": str(folder)}
    subprocess.run([sys.executable, "-c", _WRITER, str(EVENTS // A_TRACE), str(A_TRACE)], env=environment, check=True)
    return settings_from({}, data=folder)


def collect(settings: Settings, name: str) -> float:
    path = settings.folder / name
    with SqliteStore(path) as store:
        start = time.perf_counter()
        found = collect_journals(store, settings.journals)
        taken = time.perf_counter() - start
        assert found.events == EVENTS, found
        store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return EVENTS / taken


@contextmanager
def busy_thread() -> Iterator[None]:
    """A thread that never stops computing, as a server's own code may."""
    stop = threading.Event()

    def busy() -> None:
        number = 0
        while not stop.is_set():
            for _ in range(10_000):
                number = (number * 31 + 7) % 1_000_003

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def rows_of(settings: Settings) -> list[tuple[object, ...]]:
    """What is to be inserted, ready made."""
    rows: list[tuple[object, ...]] = []
    for path in sorted(settings.journals.glob("*.jsonl")):
        for event in parse_block(path.read_bytes(), path.name, 0, 0):
            assert isinstance(event, Event)
            rows.append(
                (len(rows) + 1, 1, len(rows) * 300, event.session_id, event.trace_id, event.step, event.kind)
                + (event.operation, event.ts, event.marks, event.fields)
            )
    return rows


def bare_insert(rows: list[tuple[object, ...]], path: Path, size: int) -> float:
    """Rows a second into a table with the same indexes and nothing else, `size` rows a statement."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        f"PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {_SCHEMA}"
    )
    connection.execute("PRAGMA cache_size = -65536")  # this, the page size and the next as the store has them
    connection.execute("PRAGMA wal_autocheckpoint = 8000")
    one = f"({','.join('?' * len(rows[0]))})"
    start = time.perf_counter()
    for first in range(0, len(rows), BATCH):
        connection.execute("BEGIN IMMEDIATE")
        if size == 1:
            connection.executemany(f"INSERT INTO events VALUES {one}", rows[first : first + BATCH])
        else:
            for at in range(first, min(first + BATCH, len(rows)), size):
                chunk = rows[at : at + size]
                values = [value for row in chunk for value in row]
                connection.execute(f"INSERT INTO events VALUES {','.join([one] * len(chunk))}", values)
        connection.execute("COMMIT")
    taken = time.perf_counter() - start
    connection.close()
    return len(rows) / taken
