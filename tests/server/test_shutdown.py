"""Stopping: what was acknowledged is there, whether the server was asked to stop or killed."""

from __future__ import annotations

import signal
import socket
import sqlite3
import threading
import time
from pathlib import Path

import httpx
import pytest
from sent import PROTOBUF, traces_body
from server_process import ServerProcess, serving, stored

pytestmark = pytest.mark.slow


def send_until_refused(server: ServerProcess, acknowledged: list[str]) -> None:
    """Sends one trace after the other; remembers those that were acknowledged."""
    with httpx.Client(base_url=server.url, timeout=30) as http:
        while True:
            trace_id, body = traces_body(3)
            try:
                if http.post("/v1/traces", content=body, headers=PROTOBUF).status_code != 200:
                    return
            except httpx.HTTPError:
                return
            acknowledged.append(trace_id)


def senders(server: ServerProcess, count: int, acknowledged: list[str]) -> list[threading.Thread]:
    threads = [threading.Thread(target=send_until_refused, args=(server, acknowledged)) for _ in range(count)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 20:
        time.sleep(0.01)
    return threads


def test_a_server_that_is_killed_has_all_that_it_acknowledged(data: Path) -> None:
    acknowledged: list[str] = []
    for _ in range(3):
        with serving(data) as server:
            threads = senders(server, 4, acknowledged)
            server.kill()
            for thread in threads:
                thread.join()
    with stored(data) as store:
        assert all(len(store.spans(trace_id)) == 3 for trace_id in acknowledged)
        assert list(store.verify()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_asked_to_stop_finishes_what_it_has_taken(data: Path, number: int) -> None:
    acknowledged: list[str] = []
    with serving(data) as server:
        threads = senders(server, 4, acknowledged)
        server.process.send_signal(number)
        assert server.process.wait(30) == 0
        for thread in threads:
            thread.join()
    assert not list((data / "default").glob("sessions.db-*"))  # one file: nothing is left beside it
    with stored(data) as store:
        assert all(len(store.spans(trace_id)) == 3 for trace_id in acknowledged)


def test_the_store_is_free_for_others_when_the_server_has_stopped(data: Path) -> None:
    for _ in range(2):
        with serving(data) as server:
            server.http.post("/v1/traces", content=traces_body()[1], headers=PROTOBUF)
            assert server.stop() == 0


def test_a_second_signal_ends_it_at_once(data: Path) -> None:
    with serving(data, "--body-timeout", "60") as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as unfinished:
            unfinished.sendall(
                b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                b"Content-Length: 10\r\n\r\n{"
            )
            time.sleep(0.3)  # until it has been read
            server.process.send_signal(signal.SIGTERM)
            while "stopping" not in server.said:
                time.sleep(0.02)
            assert server.process.poll() is None
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(30) == 1
    assert "stopped at once" in server.said


def test_a_store_that_cant_be_written_is_a_503_and_the_server_goes_on(data: Path) -> None:
    with serving(data) as server:
        other = sqlite3.connect(data / "default" / "sessions.db", isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")  # somebody else writes, for longer than anybody waits
            answer = server.http.post("/v1/traces", content=traces_body()[1], headers=PROTOBUF)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            assert server.http.get("/ready").status_code == 503
            other.execute("ROLLBACK")
        finally:
            other.close()
        assert server.http.post("/v1/traces", content=traces_body()[1], headers=PROTOBUF).status_code == 200


def test_a_second_server_on_the_same_folder_is_told_who_has_it(data: Path) -> None:
    with serving(data), pytest.raises(AssertionError, match="being written by process"):
        ServerProcess(data)


def test_a_port_that_was_asked_for_and_is_taken_is_refused(data: Path, tmp_path: Path) -> None:
    with serving(data) as server, pytest.raises(AssertionError, match="--grpc-port"):
        ServerProcess(tmp_path / "other", "--grpc-port", server.grpc.rsplit(":", 1)[1])
