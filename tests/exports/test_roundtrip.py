"""Export, import, export again: the same bytes; and again into the same store: nothing new."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_sessions import NOW, SESSION, fill

from dashcam.contracts.chat import TOOL_STATES, ChatMessage, ChatPart, ChatSession
from dashcam.contracts.content import context_digest, digest_of
from dashcam.contracts.event import Event
from dashcam.exports import json as json_format
from dashcam.exports import jsonl, sqlite
from dashcam.record.imports import Format, import_files
from dashcam.record.intake import Imported
from dashcam.record.projector import project_all
from dashcam.store.base import Batch, Context
from dashcam.store.sqlite.store import SqliteReader, SqliteStore

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ids = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs"]), min_size=1, max_size=20).filter(str.strip)
times = st.integers(0, 2**41)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def encoded(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


@st.composite
def batches(draw: Any) -> Batch:
    """A session of any words, part types, states and numbers, with calls over any lists of messages."""
    session_id = draw(ids)
    chat: list[Any] = [
        ChatSession(
            id=session_id,
            agent=draw(words),
            workspace_root=draw(st.none() | words),
            metadata_json=encoded(draw(st.dictionaries(words, documents, max_size=2))),
            parent_id=draw(st.none() | ids),
            created_at=draw(times),
            updated_at=draw(times),
            archived_at=draw(st.none() | times),
        )
    ]
    for number in range(draw(st.integers(0, 4))):
        usage = draw(st.fixed_dictionaries({}, optional={"input": st.integers(), "output": st.integers(0, 2**50)}))
        metadata = {"usage": usage, "cost_usd": draw(documents), "x": draw(documents)}
        row = ChatMessage(
            id=f"msg_{number}{draw(ids)}",
            session_id=session_id,
            role=draw(st.sampled_from(["user", "assistant", "system"])),
            metadata_json=draw(st.sampled_from([encoded(metadata), "", "not json", "[]"])),
            created_at=draw(times),
            updated_at=draw(times),
        )
        chat.append(row)
        chat += [
            ChatPart(
                id=f"prt_{number}_{index}",
                message_id=row.id,
                session_id=session_id,
                index=draw(st.integers(0, 5)),
                type=draw(st.sampled_from(["text", "tool-x", "data-new"]) | words.filter(bool)),
                data_json=encoded(draw(documents)),
                tool_call_id=draw(st.none() | words),
                tool_state=draw(st.none() | st.sampled_from(TOOL_STATES) | words),
                created_at=draw(times),
                updated_at=draw(times),
            )
            for index in range(draw(st.integers(0, 3)))
        ]
    bodies = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=5, unique=True))
    digests = [digest_of(body) for body in bodies]
    lists = draw(st.lists(st.lists(st.sampled_from(digests), max_size=8), max_size=5))
    prompt = draw(words)
    events = [
        Event(
            draw(st.sampled_from(["a.jsonl", "b.jsonl"])),
            offset,
            session_id,
            draw(st.sampled_from(["t1", "t2"])),
            draw(st.integers(0, 3)),
            "user",
            "model_call",
            draw(times),
            encoded(
                {
                    "model": "m",
                    "context_digest": context_digest(each).hex(),
                    "system_prompt_digest": digest_of(prompt.encode()).hex(),
                    "x": draw(documents),
                }
            ),
        )
        for offset, each in enumerate(lists)
    ]
    return Batch(
        chat=chat,
        events=events,
        contents=bodies,
        contexts=[Context(tuple(each)) for each in lists],
        system_prompts=[prompt],
    )


@contextmanager
def new_store() -> Iterator[SqliteStore]:
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "sessions.db") as store:
        yield store


def dump(store: SqliteReader) -> dict[str, list[Any]]:
    """Every row of every table."""
    with closing(sqlite3.connect(store.path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for (name,) in names}


def bring(store: SqliteStore, exported: bytes, form: Format = "jsonl", *, strict: bool = False) -> Imported:
    with tempfile.NamedTemporaryFile() as file:
        file.write(exported)
        file.flush()
        return import_files(store, form, [file.name], strict=strict)


def new_rows(imported: Imported) -> int:
    return imported.sessions + imported.messages + imported.parts + imported.events + imported.contents


@pytest.mark.slow
@settings(max_examples=60)
@given(batches(), st.booleans())
def test_any_session_comes_back_as_it_went(batch: Batch, strict: bool) -> None:
    with new_store() as first, new_store() as second:
        first.append(batch)
        project_all(first)
        session_id = batch.chat[0].id  # type: ignore[union-attr]
        exported = b"".join(jsonl.write(first, [session_id]))
        imported = bring(second, exported, strict=strict)
        assert imported.problems == []
        assert imported.warnings == []
        assert b"".join(jsonl.write(second, [session_id])) == exported
        assert list(second.verify()) == []
        for store in (first, second):
            before = dump(store)
            assert new_rows(again := bring(store, exported, strict=strict)) == again.changed == again.bad == 0
            assert dump(store) == before


def test_json_brings_back_the_rows(store: SqliteStore) -> None:
    fill(store)
    fill(store, "chat-43", "4bf92f3577b34da6a3ce929d0e0e4736", 100)
    for sessions in ([SESSION], [SESSION, "chat-43"]):
        exported = b"".join(json_format.write(store, sessions))
        with new_store() as other:
            imported = bring(other, exported, "json")
            assert (imported.sessions, imported.bad) == (len(sessions), 0)
            assert b"".join(json_format.write(other, sessions)) == exported
            assert new_rows(bring(other, exported, "json")) == 0


def test_an_older_export_takes_nothing_back(store: SqliteStore) -> None:
    fill(store)
    exported = b"".join(jsonl.write(store, [SESSION]))
    session = store.chat_session(SESSION)
    changed = {name: getattr(session, name) for name in session.__struct_fields__}
    changed |= {"updated_at": NOW + 99_000, "archived_at": NOW + 99_000}
    store.append(Batch(chat=[ChatSession(**changed)]))
    before = dump(store)
    assert new_rows(bring(store, exported)) == 0
    assert dump(store) == before


def test_a_store_of_its_own_holds_these_sessions_and_nothing_else(store: SqliteStore, tmp_path: Path) -> None:
    fill(store)
    fill(store, "chat-43", "4bf92f3577b34da6a3ce929d0e0e4736", 100)
    folder = tmp_path / "export"
    folder.mkdir()
    with SqliteReader(sqlite.make(store, [SESSION], folder)) as copy:
        assert b"".join(jsonl.write(copy, [SESSION])) == b"".join(jsonl.write(store, [SESSION]))
        assert list(copy.verify()) == []
        assert copy.traces("chat-43") == []
