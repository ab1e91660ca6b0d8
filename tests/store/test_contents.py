"""Contents, prompts and catalogs: kept once, given back byte for byte."""

from __future__ import annotations

import sqlite3
import subprocess
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from conversations import open_store
from hypothesis import given, settings
from hypothesis import strategies as st

from dashcam.contracts.content import digest_of
from dashcam.errors import ContentNotFound, StoreError
from dashcam.store.sqlite.connection import open_reader, open_writer
from dashcam.store.sqlite.contents import (
    bodies,
    known_contents,
    put_contents,
    put_digested,
    put_system_prompt,
    put_tool_catalog,
    system_prompt,
    tool_catalog,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_writer(path)
    yield connection
    connection.close()


def _row(store: sqlite3.Connection, body: bytes) -> tuple[str, int, int]:
    query = "SELECT typeof(body), packed, size FROM contents WHERE digest = ?"
    kind, packed, size = store.execute(query, (digest_of(body),)).fetchone()
    return kind, packed, size


any_body = (
    st.binary(max_size=2000) | st.text(max_size=300).map(str.encode) | st.binary(max_size=9).map(lambda b: b * 200)
)


@settings(deadline=None, max_examples=50)
@given(st.lists(any_body))
def test_any_bytes_come_back_as_they_were(sent: list[bytes]) -> None:
    with open_store() as store:
        assert put_contents(store, sent) == len(set(sent))
        assert bodies(store, map(digest_of, sent)) == {digest_of(body): body for body in sent}


def test_a_repeated_content_adds_nothing(store: sqlite3.Connection) -> None:
    assert put_contents(store, [b"a", b"b", b"a"]) == 2
    assert put_contents(store, [b"b", b"c"]) == 1
    assert put_digested(store, [(digest_of(b"c"), b"c")]) == 0
    assert store.execute("SELECT count(*) FROM contents").fetchone() == (3,)


def test_thousands_at_once_are_kept_and_found(store: sqlite3.Connection) -> None:
    sent = [b"%d" % number for number in range(3000)]
    assert put_contents(store, iter(sent)) == 3000
    assert len(bodies(store, map(digest_of, sent))) == 3000
    assert known_contents(store, [digest_of(b"7"), digest_of(b"none")]) == {digest_of(b"7")}


def test_what_is_not_there_is_left_out(store: sqlite3.Connection) -> None:
    assert bodies(store, [digest_of(b"never")]) == {}
    assert bodies(store, []) == {}


def test_the_sqlite3_command_shows_text(store: sqlite3.Connection, path: Path) -> None:
    put_contents(store, ['{"role":"user","content":"grüß"}'.encode()])
    shown = subprocess.run(["sqlite3", path, "SELECT body FROM contents"], capture_output=True, check=True)
    assert shown.stdout.decode() == '{"role":"user","content":"grüß"}\n'


def test_what_is_not_text_is_kept_as_bytes(store: sqlite3.Connection) -> None:
    put_contents(store, [b"\xff\xfe", b"a\0b", b"123", b"\xed\xa0\x80"])
    assert _row(store, b"\xff\xfe") == ("blob", 0, 2)
    assert _row(store, b"a\0b") == ("blob", 0, 3)
    assert _row(store, b"123") == ("text", 0, 3)
    assert _row(store, b"\xed\xa0\x80") == ("blob", 0, 3)


def test_only_what_gets_a_tenth_shorter_is_packed(store: sqlite3.Connection) -> None:
    short, long, noise = b"x" * 511, b"x" * 512, Random(1).randbytes(512)
    put_contents(store, [short, long, noise])
    assert _row(store, short) == ("text", 0, 511)
    assert _row(store, long) == ("blob", 1, 512)
    assert _row(store, noise) == ("blob", 0, 512)


def test_a_packed_body_is_read_by_whoever_knows_zlib(store: sqlite3.Connection) -> None:
    put_contents(store, [b"x" * 5000])
    assert zlib.decompress(store.execute("SELECT body FROM contents").fetchone()[0]) == b"x" * 5000


def test_a_damaged_packed_body_is_an_error_that_says_what_next(store: sqlite3.Connection) -> None:
    put_contents(store, [b"x" * 5000])
    store.execute("UPDATE contents SET body = substr(body, 1, 20)")
    with pytest.raises(StoreError, match=r"sessions\.db is damaged.*dashcam verify"):
        bodies(store, [digest_of(b"x" * 5000)])


@pytest.mark.parametrize("text", ["", "You are a helper.\n", "grüß \U0001f600", "nul\0inside", "7"])
def test_prompts_and_catalogs_come_back_under_the_sha256_of_their_text(store: sqlite3.Connection, text: str) -> None:
    digest = put_system_prompt(store, text, 1)
    assert digest == put_tool_catalog(store, text, 1) == sha256(text.encode()).hexdigest()
    assert system_prompt(store, digest) == tool_catalog(store, digest) == text


def test_a_prompt_is_kept_once_with_the_first_time_it_was_seen(store: sqlite3.Connection) -> None:
    for at in (20, 10, 30):
        put_system_prompt(store, "same", at)
    assert store.execute("SELECT count(*), min(created_at) FROM system_prompts").fetchone() == (1, 10)


def test_an_unknown_prompt_is_not_found(store: sqlite3.Connection) -> None:
    with pytest.raises(ContentNotFound, match=r"sessions\.db"):
        system_prompt(store, "0" * 64)
    with pytest.raises(ContentNotFound):
        tool_catalog(store, "0" * 64)


def test_a_reader_reads_contents(store: sqlite3.Connection, path: Path) -> None:
    put_contents(store, [b"hello"])
    reader = open_reader(path)
    assert bodies(reader, [digest_of(b"hello")]) == {digest_of(b"hello"): b"hello"}
    reader.close()
