"""Garbage collection: nothing that is named goes, nothing that isn't stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from conversations import Call, body, conversations, digests, held, open_store, record_calls
from hypothesis import given, settings
from hypothesis import strategies as st

from dashcam.contracts.content import context_digest, digest_of
from dashcam.store.sqlite.connection import open_writer
from dashcam.store.sqlite.contents import put_contents, put_system_prompt, put_tool_catalog
from dashcam.store.sqlite.contexts import ContextWriter, context, put_context
from dashcam.store.sqlite.sweep import Swept, sweep
from dashcam.store.sqlite.verify import verify_contents


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_writer(tmp_path / "sessions.db")
    yield connection
    connection.close()


def _sweep(store: sqlite3.Connection) -> Swept:
    store.execute("BEGIN IMMEDIATE")
    swept = sweep(store)
    store.execute("COMMIT")
    return swept


def _record(store: sqlite3.Connection, calls: list[Call]) -> ContextWriter:
    writer = ContextWriter(store)
    numbers = [*range(5), *range(5, 10_001)]
    known = {digest_of(body(number)): body(number) for number in numbers}
    store.execute("BEGIN")
    for call in calls:
        put_contents(store, [known[digest] for digest in call.messages])
        writer.put(call.messages, context_digest(calls[call.parent].messages) if call.parent is not None else None)
    record_calls(store, [context_digest(call.messages) for call in calls])
    store.execute("COMMIT")
    return writer


def _stored(store: sqlite3.Connection, table: str) -> set[object]:
    return {digest for (digest,) in store.execute(f"SELECT digest FROM {table}")}


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(conversations, st.data())
def test_after_removing_any_calls_nothing_dangles_and_nothing_is_unreachable(
    calls: list[Call], data: st.DataObject
) -> None:
    with open_store() as store:
        writer = _record(store, calls)
        while calls:
            gone = data.draw(st.sets(st.integers(0, len(calls) - 1), min_size=1))
            store.execute("DELETE FROM model_calls")
            calls = [call for place, call in enumerate(calls) if place not in gone]
            record_calls(store, [context_digest(call.messages) for call in calls])
            _sweep(store)
            assert _stored(store, "contexts") == {context_digest(call.messages) for call in calls}
            assert _stored(store, "contents") == {digest for call in calls for digest in call.messages}
            assert [context(store, context_digest(call.messages)) for call in calls] == [
                call.messages for call in calls
            ]
            assert list(verify_contents(store)) == []
            assert store.execute("PRAGMA foreign_key_check").fetchall() == []
            assert _sweep(store) == Swept()
        # The writer still remembers what is gone, and must not build on it.
        assert context(store, writer.put(digests(1, 2, 3))) == digests(1, 2, 3)


def test_a_sweep_of_a_new_store_removes_nothing(store: sqlite3.Connection) -> None:
    assert _sweep(store) == Swept()


def test_a_child_of_what_goes_hangs_on_the_nearest_that_stays(store: sqlite3.Connection) -> None:
    lists = [digests(*range(10)), digests(*range(11)), digests(*range(12)), digests(*range(13))]
    first, _, _, last = (put_context(store, messages) for messages in lists)
    record_calls(store, [first, last])
    assert _sweep(store).contexts == 2
    query = "SELECT parent, head, length(middle) / 32, since FROM contexts WHERE digest = ?"
    assert store.execute(query, (last,)).fetchone() == (first, 10, 3, 3)


def test_without_a_living_ancestor_the_whole_list_is_written(store: sqlite3.Connection) -> None:
    put_context(store, digests(*range(10)))
    last = put_context(store, digests(*range(11)))
    after = put_context(store, digests(*range(12)))
    record_calls(store, [last, after])
    assert _sweep(store).contexts == 1
    assert store.execute("SELECT parent, since FROM contexts ORDER BY length").fetchall() == [
        (None, 0),
        (last, 1),
    ]


def test_prompts_and_catalogs_that_no_call_names_go(store: sqlite3.Connection) -> None:
    prompts = [put_system_prompt(store, f"prompt {number}", 0) for number in range(3)]
    catalogs = [put_tool_catalog(store, f"catalog {number}", 0) for number in range(3)]
    record_calls(store, [put_context(store, [])])
    store.execute("UPDATE model_calls SET system_prompt_digest = ?, tool_catalog_digest = ?", (prompts[1], catalogs[2]))
    assert _sweep(store) == Swept(prompts=2, catalogs=2)
    assert _stored(store, "system_prompts") == {prompts[1]}
    assert _stored(store, "tool_catalogs") == {catalogs[2]}


def test_a_further_table_can_name_contents(store: sqlite3.Connection) -> None:
    put_contents(store, [b"named", b"forgotten"])
    store.execute("CREATE TABLE pictures (content BLOB)")
    store.execute("INSERT INTO pictures VALUES (?)", (digest_of(b"named"),))
    store.execute("BEGIN")
    assert sweep(store, ["SELECT content FROM pictures"]) == Swept(contents=1)
    store.execute("COMMIT")
    assert _stored(store, "contents") == {digest_of(b"named")}


def test_a_context_named_in_capitals_is_named(store: sqlite3.Connection) -> None:
    digest = put_context(store, [])
    record_calls(store, [digest])
    store.execute("UPDATE model_calls SET context_digest = upper(context_digest)")
    assert _sweep(store) == Swept()


def test_a_sweep_that_is_rolled_back_took_nothing(store: sqlite3.Connection) -> None:
    put_contents(store, [b"a"])
    store.execute("BEGIN")
    assert sweep(store) == Swept(contents=1)
    store.execute("ROLLBACK")
    assert _sweep(store) == Swept(contents=1)


def test_a_circle_of_parents_does_not_hang_a_sweep(store: sqlite3.Connection) -> None:
    first, second = put_context(store, digests(1)), put_context(store, digests(1, 2))
    store.execute("UPDATE contexts SET parent = ? WHERE digest = ?", (second, first))
    record_calls(store, [second])
    store.execute("PRAGMA foreign_keys = OFF")
    assert _sweep(store).contexts == 1


@pytest.mark.slow
def test_every_other_call_of_a_long_session_can_go_in_seconds(store: sqlite3.Connection) -> None:
    writer, parent, contexts = ContextWriter(store), None, []
    history = digests(*range(8000))
    store.execute("BEGIN")
    put_contents(store, map(body, range(8000)))
    for length in range(2, 8001, 2):
        parent = writer.put(history[:length], parent)
        contexts.append(parent)
    record_calls(store, contexts)
    store.execute("DELETE FROM model_calls WHERE step % 2 = 0")
    store.execute("COMMIT")
    assert _sweep(store) == Swept(contexts=2000)
    assert held(store) == 8000
    assert context(store, contexts[-1]) == history
    assert list(verify_contents(store)) == []


@pytest.mark.slow
def test_hundreds_of_thousands_of_contents_are_swept(store: sqlite3.Connection) -> None:
    store.execute("BEGIN")
    put_contents(store, map(body, range(300_000)))
    writer = ContextWriter(store)
    record_calls(store, [writer.put(digests(*range(at, at + 100))) for at in range(0, 150_000, 100)])
    store.execute("COMMIT")
    assert _sweep(store) == Swept(contents=150_000)
    assert list(verify_contents(store)) == []
