"""A disk that is slow, held by somebody else, or full: senders are told when to come back, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import httpx
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from sent import PROTOBUF, traces
from server_process import ServerProcess, eventually, serving, stored

pytestmark = pytest.mark.slow
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
BODY = 500_000  # bytes
QUEUED = 2  # MB
FLOOD = 8.0  # seconds

SLOW_FSYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void crawl(void) { const char *file = getenv("CRAWL"); if (file && !access(file, F_OK)) usleep(1500000); }
int fsync(int fd) { crawl(); return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { crawl(); return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""


class Flood:
    """Clients that send as fast as they can, over HTTP and gRPC, and remember what they were told."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._over = threading.Event()
        self.acknowledged: list[str] = []
        self.answers: Counter[object] = Counter()
        self.without_a_time: list[object] = []  # refusals that do not say when to come back
        self.most_memory = self.most_queued = 0

    def run(self) -> None:
        """Six clients over HTTP and two over gRPC, for some seconds."""
        senders = [self._send_http] * 6 + [self._send_grpc] * 2
        threads = [threading.Thread(target=send) for send in senders]
        for thread in threads:
            thread.start()
        until = time.monotonic() + FLOOD
        while time.monotonic() < until:
            self.most_memory = max(self.most_memory, memory_of(self._server.process.pid))
            self.most_queued = max(self.most_queued, int(self._server.metric("dashcam_queue_bytes")))
            time.sleep(0.05)
        self._over.set()
        for thread in threads:
            thread.join()

    def _send_http(self) -> None:
        with httpx.Client(base_url=self._server.url, timeout=60) as http:
            while not self._over.is_set():
                trace_id, body = request()
                answer = http.post("/v1/traces", content=body, headers=PROTOBUF)
                self._note(answer.status_code, trace_id, answer.headers.get("retry-after", "0"))

    def _send_grpc(self) -> None:
        with grpc.insecure_channel(self._server.grpc) as channel:
            while not self._over.is_set():
                trace_id, body = request()
                try:
                    channel.unary_unary(EXPORT)(body)
                except grpc.RpcError as error:
                    self._note(error.code(), trace_id, str(retry_seconds(error)))
                else:
                    self._note(200, trace_id, "0")

    def _note(self, answer: object, trace_id: str, retry_after: str) -> None:
        self.answers[answer] += 1
        if answer == 200:
            self.acknowledged.append(trace_id)
        else:
            if int(retry_after) < 1:
                self.without_a_time.append(answer)
            time.sleep(0.1)


@contextmanager
def held_by_another(server: ServerProcess) -> Iterator[None]:
    """Somebody else has the store's write lock nearly all the time."""
    over = threading.Event()

    def hold() -> None:
        with closing(sqlite3.connect(server.data / "default" / "sessions.db", isolation_level=None)) as other:
            while not over.is_set():
                with contextlib.suppress(sqlite3.OperationalError):  # the server was faster
                    other.execute("BEGIN IMMEDIATE")
                    over.wait(3)
                    other.execute("ROLLBACK")
                time.sleep(0.02)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        yield
    finally:
        over.set()
        holder.join()


@contextmanager
def crawling(server: ServerProcess) -> Iterator[None]:
    """Every fsync takes 1.5 seconds."""
    crawl = server.data.parent / "crawl"
    crawl.touch()
    try:
        yield
    finally:
        crawl.unlink()


