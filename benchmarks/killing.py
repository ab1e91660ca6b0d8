"""Clients that retry, and a server that is killed (-9) and started again: what was acknowledged is there, once.

Some requests whose answer was lost are never sent again: they may be there or not, but whole or not at all. Nothing
else may be there, and when the server has caught up every trace is a session with all that was said in it.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.figures import Figure, at_least, at_most, plain
from benchmarks.traffic import BATCH, Traffic
from benchmarks.victim import Blow, Victim
from dashcam.dialects.otlp.decode import span_message
from dashcam.store.base import SessionFilter, SessionSummary
from dashcam.store.sqlite.store import SqliteReader

PAYLOAD = 1 << 20
GIVE_UP = 120.0  # seconds without any answer
FORGOTTEN = 0.2  # of the requests whose answer was lost: their sender does not ask again
CATCH_UP = 300.0  # seconds
AWAY, LOST = 0, -1  # instead of a status: nobody listens; the connection broke after that
SAID = (2, 14, 5)  # what the session of a trace has: messages, their parts, model calls
SAMPLED = 500  # sessions that are read part by part
DATABASE = Path("default", "sessions.db")


class Told(msgspec.Struct, frozen=True):
    """What must be found of a request: its traces with their spans, and the tokens that a trace's calls were told."""

    traces: dict[str, set[str]]
    tokens: dict[str, int] = {}
    digest: bytes = b""  # of a payload's text


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was acknowledged, and what is there."""

    spans: int
    payloads: int
    retries: int  # requests that were sent again, since no answer came or one that said later
    forgotten: int  # spans that were sent once, without an answer, and of those the ones that are there
    forgotten_there: int
    lost: int
    twice: int
    torn: int  # requests without an answer of which a part is there
    stray: int  # spans that nobody sent
    spoiled: int  # payloads that came back changed
    wrong_sessions: int  # missing, one too many, or not as they were told
    findings: list[str]  # of `dashcam verify`
    seconds: float  # until all was acknowledged
    catch_up_seconds: float  # from the last start until every session was there


class Clients:
    """Senders that share the work, each with one request under way, until all of it is acknowledged."""

    def __init__(self, port: int, spans: int, payloads: int) -> None:
        self._port = port
        self._work = iter(mixed(spans // BATCH, payloads))
        self._lock = threading.Lock()
        self.acknowledged: list[Told] = []
        self.forgotten: list[Told] = []
        self.retries = 0
        self.failed: list[BaseException] = []

    def run(self) -> None:
        try:
            traffic = Traffic(seed=threading.get_ident())
            while (is_payload := self._next()) is not None:
                while not self._deliver(*(payload() if is_payload else batch(traffic))):
                    pass  # forgotten; another one in its place
        except BaseException as error:
            self.failed.append(error)
            raise

    def _next(self) -> bool | None:
        with self._lock:
            return next(self._work, None)

    def _deliver(self, body: bytes, told: Told) -> bool:
        """Send it until it is acknowledged; or forget it where an answer was lost."""
        deadline = time.monotonic() + GIVE_UP
        while (status := self._send(body)) != 200:
            if status == LOST and random.random() < FORGOTTEN:
                with self._lock:
                    self.forgotten.append(told)
                return False
            if status not in (AWAY, LOST, 429, 503) or time.monotonic() > deadline:
                raise RuntimeError(f"the server answered {status}")
            with self._lock:
                self.retries += 1
            time.sleep(random.uniform(0.05, 0.3))
        with self._lock:
            self.acknowledged.append(told)
        return True

    def _send(self, body: bytes) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.connect()
        except OSError:
            return AWAY
        try:
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return LOST
        finally:
            connection.close()


def run() -> list[Figure]:
    kills: list[Blow] = ["kill"] * 10
    outcome = trial(spans=250_000, payloads=1_000, clients=16, blows=kills)
    return [
        plain("spans acknowledged", outcome.spans, ""),
        plain("payloads of 1 MB acknowledged", outcome.payloads, ""),
        at_least("times that the server was killed", len(kills), 10, ""),
        plain("requests sent again", outcome.retries, ""),
        plain("spans never acknowledged, nor sent again", outcome.forgotten, ""),
        plain("of those are there", outcome.forgotten_there, ""),
        plain("all acknowledged after", outcome.seconds, "s"),
        plain("started again, all sessions are there after", outcome.catch_up_seconds, "s"),
        at_most("acknowledged spans lost", outcome.lost, 0, ""),
        at_most("spans that are there twice", outcome.twice, 0, ""),
        at_most("requests of which a part is there", outcome.torn, 0, ""),
        at_most("spans that nobody sent", outcome.stray, 0, ""),
        at_most("payloads that came back changed", outcome.spoiled, 0, ""),
        at_most("sessions missing, too many, or not as they were told", outcome.wrong_sessions, 0, ""),
        at_most("findings of dashcam verify", len(outcome.findings), 0, ""),
    ]


def trial(*, spans: int, payloads: int, clients: int, blows: Sequence[Blow]) -> Outcome:
    """Send it all while the server suffers these blows, evenly over the work."""
    folder = Path(tempfile.mkdtemp(prefix="bench-killing-"))
    victim = Victim(folder)
    try:
        begun = time.monotonic()
        senders = send_under(victim, spans, payloads, clients, blows)
        seconds = time.monotonic() - begun
        victim.kill()  # nothing that was acknowledged may hang on a last good-bye
        begun = time.monotonic()
        victim.start()
        with SqliteReader(folder / DATABASE) as store:
            wait_for_sessions(store)
            return outcome_of(store, folder, victim, senders, seconds, time.monotonic() - begun)
    finally:
        victim.end()
        shutil.rmtree(folder, ignore_errors=True)


def send_under(victim: Victim, spans: int, payloads: int, clients: int, blows: Sequence[Blow]) -> Clients:
    senders = Clients(victim.port, spans, payloads)
    threads = [threading.Thread(target=senders.run, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    requests = spans // BATCH + payloads
    for place, blow in enumerate(blows, 1):
        while len(senders.acknowledged) < place * requests // (len(blows) + 1) and not senders.failed:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.2))
        victim.strike(blow)
    for thread in threads:
        thread.join()
    if senders.failed:
        raise senders.failed[0]
    return senders


def wait_for_sessions(store: SqliteReader) -> None:
    deadline = time.monotonic() + CATCH_UP
    while (lag := store.lag()).projected < lag.seq:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the projector is {lag.seq - lag.projected} records behind")
        time.sleep(0.1)


def outcome_of(
    store: SqliteReader, folder: Path, victim: Victim, senders: Clients, seconds: float, catch_up_seconds: float
) -> Outcome:
    lost = twice = torn = there = spoiled = forgotten_there = 0
    kept: list[Told] = []
    for told in senders.acknowledged:
        found, doubles, spoils = look_up(store, told)
        lost += count(told) - found
        twice, there, spoiled = twice + doubles, there + found + doubles, spoiled + spoils
        kept.append(told)
    for told in senders.forgotten:
        found, doubles, spoils = look_up(store, told)
        torn += found not in (0, count(told))
        twice, there, spoiled = twice + doubles, there + found + doubles, spoiled + spoils
        forgotten_there += found
        kept += [told] if found else []
    wrong = wrong_sessions(store, kept)
    victim.stop()
    payloads = sum(bool(told.digest) for told in senders.acknowledged)
    return Outcome(
        spans=sum(map(count, senders.acknowledged)) - payloads, payloads=payloads, retries=senders.retries,
        forgotten=sum(map(count, senders.forgotten)), forgotten_there=forgotten_there, lost=lost, twice=twice,
        torn=torn, stray=store.lag().seq - there, spoiled=spoiled, wrong_sessions=wrong, findings=findings(folder),
        seconds=seconds, catch_up_seconds=catch_up_seconds,
    )  # fmt: skip


def look_up(store: SqliteReader, told: Told) -> tuple[int, int, int]:
    """How many of its spans are there, how many of them more than once, and whether its payload is another."""
    found = doubles = spoiled = 0
    for trace_id, wanted in told.traces.items():
        spans = store.spans(trace_id)
        ids = [span.span_id for span in spans]
        found += len(wanted & set(ids))
        doubles += len(ids) - len(set(ids))
        if told.digest:
            texts = [span_message(span, store).attributes[0].value.string_value for span in spans]
            spoiled += any(hashlib.sha256(text.encode()).digest() != told.digest for text in texts)
    return found, doubles, spoiled


def wrong_sessions(store: SqliteReader, kept: list[Told]) -> int:
    """How many sessions are not there, or are and should not, or tell something else than was sent."""
    wanted = {f"bench-{trace_id[:12]}": tokens for told in kept for trace_id, tokens in told.tokens.items()}
    wanted |= {f"trace:{trace_id}": 0 for told in kept if told.digest for trace_id in told.traces}
    found = {session.session_id: session for session in all_sessions(store)}
    wrong = wanted.keys() ^ found.keys()
    for session_id in wanted.keys() & found.keys():
        session = found[session_id]
        said = (SAID[0], 1) if session_id.startswith("bench-") else (0, 0)
        if (session.messages, session.turns) != said or session.usage.input != wanted[session_id]:
            wrong.add(session_id)
    ours = [session_id for session_id in sorted(found) if session_id.startswith("bench-")]
    for session_id in random.sample(ours, min(SAMPLED, len(ours))):
        parts, calls = len(list(store.chat_parts(session_id))), len(store.model_calls(session_id=session_id))
        if (parts, calls) != SAID[1:]:
            wrong.add(session_id)
    return len(wrong)


def all_sessions(store: SqliteReader) -> Iterator[SessionSummary]:
    after = ""
    while page := store.sessions(SessionFilter(kind=None, limit=10_000, after=after)):
        yield from page
        after = page[-1].session_id


def findings(folder: Path) -> list[str]:
    """What `dashcam verify` has to say against it."""
    verify = [sys.executable, "-m", "dashcam", "verify", "--data", str(folder)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f"exit code {done.returncode}", *f"{done.stdout}{done.stderr}".splitlines()]


def count(told: Told) -> int:
    return sum(map(len, told.traces.values()))


def mixed(batches: int, payloads: int) -> Iterator[bool]:
    """Which of the requests are payloads: evenly among the batches."""
    for place in range(batches + payloads):
        yield (place + 1) * payloads // (batches + payloads) > place * payloads // (batches + payloads)


def batch(traffic: Traffic) -> tuple[bytes, Told]:
    body = traffic.request()
    told = Told(traces={}, tokens={})
    for block in ExportTraceServiceRequest.FromString(body).resource_spans:
        for span in (span for scope in block.scope_spans for span in scope.spans):
            trace_id = span.trace_id.hex()
            told.traces.setdefault(trace_id, set()).add(span.span_id.hex())
            tokens = (each.value.int_value for each in span.attributes if each.key == "gen_ai.usage.input_tokens")
            told.tokens[trace_id] = told.tokens.get(trace_id, 0) + sum(tokens)
    return body, told


def payload() -> tuple[bytes, Told]:
    """One span with a text of 1 MB that nobody has seen before."""
    text = os.urandom(PAYLOAD // 2).hex()
    request = ExportTraceServiceRequest()
    now = time.time_ns()
    span = request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=os.urandom(16), span_id=os.urandom(8), name="payload", start_time_unix_nano=now, end_time_unix_nano=now
    )  # fmt: skip
    attribute = span.attributes.add()
    attribute.key, attribute.value.string_value = "output.value", text
    told = Told(traces={span.trace_id.hex(): {span.span_id.hex()}}, digest=hashlib.sha256(text.encode()).digest())
    return bytes(request.SerializeToString()), told
