"""Verify: a sound store gives no finding, and no damage goes unseen."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conversations import body, digests, open_store, record_calls
from hypothesis import given, settings
from hypothesis import strategies as st

from dashcam.contracts.content import digest_of
from dashcam.store.sqlite.connection import open_reader, open_writer
from dashcam.store.sqlite.contents import put_contents, put_system_prompt, put_tool_catalog
from dashcam.store.sqlite.contexts import ContextWriter
from dashcam.store.sqlite.verify import verify_contents

LONG = b'{"role":"tool","content":"' + b"all work and no play " * 60 + b'"}'
LISTS = [
    digests(*range(20)),
    digests(*range(22)),
    digests(*range(5, 22), 30),
    digests(*range(5, 10), 31, *range(11, 22), 30, 32),
    [*digests(*range(22)), digest_of(LONG)],
]


def _fill(store: sqlite3.Connection) -> list[bytes]:
    """A little of everything: text, bytes, packed bodies, whole lists and every kind of link."""
    writer, parent, contexts = ContextWriter(store), None, []
    put_contents(store, [*map(body, range(40)), b"\xff" * 300, LONG])
    for messages in LISTS:
        parent = writer.put(messages, parent)
        contexts.append(parent)
    record_calls(store, contexts)
    prompt, catalog = put_system_prompt(store, "You are a helper.", 0), put_tool_catalog(store, "[]", 0)
    store.execute("UPDATE model_calls SET system_prompt_digest = ?, tool_catalog_digest = ?", (prompt, catalog))
    store.execute("PRAGMA foreign_keys = OFF")  # damage doesn't ask
    store.execute("PRAGMA ignore_check_constraints = ON")
    return contexts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_writer(tmp_path / "sessions.db")
    yield connection
    connection.close()


def test_a_new_store_is_sound(store: sqlite3.Connection) -> None:
    assert list(verify_contents(store)) == []


def test_a_sound_store_gives_no_finding_and_needs_only_a_reader(store: sqlite3.Connection, tmp_path: Path) -> None:
    _fill(store)
    reader = open_reader(tmp_path / "sessions.db")
    assert list(verify_contents(reader)) == []
    reader.close()


CELLS = [
    ("contents", "body"),
    ("contents", "digest"),
    ("contents", "packed"),
    ("contents", "size"),
    ("system_prompts", "body"),
    ("system_prompts", "digest"),
    ("tool_catalogs", "body"),
    ("contexts", "middle"),
    ("contexts", "digest"),
    ("contexts", "parent"),
    ("contexts", "length"),
    ("contexts", "head"),
    ("contexts", "tail"),
    ("contexts", "appended"),
    ("contexts", "since"),
    ("model_calls", "context_digest"),
]


def _flip(store: sqlite3.Connection, table: str, column: str, data: st.DataObject) -> None:
    """Turn round one bit of one value, whatever its type."""
    some = f"SELECT rowid FROM {table} WHERE {column} IS NOT NULL AND CAST({column} AS BLOB) <> x''"
    row = data.draw(st.sampled_from([row_id for (row_id,) in store.execute(some)]))
    query = f"SELECT typeof({column}), CAST({column} AS BLOB), {column} FROM {table} WHERE rowid = ?"
    store.text_factory = bytes
    kind, raw, value = store.execute(query, (row,)).fetchone()
    store.text_factory = str
    if kind == b"integer":
        store.execute(
            f"UPDATE {table} SET {column} = ? WHERE rowid = ?",
            (value ^ 1 << data.draw(st.integers(0, 40)), row),
        )
        return
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    flipped = bytearray(raw)
    flipped[bit // 8] ^= 1 << bit % 8
    cast = "CAST(? AS TEXT)" if kind == b"text" else "?"
    store.execute(f"UPDATE {table} SET {column} = {cast} WHERE rowid = ?", (bytes(flipped), row))


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.sampled_from(CELLS), st.data())
def test_any_flipped_bit_is_found(cell: tuple[str, str], data: st.DataObject) -> None:
    with open_store() as store:
        _fill(store)
        _flip(store, *cell, data)
        findings = list(verify_contents(store))
        assert findings
        assert all(finding.endswith(".") for finding in findings)


def test_every_single_bit_of_a_packed_body_counts(store: sqlite3.Connection) -> None:
    put_contents(store, [LONG])
    (packed,) = store.execute("SELECT body FROM contents WHERE packed").fetchone()
    for bit in range(8 * len(packed)):
        flipped = bytearray(packed)
        flipped[bit // 8] ^= 1 << bit % 8
        store.execute("UPDATE contents SET body = ?", (bytes(flipped),))
        assert len(list(verify_contents(store))) == 1


def test_each_finding_says_what_is_wrong(store: sqlite3.Connection) -> None:
    contexts = _fill(store)
    store.execute("UPDATE contents SET body = 'other' WHERE digest = ?", digests(3))
    store.execute("UPDATE system_prompts SET body = 'You are evil.'")
    store.execute("UPDATE contexts SET length = 7 WHERE digest = ?", (contexts[1],))
    store.execute("DELETE FROM contents WHERE digest = ?", digests(31))
    store.execute("DELETE FROM tool_catalogs")
    findings = "\n".join(verify_contents(store))
    for said in (
        f"Content {digests(3)[0].hex()} has changed: its bytes hash to {digest_of(b'other').hex()}.",
        "System prompt",
        f"Context {contexts[1].hex()} is not sound: its length is noted as 7 and is 22.",
        f"Context {contexts[3].hex()} is not sound: it names the content {digests(31)[0].hex()}, which",
        "Trace t, step 0: the call names the tool catalog",
    ):
        assert said in findings


def test_what_comes_from_a_damaged_list_is_told_apart_from_the_damage(store: sqlite3.Connection) -> None:
    contexts = _fill(store)
    store.execute(
        "UPDATE contexts SET middle = CAST(? || substr(middle, 33) AS BLOB) WHERE parent IS NULL", digests(39)
    )
    findings = list(verify_contents(store))
    assert "its messages hash to" in findings[0]
    assert f"Context {contexts[1].hex()} is not sound: its parent is damaged." in findings


def test_a_missing_parent_is_found_and_what_hangs_on_it(store: sqlite3.Connection) -> None:
    contexts = _fill(store)
    store.execute("DELETE FROM contexts WHERE digest = ?", (contexts[0],))
    findings = list(verify_contents(store))
    assert f"Context {contexts[1].hex()} can't be rebuilt: its parent {contexts[0].hex()} is missing." in findings
    assert f"Context {contexts[2].hex()} can't be rebuilt: one that it comes from is missing." in findings
    assert any(f"names the context {contexts[0].hex()}, which is missing" in finding for finding in findings)


def test_a_value_that_became_text_does_not_stop_the_others_from_being_checked(
    store: sqlite3.Connection,
) -> None:
    _fill(store)
    store.execute("UPDATE contexts SET middle = CAST(middle AS TEXT)")
    store.execute("UPDATE contexts SET digest = CAST(digest AS TEXT) WHERE parent IS NOT NULL")
    store.execute("UPDATE contents SET digest = CAST(digest AS TEXT)")
    store.execute("UPDATE model_calls SET trace_id = CAST(x'ff' AS TEXT), tool_catalog_digest = CAST(x'ff' AS TEXT)")
    assert list(verify_contents(store))


@pytest.mark.parametrize("first", [0, 1])
def test_a_circle_of_parents_is_found_and_ends(store: sqlite3.Connection, first: int) -> None:
    contexts = _fill(store)
    store.execute("UPDATE contexts SET parent = ? WHERE digest = ?", (contexts[1], contexts[first]))
    findings = list(verify_contents(store))
    assert f"Context {contexts[1].hex()} can't be rebuilt: its parents form a circle." in findings


@pytest.mark.slow
def test_ten_thousand_calls_are_verified_in_seconds(store: sqlite3.Connection) -> None:
    writer, parent, contexts = ContextWriter(store), None, []
    history = digests(*range(20_000))
    store.execute("BEGIN")
    put_contents(store, map(body, range(20_000)))
    for length in range(2, 20_001, 2):
        parent = writer.put(history[:length], parent)
        contexts.append(parent)
    record_calls(store, contexts)
    store.execute("COMMIT")
    started = time.perf_counter()
    assert list(verify_contents(store)) == []
    assert time.perf_counter() - started < 5
