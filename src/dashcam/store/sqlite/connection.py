"""Opening the file: pragmas, read-only readers, and the lock that makes one process the writer."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from dashcam.errors import StoreBusy, StoreError
from dashcam.store.sqlite.migrate import check_version, is_behind, migrate

# What Python's str.isspace() is true of, for the CHECKs: SQLite's own trim() knows only the space.
BLANK = (
    "char(9,10,11,12,13,28,29,30,31,32,133,160,5760,8192,8193,8194,8195,8196,8197,8198,8199,8200,8201,8202,"
    "8232,8233,8239,8287,12288)"
)
MINIMUM = (3, 40, 0)
PATIENCE = 5.0  # seconds, for a store that another process is just making or writing
_QUEUE, _TURN = 0, 1  # bytes of a file that stand for them
_BLINK = 0.0005  # seconds
_POLITENESS = 15  # times its turn that who projects pauses, where somebody else always wants to write
_MEMORY = 0.15  # weight of the last turn in how often somebody did


def open_writer(path: Path) -> sqlite3.Connection:
    """The connection that writes. Makes the file, brings its schema up to date."""
    if sqlite3.sqlite_version_info < MINIMUM:
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old, 3.40 or newer is needed. Use a newer Python.")
    new = not path.exists()
    if new:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite would make it readable by all
    connection = _connect(path, "mode=rwc")
    with _closed_on_error(connection, path):
        if new:
            # Both can only be chosen for an empty file. Of messages of 2 KB a page of 4 KB, SQLite's own choice,
            # holds one and half of nothing; collecting events is slower by a twentieth for it.
            connection.execute("PRAGMA page_size = 2048")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 8000")  # 16 MB: index pages are written back less often
        connection.execute("PRAGMA journal_size_limit = 67108864")
        connection.execute("PRAGMA cache_size = -65536")
        migrate(connection, path, {"BLANK": BLANK})
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that can't write, whatever it is asked to.

    Where the store isn't ready while another process holds it, that one is making it: wait for it.
    """
    deadline = time.monotonic() + PATIENCE
    while not _is_ready(path) and WriterLock(path.parent).is_held() and time.monotonic() < deadline:
        time.sleep(0.02)
    connection = _connect_reader(path)
    with _closed_on_error(connection, path):
        check_version(connection, path)
    return connection


def _is_ready(path: Path) -> bool:
    """Whether there is a store with all its tables. What is damaged does not get better by waiting."""
    if not path.exists():
        return False
    connection = _connect_reader(path)
    with _closed_on_error(connection, path):
        ready = not is_behind(connection)
    connection.close()
    return ready


def _connect_reader(path: Path) -> sqlite3.Connection:
    try:
        connection = _connect(path, "mode=ro")
    except StoreError:
        # SQLite makes a -shm file beside the store even to read it. Where nobody can make one and no -wal file
        # holds more, the store doesn't change under us and may be read as it lies.
        if os.access(path.parent, os.W_OK) or not path.exists() or Path(f"{path}-wal").exists():
            raise
        connection = _connect(path, "mode=ro&immutable=1")
    connection.execute("PRAGMA query_only = ON")
    return connection


def _connect(path: Path, how: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{how}"
    try:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5.0)
    except sqlite3.Error as error:
        raise _not_opened(path, error) from error
    with _closed_on_error(connection, path):
        connection.execute("PRAGMA schema_version").fetchone()
    return connection


@contextmanager
def _closed_on_error(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise _not_opened(path, error) from error
        raise


def _not_opened(path: Path, error: sqlite3.Error) -> StoreError:
    return StoreError(f"{path} can't be opened: {error}. Check that it is a Dashcam store and that you may read it.")


class WriterLock:
    """Held by the one process that writes a store. The kernel lets go of it if that process dies."""

    def __init__(self, folder: Path, purpose: str = "") -> None:
        self._path = folder / "writer.lock"
        self._purpose = purpose
        self._fd = -1
        self._pid = -1

    def __enter__(self) -> WriterLock:
        if not self.acquire():
            raise StoreBusy(str(self._path.parent), self.holder())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> bool:
        """Take the lock if nobody has it."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{self._path} can't be opened for writing: {error.strerror}. It belongs to whoever writes this store; "
                "run as that user, or use another folder with --data."
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.write(fd, f"process {os.getpid()}{self._purpose and ', '}{self._purpose}".encode())
        self._fd, self._pid = fd, os.getpid()
        return True

    def acquire_after(self, purpose: str, seconds: float) -> bool:
        """Take the lock; where somebody has it for just this purpose, wait for them to be done."""
        deadline = time.monotonic() + seconds
        while not self.acquire():
            if not self.holder().endswith(f", {purpose}") or time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def release(self) -> None:
        if self._fd >= 0:
            if self._pid == os.getpid():  # a forked child's copy is the same lock, and not the child's to let go
                fcntl.flock(self._fd, fcntl.LOCK_UN)  # closing alone would not do it while a child has a copy
            os.close(self._fd)
            self._fd = -1

    @property
    def is_ours(self) -> bool:
        """Whether this object holds it."""
        return self._fd >= 0

    def is_held(self) -> bool:
        """Whether a process has the lock at this moment."""
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_UN)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def holder(self) -> str:
        """Who said to have it last; for a message, never for a decision."""
        try:
            return self._path.read_text()[:40] or "another process"
        except OSError:
            return "another process"


class BorrowedLock(WriterLock):
    """The lock of a process that lets this one write projections beside it. Nothing to take, nothing to give back."""

    def __init__(self) -> None:
        super().__init__(Path())

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


class Turns:
    """Whose turn it is, where one process appends and another projects.

    SQLite lets whoever asks at the right moment write next: a process that hardly pauses keeps the other out for good.
    So who waits for its turn keeps the queue meanwhile, and who had its turn queues up. And the more often the
    other was in its way, the longer who projects pauses before it comes again: senders wait for the one that appends,
    and nobody for a projection that is a moment late. For fairness alone: SQLite's own locks still keep two from writing at once, and after
    PATIENCE it is left to those.
    """

    def __init__(self, folder: Path, *, shared: bool) -> None:
        self._path = folder / "turns.lock"
        self._fd = -1
        self._is_polite = shared
        self._pause = self._began = 0.0  # seconds
        self._pressure = 0.0  # how often the other was in the way of late, from 0 to 1
        if shared:
            self._open(os.O_CREAT)

    def take(self) -> None:
        """Wait for our turn. Where no other process has ever written beside this one there is nothing to wait for."""
        if self._fd < 0:
            self._open()
        if self._fd >= 0:
            time.sleep(self._pause)
            asked = time.monotonic()
            self._wait(_QUEUE, asked + PATIENCE)
            self._wait(_TURN, asked + PATIENCE)
            self._free(_QUEUE)
            self._began = time.monotonic()
            self._pressure += _MEMORY * ((self._began - asked > _BLINK) - self._pressure)

    def give(self) -> None:
        if self._fd >= 0:
            self._free(_TURN)
            took = time.monotonic() - self._began
            self._pause = took * _POLITENESS * self._pressure**2 if self._is_polite else 0.0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self, flags: int = 0) -> None:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        except OSError:
            self._fd = -1

    def _wait(self, place: int, deadline: float) -> None:
        while time.monotonic() < deadline:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return
            except OSError:
                time.sleep(_BLINK)

    def _free(self, place: int) -> None:
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, place)
