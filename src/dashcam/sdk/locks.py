"""Open files and locks that a forked child must not keep.

A forked child gets copies of all open files, and a copy keeps a lock alive. So no fork happens between
taking a lock and knowing of it, and the child closes the copies that it got.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# `with no_fork:` a fork in any thread waits until the block ends; so keep the block short.
no_fork = threading.RLock()

_open: set[int] = set()


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A file for the length of the block; one that is made is readable by this user alone."""
    with no_fork:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        _open.add(fd)
    try:
        yield fd
    finally:
        with no_fork:
            _open.discard(fd)
            os.close(fd)


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Whether nobody else has the lock `path`; then it is ours for the length of the block."""
    with opened(path, os.O_RDWR | os.O_CREAT) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # closing alone would not do it while a child has a copy


def _after_fork_in_child() -> None:
    for fd in _open:
        with suppress(OSError):
            os.close(fd)
    _open.clear()
    no_fork.release()


os.register_at_fork(before=no_fork.acquire, after_in_parent=no_fork.release, after_in_child=_after_fork_in_child)
