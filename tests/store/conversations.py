"""What the tests of contexts, sweep and verify share: conversations that go every way, on a real file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import strategies as st

from dashcam.contracts.content import digest_of
from dashcam.store.sqlite.connection import open_writer


class Call(NamedTuple):
    """One model call: what it was sent, which call it goes on from, and how many messages are new to it."""

    messages: list[bytes]
    parent: int | None
    new: int


@cache
def _new_store() -> bytes:
    """The file of a new store, made once: its migrations wait for the disk each time."""
    with TemporaryDirectory() as folder:
        open_writer(Path(folder) / "sessions.db").close()
        return (Path(folder) / "sessions.db").read_bytes()


@contextmanager
def open_store() -> Iterator[sqlite3.Connection]:
    """A new store in a folder of its own: hypothesis asks for many within one test."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "sessions.db").write_bytes(_new_store())
        connection = open_writer(Path(folder) / "sessions.db")
        connection.execute("PRAGMA synchronous = OFF")  # nothing here is about a crash
        try:
            yield connection
        finally:
            connection.close()


def body(number: int) -> bytes:
    return b'{"role":"user","content":"%d"}' % number


def digests(*numbers: int) -> list[bytes]:
    return [digest_of(body(number)) for number in numbers]


def record_calls(connection: sqlite3.Connection, contexts: Sequence[bytes]) -> None:
    """A model call for each of these contexts; its step is the place in the list."""
    connection.executemany(
        "INSERT INTO model_calls (session_id, trace_id, step, kind, ts, model, settings, context_digest)"
        " VALUES ('s', 't', ?, 'user', 0, 'm', '{}', ?)",
        [(step, digest.hex()) for step, digest in enumerate(contexts)],
    )


def held(connection: sqlite3.Connection) -> int:
    """How many digests the contexts hold in all."""
    return int(connection.execute("SELECT coalesce(sum(length(middle)), 0) / 32 FROM contexts").fetchone()[0])


# Small numbers come again and again, large ones are seen once: both happen in real histories.
_messages = st.lists(st.integers(0, 4) | st.integers(5, 10_000), max_size=4)
_steps = st.tuples(
    st.integers(0, 1),  # which of two sessions, interleaved
    st.sampled_from(["append", "truncate", "drop head", "replace", "branch"]),
    st.integers(0, 40),
    st.integers(0, 10),
    _messages,
    _messages,
)


def _calls(steps: list[tuple[int, str, int, int, list[int], list[int]]], branches: bool) -> list[Call]:
    calls: list[Call] = []
    newest: dict[int, int] = {}
    for session, verb, at, width, between, after in steps:
        parent = newest.get(session)
        if verb == "branch" and calls and branches:
            parent = at % len(calls)
        base = calls[parent].messages if parent is not None else []
        at = min(at, len(base))
        edited = {"truncate": base[:at], "drop head": base[at:]}.get(verb, base)
        new = digests(*after)
        if verb == "replace":
            edited = base[:at] + digests(*between) + base[at + width :]
            new = digests(*between, *after)
        newest[session] = len(calls)
        calls.append(Call(edited + digests(*after), parent, len(new)))
    return calls


conversations = st.lists(_steps, min_size=1, max_size=60).map(lambda steps: _calls(steps, True))
straight_conversations = st.lists(_steps, min_size=1, max_size=60).map(
    lambda steps: _calls([(0, *rest) for _, *rest in steps], False)
)
