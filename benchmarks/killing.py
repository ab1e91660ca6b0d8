"""Clients that retry, and a server that is killed (-9) and started again: what was acknowledged is there, once."""

from __future__ import annotations

import hashlib
import http.client
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.figures import Figure, at_least, at_most, plain
from benchmarks.peers import OURS, end, free_port, start
from benchmarks.traffic import BATCH, Traffic
from dashcam.dialects.otlp.decode import span_message
from dashcam.store.sqlite.store import SqliteReader

PAYLOAD = 1 << 20
A_SECOND = 1.0
GIVE_UP = 300.0  # seconds without any answer


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was acknowledged, and what is there."""

    spans: int
    payloads: int
    kills: int
    retries: int  # requests that were sent again, since no answer came
    lost: int
    twice: int
    spoiled: int  # payloads that came back changed
    seconds: float


class Clients:
    """Senders that share the work, each with one request under way, until all of it is acknowledged."""

    def __init__(self, port: int, spans: int, payloads: int) -> None:
        self._port = port
        self._work = iter(shuffled(spans // BATCH, payloads))
        self._lock = threading.Lock()
        self.acknowledged: dict[tuple[str, str], bytes] = {}  # and the digest of a payload
        self.retries = 0

    def run(self) -> None:
        traffic = Traffic(seed=threading.get_ident())
        while (is_payload := self._next()) is not None:
            request, told = payload() if is_payload else batch(traffic)
            self._deliver(request)
            with self._lock:
                self.acknowledged |= told

    def _next(self) -> bool | None:
        with self._lock:
            return next(self._work, None)

    def _deliver(self, request: bytes) -> None:
        deadline = time.monotonic() + GIVE_UP
        while not self._is_taken(request):
            if time.monotonic() > deadline:
                raise RuntimeError("the server is away for good")
            with self._lock:
                self.retries += 1
            time.sleep(random.uniform(0.05, 0.3))

    def _is_taken(self, request: bytes) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("POST", "/v1/traces", request, {"Content-Type": "application/x-protobuf"})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        if status not in (200, 429, 503):
            raise RuntimeError(f"the server answered {status}")
        return status == 200


def run() -> list[Figure]:
    outcome = trial(spans=250_000, payloads=1_000, clients=16, kills=10)
    return [
        plain("spans acknowledged", outcome.spans, ""),
        plain("payloads of 1 MB acknowledged", outcome.payloads, ""),
        at_least("times that the server was killed", outcome.kills, 10, ""),
        plain("requests sent again", outcome.retries, ""),
        plain("all in", outcome.seconds, "s"),
        at_most("acknowledged spans lost", outcome.lost, 0, ""),
        at_most("spans that are there twice", outcome.twice, 0, ""),
        at_most("payloads that came back changed", outcome.spoiled, 0, ""),
    ]


def trial(*, spans: int, payloads: int, clients: int, kills: int) -> Outcome:
    """Send it all while the server is killed so many times, evenly over the work."""
    begun = time.monotonic()
    folder, port = Path(tempfile.mkdtemp(prefix="bench-killing-")), free_port()
    senders = Clients(port, spans, payloads)
    process, _ = start(OURS, folder, port)
    threads = [threading.Thread(target=senders.run, daemon=True) for _ in range(clients)]
    try:
        for thread in threads:
            thread.start()
        killed = 0
        while any(thread.is_alive() for thread in threads) or killed < kills:
            due = (killed + 1) * (spans + payloads) // (kills + 1)
            if killed < kills and len(senders.acknowledged) >= due:
                time.sleep(random.uniform(0, 0.2))
                end(process, 9)
                killed += 1
                process, _ = start(OURS, folder, port)
            time.sleep(0.02)
        end(process, 9)  # nothing that was acknowledged may hang on a last good-bye
        return outcome_of(folder, senders, killed, time.monotonic() - begun)
    finally:
        end(process, 9)
        shutil.rmtree(folder, ignore_errors=True)


def outcome_of(folder: Path, senders: Clients, killed: int, seconds: float) -> Outcome:
    lost = twice = spoiled = 0
    told = senders.acknowledged
    traces: dict[str, set[str]] = {}
    for trace_id, span_id in told:
        traces.setdefault(trace_id, set()).add(span_id)
    with SqliteReader(folder / OURS.database) as store:
        for trace_id, wanted in traces.items():
            found = store.spans(trace_id)
            ids = [span.span_id for span in found]
            lost += len(wanted - set(ids))
            twice += len(ids) - len(set(ids))
            for span in found:
                if digest := told.get((trace_id, span.span_id)):
                    body = span_message(span, store).attributes[0].value.string_value
                    spoiled += hashlib.sha256(body.encode()).digest() != digest
    payloads = sum(map(bool, told.values()))
    return Outcome(
        spans=len(told) - payloads, payloads=payloads, kills=killed, retries=senders.retries, lost=lost, twice=twice,
        spoiled=spoiled, seconds=seconds,
    )  # fmt: skip


def shuffled(batches: int, payloads: int) -> Iterator[bool]:
    """Which of the requests are payloads: evenly among the batches."""
    for place in range(batches + payloads):
        yield (place + 1) * payloads // (batches + payloads) > place * payloads // (batches + payloads)


def batch(traffic: Traffic) -> tuple[bytes, dict[tuple[str, str], bytes]]:
    request = traffic.request()
    told = ExportTraceServiceRequest.FromString(request)
    return request, {
        (span.trace_id.hex(), span.span_id.hex()): b""
        for block in told.resource_spans
        for scope in block.scope_spans
        for span in scope.spans
    }


def payload() -> tuple[bytes, dict[tuple[str, str], bytes]]:
    """One span with a text of 1 MB that nobody has seen before."""
    text = os.urandom(PAYLOAD // 2).hex()
    request = ExportTraceServiceRequest()
    now = time.time_ns()
    span = request.resource_spans.add().scope_spans.add().spans.add(
        trace_id=os.urandom(16), span_id=os.urandom(8), name="payload", start_time_unix_nano=now, end_time_unix_nano=now
    )  # fmt: skip
    attribute = span.attributes.add()
    attribute.key, attribute.value.string_value = "output.value", text
    told = {(span.trace_id.hex(), span.span_id.hex()): hashlib.sha256(text.encode()).digest()}
    return bytes(request.SerializeToString()), told
