"""Statements of many rows: beside busy Python code every statement is one wait for the GIL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

ROWS = 200  # a statement; SQLite takes 32,766 variables

_T = TypeVar("_T")


def insert_rows(connection: sqlite3.Connection, head: str, rows: Sequence[tuple[Any, ...]], tail: str = "") -> None:
    """`INSERT … VALUES` for all rows, ROWS at a time; `tail` says what to do with those that are there."""
    for chunk in chunks(rows):
        one = f"({','.join('?' * len(chunk[0]))})"
        values = [value for row in chunk for value in row]
        connection.execute(f"{head} VALUES {','.join([one] * len(chunk))} {tail}", values)


def chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """ROWS at a time."""
    return (items[start : start + ROWS] for start in range(0, len(items), ROWS))


def marks(values: Sequence[object]) -> str:
    """A place for each value."""
    return ",".join("?" * len(values))


@contextmanager
def one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is read within is of one moment."""
    ours = not connection.in_transaction
    if ours:
        connection.execute("BEGIN")
    try:
        yield
    finally:
        if ours:
            connection.execute("COMMIT")  # nothing was written, and others may still be reading
