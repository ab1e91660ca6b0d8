"""Many at once who send too much, too slowly or without a key: each is told so, and the server lives on."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import httpx
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from sent import PROTOBUF, traces, traces_body
from server_process import ServerProcess, eventually, serving, stored

from dashcam.store.control import Control

pytestmark = pytest.mark.slow
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
HEAD = "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
MB = 1 << 20


def peak(server: ServerProcess) -> int:
    """The most memory that the server itself has had, in MB."""
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


def at_once(count: int, what: Callable[[], object]) -> Counter[object]:
    """What so many got who did the same at the same time."""
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(what())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count
    return Counter(found)


def posted(server: ServerProcess, body: bytes, **headers: str) -> int:
    with httpx.Client(base_url=server.url, timeout=120) as http:
        answer = http.post("/v1/traces", content=body, headers={**PROTOBUF, **headers})
    if answer.status_code != 200:
        assert "--max-" in Status.FromString(answer.content).message
    return answer.status_code


def called(server: ServerProcess, body: bytes, **how: object) -> object:
    with grpc.insecure_channel(server.grpc) as channel:
        try:
            return bytes(channel.unary_unary(EXPORT)(body, timeout=120, **how))
        except grpc.RpcError as error:
            return error.code()


def test_sixteen_senders_of_gzip_bombs_are_refused_and_cost_little_memory(data: Path) -> None:
    bomb = gzip.compress(bytes(1024 * MB), 9)
    with serving(data) as server:
        assert at_once(16, lambda: posted(server, bomb, **{"content-encoding": "gzip"})) == {413: 16}
        assert peak(server) < 500
        assert posted(server, traces_body()[1]) == 200


def test_sixteen_senders_of_32_mb_fill_the_queue_and_no_more(data: Path) -> None:
    trace_id, request = traces(1, note=os.urandom(15 * MB).hex())
    body = request.SerializeToString()
    with serving(data) as server:
        answers = at_once(16, lambda: posted(server, body))
        assert answers.keys() <= {200, 429}
        assert answers[200] >= 1
        assert peak(server) < 900
        assert posted(server, body) == 200
        assert at_once(4, lambda: posted(server, bytes(33 * MB))) == {413: 4}
        with stored(data) as store:
            assert len(store.spans(trace_id)) == 1


def test_over_grpc_large_messages_and_bombs_are_bounded_too(data: Path) -> None:
    body = traces(1, note="x" * (30 * MB))[1].SerializeToString()
    with serving(data) as server:
        answers = at_once(16, lambda: called(server, body))
        assert answers.keys() <= {b"", grpc.StatusCode.UNAVAILABLE}
        bombs = at_once(4, lambda: called(server, bytes(200 * MB), compression=grpc.Compression.Gzip))
        assert bombs == {grpc.StatusCode.RESOURCE_EXHAUSTED: 4}
        assert peak(server) < 1500
        assert called(server, traces_body()[1]) == b""


def test_three_hundred_calls_at_once_are_answered_or_told_to_come_back(data: Path) -> None:
    body = traces(1, note=os.urandom(50_000).hex())[1].SerializeToString()
    with serving(data) as server, grpc.insecure_channel(server.grpc) as channel:
        calls = [channel.unary_unary(EXPORT).future(body) for _ in range(300)]
        answers = Counter(call.exception().code() if call.exception() else 200 for call in calls)
    assert answers.keys() <= {200, grpc.StatusCode.UNAVAILABLE}  # RESOURCE_EXHAUSTED would not be sent again


def test_a_call_whose_message_does_not_come_is_given_up(data: Path) -> None:
    never = threading.Event()

    def nothing() -> Iterator[bytes]:
        never.wait(60)
        yield b""

    with serving(data, "--body-timeout", "0.5") as server, grpc.insecure_channel(server.grpc) as channel:
        try:
            with pytest.raises(grpc.RpcError) as caught:
                channel.stream_unary(EXPORT)(nothing(), timeout=30)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert "--body-timeout" in caught.value.details()
        finally:
            never.set()
        assert called(server, traces_body()[1]) == b""


def test_a_header_that_never_ends_is_refused(server: ServerProcess) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as sender:
        sender.settimeout(20)
        sender.sendall(HEAD.encode() + b"X-Endless: ")
        said = b""
        try:
            for _ in range(100):
                sender.sendall(b"x" * 10_000)
                time.sleep(0.001)
            said = sender.recv(100)
        except ConnectionError:
            pass
        assert said == b"" or said.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert server.http.get("/health").status_code == 200


def test_fifty_bodies_that_trickle_are_given_up_while_others_are_served(data: Path) -> None:
    with serving(data, "--body-timeout", "2") as server, ExitStack() as stack:
        host, port = server.url.removeprefix("http://").split(":")
        slow = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(50)]
        for each in slow:
            each.sendall(f"{HEAD}Content-Length: 100\r\n\r\n{{".encode())
        assert posted(server, traces_body()[1]) == 200
        for each in slow:
            each.settimeout(20)
            said = each.recv(4000)
            assert said.startswith(b"HTTP/1.1 408 ")
            if b"--body-timeout" not in said:  # the body came by itself
                assert b"--body-timeout" in each.recv(4000)
        eventually(lambda: server.metric("dashcam_queue_bytes") == 0)


def test_commands_read_beside_a_running_server_and_those_that_write_say_who_has_it(data: Path) -> None:
    with serving(data) as server:
        trace_id, body = traces_body(3)
        assert posted(server, body) == 200
        eventually(lambda: server.metric('dashcam_projection_lag_records{project="default"}') == 0)
        shown = dashcam("trace", trace_id, "--data", str(data))
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "step 3" in shown.stdout
        assert dashcam("sessions", "--kind", "system", "--json", "--data", str(data)).stdout.count(trace_id) >= 1
        assert dashcam("verify", "--data", str(data)).returncode == 0
        second = dashcam("serve", "--port", "0", "--otlp-port", "0", "--grpc-port", "0", "--data", str(data))
        assert second.returncode == 6
        assert f"being written by process {server.process.pid}, serving" in " ".join(second.stderr.split())
        assert "Traceback" not in second.stderr
        assert posted(server, traces_body()[1]) == 200


def test_beyond_this_machine_it_does_not_start_without_a_key_and_asks_everybody_for_it(data: Path) -> None:
    refused = dashcam("serve", "--host", "0.0.0.0", "--port", "0", "--otlp-port", "0", "--data", str(data))
    assert refused.returncode == 2
    assert "dashcam keys" in " ".join(refused.stderr.split())
    with Control(data) as control:
        _, key = control.create("default", ["ingest"])
    body = traces_body()[1]
    with serving(data, "--host", "0.0.0.0") as server:
        here = server.url.replace("0.0.0.0", "127.0.0.1")
        with httpx.Client(base_url=here, timeout=30) as http:
            for path in ("/v1/traces", "/api/public/otel/v1/traces"):
                assert http.post(path, content=body, headers=PROTOBUF).status_code == 401
            assert http.get("/api/sessions").status_code == 401
            with_key = {**PROTOBUF, "authorization": f"Bearer {key}"}
            assert http.post("/v1/traces", content=body, headers=with_key).status_code == 200
        with grpc.insecure_channel(server.grpc.replace("0.0.0.0", "127.0.0.1")) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(EXPORT)(body)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert channel.unary_unary(EXPORT)(body, metadata=[("authorization", f"Bearer {key}")]) == b""


def dashcam(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashcam", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
