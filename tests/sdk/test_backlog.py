"""Slices of segments, who holds them, and which may be removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashcam.sdk.backlog import Backlog, Segment
from dashcam.sdk.journal import Journal
from dashcam.sdk.locks import locked
from dashcam.sdk.settings import Settings

OLD = "20000101T000000-1-00000000-{}.jsonl"


def put(folder: Path, content: bytes, number: int = 0) -> Segment:
    """A segment that a process left behind."""
    journals = folder / "default" / "journal"
    journals.mkdir(parents=True, exist_ok=True)
    path = journals / OLD.format(number)
    path.write_bytes(content)
    return Segment(path, len(content), path.stat().st_mtime)


def backlog(folder: Path, destination: str = "here") -> Backlog:
    return Backlog(Settings(data=folder), destination)


@settings(deadline=None)  # files, on a disk that others use too
@given(
    st.lists(st.binary(max_size=30).map(lambda line: line.replace(b"\n", b"")), max_size=20),
    st.binary(max_size=10).map(lambda tail: tail.replace(b"\n", b"")),
    st.integers(1, 100),
)
def test_slices_are_whole_lines_and_together_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], tail: bytes, limit: int
) -> None:
    folder = tmp_path_factory.mktemp("slices")
    whole = b"".join(line + b"\n" for line in lines)
    found = b""
    with backlog(folder).claim(put(folder, whole + tail)) as claim:
        assert claim
        while part := claim.slice(limit):
            assert part.endswith(b"\n")
            assert len(part) <= limit or part.count(b"\n") == 1
            found += part
            claim.move_to(claim.offset + len(part))
        assert claim.torn == bool(tail)
    assert found == whole


def test_a_line_longer_than_the_limit_comes_alone(tmp_path: Path) -> None:
    long = b"x" * 300_000 + b"\n"
    with backlog(tmp_path).claim(put(tmp_path, b"a\n" + long + b"b\n")) as claim:
        assert claim
        parts = []
        while part := claim.slice(1000):
            parts.append(part)
            claim.move_to(claim.offset + len(part))
    assert parts == [b"a\n", long, b"b\n"]


def test_progress_is_kept_for_each_destination(tmp_path: Path) -> None:
    segment = put(tmp_path, b"a\nb\n")
    with backlog(tmp_path).claim(segment) as claim:
        assert claim
        claim.move_to(2, refused=1)
    with backlog(tmp_path).claim(segment) as again, backlog(tmp_path, "there").claim(segment) as other:
        assert again
        assert other
        assert (again.offset, again.refused) == (2, 1)
        assert (other.offset, other.refused) == (0, 0)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "default" / "ship").iterdir()} == {0o600}


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b'{"offset": -1}', b'{"offset": 1}', b'{"offset": 99}'])
def test_a_damaged_progress_file_means_from_the_start(tmp_path: Path, damage: bytes) -> None:
    segment = put(tmp_path, b"aa\nbb\n")
    with backlog(tmp_path).claim(segment) as claim:
        assert claim
        claim.move_to(3)
    next((tmp_path / "default" / "ship").glob("*.offset")).write_bytes(damage)
    with backlog(tmp_path).claim(segment) as claim:
        assert claim
        assert claim.slice(100) == b"aa\nbb\n"


def test_a_segment_has_one_sender_at_a_time(tmp_path: Path) -> None:
    segment = put(tmp_path, b"a\n")
    with backlog(tmp_path).claim(segment) as first:
        with backlog(tmp_path).claim(segment) as second:
            assert second is None
        assert first
    with backlog(tmp_path).claim(segment) as third:
        assert third


def test_what_this_process_writes_comes_first_and_what_others_write_not_at_all(tmp_path: Path) -> None:
    put(tmp_path, b"old\n")
    own = Journal(Settings(data=tmp_path))
    own.write(b"own\n")
    script = "import sys; from pathlib import Path; from dashcam.sdk.journal import Journal; "
    script += "from dashcam.sdk.settings import Settings; journal = Journal(Settings(data=Path(sys.argv[1]))); "
    script += "journal.write(b'theirs\\n'); print(flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdin
    assert other.stdout
    try:
        other.stdout.readline()
        ours = backlog(tmp_path)
        assert [s.path.read_bytes() for s in ours.waiting()] == [b"own\n", b"old\n"]
        assert ours.behind() == 8
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        other.stdin.close()
        other.stdout.close()
    assert sorted(s.path.read_bytes() for s in ours.waiting()) == [b"old\n", b"own\n", b"theirs\n"]
    own.close()


def test_what_is_no_segment_is_left_alone(tmp_path: Path) -> None:
    segment = put(tmp_path, b"a\n")
    for name in ("notes.txt", "with space.jsonl", ".hidden.jsonl", "line\nbreak.jsonl"):
        (segment.path.parent / name).write_bytes(b"x\n")
    (segment.path.parent / "folder.jsonl").mkdir()
    (segment.path.parent / "link.jsonl").symlink_to(segment.path)
    assert [s.path for s in backlog(tmp_path).waiting()] == [segment.path]


def test_only_what_the_server_has_to_the_last_byte_is_pruned(tmp_path: Path) -> None:
    ours = backlog(tmp_path)
    done, half, torn, refused, other = (put(tmp_path, b"a\nb\n" + b"t" * (n == 2), n) for n in range(5))
    for segment, offset, lines in ((done, 4, 0), (half, 2, 0), (torn, 4, 0), (refused, 4, 1)):
        with ours.claim(segment) as claim:
            assert claim
            claim.move_to(offset, lines)
    with backlog(tmp_path, "there").claim(other) as claim:
        assert claim
        claim.move_to(4)
    assert ours.prune(before=done.modified - 60) == 0
    assert ours.prune(before=time.time() + 60) == 1
    assert not done.path.exists()
    assert all(segment.path.exists() for segment in (half, torn, refused, other))
    assert not list(ours.folder.glob(f"{done.path.name}*"))


def test_a_segment_that_is_being_written_or_sent_is_not_pruned(tmp_path: Path) -> None:
    ours = backlog(tmp_path)
    journal = Journal(Settings(data=tmp_path))
    journal.write(b"a\n")
    [live] = ours.waiting()
    with ours.claim(live) as claim:
        assert claim
        claim.move_to(2)
    assert ours.prune(before=time.time() + 60) == 0
    journal.close()
    with ours.claim(live):
        assert ours.prune(before=time.time() + 60) == 0
    assert ours.prune(before=time.time() + 60) == 1


HOLD_AND_FORK = """
import os, sys, time
from pathlib import Path
from dashcam.sdk.locks import locked
lock = Path(sys.argv[1])
with locked(lock) as ours:
    child = os.fork()
    if not child and sys.argv[2] == "keep":
        print(os.getpid(), flush=True)  # from here on it has closed what it got
    if not child or sys.argv[2] == "keep":
        time.sleep(30)
        os._exit(0)
with locked(lock) as again:
    print(child, again, flush=True)
"""


def hold_and_fork(lock: Path, then: str) -> subprocess.Popen[str]:
    # A fork beside other threads is what Python 3.12 and later warn of; here it is the point.
    command = [sys.executable, "-W", "ignore", "-c", HOLD_AND_FORK, str(lock), then]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_lock_is_free_when_its_holder_lets_go_though_a_child_lives_on(tmp_path: Path) -> None:
    with hold_and_fork(tmp_path / "lock", "let go") as holder:
        assert holder.stdout
        child, again = holder.stdout.readline().split()
        os.kill(int(child), signal.SIGKILL)
    assert again == "True"


def test_a_lock_is_free_when_its_holder_is_killed_though_a_child_lives_on(tmp_path: Path) -> None:
    with hold_and_fork(tmp_path / "lock", "keep") as holder:
        assert holder.stdout
        child = int(holder.stdout.readline())
        with locked(tmp_path / "lock") as ours:
            assert not ours
        holder.kill()
        holder.wait()
        with locked(tmp_path / "lock") as ours:
            assert ours
        os.kill(child, signal.SIGKILL)
