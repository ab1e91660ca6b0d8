"""Numbered SQL files, applied on open; a file newer than the program is refused."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from dashcam.errors import StoreError, StoreTooNew


def migrations() -> list[tuple[int, str]]:
    """Every migration as (number, SQL), in order."""
    folder = resources.files("dashcam.store.sqlite") / "migrations"
    files = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return sorted((int(entry.name.partition("_")[0]), entry.read_text("utf-8")) for entry in files)


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_behind(connection: sqlite3.Connection) -> bool:
    """Whether a migration is missing."""
    return version_of(connection) < migrations()[-1][0]


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that this program doesn't know, whichever of the two is the older."""
    found, known = version_of(connection), migrations()[-1][0]
    if found > known:
        raise StoreTooNew(str(path), found, known)
    if found < known:
        raise StoreError(f"{path} has schema {found}, this dashcam needs {known}. Update it with: dashcam collect")


def migrate(connection: sqlite3.Connection, path: Path, words: Mapping[str, str]) -> None:
    """Apply what is missing, each migration in a transaction of its own."""
    found = version_of(connection)
    pending = migrations()
    if found > pending[-1][0]:
        raise StoreTooNew(str(path), found, pending[-1][0])
    for number, sql in pending:
        if number > found:
            for word, text in words.items():
                sql = re.sub(rf"\b{word}\b", text, sql)
            try:
                connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {number};\nCOMMIT;")
            except sqlite3.Error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
