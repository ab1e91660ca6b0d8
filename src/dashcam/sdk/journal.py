"""Append-only JSONL segments: one a process, one write a line.

A segment is `<time>-<pid>-<random>-<n>.jsonl`. It belongs to one process, is never renamed, and its
writer holds a shared lock on it, so that a reader can tell a finished segment from a live one.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path

from dashcam.sdk.settings import Settings

log = logging.getLogger("dashcam")

_write, _monotonic = os.write, time.monotonic  # looked up once: this is the hot path

FSYNC_SECONDS = 1.0
# How often a writer looks whether somebody removed its segment, which no write would tell.
PRESENCE_SECONDS = 1.0


class _InBetweenError(Exception):
    """A signal handler records while the thread that it interrupted opens a segment."""


class Journal:
    """The segment that this process writes, and what became of its lines.

    Never raises for trouble of the environment: a line that can't be written is counted as dropped,
    the first of its kind is logged, and the next line tries again.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.journals
        self._limit = settings.segment_bytes
        self._more_to_do = settings.fsync == "always"  # after a line was written
        self._closed = False
        self._told: set[str] = set()
        self._fd = -1
        self._begin()
        _journals.append(self)

    def _begin(self) -> None:
        """Nothing written yet, and a stem of our own; after a fork the child gets another."""
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        self._stem = f"{stamp}-{os.getpid()}-{secrets.token_hex(4)}"
        # Reentrant: a signal handler may record while its thread does. A line is one write, so that is no harm.
        self._lock = threading.RLock()
        self._file = (0, 0)  # device and inode of the segment
        self._number = -1
        self._size = 0
        self._earlier = 0  # bytes in the segments before this one
        self._next_look = 0.0  # when rotation, fsync and presence are looked at again
        self._expires = 0.0
        self._synced = 0.0
        self._looking = False
        self._waiting: list[bytes] = []  # lines of a signal handler that came while a segment was being opened
        self._news: list[str] = []  # troubles to be logged, when the lock is released
        self.written = self.dropped = self.torn = self.segments = 0
        self.last_error: str | None = None

    def write(self, line: bytes) -> bool:
        """Append one whole line; return whether it is on disk.

        One lock for all threads: between a short write and the new segment nobody may append.
        """
        with self._lock:
            try:
                if self._size >= self._limit or _monotonic() >= self._next_look:
                    self._look()
                if _write(self._fd, line) != len(line):
                    self._write_again(line)
                self._size += len(line)
                self.written += 1
                if not self._more_to_do:
                    return True
                written = True
                self._after_line()
            except _InBetweenError:
                self._waiting.append(line)
                return True
            except OSError as error:
                written = False
                self._drop(error)
        # Outside the lock: a handler of the host's may record in its turn. And it may fail, which is no matter here.
        while self._news:
            with suppress(Exception):
                log.warning(self._news.pop())
        return written

    def _after_line(self) -> None:
        if self._settings.fsync == "always":
            self._fsync()
        if self._closed:  # written by a thread that still had this journal: keep the line, and nothing open
            self._close()
            self._next_look = 0.0

    @property
    def written_bytes(self) -> int:
        """What was written in all."""
        return self._earlier + self._size

    def _write_again(self, line: bytes) -> None:
        """After a short write: leave the torn line at the end of its segment, write to the next."""
        self.torn += 1
        self._close()
        self._open_next()
        if _write(self._fd, line) != len(line):
            self.torn += 1
            self._close()
            raise OSError("a line was cut short twice; the disk is full")

    def _look(self) -> None:
        """What need not be done for every line: rotate, fsync, see that the segment is still there."""
        if self._looking:
            raise _InBetweenError
        now = _monotonic()
        self._looking = True
        try:
            if not self._is_there() or self._size >= self._limit or now >= self._expires:
                self._open_next()
        finally:
            self._looking = False
        while self._waiting:
            line = self._waiting.pop(0)
            self._size += _write(self._fd, line)
            self.written += 1
        if self._settings.fsync == "interval" and now - self._synced >= FSYNC_SECONDS:
            self._synced = now
            self._fsync()  # if that fails, it is logged with the next trouble; the count is there at once
        self._next_look = now + PRESENCE_SECONDS

    def _is_there(self) -> bool:
        """Whether our descriptor is open, still means our segment, and that is still in its folder.

        A host that closes all descriptors, as daemons do, leaves us with a number that may soon be its own file's.
        """
        return self._is_ours() and os.fstat(self._fd).st_nlink > 0

    def _is_ours(self) -> bool:
        try:
            found = os.fstat(self._fd)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._file

    def _open_next(self) -> None:
        make_private_folder(self._folder)
        path = self._folder / f"{self._stem}-{self._number + 1}.jsonl"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        made = os.fstat(fd)
        self._close()
        self._earlier += self._size
        self._fd, self._size, self._file = fd, 0, (made.st_dev, made.st_ino)
        self._number += 1
        self.segments += 1
        self._expires = _monotonic() + self._settings.segment_seconds

    def _fsync(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._tell(error, "can't be flushed to the disk")

    def _drop(self, error: OSError) -> None:
        self.dropped += 1
        self._next_look = 0.0  # look again at once: the next line may find the trouble gone
        self._tell(error, "could not be written and was dropped; the agent goes on")

    def _tell(self, error: OSError, what: str) -> None:
        """Once for each kind of trouble: a full disk must not also fill the log."""
        self.last_error = f"{error.strerror or error} ({self._folder})"
        kind = f"{error.errno} {what}"
        if kind not in self._told:
            self._told.add(kind)
            self._news.append(f"A record {what}: {self.last_error}. Counted in dashcam.stats().")

    def _close(self) -> None:
        if self._is_ours():
            if self._settings.fsync != "never":
                self._fsync()
            os.close(self._fd)
        self._fd = -1

    def close(self) -> None:
        """Let go of the segment: from here on a reader may take it for finished."""
        with self._lock:
            self._closed = self._more_to_do = True
            self._close()
            self._next_look = 0.0
        if self in _journals:
            _journals.remove(self)

    def after_fork(self) -> None:
        """In the child: the parent's segment and counts are the parent's."""
        if self._is_ours():
            os.close(self._fd)
        self._fd = -1
        self._begin()


_journals: list[Journal] = []


def _after_fork_in_child() -> None:
    for journal in _journals:
        journal.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


def make_private_folder(folder: Path) -> None:
    """Make `folder` and its parents, readable by this user alone; what exists is left as it is."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def order_of(name: str) -> tuple[str, int, str]:
    """Sorts segments so that those of one process stand in the order of their making, the tenth after the ninth."""
    stem, _, number = name.removesuffix(".jsonl").rpartition("-")
    return stem, int(number) if number.isdecimal() else 0, name


def is_finished(path: Path) -> bool:
    """Whether nobody writes this segment any more. Its writer holds a shared lock as long as it lives."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
