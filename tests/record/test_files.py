from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dashcam.errors import UnreadableInput
from dashcam.record.files import collect_files
from dashcam.store.base import EventFilter
from dashcam.store.sqlite.store import SqliteStore


def line(number: int) -> bytes:
    return msgspec.json.encode({"session_id": "s", "trace_id": "t", "step": number, "event": "e"}) + b"\n"


def steps(store: SqliteStore) -> list[int]:
    return [event.step for event in store.events(EventFilter(trace_id="t"))]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    (tmp_path / "store").mkdir()
    opened = SqliteStore(tmp_path / "store" / "sessions.db")
    yield opened
    opened.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "app.log"
    path.write_bytes(b"".join(map(line, range(5))))
    return path


def test_a_file_is_collected_once_and_goes_on_where_it_stood(store: SqliteStore, log: Path) -> None:
    assert collect_files(store, [log]).events == 5
    assert collect_files(store, [log]).events == 0
    with log.open("ab") as file:
        file.write(line(5))
    assert collect_files(store, [log]).events == 1
    assert steps(store) == list(range(6))


def test_a_renamed_file_goes_on_and_its_successor_starts(store: SqliteStore, log: Path) -> None:
    collect_files(store, [log])
    with log.open("ab") as file:
        file.write(line(5))
    old = log.rename(log.with_suffix(".log.1"))
    log.write_bytes(line(6))
    collect_files(store, [log, old])
    collect_files(store, [old, log])
    assert steps(store) == list(range(7))


def test_a_copy_that_was_truncated_behind_goes_on_in_the_copy(store: SqliteStore, log: Path) -> None:
    collect_files(store, [log])
    with log.open("ab") as file:
        file.write(line(5))
    old = Path(shutil.copy(log, log.with_suffix(".log.1")))
    os.truncate(log, 0)
    with log.open("ab") as file:
        file.write(b"".join(map(line, range(6, 16))))  # soon longer than it was
    collect_files(store, sorted([log, old]))
    collect_files(store, sorted([log, old]))
    assert steps(store) == list(range(16))


def test_a_truncated_file_starts_anew(store: SqliteStore, log: Path) -> None:
    collect_files(store, [log])
    log.write_bytes(line(5))
    collect_files(store, [log])
    collect_files(store, [log])
    assert steps(store) == list(range(6))


def test_two_files_that_begin_alike_are_two_files(store: SqliteStore, log: Path, tmp_path: Path) -> None:
    other = Path(shutil.copy(log, tmp_path / "other.log"))
    collect_files(store, [log])
    collect_files(store, [other])
    collect_files(store, [log, other])
    assert steps(store) == sorted([*range(5), *range(5)])


def test_a_last_line_without_an_end_is_taken_when_it_is_whole(store: SqliteStore, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(line(0) + line(1).rstrip(b"\n"))
    assert collect_files(store, [path]).events == 2
    with path.open("ab") as file:
        file.write(b"\n" + line(2)[:20])
    assert collect_files(store, [path]).events == 0
    with path.open("ab") as file:
        file.write(line(2)[20:])
    assert collect_files(store, [path]).events == 1
    assert steps(store) == [0, 1, 2]


def test_records_without_the_tuple_are_kept_with_the_reason(store: SqliteStore, tmp_path: Path) -> None:
    path = tmp_path / "costs.jsonl"
    path.write_text('{"operation":"cost","usd":0.0123}\n')
    assert collect_files(store, [path]).orphans == 1
    (orphan,) = store.orphans()
    assert (orphan.reason, orphan.operation, orphan.segment) == (
        "session_id is missing",
        "cost",
        f"file:{path}#0",
    )


def test_what_is_no_readable_file_is_refused_with_the_mend(store: SqliteStore, tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(b"\x1f\x8b\x08")
    os.mkfifo(tmp_path / "pipe")
    for path, said in (
        (tmp_path / "none", "can't be read"),
        (tmp_path / "x.gz", "gunzip"),
        (tmp_path, "no plain file"),
    ):
        with pytest.raises(UnreadableInput, match=said):
            collect_files(store, [path])
    with pytest.raises(UnreadableInput, match="no plain file"):
        collect_files(store, [tmp_path / "pipe"])


def test_a_file_is_collected_once_whatever_links_lead_to_it(store: SqliteStore, log: Path, tmp_path: Path) -> None:
    (tmp_path / "current.log").symlink_to(log)
    os.link(log, tmp_path / "hard.log")
    assert collect_files(store, [log, tmp_path / "current.log", log, tmp_path / "hard.log"]).events == 5
    assert steps(store) == list(range(5))


def test_one_file_that_cannot_be_read_does_not_keep_the_others_away(
    store: SqliteStore, log: Path, tmp_path: Path
) -> None:
    (tmp_path / "app.log.1.gz").write_bytes(b"\x1f\x8b\x08")
    found = collect_files(store, [tmp_path / "app.log.1.gz", log])
    assert found.events == 5
    assert "gunzip" in found.unreadable[0]


class Rotation(RuleBasedStateMachine):
    """A program that writes and a logrotate that renames, copies and truncates, in any order."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = Path(tempfile.mkdtemp())
        self.store = SqliteStore(self.folder / "sessions.db")
        self.log = self.folder / "app.log"
        self.written = 0
        self.collected = 0
        self.rotated: list[Path] = []
        self.fresh = False

    @rule()
    def write(self) -> None:
        with self.log.open("ab") as file:
            for _ in range(3):
                file.write(line(self.written))
                self.written += 1
        self.fresh = True

    @rule()
    def collect(self) -> None:
        files = [path for path in (self.log, *self.rotated) if path.exists()]
        collect_files(self.store, files)
        self.collected = self.written

    @precondition(lambda self: self.log.exists() and self.log.stat().st_size)
    @rule()
    def rename(self) -> None:
        target = self.folder / f"app.log.{len(self.rotated)}"
        self.log.rename(target)
        self.rotated.append(target)

    @precondition(lambda self: self.log.exists() and self.log.stat().st_size)
    @rule()
    def copytruncate(self) -> None:
        target = self.folder / f"app.log.{len(self.rotated)}"
        shutil.copy(self.log, target)
        self.rotated.append(target)
        os.truncate(self.log, 0)

    @invariant()
    def every_line_once(self) -> None:
        assert steps(self.store) == list(range(self.collected))

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


TestRotation = Rotation.TestCase
TestRotation.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