@pytest.mark.parametrize("slowed", [held_by_another, crawling])
def test_on_a_slow_disk_senders_are_told_to_wait_memory_is_bounded_and_nothing_acknowledged_is_lost(
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    slowed: Callable[[ServerProcess], contextlib.AbstractContextManager[None]],
) -> None:
    if slowed is crawling:
        monkeypatch.setenv("LD_PRELOAD", str(slow_fsync(data.parent)))
        monkeypatch.setenv("CRAWL", str(data.parent / "crawl"))
    with serving(data, "--max-queued", str(QUEUED), "--max-body", "1") as server:
        monkeypatch.delenv("LD_PRELOAD", raising=False)
        flood = Flood(server)
        with slowed(server):
            flood.run()
        assert flood.answers.keys() <= {200, 429, 503, grpc.StatusCode.UNAVAILABLE}
        assert flood.answers[429] + flood.answers[503] > 0
        assert flood.answers[grpc.StatusCode.UNAVAILABLE] > 0
        assert flood.without_a_time == []
        assert flood.most_queued <= QUEUED << 20
        assert flood.most_memory < 300 << 20
        assert_takes_records(server)
        assert_is_all_there(server, flood.acknowledged)


def test_calls_that_are_given_up_while_the_disk_is_slow_are_not_kept_in_memory(data: Path) -> None:
    with serving(data) as server, held_by_another(server), grpc.insecure_channel(server.grpc) as channel:
        before, most = memory_of(server.process.pid), 0
        body = bytes(traces(1, note="x" * (3 << 20))[1].SerializeToString())
        until = time.monotonic() + FLOOD
        while time.monotonic() < until:
            calls = [channel.unary_unary(EXPORT).future(body, timeout=0.1) for _ in range(8)]
            for call in calls:
                call.exception()
            most = max(most, memory_of(server.process.pid))
        assert most - before < 600 << 20  # of more than a gigabyte that was sent


def test_on_a_full_disk_nothing_acknowledged_is_lost_and_it_goes_on_when_there_is_room(data: Path) -> None:
    with serving(data) as server:
        acknowledged = []
        limit_files(server, 4 << 20)
        for _ in range(40):
            trace_id, body = request()
            answer = server.http.post("/v1/traces", content=body, headers=PROTOBUF)
            if answer.status_code != 200:
                break
            acknowledged.append(trace_id)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert acknowledged
        limit_files(server, resource.RLIM_INFINITY)
        assert_takes_records(server)
        assert_is_all_there(server, acknowledged)
        assert server.stop() == 0


def assert_takes_records(server: ServerProcess) -> None:
    eventually(lambda: send_small(server) == 200)
    assert send_small(server) == 200
    eventually(lambda: server.http.get("/ready").status_code == 200)
    with grpc.insecure_channel(server.grpc) as channel:
        assert channel.unary_unary(EXPORT)(traces(1)[1].SerializeToString()) == b""


def assert_is_all_there(server: ServerProcess, acknowledged: list[str]) -> None:
    eventually(lambda: server.metric('dashcam_projection_lag_records{project="default"}') == 0)
    with stored(server.data) as store:
        assert [trace_id for trace_id in acknowledged if len(store.spans(trace_id)) != 1] == []
        assert list(store.verify()) == []


def send_small(server: ServerProcess) -> int:
    answer = server.http.post("/v1/traces", content=traces(1)[1].SerializeToString(), headers=PROTOBUF)
    return int(answer.status_code)


def request() -> tuple[str, bytes]:
    trace_id, message = traces(1, note=os.urandom(BODY // 2).hex())
    return trace_id, message.SerializeToString()


def retry_seconds(error: grpc.RpcError) -> int:
    retry = RetryInfo()
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin" and Status.FromString(value).details[0].Unpack(retry):
            return int(retry.retry_delay.seconds)
    return 0


def limit_files(server: ServerProcess, size: int) -> None:
    """No file may grow beyond this: to SQLite that is a disk without room."""
    for pid in (server.process.pid, *children_of(server.process.pid)):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def memory_of(pid: int) -> int:
    """Bytes of a process and its children."""
    total = 0
    for each in (pid, *children_of(pid)):
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) << 10
    return total


def children_of(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def slow_fsync(folder: Path) -> Path:
    """A library whose fsync can be told to take its time."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    source, library = folder / "crawl.c", folder / "crawl.so"
    source.write_text(SLOW_FSYNC)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60)
    return library
