"""Shipped journals: docs/wire.md, by hand and with the SDK's own shipper."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx
import msgspec
import pytest
from server_process import ServerProcess, eventually, serving, stored

import dashcam
from dashcam.sdk.settings import settings_from
from dashcam.sdk.ship import ship_once
from dashcam.store.base import EventFilter

pytestmark = pytest.mark.slow


def line(session: str, step: int, **fields: object) -> bytes:
    record = {"session_id": session, "trace_id": f"{session}-trace", "step": step, "kind": "user"}
    return (
        msgspec.json.encode(record | {"operation": "tool_call", "ts": "2030-01-01T00:00:00Z", "tool": "x"} | fields)
        + b"\n"
    )


def ship(server: ServerProcess, segment: str, offset: int | str, body: bytes, **headers: str) -> httpx.Response:
    given = {"content-type": "application/x-ndjson", "x-dashcam-segment": segment, "x-dashcam-offset": str(offset)}
    return server.http.post("/v1/records", content=body, headers={**given, **headers})


def steps(server: ServerProcess, session: str) -> list[int]:
    with stored(server.data) as store:
        return sorted(event.step for event in store.events(EventFilter(session_id=session)))


def test_lines_are_kept_once_each_by_segment_and_offset(server: ServerProcess) -> None:
    lines = [line("once", step) for step in range(4)]
    whole, first = b"".join(lines), len(lines[0])
    answer = ship(server, "once.jsonl", 0, whole)
    assert answer.status_code == 200
    assert answer.json() == {"segment": "once.jsonl", "offset": len(whole), "new": 4, "quarantined": 0}
    assert ship(server, "once.jsonl", 0, whole).json()["new"] == 0
    again = ship(server, "once.jsonl", first, b"".join(lines[1:]) + line("once", 4)).json()
    assert (again["new"], again["offset"]) == (1, len(whole) + len(line("once", 4)))
    assert steps(server, "once") == [0, 1, 2, 3, 4]


def test_gaps_are_possible_and_gzip_is_read(server: ServerProcess) -> None:
    body = line("gap", 7)
    answer = ship(server, "gap.jsonl", 1000, gzip.compress(body), **{"content-encoding": "gzip"})
    assert answer.json() == {"segment": "gap.jsonl", "offset": 1000 + len(body), "new": 1, "quarantined": 0}
    assert ship(server, "gap.jsonl", 0, line("gap", 1)).json()["new"] == 1
    assert steps(server, "gap") == [1, 7]


def test_what_is_no_record_is_kept_in_quarantine_and_acknowledged(server: ServerProcess) -> None:
    body = b"no JSON\n" + b"\n" + b'{"session_id": "alone"}\n' + line("aside", 0)
    for new, aside in ((3, 2), (0, 0)):
        answer = ship(server, "aside.jsonl", 0, body).json()
        assert answer == {"segment": "aside.jsonl", "offset": len(body), "new": new, "quarantined": aside}
    with stored(server.data) as store:
        assert sum(orphan.segment == "aside.jsonl" for orphan in store.orphans()) == 2


def test_a_body_of_several_megabytes_is_taken(server: ServerProcess) -> None:
    body = line("large", 0, note="x" * (5 << 20))
    assert ship(server, "large.jsonl", 0, body).json()["offset"] == len(body)
    assert steps(server, "large") == [0]


@pytest.mark.parametrize("segment", ["", "../up.jsonl", "a.txt", ".jsonl", "x" * 300 + ".jsonl", "a/b.jsonl"])
def test_what_names_no_segment_is_a_400(server: ServerProcess, segment: str) -> None:
    answer = ship(server, segment, 0, line("named", 0))
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert "X-Dashcam-Segment" in answer.json()["error"]


@pytest.mark.parametrize("offset", ["", "-1", "x", "1.5", "9" * 30])
def test_what_is_no_offset_is_a_400(server: ServerProcess, offset: str) -> None:
    answer = ship(server, "placed.jsonl", offset, line("placed", 0))
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.parametrize("body", [b"", b'{"whole": false}', b"one\ntwo"])
def test_what_is_no_whole_line_is_a_400(server: ServerProcess, body: bytes) -> None:
    answer = ship(server, "torn.jsonl", 0, body)
    assert answer.status_code == 400
    assert "line" in answer.json()["error"]


def test_the_sdk_ships_to_a_server_and_the_chat_is_there(server: ServerProcess, data: Path) -> None:
    chat = dashcam.record_session("shipped-chat", agent="helper")
    chat.user("What is it?")
    with chat.assistant() as answer:
        answer.text("It is this.")
    chat.close()
    sent = ship_once(settings_from({}, data=data, url=server.url))
    assert (sent["behind_bytes"], sent["refused"], sent["last_error"]) == (0, 0, None)
    with stored(server.data) as store:
        assert [message.role for message in store.chat_messages("shipped-chat")] == ["user", "assistant"]
        texts = [msgspec.json.decode(part.data_json).get("text") for part in store.chat_parts("shipped-chat")]
    assert "What is it?" in texts
    assert "It is this." in texts


def test_journals_in_the_servers_own_folder_are_collected_while_it_runs(data: Path) -> None:
    with serving(data) as server:
        trace = dashcam.new_trace(session_id="local")
        for _ in range(3):
            trace = dashcam.log_event(trace, "tool_call", tool="search")
        eventually(lambda: len(steps(server, "local")) == 3)
        trace = dashcam.log_event(trace, "tool_call", tool="search")
        eventually(lambda: len(steps(server, "local")) == 4)


def test_shipping_a_segment_that_lies_in_the_folder_too_takes_nothing_from_the_collector(data: Path) -> None:
    with serving(data) as server:
        trace = dashcam.log_event(dashcam.new_trace(session_id="both"), "tool_call", tool="search")
        eventually(lambda: len(steps(server, "both")) == 1)
        (segment,) = (data / "default" / "journal").glob("*.jsonl")
        assert ship(server, segment.name, 1 << 40, line("elsewhere", 0)).status_code == 200
        dashcam.log_event(trace, "tool_call", tool="search")
        eventually(lambda: len(steps(server, "both")) == 2)
