"""Spans into the server, beside MLflow and Phoenix: the same requests, two senders, the same machine, the same run.

Durable and visible means: its store shows the span. Meanwhile somebody looks at a page four times a second.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import msgspec

from benchmarks.figures import Figure, at_least, at_most, plain
from benchmarks.peers import MLFLOW, OURS, PHOENIX, Peer, Running, memory_of, running
from dashcam.store.sqlite.store import SqliteReader, SqliteStore

SECONDS = float(os.environ.get("BENCH_SECONDS", "20"))
SENDERS = 2
SETTLE = 60.0  # seconds that a store has to show what it took, at most
STEADY = 5000.0  # spans a second, at which sessions keep up


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What came of sending to one server."""

    accepted: float  # spans a second
    visible: float
    start_seconds: float
    memory: float  # MB
    bytes_a_span: float
    page_ms: float  # the slowest of ten


def run() -> list[Figure]:
    peers = {peer.name: measure(peer) for peer in (MLFLOW, PHOENIX)}
    with running(OURS) as server:
        ours = flood(server)
        log_bytes, all_bytes = sizes(server)
    easy, _ = steady(STEADY * 0.4)
    lag, steady_memory = steady(STEADY)
    figures = []
    for name, taken in {**peers, "dashcam": ours}.items():
        figures += [
            plain(f"{name}: accepted", taken.accepted, "spans/s"),
            plain(f"{name}: durable and visible", taken.visible, "spans/s"),
            plain(f"{name}: first 200 after its start", taken.start_seconds, "s"),
            plain(f"{name}: memory at the end", taken.memory, "MB"),
            plain(f"{name}: on disk", taken.bytes_a_span, "bytes/span"),
            plain(f"{name}: a page meanwhile, the slowest of ten", taken.page_ms, "ms"),
        ]
    return [
        *figures,
        at_least("visible, ours / MLflow's", ours.visible / peers["MLflow"].visible, 20),
        at_least("visible, ours / Phoenix's", ours.visible / peers["Phoenix"].visible, 200),
        at_most("start, ours / Phoenix's", ours.start_seconds / peers["Phoenix"].start_seconds, 0.1),
        at_most("our memory at the end", max(ours.memory, steady_memory), 300, "MB"),
        at_most("our log", log_bytes, 1000, "bytes/span"),
        at_most("our log, sessions and search", all_bytes, 3000, "bytes/span"),
        at_most(f"sessions and search behind at {STEADY * 0.4:,.0f} spans/s, at most", easy, 1.0, "s"),
        at_most(f"sessions and search behind at {STEADY:,.0f} spans/s, at most", lag, 1.0, "s"),
    ]


def measure(peer: Peer) -> Taken:
    print(f"  … {peer.name}", file=sys.stderr, flush=True)
    with running(peer) as server:
        return flood(server)


def flood(server: Running) -> Taken:
    """Two senders as fast as they are taken; then the store may settle, which counts."""
    with looking(server) as looks:
        results = send(server, SECONDS)
        seconds = max(float(result["seconds"]) for result in results)
        begun = time.perf_counter() - seconds  # without what the senders took to prepare
        accepted = sum(int(result["accepted"]) for result in results)
        while server.visible() < accepted and time.perf_counter() - begun < SECONDS + SETTLE:
            time.sleep(0.25)
    visible, until = server.visible(), time.perf_counter() - begun
    slowest = sorted(looks)[-(len(looks) // 10 + 1) :]
    return Taken(
        accepted=accepted / seconds,
        visible=visible / until,
        start_seconds=server.start_seconds,
        memory=memory_of(server.pid),
        bytes_a_span=server.size() / max(visible, 1),
        page_ms=slowest[0] * 1000 if slowest else 0.0,
    )


def send(server: Running, seconds: float, rate: float = 0.0) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "benchmarks.sender", f"{server.address}/v1/traces", str(seconds), str(rate)]
    senders = [
        subprocess.Popen([*command, *server.peer.headers], stdout=subprocess.PIPE, text=True) for _ in range(SENDERS)
    ]
    return [json.loads(sender.communicate(timeout=seconds + 180)[0]) for sender in senders]


@contextmanager
def looking(server: Running) -> Iterator[list[float]]:
    """Somebody who looks at a page four times a second; how long each look took."""
    looks: list[float] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.25):
            begun = time.perf_counter()
            with suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(server.address + server.peer.page, timeout=30).read()
                looks.append(time.perf_counter() - begun)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield looks
    finally:
        done.set()
        looker.join()


def sizes(server: Running) -> tuple[float, float]:
    """Bytes a span when sessions have caught up: of the log and its contents alone, and of everything."""
    deadline = time.monotonic() + 180
    while status_of(server)["lag"]["records"] and time.monotonic() < deadline:
        time.sleep(0.5)
    copy = server.folder / "copy" / "sessions.db"
    copy.parent.mkdir()
    with SqliteReader(server.folder / server.peer.database) as reader:
        reader.backup(copy)
    everything, spans = copy.stat().st_size, max(server.visible(), 1)
    with SqliteStore(copy) as store:
        store.forget_projections()
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return copy.stat().st_size / spans, everything / spans


def steady(rate: float) -> tuple[float, float]:
    """The longest that sessions were behind while spans come at a steady rate, and the memory then."""
    with running(OURS) as server:
        lags: list[float] = []
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.2):
                lags.append(status_of(server)["lag"]["seconds"])

        watcher = threading.Thread(target=watch)
        watcher.start()
        send(server, SECONDS, rate / SENDERS)
        done.set()
        watcher.join()
        return max(lags), memory_of(server.pid)


def status_of(server: Running) -> dict[str, dict[str, float]]:
    with urllib.request.urlopen(f"{server.address}/api/status", timeout=30) as answer:
        told: dict[str, dict[str, float]] = json.load(answer)
        return told
