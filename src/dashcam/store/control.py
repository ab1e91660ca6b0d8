"""Who may come in: the keys of all projects, in `<data>/control.db`.

Any number of processes may have it open and write it: the command makes and revokes keys while a server runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

import msgspec

from dashcam.errors import KeyNotFound, SettingsError, StoreError, StoreTooNew
from dashcam.sdk.journal import make_private_folder
from dashcam.sdk.settings import Settings

Right = Literal["ingest", "read", "admin"]

FILE = "control.db"
VERSION = 1
RIGHTS: tuple[str, ...] = get_args(Right)
FRESH = 0.25  # seconds for which a key that was found is believed to be as it was
USE_EVERY = 60_000  # milliseconds between two notes that a key was used
MAX_NAME = 200  # characters

PREFIX = "dck_"
_SHAPE = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
_SHOWN = len(PREFIX) + 6  # enough to tell keys apart, and 220 bits too few to use one

_SCHEMA = """
CREATE TABLE keys (
    id TEXT PRIMARY KEY NOT NULL,
    project TEXT NOT NULL,
    rights TEXT NOT NULL,
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    prefix TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at INTEGER,
    expires_at INTEGER
) STRICT
"""
_COLUMNS = "id, project, rights, name, prefix, created_at, last_used_at, revoked_at, expires_at"


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """All that is kept of a key but its hash. Times are milliseconds."""

    id: str
    project: str
    rights: tuple[str, ...]
    name: str
    prefix: str  # how its text begins, to recognise it by
    created_at: int
    last_used_at: int | None = None  # to about a minute
    revoked_at: int | None = None
    expires_at: int | None = None

    @property
    def granted(self) -> frozenset[str]:
        """What it allows. An admin of a project may do everything in it."""
        return frozenset(RIGHTS if "admin" in self.rights else self.rights)

    @property
    def state(self) -> Literal["active", "revoked", "expired"]:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= _now() else "active"


class Control:
    """The keys. Opening makes the file where there is none. Safe to use from several threads."""

    def __init__(self, data: Path) -> None:
        self.path = data / FILE
        self._lock = threading.Lock()
        self._found: dict[bytes, tuple[float, Key]] = {}
        self._noted: dict[str, int] = {}  # when this process last noted that a key was used
        self._unsaved: dict[str, int] = {}
        self._saver: threading.Thread | None = None
        self._db = _open(self.path)

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        saver = self._saver
        if saver is not None:
            saver.join()
        self._db.close()

    def create(
        self, project: str, rights: Iterable[str], *, name: str = "", expires_at: int | None = None
    ) -> tuple[Key, str]:
        """Make a key. Its text is given here and never again: only its hash is kept."""
        text = PREFIX + secrets.token_urlsafe(32)
        key = Key(
            id=f"key_{secrets.token_hex(8)}",
            project=check_project(project),
            rights=_checked_rights(rights),
            name=_checked_name(name),
            prefix=text[:_SHOWN],
            created_at=_now(),
            expires_at=expires_at,
        )
        if key.state == "expired":
            raise SettingsError("The key would have expired already. Give a time to come, e.g. --expires 30d.")
        row = {**msgspec.structs.asdict(key), "rights": ",".join(key.rights), "hash": _hash(text)}
        with self._lock, _told(self.path):
            self._db.execute(
                f"INSERT INTO keys ({_COLUMNS}, hash) VALUES (:{_COLUMNS.replace(', ', ', :')}, :hash)", row
            )
        return key, text

    def listed(self, project: str | None = None) -> list[Key]:
        """The keys of one project, or of all, also those that no longer open anything."""
        return self._select("project = coalesce(?, project) ORDER BY created_at, id", project)

    def revoke(self, key_id: str, *, project: str | None = None) -> Key:
        """Take back a key; with `project`, only if it is that project's. One that is revoked stays as it is."""
        with self._lock, _told(self.path):
            self._db.execute(
                "UPDATE keys SET revoked_at = ? WHERE id = ? AND project = coalesce(?, project) AND revoked_at IS NULL",
                (_now(), key_id, project),
            )
        self._found.clear()
        if found := self._select("id = ? AND project = coalesce(?, project)", key_id, project):
            return found[0]
        raise KeyNotFound(key_id, str(self.path))

    def find(self, text: str) -> Key | None:
        """The active key that this is, if any.

        What was found is believed for FRESH seconds, so that a busy client costs no query a request, and a
        revoked key is refused that soon. What wasn't is looked for each time, so that a new key works at once.
        """
        if not _SHAPE.fullmatch(text):
            return None
        hashed = _hash(text)
        asked, key = self._found.get(hashed, (0.0, None))
        if key is None or time.monotonic() - asked >= FRESH:
            key = self._look_up(hashed)
        return key if key is not None and key.state == "active" else None

    def has_active(self) -> bool:
        """Whether any key opens anything."""
        return any(key.state == "active" for key in self.listed())

    def _look_up(self, hashed: bytes) -> Key | None:
        asked = time.monotonic()
        found = self._select("hash = ?", hashed)
        if not found:
            self._found.pop(hashed, None)
            return None
        self._found[hashed] = asked, found[0]
        if found[0].state == "active":
            self._note_use(found[0])
        return found[0]

    def _select(self, condition: str, *values: object) -> list[Key]:
        with self._lock, _told(self.path):
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM keys WHERE {condition}", values).fetchall()
        return [_key(row) for row in rows]

    def _note_use(self, key: Key) -> None:
        """Leave it to a thread with a connection of its own: no request waits for a disk because of this."""
        now = _now()
        if now - max(key.last_used_at or 0, self._noted.get(key.id, 0)) < USE_EVERY:
            return
        with self._lock:
            self._noted[key.id] = self._unsaved[key.id] = now
            if self._saver is None:
                self._saver = threading.Thread(target=self._save_uses, name="dashcam-key-uses", daemon=True)
                self._saver.start()

    def _save_uses(self) -> None:
        while True:
            with self._lock:
                uses, self._unsaved = self._unsaved, {}
                if not uses:
                    self._saver = None
                    return
            # A note that can't be written is no reason to fail: the next minute brings another.
            with suppress(sqlite3.Error), closing(_connect(self.path)) as db:
                db.execute("BEGIN IMMEDIATE")
                rows = [(moment, key_id) for key_id, moment in uses.items()]
                db.executemany("UPDATE keys SET last_used_at = max(coalesce(last_used_at, 0), ?) WHERE id = ?", rows)
                db.execute("COMMIT")


