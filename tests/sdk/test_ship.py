"""Journals on their way to a server that is away, slow, busy, picky, forgetful or in another place."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from receiver import Receiver, Reply, Request

import dashcam
from dashcam.errors import SettingsError
from dashcam.sdk.backlog import Backlog
from dashcam.sdk.courier import Pace
from dashcam.sdk.journal import Journal
from dashcam.sdk.settings import Settings
from dashcam.sdk.ship import Shipper, prune_shipped, ship_once
from dashcam.sdk.wire import Destination

QUICK = Pace(first_wait=0.01, longest_wait=0.05, mend_wait=0.1, request=3.0)
KEY = "key-hunter2"
BAD = b"poison"


@pytest.fixture
def server() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.go_away()
    assert receiver.breaches == []


@pytest.fixture
def ship(server: Receiver, data: Path) -> Iterator[Callable[..., Shipper]]:
    """Shippers that are closed when the test ends."""
    made: list[Shipper] = []

    def make(pace: Pace = QUICK, interval: float = 0.02, **given: Any) -> Shipper:
        settings = Settings(**{"data": data, "url": server.url, **given})
        made.append(Shipper(settings, interval=interval, pace=pace))
        return made[-1]

    yield make
    for shipper in made:
        shipper.close(0.0)


def write(data: Path, count: int, mark: str = "line", **given: Any) -> list[bytes]:
    """A finished journal of this process with `count` records."""
    journal = Journal(Settings(data=data, **given))
    lines = [b'{"mark": "%s", "n": %d}\n' % (mark.encode(), number) for number in range(count)]
    assert all(journal.write(line) for line in lines)
    journal.close()
    return lines


def on_disk(data: Path) -> dict[tuple[str, int], bytes]:
    """Every record by its identity."""
    found = {}
    for path in data.rglob("*.jsonl"):
        at = 0
        for line in path.read_bytes().splitlines(keepends=True):
            found[path.name, at] = line
            at += len(line)
    return found


def wait_until(what: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def run(code: str, data: Path, url: str | None, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "DASHCAM_DATA": str(data), **({"DASHCAM_URL": url} if url else {})}
    pipe = subprocess.PIPE
    # Python 3.12 and later warn of a fork beside other threads; here that is the point.
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


# ---- the plain way


def test_every_record_arrives_under_its_identity(server: Receiver, data: Path, ship: Callable[..., Shipper]) -> None:
    write(data, 500, segment_bytes=4000)
    assert len(list(data.rglob("*.jsonl"))) > 2
    assert ship().flush(5)
    assert server.records == on_disk(data)
    assert len(server.records) == 500


@pytest.mark.slow
def test_what_is_logged_is_on_the_server_a_moment_later(server: Receiver, data: Path) -> None:
    dashcam.configure(data=data, url=server.url)
    trace = dashcam.new_trace(session_id="s")
    for _ in range(3):
        trace = dashcam.log_event(trace, "tool_call", tool="search")
    wait_until(lambda: dashcam.stats()["ship"]["behind_bytes"] == 0)
    assert len(server.records) == 3
    assert dashcam.stats()["ship"]["shipped_bytes"] == dashcam.stats()["bytes"]
    dashcam.log_event(trace, "tool_call", tool="search")
    dashcam.configure(data=data)  # closes what was used before
    assert len(server.records) == 4


def test_a_request_has_the_headers_of_the_contract(server: Receiver, data: Path, ship: Callable[..., Shipper]) -> None:
    write(data, 5)
    assert ship(api_key=f" {KEY}\n").flush(5)
    write(data, 200)
    assert ship().flush(5)
    small, large = server.requests
    assert small.headers["Authorization"] == f"Bearer {KEY}"
    assert "Content-Encoding" not in small.headers
    assert small.headers["User-Agent"] == f"dashcam/{dashcam.__version__}"
    assert "Authorization" not in large.headers
    assert large.headers["Content-Encoding"] == "gzip"
    assert int(large.headers["Content-Length"]) < len(large.body)


def test_lines_of_a_growing_segment_come_in_order_and_once(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    shipper = ship()
    journal = Journal(Settings(data=data))
    for number in range(2000):
        journal.write(b"%d\n" % number)
        if number % 100 == 0:
            time.sleep(0.005)
    assert shipper.flush(5)
    journal.close()
    offsets = [request.offset for request in server.requests]
    assert len(offsets) > 1
    assert offsets == sorted(set(offsets))
    assert server.lines == [b"%d\n" % number for number in range(2000)]


def test_a_second_shipper_sends_nothing_again(server: Receiver, data: Path, ship: Callable[..., Shipper]) -> None:
    write(data, 10)
    assert ship().flush(5)
    assert ship().flush(5)
    assert len(server.requests) == 1


def test_another_server_is_sent_everything(server: Receiver, data: Path, ship: Callable[..., Shipper]) -> None:
    write(data, 10)
    assert ship().flush(5)
    other = Receiver()
    assert ship(url=other.url).flush(5)
    other.go_away()
    assert other.records == server.records == on_disk(data)


def test_a_torn_last_line_stays_where_it_is_and_is_counted(server: Receiver, data: Path) -> None:
    lines = write(data, 3)
    [path] = data.rglob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"half": ')
    stats = ship_once(Settings(data=data, url=server.url))
    assert server.lines == lines
    assert (stats["torn"], stats["behind_bytes"]) == (1, 0)


# ---- a server that is away, slow or busy


def test_a_server_that_is_away_at_the_start_gets_everything_when_it_is_back(
    server: Receiver, data: Path, ship: Callable[..., Shipper], caplog: pytest.LogCaptureFixture
) -> None:
    server.go_away()
    shipper = ship()
    write(data, 50)
    wait_until(lambda: shipper.stats()["failures"] >= 3)
    write(data, 50)
    stats = shipper.stats()
    assert stats["paused"] == "away"
    assert stats["behind_bytes"] == sum(path.stat().st_size for path in data.rglob("*.jsonl"))
    server.come_back()
    assert shipper.flush(5)
    assert server.records == on_disk(data)
    assert (shipper.stats()["paused"], shipper.stats()["behind_bytes"]) == (None, 0)
    assert [record.levelname for record in caplog.records if record.name == "dashcam"] == ["WARNING"]


def test_a_batch_committed_but_not_acknowledged_is_sent_again_and_kept_once(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 20)
    server.plan = [Reply(commit=True, drop=True)] * 2
    assert ship().flush(5)
    assert [request.offset for request in server.requests] == [0, 0, 0]
    assert server.records == on_disk(data)


@pytest.mark.slow
def test_waits_grow_up_to_the_longest(server: Receiver, data: Path, ship: Callable[..., Shipper]) -> None:
    write(data, 1)
    server.plan = [Reply(status=500)] * 9
    ship(Pace(first_wait=0.02, longest_wait=0.1))
    wait_until(lambda: server.records)
    times = [request.at for request in server.requests]
    waits = [after - before for before, after in pairwise(times)]
    for wait, longest in zip(waits, [0.02, 0.04, 0.08, *[0.1] * 6], strict=True):
        assert longest / 2 <= wait
    assert waits[-1] < 2.0  # doubled nine times it would be five


@pytest.mark.slow
@pytest.mark.parametrize(("status", "form"), [(429, "seconds"), (503, "date")])
def test_a_busy_server_is_left_alone_for_as_long_as_it_says(
    server: Receiver, data: Path, ship: Callable[..., Shipper], status: int, form: str
) -> None:
    def later(request: Request) -> Reply | None:
        # A date is told in whole seconds: two from the last whole one are more than one from now.
        until = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        headers = {"Retry-After": "1" if form == "seconds" else until}
        return Reply(status=status, headers=headers) if len(server.requests) == 1 else None

    server.rule = later
    write(data, 1)
    shipper = ship()
    wait_until(lambda: shipper.stats()["paused"] == "busy")
    assert not shipper.flush(0.1)  # asking again doesn't make it ask the server again
    assert len(server.requests) == 1
    assert shipper.flush(5)
    first, second = server.requests
    assert second.at - first.at >= 0.9


def test_a_server_that_answers_too_late_is_asked_again(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 5)
    server.plan = [Reply(commit=True, slow=0.5)]
    assert ship(Pace(first_wait=0.01, request=0.1)).flush(5)
    assert len(server.requests) == 2
    assert server.records == on_disk(data)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"offset": 5}', b"x" * 200_000])
def test_a_200_that_acknowledges_nothing_moves_nothing(
    server: Receiver, data: Path, ship: Callable[..., Shipper], body: bytes
) -> None:
    write(data, 5)
    server.plan = [Reply(body=body)]
    assert ship().flush(5)
    assert [request.offset for request in server.requests] == [0, 0]
    assert server.records == on_disk(data)


# ---- a server that refuses


def too_large(limit: int) -> Callable[[Request], Reply | None]:
    return lambda request: Reply(status=413) if len(request.body) > limit else None


def test_a_batch_that_is_too_large_is_halved_until_it_fits(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 1000)
    server.rule = too_large(3000)
    assert ship().flush(5)
    assert server.records == on_disk(data)


def test_a_line_that_is_too_large_is_counted_and_stays_in_the_journal(
    server: Receiver, data: Path, ship: Callable[..., Shipper], caplog: pytest.LogCaptureFixture
) -> None:
    write(data, 10)
    write(data, 2, mark="x" * 5000)
    write(data, 10)
    server.rule = too_large(3000)
    shipper = ship(interval=60)  # so that nothing is refused before it is flushed
    assert not shipper.flush(5)
    everything = on_disk(data)
    assert server.records == {key: line for key, line in everything.items() if len(line) <= 3000}
    assert (len(everything), shipper.stats()["refused"], shipper.stats()["behind_bytes"]) == (22, 2, 0)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "refused a record" in caplog.text
    assert shipper.flush(5)


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize("places", [{0}, {299}, {7, 8, 200}, set(range(0, 300, 29))])
def test_only_the_lines_that_a_server_cannot_take_are_passed_over(
    server: Receiver, data: Path, ship: Callable[..., Shipper], status: int, places: set[int]
) -> None:
    journal = Journal(Settings(data=data))
    for number in range(300):
        journal.write(b'{"n": %d, "is": "%s"}\n' % (number, BAD if number in places else b"fine"))
    journal.close()
    server.rule = lambda request: Reply(status=status) if BAD in request.body else None
    shipper = ship(interval=60)  # so that nothing is refused before it is flushed
    assert not shipper.flush(5)
    assert server.records == {key: line for key, line in on_disk(data).items() if BAD not in line}
    assert shipper.stats()["refused"] == len(places)
    assert len(server.requests) < 5 + 25 * len(places)


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize("count", [1, 20])
def test_a_proxy_that_refuses_in_html_makes_nothing_pass_over(
    server: Receiver,
    data: Path,
    ship: Callable[..., Shipper],
    caplog: pytest.LogCaptureFixture,
    status: int,
    count: int,
) -> None:
    write(data, count)
    server.rule = lambda request: Reply(status=status, body=b"<html>Request refused</html>")
    shipper = ship()
    wait_until(lambda: shipper.stats()["failures"] >= 3)
    stats = shipper.stats()
    assert (stats["refused"], stats["shipped_bytes"], stats["paused"]) == (0, 0, "answer")
    assert f"HTTP {status}" in stats["last_error"]
    assert stats["behind_bytes"] == sum(map(len, on_disk(data).values()))
    server.rule = lambda request: None
    assert shipper.flush(5)
    assert server.records == on_disk(data)
    assert (shipper.stats()["refused"], shipper.stats()["paused"]) == (0, None)
    assert [record.levelname for record in caplog.records if record.name == "dashcam"] == ["WARNING"]


def test_a_proxy_with_a_limit_of_its_own_gets_smaller_batches(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 1000)
    server.rule = lambda request: Reply(status=413, body=b"<html>") if len(request.body) > 3000 else None
    assert ship().flush(5)
    assert server.records == on_disk(data)


@pytest.mark.parametrize(("status", "mend"), [(401, "API_KEY"), (403, "API_KEY"), (404, "URL"), (405, "URL")])
def test_what_a_person_has_to_mend_is_told_once_and_nothing_moves_on(
    server: Receiver,
    data: Path,
    ship: Callable[..., Shipper],
    caplog: pytest.LogCaptureFixture,
    status: int,
    mend: str,
) -> None:
    write(data, 5)
    echo = f"what is {KEY}?".encode()
    server.rule = lambda request: Reply(status=status, body=echo)
    shipper = ship(api_key=KEY)
    wait_until(lambda: len(server.requests) >= 3)
    waits = [b.at - a.at for a, b in pairwise(server.requests)]
    assert min(waits) >= QUICK.mend_wait * 0.9
    server.rule = lambda request: None
    assert shipper.flush(5)
    assert server.records == on_disk(data)
    assert caplog.text.count("WARNING") == 1
    assert f"DASHCAM_{mend}" in caplog.text
    assert KEY not in caplog.text + repr(shipper.stats())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(server: Receiver, data: Path, ship: Callable[..., Shipper], status: int) -> None:
    elsewhere = Receiver()
    write(data, 5)
    server.rule = lambda request: Reply(status=status, headers={"Location": elsewhere.url + "/v1/records"})
    shipper = ship(api_key=KEY)
    wait_until(lambda: shipper.stats()["paused"] == "address")
    elsewhere.go_away()
    assert elsewhere.requests == []
    assert shipper.stats()["shipped_bytes"] == 0


def test_batches_grow_again_after_one_was_refused(server: Receiver, data: Path, ship: Callable[..., Shipper]) -> None:
    write(data, 3000)
    server.plan = [Reply(status=413)] * 5
    assert ship(Pace(batch=32_000)).flush(5)
    assert server.records == on_disk(data)
    sizes = [len(request.body) for request in server.requests]
    assert min(sizes) < 1100
    assert max(sizes[6:]) > 30_000


# ---- a server that wants something again


def test_a_server_that_lost_its_records_gets_them_again(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    journal = Journal(Settings(data=data))
    journal.write(b'{"before": "the loss"}\n')
    shipper = ship()
    assert shipper.flush(5)
    server.records.clear()
    server.plan = [Reply(commit=True, offset=0)]
    journal.write(b'{"after": "the loss"}\n')
    assert shipper.flush(5)
    journal.close()
    assert len(server.records) == 2
    assert server.records == on_disk(data)


def test_a_lower_offset_inside_the_batch_is_where_the_next_one_starts(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    lines = write(data, 10)
    half = sum(map(len, lines[:5]))
    server.plan = [Reply(offset=half, commit=True)]
    assert ship().flush(5)
    assert [request.offset for request in server.requests] == [0, half]
    assert server.records == on_disk(data)


@pytest.mark.parametrize("offset", [0, 3])
def test_a_server_that_never_gets_on_is_not_asked_without_a_pause(
    server: Receiver, data: Path, ship: Callable[..., Shipper], offset: int
) -> None:
    write(data, 10)
    server.rule = lambda request: Reply(offset=offset)
    ship(Pace(first_wait=0.1))
    wait_until(lambda: len(server.requests) == 3)
    assert server.requests[2].at - server.requests[0].at >= 0.15
    assert all(request.offset == 0 for request in server.requests)


def test_an_offset_beyond_what_was_sent_skips_nothing(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 300)
    server.rule = lambda request: Reply(commit=True, offset=10**15)
    assert ship(Pace(batch=1000)).flush(5)
    assert server.records == on_disk(data)
    write(data, 10)
    assert ship().flush(5)
    assert server.records == on_disk(data)


# ---- several processes

WRITE = """
import sys, dashcam
trace = dashcam.new_trace(session_id="s")
for _ in range(int(sys.argv[1])):
    trace = dashcam.log_event(trace, "tool_call", tool="search")
