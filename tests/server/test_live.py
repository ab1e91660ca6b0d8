"""The live stream: nothing missed, nothing twice, and nobody in the way of anybody."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from sent import PROTOBUF, traces_body
from server_process import ServerProcess, eventually, serving

import dashcam
from dashcam.server.api.live import PAUSE
from dashcam.store.control import FRESH, Control

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with two recorded chats, which takes few requests at once."""
    data = tmp_path_factory.mktemp("live")
    dashcam.configure(data=data, url="")
    try:
        for name in ("chat-1", "chat-2"):
            with dashcam.record_session(name, agent="helper") as session:
                session.user("a question")
                session.assistant("an answer", model="gpt-4o")
    finally:
        dashcam.configure()
    with serving(data, "--max-requests", "8") as running:
        eventually(lambda: len(running.http.get("/api/sessions").json()["items"]) == 2)
        yield running


def told(stream: httpx.Response) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The events of a stream: their ids, types, and what they tell."""
    assert stream.status_code == 200
    assert stream.headers["content-type"].startswith("text/event-stream")
    said: dict[str, str] = {}
    for line in stream.iter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            said[name] = value
        elif said:
            yield int(said["id"]), said["event"], json.loads(said["data"])
            said = {}


def post(server: ServerProcess, spans: int = 1) -> set[tuple[str, str]]:
    """Send a trace; its spans."""
    trace_id, body = traces_body(spans)
    assert server.http.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    return {(trace_id, number.to_bytes(8).hex()) for number in range(1, spans + 1)}


def newest(server: ServerProcess) -> str:
    """The id of the newest record: that of one that is sent for this."""
    ((mine, _),) = post(server)
    with httpx.stream("GET", f"{server.url}/api/live", params={"since": "0", "trace_id": mine}, timeout=30) as stream:
        return str(next(told(stream))[0])


def test_who_is_cut_off_misses_nothing_and_gets_nothing_twice(server: ServerProcess) -> None:
    """Records arrive all the time, and the connection breaks after every few of them."""
    chance = random.Random(7)
    last = newest(server)
    sent: set[tuple[str, str]] = set()
    done = threading.Event()

    def send() -> None:
        try:
            for _ in range(150):
                sent.update(post(server, 4))
        finally:
            done.set()

    sender = threading.Thread(target=send)
    sender.start()
    seen: list[tuple[str, str]] = []
    ids: list[int] = []
    breaks = 0
    while not done.is_set() or len(seen) < len(sent):
        with httpx.stream("GET", f"{server.url}/api/live", headers={"Last-Event-ID": last}, timeout=30) as stream:
            for number, (seq, kind, document) in enumerate(told(stream), 1):
                assert kind == "span"
                ids.append(seq)
                seen.append((document["trace_id"], document["span_id"]))
                last = str(seq)
                if number >= chance.randrange(1, 60) or (done.is_set() and len(seen) >= len(sent)):
                    break
        breaks += 1
    sender.join()
    assert len(sent) == 600
    assert breaks > 10
    assert set(seen) == sent
    assert len(seen) == len(sent)
    assert ids == sorted(ids)


def test_from_the_start_and_narrowed(server: ServerProcess) -> None:
    query = {"since": "0", "session_id": "chat-2", "operation": "model_call"}
    with httpx.stream("GET", f"{server.url}/api/live", params=query, timeout=30) as stream:
        _, kind, document = next(told(stream))
    assert (kind, document["session_id"], document["operation"]) == ("event", "chat-2", "model_call")


def test_without_an_id_it_begins_now(server: ServerProcess) -> None:
    post(server)
    with httpx.stream("GET", f"{server.url}/api/live", timeout=30) as stream:
        sent = post(server)
        _, _, document = next(told(stream))
    assert {(document["trace_id"], document["span_id"])} == sent


def test_an_id_of_another_store_begins_now(server: ServerProcess) -> None:
    """One that is yet to come would have to be waited for, for who knows how long."""
    with httpx.stream("GET", f"{server.url}/api/live", params={"since": "99999999999999"}, timeout=30) as stream:
        sent = post(server)
        _, _, document = next(told(stream))
    assert {(document["trace_id"], document["span_id"])} == sent


def test_idle_streams_are_in_nobodys_way(server: ServerProcess) -> None:
    """Fifty of them where eight requests are taken at once; and each is told what comes."""
    with ExitStack() as stack, httpx.Client(limits=httpx.Limits(max_connections=60), timeout=30) as client:
        opened = [stack.enter_context(client.stream("GET", f"{server.url}/api/live")) for _ in range(50)]
        assert {stream.status_code for stream in opened} == {200}
        for _ in range(20):
            assert server.http.get("/api/sessions").status_code == 200
            assert server.http.get("/health").status_code == 200
        sent = post(server)
        for stream in opened:
            _, _, document = next(told(stream))
            assert {(document["trace_id"], document["span_id"])} == sent


def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as server, ExitStack() as stack, httpx.Client(timeout=30) as client:
        opened = [stack.enter_context(client.stream("GET", f"{server.url}/api/live")) for _ in range(5)]
        ended: list[int] = []
        reader = threading.Thread(target=lambda: ended.extend(len(list(told(stream))) for stream in opened))
        reader.start()
        assert server.stop() == 0
        reader.join(30)
        assert ended == [0] * 5  # each came to its end as it should, and none was torn off


def test_a_revoked_key_ends_its_stream(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Control(data) as control:
        key, text = control.create("default", ["read"])
    with serving(data, "--require-key") as server:
        headers = {"Authorization": f"Bearer {text}"}
        with httpx.stream("GET", f"{server.url}/api/live", headers=headers, timeout=FRESH + 60 * PAUSE) as stream:
            assert stream.status_code == 200
            with Control(data) as control:
                control.revoke(key.id, project="default")
            assert list(told(stream)) == []
        assert server.http.get("/api/live", headers=headers).status_code == 401