def check_project(name: str) -> str:
    """A name that can be a project's, and so a folder's; SettingsError for any other."""
    if name.lower().startswith(FILE):
        raise SettingsError(f"{name!r:.80} can't name a project: the file of the keys has that name. Choose another.")
    return Settings(data=Path(), project=name).project


def _checked_rights(rights: Iterable[str]) -> tuple[str, ...]:
    wanted = frozenset(rights)
    if not wanted or wanted - frozenset(RIGHTS):
        raise SettingsError(f"A key has one or more of these rights: {', '.join(RIGHTS)}.")
    return ("admin",) if "admin" in wanted else tuple(right for right in RIGHTS if right in wanted)


def _checked_name(name: str) -> str:
    if len(name) > MAX_NAME or not name.isprintable():
        raise SettingsError(f"A key's name has at most {MAX_NAME} characters, and all of them can be printed.")
    return name


def _hash(text: str) -> bytes:
    # A key is 256 random bits: there is nothing to guess, so nothing that a slow or salted hash would make harder.
    # And since it is looked up by its hash, how long that takes tells nothing of how near a guess was.
    return hashlib.sha256(text.encode()).digest()


def _key(row: tuple[object, ...]) -> Key:
    given = dict(zip(Key.__struct_fields__, row, strict=True))
    return msgspec.convert({**given, "rights": str(given["rights"]).split(",")}, Key)


def _now() -> int:
    return int(time.time() * 1000)


def _open(path: Path) -> sqlite3.Connection:
    try:
        make_private_folder(path.parent)
        with _alone(path.parent), _told(path):
            if not path.exists():
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite would let all read it
            connection = _connect(path)
            try:
                _prepare(connection, path)
            except BaseException:
                connection.close()
                raise
            return connection
    except OSError as error:
        raise StoreError(
            f"{path} can't be made: {error.strerror}. Choose another folder with --data or DASHCAM_DATA."
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if found > VERSION:
        raise StoreTooNew(str(path), found, VERSION)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # a revoked key stays so, whatever happens to the machine
    if found < VERSION:
        connection.executescript(f"BEGIN IMMEDIATE;\n{_SCHEMA};\nPRAGMA user_version = {VERSION};\nCOMMIT;")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time makes the file: SQLite does not wait for another that is just turning on its WAL."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(
            f"{path} can't be used: {error}. Check that it is yours and on a disk with room. Where it is damaged, "
            "move it away and make new keys with: dashcam keys create"
        ) from error