print("written", flush=True)
sys.stdin.read()
"""

FORK = """
import os, sys, time, dashcam
trace = dashcam.new_trace(session_id="parent")
trace = dashcam.log_event(trace, "tool_call", tool="search")
time.sleep(float(sys.argv[1]))
children = []
for number in range(3):
    child = os.fork()
    if not child:
        trace = dashcam.new_trace(session_id="child")
        for _ in range(10):
            trace = dashcam.log_event(trace, "tool_call", tool="search")
        sys.exit(0)
    children.append(child)
trace = dashcam.log_event(trace, "tool_call", tool="search")
print(*[os.waitpid(child, 0)[1] for child in children], flush=True)
os._exit(0) if sys.argv[2] == "hard" else None
"""


def test_what_a_killed_process_left_is_sent_by_the_next(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    with run(WRITE, data, None, "100") as killed:
        assert killed.stdout
        killed.stdout.readline()
        shipper = ship()
        assert shipper.flush(5)
        assert server.requests == []  # it may still be about to send that itself
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
    assert shipper.flush(5)
    assert len(server.records) == 100
    assert server.records == on_disk(data)


def test_a_short_script_has_sent_everything_when_it_ends(server: Receiver, data: Path) -> None:
    with run(WRITE, data, server.url, "10") as script:
        output, errors = script.communicate("")
    assert (script.returncode, output, errors) == (0, "written\n", "")
    assert len(server.records) == 10


def test_a_script_ends_at_once_when_the_server_is_away_and_leaves_everything(server: Receiver, data: Path) -> None:
    server.go_away()
    with run(WRITE, data, server.url, "10") as script:
        assert script.stdout
        script.stdout.readline()
        before = time.monotonic()
        script.communicate("")
    assert script.returncode == 0
    assert time.monotonic() - before < 1.5
    server.come_back()
    assert ship_once(Settings(data=data, url=server.url))["behind_bytes"] == 0
    assert len(server.records) == 10


@pytest.mark.slow
def test_a_server_that_never_answers_holds_up_the_end_for_two_seconds_at_most(server: Receiver, data: Path) -> None:
    server.rule = lambda request: Reply(drop=True, slow=6.0)
    with run(WRITE, data, server.url, "10") as script:
        assert script.stdout
        script.stdout.readline()
        before = time.monotonic()
        _, errors = script.communicate("")
    assert (script.returncode, errors) == (0, "")
    assert 1.5 < time.monotonic() - before < 5.0


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["0", "1.1"])
def test_a_forked_child_ships_what_it_writes_itself(server: Receiver, data: Path, moment: str) -> None:
    # "hard": the parent ends without a flush, so what arrives of the children they sent themselves.
    with run(FORK, data, server.url, moment, "hard") as parent:
        output, errors = parent.communicate("")
    assert (output, errors) == ("0 0 0\n", "")
    assert sum(b'"session_id":"child"' in line for line in server.lines) == 30
    assert max(server.most_at_once.values()) == 1


@pytest.mark.slow
def test_parent_and_children_together_send_everything_once(server: Receiver, data: Path) -> None:
    with run(FORK, data, server.url, "1.0", "soft") as parent:
        parent.communicate("")
    assert server.records == on_disk(data)
    assert len(server.records) == 32


def test_two_shippers_on_one_folder_share_the_work(server: Receiver, data: Path, ship: Callable[..., Shipper]) -> None:
    write(data, 400, segment_bytes=1000)
    server.rule = lambda request: Reply(commit=True, slow=0.01)
    both = [ship(Pace(batch=300)), ship(Pace(batch=300))]
    assert all(shipper.flush(10) for shipper in both)
    assert server.records == on_disk(data)
    assert set(server.most_at_once.values()) == {1}
    assert len({(request.segment, request.offset) for request in server.requests}) == len(server.requests)
    assert all(shipper.stats()["shipped_requests"] > 0 for shipper in both)


def test_flush_waits_for_what_another_process_is_sending(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 5)
    settings = Settings(data=data, url=server.url)
    other = Backlog(settings, Destination(settings).digest)
    [segment] = other.waiting()
    shipper = ship()
    with other.claim(segment) as claim:
        assert claim
        assert not shipper.flush(0.1)
        claim.move_to(claim.end)
        assert shipper.flush(5)
    assert server.requests == []


FORK_STORM = """
import os, sys, dashcam
from dashcam.sdk import emit
trace = dashcam.new_trace(session_id="parent")
for number in range(60):
    trace = dashcam.log_event(trace, "tool_call", tool="search")
    emit.recorder().shipper.flush(0.0)  # so that forks meet a thread at work
    if not os.fork():
        dashcam.log_event(dashcam.new_trace(session_id="child"), "tool_call", tool="search")
        sys.exit(0)
