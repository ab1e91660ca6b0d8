"""Opening a store: beside others, before it is made, and where nothing can be written."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from records import event

from dashcam.errors import StoreError
from dashcam.store.base import Batch, EventFilter
from dashcam.store.sqlite import connection
from dashcam.store.sqlite.connection import WriterLock
from dashcam.store.sqlite.store import SqliteReader, SqliteStore


def in_child(work: Callable[[], bool]) -> int:
    """Fork; the child ends with 0 if `work` was true. Returns its process id."""
    child = os.fork()
    if child == 0:
        done = False
        try:
            done = work()
        finally:
            os._exit(0 if done else 1)
    return child


def ended_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_keeps_no_lock_that_its_parent_let_go_of(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    assert lock.acquire()
    ready, go_on = os.pipe()
    child = in_child(lambda: os.read(ready, 1) == b"x")
    lock.release()
    other = WriterLock(tmp_path)
    try:
        assert other.acquire()
        other.release()
    finally:  # whatever came of it: the child waits for this
        os.write(go_on, b"x")
        assert ended_well(child)
        os.close(ready)
        os.close(go_on)


def test_a_forked_child_cannot_let_go_of_its_parents_lock(tmp_path: Path) -> None:
    def release() -> bool:
        lock.release()
        return True

    with WriterLock(tmp_path) as lock:
        assert ended_well(in_child(release))
        assert lock.is_held()
        assert not WriterLock(tmp_path).acquire()
    assert not lock.is_held()


@pytest.mark.slow
def test_a_reader_waits_for_the_process_that_is_making_the_store(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    lock = WriterLock(tmp_path)
    assert lock.acquire()

    def make() -> None:
        time.sleep(0.2)
        path.touch()
        time.sleep(0.2)
        with SqliteStore(path, lock=lock) as store:
            store.append(Batch(events=[event(0)]))
            time.sleep(0.2)

    making = threading.Thread(target=make)
    making.start()
    with SqliteReader(path) as reader:
        assert isinstance(list(reader.events(EventFilter())), list)
    making.join()


def test_a_reader_does_not_wait_for_ever_nor_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sessions.db"
    began = time.monotonic()
    with pytest.raises(StoreError, match="can't be opened"):
        SqliteReader(path)
    path.touch()
    with pytest.raises(StoreError, match="has schema 0"):
        SqliteReader(path)
    assert time.monotonic() - began < 1
    monkeypatch.setattr(connection, "PATIENCE", 0.1)
    with WriterLock(tmp_path), pytest.raises(StoreError, match="has schema 0"):
        SqliteReader(path)


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that another user can reach, as pytest's own is not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def as_a_guest(work: Callable[[], bool]) -> bool:
    """Do it as a user who isn't root, to whom permissions mean nothing."""

    def become_and_work() -> bool:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        return work()

    return ended_well(in_child(become_and_work))


def test_a_store_in_a_folder_that_cannot_be_written_can_be_read(shelf: Path) -> None:
    path = shelf / "sessions.db"
    with SqliteStore(path) as store:
        store.append(Batch(events=[event(0)]))
    path.chmod(0o444)
    shelf.chmod(0o555)

    def read() -> bool:
        with SqliteReader(path) as reader:
            return len(list(reader.events(EventFilter()))) == 1 and list(reader.verify()) == []

    assert as_a_guest(read)
    assert sorted(entry.name for entry in shelf.iterdir()) == ["sessions.db", "writer.lock"]


def test_where_a_write_ahead_log_was_left_nothing_is_read_past_it(shelf: Path) -> None:
    path = shelf / "sessions.db"
    SqliteStore(path).close()
    path.chmod(0o444)
    Path(f"{path}-wal").write_bytes(b"")
    shelf.chmod(0o555)

    def read() -> bool:
        with pytest.raises(StoreError, match="can't be opened"):
            SqliteReader(path)
        return True

    assert as_a_guest(read)
