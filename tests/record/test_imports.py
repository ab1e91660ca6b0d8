"""Importing: what is bad is named and left out, what is good comes in, and --strict takes all or nothing."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.contracts.content import context_digest, digest_of
from dashcam.dialects.sessions import item_of
from dashcam.errors import SessionNotFound, UnreadableInput
from dashcam.record import imports
from dashcam.record.imports import import_files
from dashcam.record.intake import TOLD, Imported
from dashcam.store.sqlite.store import SqliteStore

SESSION = {"id": "s", "agent": "a", "created_at": 1, "updated_at": 1}
MESSAGE = {"id": "m", "session_id": "s", "role": "user", "created_at": 1, "updated_at": 1}
PART = {"id": "p", "message_id": "m", "session_id": "s", "index": 0, "type": "text", "data_json": "{}"} | {
    "created_at": 1,
    "updated_at": 1,
}
EVENT = {"segment": "x.jsonl", "offset": 0, "session_id": "s", "trace_id": "t", "step": 0, "kind": "user"} | {
    "operation": "reply_ready",
    "ts": 1,
    "fields": "{}",
    "marks": 0,
}
CALL = {"session_id": "s", "trace_id": "t", "step": 4, "kind": "user", "ts": 9, "model": "m"}
BODY = {"digest": digest_of(b"hello").hex(), "body": "hello"}


def line(type_: str, data: dict[str, Any], **changed: Any) -> str:
    return json.dumps({"type": type_, "data": {**data, **changed}})


GOOD = [line("session", SESSION), line("message", MESSAGE), line("part", PART), line("event", EVENT)]


def bring(store: SqliteStore, tmp_path: Path, *lines: str, form: str = "jsonl", strict: bool = False) -> Imported:
    file = tmp_path / "file"
    file.write_text("\n".join(lines))
    return import_files(store, form, [str(file)], strict=strict)  # type: ignore[arg-type]


BAD = {
    "not JSON": "{",
    "not text": '"\\ud800"',
    "no object": "[]",
    "no data": '{"type": "session"}',
    "unknown type": line("recipe", SESSION),
    "blank id": line("session", SESSION, id="  "),
    "empty id": line("session", SESSION, id=""),
    "id with NUL": line("session", SESSION, id="a\0b"),
    "wrong shape": line("message", MESSAGE, created_at="yesterday"),
    "unknown role": line("message", MESSAGE, id="m2", role="boss"),
    "huge number": line("message", MESSAGE, id="m2", updated_at=10**30),
    "a session that isn't there": line("message", MESSAGE, id="m2", session_id="elsewhere"),
    "a message that isn't there": line("part", PART, id="p2", message_id="elsewhere"),
    "a digest of something else": line("content", BODY, body="other"),
    "no base64": line("content", BODY, base64="?"),
    "an event without a trace": line("event", EVENT, offset=7, trace_id=""),
    "an event of no kind": line("event", EVENT, offset=7, kind="robot"),
    "an event before time": line("event", EVENT, offset=7, ts=-1),
    "an event with no object": line("event", EVENT, offset=7, fields="[]"),
    "a context from nowhere": line(
        "model_call", CALL, context_digest="ab" * 32, context={"parent": "cd" * 32, "head": 1, "middle": []}
    ),
    "a context of something else": line("model_call", CALL, context_digest="ab" * 32, context={"middle": ["cd" * 32]}),
    "a link that doesn't fit": line(
        "model_call", CALL, context_digest="ab" * 32, context={"middle": [], "appended": 3, "parent": "cd" * 32}
    ),
    "nested too deep": '{"type": "session", "data": ' + "[" * 5000 + "]" * 5000 + "}",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_line_is_named_and_the_rest_comes_in(bad: str, store: SqliteStore, tmp_path: Path) -> None:
    imported = bring(store, tmp_path, *GOOD, bad, line("message", MESSAGE, id="last"))
    assert imported.bad == 1
    assert imported.problems[0].startswith(f"{tmp_path / 'file'}, line 5: ")
    assert (imported.sessions, imported.messages, imported.parts, imported.events) == (1, 2, 1, 1)
    assert list(store.verify()) == []


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_strict_takes_nothing_where_anything_is_bad(bad: str, store: SqliteStore, tmp_path: Path) -> None:
    imported = bring(store, tmp_path, *GOOD, bad, strict=True)
    assert imported.bad == 1
    assert imported == Imported(bad=1, problems=imported.problems)
    with pytest.raises(SessionNotFound):
        store.chat_session("s")
    assert store.traces("s") == []


def test_strict_takes_nothing_where_the_store_itself_refuses_a_row(store: SqliteStore, tmp_path: Path) -> None:
    bring(store, tmp_path, *GOOD)
    theirs = [line("session", SESSION, id="other"), line("message", MESSAGE, session_id="other")]
    assert bring(store, tmp_path, *theirs, strict=True).bad == 1
    with pytest.raises(SessionNotFound):
        store.chat_session("other")
    imported = bring(store, tmp_path, *theirs)
    assert (imported.sessions, imported.bad) == (1, 1)
    assert "line 2" in imported.problems[0]


def test_a_row_without_its_defaults_and_with_more_than_we_know_is_taken(store: SqliteStore, tmp_path: Path) -> None:
    assert bring(store, tmp_path, line("session", SESSION, colour="green"), "", GOOD[1] + "\r").bad == 0
    assert [message.id for message in store.chat_messages("s")] == ["m"]


def test_sums_are_the_stores_own_and_a_difference_is_told(store: SqliteStore, tmp_path: Path) -> None:
    spent = json.dumps({"usage": {"input": 7}, "cost_usd": 0.5})
    rows = [
        line("session", SESSION, prompt_tokens=8, total_tokens=7),
        line("message", MESSAGE, role="assistant", metadata_json=spent),
    ]
    imported = bring(store, tmp_path, *rows)
    assert imported.bad == 0
    assert [warning.split("says ")[1].split()[0] for warning in imported.warnings] == ["prompt_tokens", "cost_usd"]
    assert store.chat_session("s").prompt_tokens == 7


def test_a_call_without_its_event_comes_back_through_one(store: SqliteStore, tmp_path: Path) -> None:
    told = {"provider": "openai", "input_tokens": 3, "duration_ms": 1.5, "cost_usd": 0.1, "settings": '{"top_p":1}'}
    digests = [digest_of(b"hello")]
    rest = {"context_digest": context_digest(digests).hex(), "context": {"middle": [digests[0].hex()]}}
    lines = [line("content", BODY), line("model_call", CALL, **told, **rest)]
    imported = bring(store, tmp_path, *lines)
    assert (imported.bad, imported.events, imported.contents) == (0, 1, 1)
    (call,) = store.model_calls(session_id="s")
    assert {name: getattr(call, name) for name in told} == told
    assert store.context(bytes.fromhex(call.context_digest or "")) == digests
    again = bring(store, tmp_path, *lines)
    assert (again.events, again.contents) == (0, 0)
    assert len(store.model_calls(session_id="s")) == 1


def test_many_problems_are_counted_and_some_are_named(store: SqliteStore, tmp_path: Path) -> None:
    imported = bring(store, tmp_path, *["{"] * 100)
    assert (imported.bad, len(imported.problems)) == (100, TOLD)


def test_a_line_beyond_the_limit_is_passed_over(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "MAX_LINE", 400)
    long = line("part", PART, id="long", data_json="x" * 5000)
    imported = bring(store, tmp_path, *GOOD[:2], long, GOOD[2])
    assert (imported.bad, imported.parts) == (1, 1)
    assert "line 3: longer" in imported.problems[0]


def test_json_that_ends_too_soon_is_named_with_its_line(store: SqliteStore, tmp_path: Path) -> None:
    imported = bring(store, tmp_path, '{"session":', "{}", form="json")
    assert imported.bad == 1
    assert "file, line 2: " in imported.problems[0]


def test_a_bad_row_in_a_document_is_named_and_the_rest_comes_in(store: SqliteStore, tmp_path: Path) -> None:
    document = {
        "session": SESSION,
        "messages": [
            {"message": MESSAGE, "parts": [PART, {**PART, "id": ""}]},
            {"message": {**MESSAGE, "id": "m2", "role": 3}},
            "nothing",
            {"message": {**MESSAGE, "id": "m4"}},
        ],
    }
    imported = bring(store, tmp_path, json.dumps([document, {"session": SESSION}]), form="json")
    assert (imported.sessions, imported.messages, imported.parts, imported.bad) == (1, 2, 1, 4)
    assert ["session 1, message 1, part 2" in imported.problems[0], "session 2" in imported.problems[3]] == [True, True]


def test_stdin_is_a_file_like_any_other(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(GOOD).encode())))
    assert import_files(store, "jsonl", ["-"]).parts == 1


def test_a_file_that_is_not_there_is_told_before_any_is_taken(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "good").write_text("\n".join(GOOD))
    for missing in ("nowhere", "."):
        with pytest.raises(UnreadableInput, match="can't be read"):
            import_files(store, "jsonl", [str(tmp_path / "good"), str(tmp_path / missing)])
    with pytest.raises(SessionNotFound):
        store.chat_session("s")


@given(st.binary() | st.text().map(lambda text: text.encode(errors="replace")))
def test_any_bytes_are_an_item_or_a_reason(noise: bytes) -> None:
    try:
        item_of(noise)
    except ValueError as error:
        assert str(error)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_data_is_an_item_or_a_reason(data: object) -> None:
    for kind in ("session", "message", "part", "content", "model_call", "event"):
        try:
            item = item_of(json.dumps({"type": kind, "data": data}).encode())
        except ValueError as error:
            assert str(error)
        else:
            assert isinstance(item, ChatSession | ChatMessage | ChatPart)