while True:
    try:
        assert os.wait()[1] == 0
    except ChildProcessError:
        break
"""


@pytest.mark.slow
def test_forks_in_the_middle_of_sending_harm_nobody(server: Receiver, data: Path) -> None:
    server.rule = lambda request: Reply(commit=True, slow=0.002)
    with run(FORK_STORM, data, server.url) as parent:
        output, errors = parent.communicate("", timeout=60)
    assert (parent.returncode, output, errors) == (0, "", "")
    assert len(server.records) == 120
    assert server.records == on_disk(data)
    assert set(server.most_at_once.values()) == {1}


# ---- never in the way


def test_flush_and_close_are_bounded_when_the_server_is_away(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    server.go_away()
    write(data, 5)
    shipper = ship()
    before = time.monotonic()
    assert not shipper.flush(0.2)
    assert 0.15 < time.monotonic() - before < 2.0
    before = time.monotonic()
    shipper.close()
    shipper.close()
    assert not shipper.flush(1.0)
    assert time.monotonic() - before < 1.0


def test_close_sends_what_was_written_last_and_ends_the_thread(server: Receiver, data: Path) -> None:
    shipper = Shipper(Settings(data=data, url=server.url))
    write(data, 5)
    shipper.close()
    assert len(server.records) == 5
    assert "dashcam-ship" not in [thread.name for thread in threading.enumerate()]


def test_close_stops_between_two_requests_of_a_long_backlog(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 1000)
    server.rule = lambda request: Reply(commit=True, slow=0.03)
    shipper = ship(Pace(batch=300))
    before = time.monotonic()
    shipper.close(0.2)
    assert time.monotonic() - before < 1.0
    sent = len(server.requests)
    time.sleep(0.2)
    assert 0 < sent < 40
    assert len(server.requests) <= sent + 1


def test_a_segment_that_cannot_be_read_holds_up_no_other(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 10, segment_bytes=20)
    settings = Settings(data=data, url=server.url)
    paths = sorted(data.rglob("*.jsonl"))
    blocked = data / "default" / "ship" / f"{paths[0].name}.{Destination(settings).digest}.lock"
    blocked.mkdir(parents=True)
    shipper = ship()
    wait_until(lambda: shipper.stats()["paused"] == "disk")
    assert {segment for segment, _ in server.records} == {path.name for path in paths[1:]}
    blocked.rmdir()
    assert shipper.flush(5)
    assert server.records == on_disk(data)


def test_a_folder_that_cannot_be_used_is_told_and_mended(
    server: Receiver, data: Path, ship: Callable[..., Shipper], caplog: pytest.LogCaptureFixture
) -> None:
    write(data, 5)
    blocked = data / "default" / "ship"
    blocked.write_text("a file where the folder should be")
    shipper = ship()
    wait_until(lambda: shipper.stats()["paused"] == "disk")
    assert str(blocked) in caplog.text
    assert server.requests == []
    blocked.unlink()
    assert shipper.flush(5)
    assert server.records == on_disk(data)


def test_progress_that_cannot_be_written_stops_the_sending_and_is_told(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 100)
    [path] = data.rglob("*.jsonl")
    settings = Settings(data=data, url=server.url)
    # A folder where the new progress file goes. (Taking rights away would not stop root.)
    blocked = data / "default" / "ship" / f"{path.name}.{Destination(settings).digest}.new"
    blocked.mkdir(parents=True)
    stats = ship_once(settings, pace=Pace(batch=500))
    assert (stats["paused"], stats["shipped_bytes"], len(server.requests)) == ("disk", 0, 1)
    blocked.rmdir()
    assert ship().flush(5)
    assert server.records == on_disk(data)


def test_shipping_leaves_the_hosts_random_numbers_alone(
    server: Receiver, data: Path, ship: Callable[..., Shipper]
) -> None:
    write(data, 5)
    server.plan = [Reply(status=500)] * 3
    random.seed(1)
    expected = random.Random(1).random()
    assert ship().flush(5)
    assert random.random() == expected


# ---- by hand


def test_shipping_by_hand_says_what_became_of_it(server: Receiver, data: Path) -> None:
    write(data, 5)
    stats = ship_once(Settings(data=data, url=server.url + "/"))
    assert stats["shipped_bytes"] == sum(map(len, server.lines)) > 0
    assert (stats["behind_bytes"], stats["last_error"]) == (0, None)
    server.go_away()
    write(data, 5)
    stats = ship_once(Settings(data=data, url=server.url))
    assert (stats["paused"], stats["failures"]) == ("away", 1)
    assert stats["behind_bytes"] > 0


def test_without_an_address_shipping_by_hand_says_what_to_set(data: Path) -> None:
    for by_hand in (ship_once, lambda settings: prune_shipped(settings, 0)):
        with pytest.raises(SettingsError, match="DASHCAM_URL"):
            by_hand(Settings(data=data))


def test_what_was_shipped_long_ago_can_be_pruned(server: Receiver, data: Path) -> None:
    settings = Settings(data=data, url=server.url)
    write(data, 5)
    assert prune_shipped(settings, 0) == 0
    ship_once(settings)
    assert prune_shipped(settings, 3600) == 0
    assert prune_shipped(Settings(data=data, url="http://127.0.0.1:1"), 0) == 0
    assert prune_shipped(settings, 0) == 1
    assert on_disk(data) == {}


# ---- much of it, and all at once

BIG = """
import sys, tracemalloc
from pathlib import Path
from dashcam.sdk.settings import Settings
from dashcam.sdk.ship import ship_once
ship_once(Settings(data=Path(sys.argv[2]), url=sys.argv[1]))  # what is imported for it doesn't count
tracemalloc.start()
ship_once(Settings(data=Path(sys.argv[3]), url=sys.argv[1]))
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.slow
def test_a_large_backlog_is_sent_in_bounded_memory(server: Receiver, data: Path, tmp_path: Path) -> None:
    write(tmp_path / "warm", 10)
    for _ in range(4):
        write(data, 160, mark="x" * 100_000)
    with run(BIG, data, None, server.url, str(tmp_path / "warm"), str(data)) as script:
        output, errors = script.communicate("")
    assert errors == ""
    assert len(server.records) == 650
    assert sum(path.stat().st_size for path in data.rglob("*.jsonl")) > 60_000_000
    assert int(output) < 5_000_000


