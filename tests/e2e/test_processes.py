"""Several processes on one data folder, killed at random moments, on a disk that is full."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import msgspec
import pytest

from dashcam.record.refresh import collect, open_store
from dashcam.sdk.settings import settings_from
from dashcam.store.base import EventFilter

WRITER = """
import sys, dashcam
name, traces, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for number in range(traces):
    trace = dashcam.new_trace(session_id=f"{name}")
    for _ in range(events):
        trace = dashcam.log_event(trace, "tool_call_completed", tool="search", latency_ms=42, note="x" * 50)
"""

# Says what it has written only after it is written, so that the test knows what must not be lost.
KILLED = """
import os, sys, dashcam
trace = dashcam.new_trace(session_id="killed-" + sys.argv[1])
print(trace.trace_id, flush=True)
while True:
    trace = dashcam.log_event(trace, "tool_call", tool="search", note="x" * 300)
    os.write(1, b"%d\\n" % trace.step)
"""

FILLER = """
import dashcam, json, logging
logging.disable()
trace = dashcam.new_trace(session_id="full")
for _ in range(5000):
    trace = dashcam.log_event(trace, "tool_call", tool="search", note="x" * 300)
print(json.dumps(dashcam.stats()))
"""


def start(code: str, data: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "DASHCAM_DATA": str(data)}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment, stdout=subprocess.PIPE)


@pytest.mark.slow
def test_eight_processes_write_160_000_whole_lines_with_gapless_steps(data: Path) -> None:
    writers = [start(WRITER, data, f"session-{number}", "20", "1000") for number in range(8)]
    assert [writer.wait(120) for writer in writers] == [0] * 8
    for writer in writers:
        writer.stdout.close()  # type: ignore[union-attr]
    steps: dict[str, list[int]] = defaultdict(list)
    for path in data.rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            record = msgspec.json.decode(line)
            steps[record["trace_id"]].append(record["step"])
    assert sum(map(len, steps.values())) == 160_000
    assert all(sorted(found) == list(range(1000)) for found in steps.values())
    settings = settings_from({}, data=data)
    with open_store(settings) as store:
        assert collect(store, settings).events == 160_000
        assert collect(store, settings).events == 0


@pytest.mark.slow
def test_killed_50_times_at_random_every_line_is_collected_once_and_the_store_is_sound(data: Path) -> None:
    chance = random.Random(7)
    settings = settings_from({}, data=data)
    told: dict[str, int] = {}
    collector = start(COLLECTOR, data)
    for number in range(50):
        writer = start(KILLED, data, str(number))
        assert writer.stdout is not None
        trace_id = writer.stdout.readline().decode().strip()
        time.sleep(chance.uniform(0.0, 0.05))
        os.kill(writer.pid, signal.SIGKILL)
        said = writer.stdout.read().split(b"\n")[:-1]
        writer.stdout.close()
        writer.wait()
        told[trace_id] = int(said[-1]) if said else 0
        if number % 5 == 0:  # the collector dies as often, in the middle of its transactions
            os.kill(collector.pid, signal.SIGKILL)
            collector.wait()
            collector.stdout.close()  # type: ignore[union-attr]
            collector = start(COLLECTOR, data)
    os.kill(collector.pid, signal.SIGKILL)
    collector.wait()
    collector.stdout.close()  # type: ignore[union-attr]
    with open_store(settings) as store:
        collect(store, settings)
        assert list(store.verify()) == []
        steps = Counter((event.trace_id, event.step) for event in store.events(EventFilter()))
        torn = [orphan for orphan in store.orphans() if not orphan.reason.startswith("torn")]
    assert torn == []
    assert set(steps.values()) == {1}
    for trace_id, count in told.items():
        found = sorted(step for trace, step in steps if trace == trace_id)
        assert found == list(range(len(found)))
        assert len(found) >= count  # written but not yet told is fine; told and gone is not
    on_disk = sum(path.read_bytes().count(b"\n") for path in data.rglob("*.jsonl"))
    assert sum(steps.values()) == on_disk


COLLECTOR = """
import time
from dashcam.record.refresh import collect, open_store
from dashcam.sdk.settings import settings_from
import os
settings = settings_from(os.environ)
while True:
    with open_store(settings) as store:
        for _ in range(20):
            collect(store, settings)
            time.sleep(0.002)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> object:
    """A tmpfs of one megabyte, which is full soon."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_on_a_full_disk_the_host_goes_on_and_the_loss_is_counted(small_disk: Path) -> None:
    filler = start(FILLER, small_disk / "data")
    printed, _ = filler.communicate(timeout=60)
    assert filler.returncode == 0
    stats = msgspec.json.decode(printed)
    assert stats["written"] + stats["dropped"] == 5000
    assert stats["dropped"] > 1000
    assert "No space left" in stats["last_error"]
    whole = [line for path in small_disk.rglob("*.jsonl") for line in path.read_bytes().split(b"\n")[:-1]]
    assert len(whole) == stats["written"]
    assert all(msgspec.json.decode(line)["session_id"] == "full" for line in whole)


def test_what_was_written_before_the_disk_was_full_can_be_collected(small_disk: Path, tmp_path: Path) -> None:
    filler = start(FILLER, small_disk / "data")
    stats = msgspec.json.decode(filler.communicate(timeout=60)[0])
    elsewhere = settings_from({}, data=tmp_path / "elsewhere")
    elsewhere.folder.mkdir(parents=True)
    elsewhere.journals.symlink_to(small_disk / "data" / "default" / "journal")
    with open_store(elsewhere) as store:
        collected = collect(store, elsewhere)
    assert collected.events == stats["written"]


def test_in_a_read_only_folder_the_host_goes_on_and_the_loss_is_counted(tmp_path: Path) -> None:
    folder = tmp_path / "readonly"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:  # root may write where the mode says no, so only a read-only mount shows it
        folder.chmod(0o500)
        if os.access(folder, os.W_OK):
            pytest.skip("needs a folder that this user can't write")
    try:
        filler = start(FILLER, folder / "data")
        stats = msgspec.json.decode(filler.communicate(timeout=60)[0])
    finally:
        subprocess.run(["umount", str(folder)], capture_output=True)
    assert filler.returncode == 0
    assert (stats["written"], stats["dropped"]) == (0, 5000)
