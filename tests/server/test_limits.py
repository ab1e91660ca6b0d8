"""What is too large, too slow or too much gets an answer that says so, and the server lives on."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import threading
import time
import zlib
from pathlib import Path

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from sent import JSON, PROTOBUF, traces, traces_body
from server_process import ServerProcess, eventually, holding, serving

from dashcam.errors import DashcamError, SettingsError, TooBusy, TooLarge, TooSlow, UnreadableInput
from dashcam.server.limits import Held, Limits, body_of, inflate


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=5), st.integers(0, 4000))
def test_inflating_gives_the_body_back_or_refuses_what_is_beyond_the_limit(bodies: list[bytes], limit: int) -> None:
    whole = b"".join(bodies)
    packed = b"".join(map(gzip.compress, bodies))
    if len(whole) <= limit:
        assert inflate(packed, "gzip", limit) == whole
    else:
        with pytest.raises(TooLarge, match="--max-decompressed"):
            inflate(packed, "gzip", limit)


@given(st.binary(max_size=500), st.sampled_from(["gzip", "deflate"]))
def test_inflating_rubbish_is_refused_and_never_crashes(body: bytes, encoding: str) -> None:
    try:
        inflate(body, encoding, 10_000)
    except DashcamError as error:
        assert error.status in (400, 413)


def test_a_body_of_many_gzip_members_is_refused() -> None:
    with pytest.raises(UnreadableInput, match="members"):
        inflate(gzip.compress(b"") * 100_000, "gzip", 1000)


def body_from(messages: list[bytes], limits: Limits, held: Held, length: str = "", pause: float = 0.0) -> bytes:
    async def receive() -> dict[str, object]:
        await asyncio.sleep(pause)
        return {"type": "http.request", "body": messages.pop(0), "more_body": bool(messages)}

    async def read() -> bytes:
        async with body_of(receive, length, limits, held) as body:
            assert held.bytes == len(body)
            return body

    return asyncio.run(read())


@given(st.lists(st.binary(max_size=50), min_size=1), st.integers(0, 300), st.integers(0, 300))
def test_bodies_are_counted_while_they_are_held_and_no_longer(pieces: list[bytes], most: int, room: int) -> None:
    whole, held = b"".join(pieces), Held(room)
    try:
        assert body_from(list(pieces), Limits(body=most, held=most), held) == whole
        assert len(whole) <= min(most, room)
    except TooLarge:
        assert len(whole) > most
    except TooBusy:
        assert len(whole) > room
    assert held.bytes == 0


def test_a_body_that_says_it_is_too_large_is_not_read_at_all() -> None:
    with pytest.raises(TooLarge, match="--max-body"):
        body_from([], Limits(body=10), Held(100), length="11")


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(SettingsError, match="--max-queued"):
        Limits(body=10, held=9)


def test_a_body_that_trickles_is_given_up() -> None:
    with pytest.raises(TooSlow, match="--body-timeout"):
        body_from([b"x"] * 50, Limits(body_seconds=0.05), Held(100), pause=0.02)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> object:
    data = tmp_path_factory.mktemp("small") / "data"
    with serving(data, "--max-body", "1", "--max-decompressed", "2", "--body-timeout", "1") as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/records", "/api/public/scores"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_beyond_the_limit_is_a_413_that_its_sender_sees(small: ServerProcess, path: str, chunked: bool) -> None:
    body = bytes(20 << 20)
    headers = {**JSON, "x-dashcam-segment": "a.jsonl", "x-dashcam-offset": "0"}
    headers["content-type"] = "application/x-ndjson" if path == "/v1/records" else "application/json"
    answer = small.http.post(path, content=iter([body]) if chunked else body, headers=headers)
    assert answer.status_code == 413
    said = answer.json()
    assert "--max-body" in (said.get("error") or said["message"])


@pytest.mark.slow
def test_a_gzip_bomb_is_a_413(small: ServerProcess) -> None:
    bomb = gzip.compress(bytes(200 << 20))
    assert len(bomb) < 1 << 20
    answer = small.http.post("/v1/traces", content=bomb, headers={**PROTOBUF, "content-encoding": "gzip"})
    assert answer.status_code == 413
    assert "--max-decompressed" in Status.FromString(answer.content).message
    nested = zlib.compress(bomb)
    answer = small.http.post("/v1/traces", content=nested, headers={**PROTOBUF, "content-encoding": "deflate"})
    assert answer.status_code == 400


@pytest.mark.slow
def test_a_sender_that_stops_in_the_middle_is_answered_and_forgotten(small: ServerProcess) -> None:
    port = int(small.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(
            b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        slow.settimeout(30)
        assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")
    assert small.http.post("/v1/traces", content=traces_body()[1], headers=PROTOBUF).status_code == 200


@pytest.mark.slow
def test_what_would_not_fit_into_memory_is_a_429_with_a_time_to_come_back(data: Path) -> None:
    with serving(data, "--max-queued", "1", "--max-body", "1") as server:
        body = traces(1, note=os.urandom(100_000).hex())[1].SerializeToString()
        with holding(server, 900_000):
            answer = server.http.post("/v1/traces", content=body, headers=PROTOBUF)
            assert answer.status_code == 429
            assert int(answer.headers["retry-after"]) >= 1
            assert "--max-queued" in Status.FromString(answer.content).message
        eventually(lambda: server.metric("dashcam_queue_bytes") == 0)
        assert server.http.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200


@pytest.mark.slow
def test_one_request_too_many_is_a_503_and_the_others_are_served(data: Path) -> None:
    with serving(data, "--max-requests", "2") as server:
        port = int(server.url.rsplit(":", 1)[1])
        head = b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{"
        waiting = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for each in waiting:
            each.sendall(head)
        deadline = time.monotonic() + 20
        while (answer := server.http.get("/health")).status_code == 200 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert answer.status_code == 503
        assert "--max-requests" in answer.json()["error"]
        assert int(answer.headers["retry-after"]) >= 1
        for each in waiting:
            each.sendall(b"}")
            each.settimeout(20)
            assert each.recv(100).startswith(b"HTTP/1.1 200 ")
            each.close()
        assert server.http.get("/health").status_code == 200


@pytest.mark.slow
def test_memory_stays_bounded_while_many_send_more_than_is_taken(data: Path) -> None:
    with serving(data, "--max-queued", "8", "--max-body", "8") as server:
        body = traces(1, note=os.urandom(2 << 20).hex())[1].SerializeToString()
        answers: list[int] = []

        def send() -> None:
            sent = (server.http.post("/v1/traces", content=body, headers=PROTOBUF) for _ in range(4))
            answers.extend(answer.status_code for answer in sent)

        threads = [threading.Thread(target=send) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(answers) <= {200, 429}
        status = Path(f"/proc/{server.process.pid}/status")
        if status.exists():
            (peak,) = (int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
            assert peak < 400_000  # kB
