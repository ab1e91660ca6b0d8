"""The way to the store: HTTP and gRPC hand over raw bytes, and one thread reads and writes all that waits.

What comes while it writes is the next batch, so that the busier it is the more goes into a transaction. One thread
and not two: every statement and every compressed value gives the GIL away, and a second busy thread takes it. A body
that can't be read costs its neighbours nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from dashcam.errors import DashcamError, Stopping, StoreError, UnreadableInput
from dashcam.record.receive import Lines, Receipt, receive_lines, receive_otlp, receive_scores
from dashcam.sdk.redaction.redactor import Redactor
from dashcam.server.collecting import Journals
from dashcam.server.limits import Held, Limits, inflate
from dashcam.server.logs import tell
from dashcam.server.metrics import Metrics
from dashcam.server.projects import Projects
from dashcam.server.writing import Delivery, Outcome, Received, Writer

TAKEN = 4 << 20  # bytes of requests that are taken at once
WRITTEN = 8 << 20  # bytes, decompressed, that go into one transaction
TICK = 0.1  # seconds between two looks at the clock when nothing comes

_Result = TypeVar("_Result")


class Ingest:
    """The queue and its thread. The bytes that wait are bounded by `held`, those who wait by the open requests."""

    def __init__(self, projects: Projects, limits: Limits, redactor: Redactor, metrics: Metrics) -> None:
        self._projects, self._limits, self._redactor = projects, limits, redactor
        self.held = Held(limits.held)
        self._journals = Journals(projects, metrics)
        self._queue: deque[Delivery] = deque()
        self._errands: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._turn = threading.Condition()
        self._closed = False
        self._read: dict[str, Received] = {}  # by project: what is read and not written yet
        self._read_bytes = 0
        self._writer = Writer(projects, metrics)
        self._thread = threading.Thread(target=self._run, name="dashcam-ingest", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def queue_requests(self) -> int:
        return len(self._queue)

    @property
    def queue_bytes(self) -> int:
        """Of bodies that are being read or wait to be written."""
        return self.held.bytes

    def lag_seconds(self, project: str, projected: int) -> float:
        """How long ago the first record of a project was written that is not projected yet."""
        return self._projects.seconds_behind(project, projected)

    def deliver(self, delivery: Delivery) -> Future[Outcome]:
        """Hand a request over; the answer comes when it is on the disk."""
        with self._turn:
            if self._closed:
                raise Stopping
            self._queue.append(delivery)
            self._turn.notify()
        delivery.answer.add_done_callback(lambda _: delivery.let_go())
        return delivery.answer

    def errand(self, what: Callable[[], _Result]) -> Future[_Result]:
        """Have something done between two batches, when nobody writes."""
        done: Future[_Result] = Future()
        with self._turn:
            if self._closed:
                raise Stopping
            self._errands.append((what, done))
            self._turn.notify()
        return done

    def close(self, seconds: float) -> bool:
        """Take nothing more, finish what waits, and end; whether that took no longer than `seconds`."""
        with self._turn:
            self._closed = True
            self._turn.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            try:
                for delivery in taken:
                    self._read_one(delivery)
                self._write()
                self._run_errands()
                self._journals.collect(lambda: bool(self._queue or self._errands or self._closed))
            except Exception as error:  # whatever it is, those who come next find the thread at work
                tell("ingest failed", logging.ERROR, error=error)
        for _, done in self._errands:
            done.set_exception(Stopping())

    def _take(self) -> list[Delivery] | None:
        """What waits, up to a few megabytes; nothing after a while without any; None when that was all."""
        with self._turn:
            self._turn.wait_for(lambda: self._queue or self._errands or self._closed, TICK)
            if self._closed and not self._queue:
                return None
            taken, size = [], 0
            while self._queue and size < TAKEN:
                taken.append(self._queue.popleft())
                size += len(taken[-1].body)
        return [delivery for delivery in taken if delivery.answer.set_running_or_notify_cancel()]

    def _read_one(self, delivery: Delivery) -> None:
        try:
            body = inflate(delivery.body, delivery.encoding, self._limits.inflated)
            received = self._receive(delivery, body)
        except DashcamError as error:
            delivery.answer.set_exception(error.with_traceback(None))  # in its frames is all of the body, decompressed
        except MemoryError:
            delivery.answer.set_exception(StoreError("There is not enough memory for this. Send less at once."))
        except Exception as error:  # data that nobody thought of: its sender's alone
            fault = type(error).__name__  # what it says may be the data's own words
            tell("unreadable request", logging.WARNING, fault=fault, kind=delivery.kind, bytes=len(delivery.body))
            told = f"The body can't be read: {fault}. Check that it is what its Content-Type says."
            delivery.answer.set_exception(UnreadableInput(told))
        else:
            self._read.setdefault(delivery.project, []).append((delivery, received))
            self._read_bytes += len(body)
            if self._read_bytes > WRITTEN:
                self._write()

    def _receive(self, delivery: Delivery, body: bytes) -> Receipt | Lines:
        match delivery.kind:
            case "records":
                return receive_lines(body, delivery.segment, delivery.offset)
            case "scores":
                return receive_scores(body, self._redactor)
            case "traces" | "logs" | "metrics" as signal:
                return receive_otlp(signal, body, delivery.form, self._redactor)
        raise AssertionError(delivery.kind)

    def _write(self) -> None:
        read, self._read, self._read_bytes = self._read, {}, 0
        self._writer.write(read)

    def _run_errands(self) -> None:
        while self._errands:
            what, done = self._errands.popleft()
            try:
                done.set_result(what())
            except BaseException as error:
                done.set_exception(error)
