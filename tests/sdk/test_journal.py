from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dashcam
from dashcam.sdk import journal as journal_module
from dashcam.sdk.journal import Journal, is_finished
from dashcam.sdk.settings import settings_from


def make(folder: Path, **given: object) -> Journal:
    return Journal(settings_from({}, data=folder, **given))


def lines_of(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.rglob("*.jsonl")) for line in path.read_bytes().splitlines()]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.binary(max_size=300).map(lambda raw: raw.replace(b"\n", b"")), max_size=30),
    st.integers(1, 500),
)
def test_what_is_written_is_read_back_in_order_whatever_the_rotation(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], segment_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = make(folder, segment_bytes=segment_bytes)
    for line in lines:
        assert journal.write(line + b"\n")
    journal.close()
    found = sorted(folder.rglob("*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2]))
    assert b"".join(path.read_bytes() for path in found) == b"".join(line + b"\n" for line in lines)


def test_a_segment_is_named_by_time_process_and_number(tmp_path: Path) -> None:
    journal = make(tmp_path, segment_bytes=1)
    for _ in range(3):
        journal.write(b"{}\n")
    names = sorted(path.name for path in tmp_path.rglob("*.jsonl"))
    assert [name.rpartition("-")[2] for name in names] == ["0.jsonl", "1.jsonl", "2.jsonl"]
    assert all(name.split("-")[1] == str(os.getpid()) for name in names)
    journal.close()


def test_a_segment_is_rotated_by_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "PRESENCE_SECONDS", 0.0)
    journal = make(tmp_path, segment_seconds=0.05)
    journal.write(b"1\n")
    time.sleep(0.06)
    journal.write(b"2\n")
    assert journal.segments == 2
    journal.close()


@pytest.mark.parametrize("policy", ["never", "interval", "always"])
def test_every_fsync_policy_writes_the_same_lines(tmp_path: Path, policy: str) -> None:
    journal = make(tmp_path, fsync=policy)
    for _ in range(5):
        journal.write(b"{}\n")
    journal.close()
    assert lines_of(tmp_path) == [b"{}"] * 5


def test_a_segment_that_somebody_removed_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "PRESENCE_SECONDS", 0.0)
    journal = make(tmp_path)
    journal.write(b"1\n")
    for path in tmp_path.rglob("*.jsonl"):
        path.unlink()
    journal.write(b"2\n")
    journal.close()
    assert lines_of(tmp_path) == [b"2"]


def test_after_a_short_write_the_whole_line_stands_in_a_new_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's short write is brought about here: a disk fills up at no exact byte."""
    journal = make(tmp_path)
    journal.write(b"first\n")
    real, cut = os.write, [True]

    def short(fd: int, line: bytes) -> int:
        return real(fd, line[:3]) if cut.pop() else real(fd, line)

    cut[:] = [False, True]
    monkeypatch.setattr(journal_module, "_write", short)
    assert journal.write(b"second\n")
    monkeypatch.undo()
    journal.write(b"third\n")
    journal.close()
    first, second = sorted(tmp_path.rglob("*.jsonl"))
    assert first.read_bytes() == b"first\nsec"
    assert second.read_bytes() == b"second\nthird\n"
    assert (journal.torn, journal.dropped, journal.written) == (1, 0, 3)


def test_a_reader_can_tell_a_live_segment_from_a_finished_one(tmp_path: Path) -> None:
    journal = make(tmp_path)
    journal.write(b"{}\n")
    (path,) = tmp_path.rglob("*.jsonl")
    assert not is_finished(path)
    journal.close()
    assert is_finished(path)


def test_threads_never_mix_their_lines(tmp_path: Path) -> None:
    journal = make(tmp_path, segment_bytes=10_000)

    def work(name: int) -> None:
        for number in range(500):
            journal.write(msgspec.json.encode([name, number, "x" * (number % 97)]) + b"\n")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    found = [msgspec.json.decode(line) for line in lines_of(tmp_path)]
    assert sorted((name, number) for name, number, _ in found) == [(a, b) for a in range(8) for b in range(500)]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_parent_and_child_have_segments_of_their_own(data: Path) -> None:
    trace = dashcam.new_trace("s")
    trace = dashcam.log_event(trace, "tool_call", tool="before")
    child = os.fork()
    if child == 0:
        try:
            dashcam.log_event(dashcam.new_trace("child"), "tool_call", tool="child")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    dashcam.log_event(trace, "tool_call", tool="after")
    segments = {
        path: [msgspec.json.decode(line)["tool"] for line in path.read_bytes().splitlines()]
        for path in data.rglob("*.jsonl")
    }
    assert sorted(segments.values()) == [["before", "after"], ["child"]]
    assert {path.name.split("-")[1] for path in segments} == {str(os.getpid()), str(child)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_other_threads_record_never_hangs(data: Path) -> None:
    stop = threading.Event()

    def busy() -> None:
        trace = dashcam.new_trace("busy")
        with dashcam.use_trace(trace):
            while not stop.is_set():
                dashcam.log_event(dashcam.current_trace(), "tool_call", tool="x")

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                try:
                    with dashcam.use_trace(dashcam.new_trace("child")) as trace:
                        dashcam.log_event(trace, "tool_call", tool="child")
                finally:
                    os._exit(0)
            deadline = time.monotonic() + 10
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                assert time.monotonic() < deadline, "the child hangs"
                time.sleep(0.005)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_segments_that_somebody_removes_leave_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "PRESENCE_SECONDS", 0.0)
    journal = make(tmp_path)
    journal.write(b"1\n")
    before = open_files()
    for _ in range(20):
        for path in tmp_path.rglob("*.jsonl"):
            path.unlink()
        journal.write(b"2\n")
    assert open_files() == before
    journal.close()


def test_a_line_written_after_closing_is_kept_and_nothing_stays_open(tmp_path: Path) -> None:
    """As by a thread that still has the recorder that configure() has just replaced."""
    journal = make(tmp_path)
    journal.write(b"1\n")
    journal.close()
    before = open_files()
    assert journal.write(b"2\n")
    assert open_files() == before
    assert lines_of(tmp_path) == [b"1", b"2"]
    assert all(is_finished(path) for path in tmp_path.rglob("*.jsonl"))


def test_a_signal_handler_that_records_during_rotation_loses_nothing(tmp_path: Path) -> None:
    code = (
        "import os, signal, dashcam\n"
        "dashcam.configure(segment_bytes=1)\n"
        "trace = dashcam.new_trace('s'); dashcam.log_event(trace, 'reply_ready')\n"
        "before = len(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else 0\n"
        "signal.signal(signal.SIGALRM, lambda *_: dashcam.log_event(trace, 'reply_ready'))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)\n"
        "for _ in range(3000): dashcam.log_event(trace, 'reply_ready')\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "after = len(os.listdir('/proc/self/fd')) if os.path.isdir('/proc/self/fd') else 0\n"
        "print(dashcam.stats()['dropped'], after - before)"
    )
    environment = {**os.environ, "DASHCAM_DATA": str(tmp_path)}
    printed = subprocess.check_output([sys.executable, "-c", code], env=environment, timeout=60)
    assert printed.split() == [b"0", b"0"]