@pytest.mark.parametrize("seed", range(5))
def test_whatever_goes_wrong_every_record_arrives_once(
    server: Receiver, data: Path, ship: Callable[..., Shipper], seed: int
) -> None:
    chance, ours = random.Random(seed), random.Random(-seed)

    def misbehave(request: Request) -> Reply | None:
        return chance.choice(
            [
                Reply(status=chance.choice([500, 502, 503, 429, 408, 401, 404, 302, 204])),
                Reply(status=503, headers={"Retry-After": "0"}),
                Reply(drop=True, commit=chance.random() < 0.5),
                Reply(commit=True, offset=request.offset),
                Reply(commit=chance.random() < 0.5, offset=0),
                Reply(commit=True, body=b"nonsense"),
                Reply(status=413) if request.body.count(b"\n") > 1 else None,
                Reply(status=400) if request.body.count(b"\n") > 1 else None,
                *[None] * 12,
            ]
        )

    server.rule = misbehave
    pace = Pace(first_wait=0.001, longest_wait=0.005, mend_wait=0.005, batch=2000)
    shippers = [ship(pace), ship(pace)]
    for _ in range(6):
        write(data, ours.randrange(1, 150), mark="x" * ours.randrange(1, 200), segment_bytes=20_000)
        time.sleep(ours.random() * 0.05)
    shippers[0].close(0.01)
    shippers.append(ship(pace))
    time.sleep(0.3)
    server.rule = lambda request: None
    assert all(shipper.flush(10) for shipper in shippers[1:])
    assert server.records == on_disk(data)
    assert set(server.most_at_once.values()) == {1}
    assert all(shipper.stats()["refused"] == 0 for shipper in shippers)
