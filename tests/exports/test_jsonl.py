"""JSONL: the seed's lines first, then what the model was sent; read by jq as it comes."""

from __future__ import annotations

import json
import shutil
import subprocess
import tracemalloc
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sample_sessions import CATALOG, NOW, PROMPT, SESSION, conversation, event, fill, message, part

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.contracts.content import context_digest, digest_of
from dashcam.errors import NotFound, SessionNotFound
from dashcam.exports import json as json_format
from dashcam.exports import jsonl
from dashcam.exports.selection import check_sessions
from dashcam.record.projector import project_all
from dashcam.store.base import Batch, Context
from dashcam.store.sqlite.store import SqliteStore

ROWS = {"session": ChatSession, "message": ChatMessage, "part": ChatPart}


def lines(store: SqliteStore, *sessions: str, bare: bool = False) -> list[dict[str, Any]]:
    return [json.loads(line) for line in jsonl.write(store, sessions or (SESSION,), bare=bare)]


def test_the_session_comes_first_then_messages_each_followed_by_its_parts(store: SqliteStore) -> None:
    fill(store)
    found = lines(store, bare=True)
    rows = conversation()
    assert [(line["type"], line["data"]["id"]) for line in found] == [
        ({ChatSession: "session", ChatMessage: "message", ChatPart: "part"}[type(row)], row.id) for row in rows
    ]
    for line in found:
        assert list(line) == ["type", "data"]
        assert tuple(line["data"]) == ROWS[str(line["type"])].__struct_fields__


def test_rows_keep_their_json_columns_as_text_to_the_letter(store: SqliteStore) -> None:
    odd = '{"text": "a\\u0000b",  "n": 123456789012345678901234567890, "x": 1.50}'
    asked = message(1, "user")
    row = part(asked, 0, "text")
    row = ChatPart(**{name: getattr(row, name) for name in row.__struct_fields__} | {"data_json": odd})
    store.append(Batch(chat=[ChatSession(id=SESSION, agent="", created_at=NOW, updated_at=NOW), asked, row]))
    assert lines(store)[2]["data"]["data_json"] == odd


@pytest.mark.skipif(not shutil.which("jq"), reason="needs jq")
def test_the_two_lines_of_jq_work_as_printed(store: SqliteStore, tmp_path: Path) -> None:
    fill(store)
    (tmp_path / "session.jsonl").write_bytes(b"".join(jsonl.write(store, [SESSION])))

    def run(command: str) -> list[Any]:
        printed = subprocess.check_output(command, shell=True, text=True, cwd=tmp_path).strip()
        found, place = [], 0
        while place < len(printed):
            document, place = json.JSONDecoder().raw_decode(printed, place)
            found.append(document)
            place += 1  # the line end
        return found

    states = run("""cat session.jsonl | jq 'select(.type=="part") | .data.tool_state'""")
    told = ["output-available", "output-denied", "output-error", "approval-requested"]
    assert [state for state in states if state] == told
    found = run(
        """cat session.jsonl | jq 'select(.type=="message" and .data.role=="assistant") | .data.metadata_json | fromjson'"""
    )
    assert [each.get("stop_reason") for each in found] == ["stop", "aborted", None]


def test_what_the_model_was_sent_follows_each_thing_once(store: SqliteStore) -> None:
    fill(store)
    fill(store, "chat-43", "4bf92f3577b34da6a3ce929d0e0e4736", 100)
    found = lines(store, SESSION, "chat-43")
    digests = [line["data"]["digest"] for line in found if "digest" in line["data"]]
    assert len(digests) == len(set(digests)) == 6
    assert {line["data"]["body"] for line in found if line["type"] in ("system_prompt", "tool_catalog")} == {
        PROMPT,
        CATALOG,
    }
    assert [line["data"]["base64"] for line in found if line["type"] == "content" and "base64" in line["data"]]
    kinds = [kind for kind, _ in groupby(line["type"] for line in found)]
    assert kinds.index("model_call") < kinds.index("event")


def test_a_long_session_is_a_short_file(store: SqliteStore) -> None:
    """Each call was sent the whole history; the file holds each message once and each context as a difference."""

    def size_of(calls: int) -> int:
        session, trace = f"s{calls}", f"t{calls}"
        bodies = [f"{session} {number}".encode() for number in range(calls)]
        digests = [digest_of(body) for body in bodies]
        lists = [digests[: number + 1] for number in range(calls)]
        told = [
            event(
                number + calls * 1000,
                "model_call",
                session,
                trace,
                model="m",
                context_digest=context_digest(each).hex(),
            )
            for number, each in enumerate(lists)
        ]
        store.append(Batch(contents=bodies, contexts=[Context(tuple(each)) for each in lists], events=told))
        project_all(store)
        return sum(map(len, jsonl.write(store, [session])))

    assert size_of(200) < 2.2 * size_of(100)


def test_a_session_of_events_alone_is_exported_without_a_session_line(store: SqliteStore) -> None:
    store.append(Batch(events=[event(0, "reply_ready", "only-events")]))
    assert [line["type"] for line in lines(store, "only-events")] == ["event"]
    check_sessions(store, ["only-events"], "here", chat=False)
    with pytest.raises(NotFound, match="--format jsonl"):
        check_sessions(store, ["only-events"], "here", chat=True)
    with pytest.raises(SessionNotFound):
        check_sessions(store, ["nobody"], "here", chat=False)


@pytest.mark.slow
def test_ten_thousand_parts_pass_through_in_little_memory(store: SqliteStore) -> None:
    asked = message(1, "assistant")
    rows = [part(asked, index, "text", text="word " * 200) for index in range(10_000)]
    store.append(Batch(chat=[ChatSession(id=SESSION, agent="", created_at=NOW, updated_at=NOW), asked, *rows]))
    del rows
    for write in (jsonl.write, json_format.write):
        tracemalloc.start()
        size = sum(map(len, write(store, [SESSION])))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert size > 10_000_000
        assert peak < 1_000_000


def test_json_is_the_canonical_document(store: SqliteStore) -> None:
    fill(store)
    fill(store, "chat-43", "4bf92f3577b34da6a3ce929d0e0e4736", 100)
    document = json.loads(b"".join(json_format.write(store, [SESSION])))
    assert list(document) == ["session", "messages"]
    assert [list(each) for each in document["messages"]] == [["message", "parts"]] * 6
    flat = [document["session"]]
    for each in document["messages"]:
        flat += [each["message"], *each["parts"]]
    assert flat == [line["data"] for line in lines(store, bare=True)]
    both = json.loads(b"".join(json_format.write(store, [SESSION, "chat-43"])))
    assert [each["session"]["id"] for each in both] == [SESSION, "chat-43"]
