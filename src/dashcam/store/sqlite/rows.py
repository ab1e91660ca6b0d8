"""Chat rows and their tables: a row's fields are its columns, one for one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import astuple

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.store.sqlite.statements import chunks, insert_rows, marks

Row = TypeVar("Row", ChatSession, ChatMessage, ChatPart)
_TABLES: dict[type, str] = {ChatSession: "chat_sessions", ChatMessage: "chat_messages", ChatPart: "chat_parts"}


def select_of(row: type[ChatSession | ChatMessage | ChatPart], table: str = "") -> str:
    """SELECT all columns, in the order of the row's fields."""
    return f"SELECT {_quoted(row.__struct_fields__)} FROM {table or _TABLES[row]}"


def row_from(kind: type[Row], values: tuple[Any, ...]) -> Row:
    return kind(**dict(zip(kind.__struct_fields__, values, strict=True)))


def load(connection: sqlite3.Connection, kind: type[Row], ids: Iterable[str], column: str = "id") -> dict[str, Row]:
    """The rows with these ids, or those that have one of them in another column, each by its own id."""
    found: dict[str, Row] = {}
    for chunk in chunks(sorted(ids)):
        for values in connection.execute(f"{select_of(kind)} WHERE {column} IN ({marks(chunk)})", chunk):
            found[values[0]] = row_from(kind, values)
    return found


def upsert(connection: sqlite3.Connection, kind: type[Row], rows: Sequence[Row]) -> None:
    """Write the rows, in the place of those that have their ids."""
    names = kind.__struct_fields__
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name != "id")
    head = f"INSERT INTO {_TABLES[kind]} ({_quoted(names)})"
    insert_rows(connection, head, [astuple(row) for row in rows], f"ON CONFLICT (id) DO UPDATE SET {changes}")


def _quoted(names: Iterable[str]) -> str:
    """Column names for a statement: `index` is a word of SQL."""
    return ", ".join(f'"{name}"' for name in names)
