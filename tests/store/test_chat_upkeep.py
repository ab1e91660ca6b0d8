"""Keeping chat sessions sound: retention, what is named, verifying, rebuilding."""

from __future__ import annotations

import random
import sqlite3
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from chat_rows import AT, dump, session, text, turn, words
from records import DAY, NOW, call, event

from dashcam.contracts.content import digest_of
from dashcam.errors import ContentNotFound
from dashcam.store.base import Batch, Projection, Retention, SessionFilter
from dashcam.store.sqlite.store import SqliteReader, SqliteStore


def hex_of(body: str) -> str:
    return sha256(body.encode()).hexdigest()


def test_an_old_chat_session_goes_as_a_whole_and_leaves_nothing_behind(store: SqliteStore) -> None:
    store.append(Batch(chat=[row for day in range(50) for row in turn(f"s{day}", AT + day * DAY // 1000)]))
    gone = store.retain(Retention(before=NOW + 45 * DAY))
    assert gone.chat_sessions == 45
    assert [found.session_id for found in store.sessions(SessionFilter())] == [f"s{day}" for day in range(49, 44, -1)]
    counts = {name: len(rows) for name, rows in dump(store).items()}
    assert counts == {"chat_sessions": 5, "chat_messages": 10, "chat_parts": 10, "chat_texts": 10, "words": 10,
                      "session_facts": 5, "session_traces": 0}  # fmt: skip
    assert list(store.verify()) == []


def test_chat_sessions_make_room_with_everything_else(store: SqliteStore, path: Path) -> None:
    noise = random.Random(1)
    for day in range(20):
        at = NOW + day * DAY
        said = [text(f"{day}.{n}", noise.randbytes(1000).hex(), f"s{day}.2", session_id=f"s{day}", index=n + 1,
                     updated_at=at // 1000) for n in range(20)]  # fmt: skip
        events = [event(day * 1000 + i, ts=at + i, fields=f'{{"x":"{"y" * 500}"}}') for i in range(50)]
        store.append(Batch(events=events, chat=[*turn(f"s{day}", at // 1000), *said]))
    size = store.retain(Retention(max_bytes=1 << 40)).bytes
    gone = store.retain(Retention(max_bytes=size // 2))
    assert gone.bytes <= size // 2
    assert 8 <= gone.chat_sessions <= 16
    assert 8 * 50 <= gone.events <= 16 * 50
    assert store.chat_session("s19").total_tokens == 12
    assert list(store.verify()) == []


def test_what_messages_and_answers_name_stays_as_long_as_they_do(store: SqliteStore) -> None:
    prompt, catalog, answer, other = "Be kind.", "[]", b'{"role":"assistant"}', b"nobody names this"
    named = {"system_prompt_digest": hex_of(prompt).upper(), "tool_catalog_digest": hex_of(catalog)}
    told = event(0, operation="model_call", ts=NOW + DAY, fields=f'{{"output_digest":"{digest_of(b"untold").hex()}"}}')
    store.append(
        Batch(
            chat=[*turn("s", AT + DAY // 1000, **named), *turn("old", AT)],
            contents=[answer, other, b"untold"],
            system_prompts=[prompt, "Be brief."],
            tool_catalogs=[catalog, "[1]"],
            events=[told, event(5, operation="model_call", ts=NOW + DAY, step=1)],
        )
    )
    calls = [call(step=1, ts=NOW + DAY, output_digest=digest_of(answer).hex())]
    store.replace({"t": Projection(model_calls=calls)}, cursor=store.unprojected().cursor)
    assert store.retain(Retention(before=NOW + 1)).contents == 1
    assert set(store.bodies(map(digest_of, (answer, other, b"untold")))) == {digest_of(answer), digest_of(b"untold")}
    assert store.system_prompt(hex_of(prompt)) == prompt
    assert store.tool_catalog(hex_of(catalog)) == catalog
    assert list(store.verify()) == []
    store.retain(Retention(before=NOW + 2 * DAY))
    for read, digest in ((store.system_prompt, hex_of(prompt)), (store.tool_catalog, hex_of(catalog))):
        with pytest.raises(ContentNotFound):
            read(digest)
    assert store.bodies([digest_of(answer)]) == {}


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE chat_sessions SET prompt_tokens = 11", "prompt_tokens is 11, its messages sum up to 10"),
        ("UPDATE chat_sessions SET total_tokens = 0", "total_tokens is 0"),
        ("UPDATE chat_sessions SET cost_usd = NULL", "cost_usd is None"),
        ("UPDATE chat_messages SET metadata_json = '{}'", "sum up to 0"),
        ("UPDATE chat_parts SET session_id = 'other' WHERE id = 's.2.1'", "not part of a message of that session"),
        ("DELETE FROM chat_messages WHERE id = 's.2'", "names a row of chat_messages that is not there"),
        ("DELETE FROM chat_sessions", "names a row of chat_sessions that is not there"),
        ("UPDATE session_facts SET title = 'other'", "listed with other figures"),
        ("DELETE FROM session_facts", "listed with other figures"),
        ("UPDATE session_traces SET events = 7", "traces are not counted"),
        ("DELETE FROM session_traces", "traces are not counted"),
        ("UPDATE chat_parts SET data_json = '{\"text\":\"altered\"}' WHERE id = 's.2.1'", "index for search"),
        ("DELETE FROM chat_texts", "missing from the index for search"),
        ("INSERT INTO chat_search (rowid, words) VALUES (99, 'stray')", "index for search"),
        ("UPDATE chat_messages SET metadata_json = json_set(metadata_json, '$.system_prompt_digest', 'abc')",
         "names the system prompt abc, which is missing"),
        ("UPDATE chat_messages SET metadata_json = json_set(metadata_json, '$.tool_catalog_digest', 'abc')",
         "names the tool catalog abc, which is missing"),
        ("UPDATE model_calls SET output_digest = 'abc'", "names the answer abc, which is missing"),
    ],
)  # fmt: skip
def test_verify_finds_what_was_tampered_with(store: SqliteStore, path: Path, statement: str, says: str) -> None:
    store.append(Batch(chat=turn("s", AT), events=[event(0, operation="model_call")]))
    store.replace({"t": Projection(model_calls=[call()])}, cursor=store.unprojected().cursor)
    assert list(store.verify()) == []
    other = sqlite3.connect(path)
    other.execute(statement)
    other.commit()
    other.close()
    with SqliteReader(path) as reader:
        assert says in "\n".join(reader.verify())


def test_a_rebuild_mends_what_is_counted_and_indexed(store: SqliteStore, path: Path) -> None:
    store.append(Batch(chat=[*turn("s", AT), *turn("t", AT)], events=[event(0), event(9, session_id="bare")]))
    before = dump(store)
    other = sqlite3.connect(path)
    for statement in (
        "UPDATE chat_sessions SET prompt_tokens = 99, cost_usd = 7",
        "UPDATE session_facts SET title = 'x', events = 9",
        "DELETE FROM session_facts WHERE session_id = 'bare'",
        "INSERT INTO session_facts (session_id, kind, first_at, last_at) VALUES ('ghost', 'user', 0, 0)",
        "DELETE FROM session_traces",
        "INSERT INTO chat_search (chat_search) VALUES ('delete-all')",
    ):
        other.execute(statement)
    other.commit()
    other.close()
    assert words(store) == []
    store.forget_projections()
    assert dump(store) == before
    assert list(store.verify()) == []


def test_a_backup_holds_chat_sessions_and_finds_their_words(store: SqliteStore, tmp_path: Path) -> None:
    store.append(Batch(chat=turn("s", AT, question="whither")))
    store.backup(tmp_path / "copy.db")
    with SqliteReader(tmp_path / "copy.db") as copy:
        assert copy.chat_session("s") == store.chat_session("s")
        assert copy.search("whither") == store.search("whither") != []
        assert list(copy.verify()) == []


def test_a_session_of_the_far_future_goes_when_room_is_needed(store: SqliteStore) -> None:
    store.append(Batch(chat=[*turn("s", 2**62), *turn("t", AT)]))
    assert [found.session_id for found in store.sessions(SessionFilter())] == ["s", "t"]
    assert store.retain(Retention(before=NOW + DAY)).chat_sessions == 1
    assert store.retain(Retention(max_bytes=1)).chat_sessions == 1
    assert store.sessions(SessionFilter()) == []


@pytest.mark.parametrize("kind", ["system:", "system: x", "system:a\0b", "robot", 7, None, ["system:x"]])
def test_a_kind_that_is_none_is_that_of_a_user(store: SqliteStore, kind: object) -> None:
    metadata = msgspec.json.encode({"kind": kind}).decode()
    store.append(Batch(chat=[*turn("s", AT), session(metadata_json=metadata)]))
    assert store.session_kinds(SessionFilter()) == {"user": 1}
