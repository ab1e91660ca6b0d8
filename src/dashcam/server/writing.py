"""Appending what was received, and answering: after the commit, and each request by itself.

A record that can't be stored costs its neighbours nothing: it goes to quarantine, alone.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import Any

import msgspec

from dashcam.contracts.event import Event, Orphan
from dashcam.contracts.span import LogRecord, Span
from dashcam.errors import DashcamError, RecordRefused, StoreError
from dashcam.record.receive import Form, Lines, Receipt, append_lines_singly, append_singly, merged
from dashcam.server.logs import tell
from dashcam.server.metrics import Metrics
from dashcam.server.projects import Project, Projects
from dashcam.store.base import Batch

_BUG = "This could not be written ({}). The server's log says more."
_WHAT = {"traces": "spans", "logs": "logs", "scores": "scores"}


class Delivery(msgspec.Struct, kw_only=True, eq=False):
    """One request on its way to the store, and who waits for the answer."""

    project: str
    kind: str  # traces, logs, metrics, scores or records
    body: bytes
    form: Form = "protobuf"
    encoding: str = ""
    segment: str = ""  # records: which slice of which journal this is
    offset: int = 0
    answer: Future[Any] = msgspec.field(default_factory=Future)

    def let_go(self) -> None:
        """Keep no more of it: who gave up waiting is no longer counted, and may be replaced by the next."""
        self.body = b""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request."""

    records: int = 0
    rejected: int = 0
    reason: str = ""
    ids: tuple[str, ...] = ()  # of scores
    is_list: bool = False
    end: int = 0  # of a journal's slice: the next byte, how many lines were new, and of those how many kept aside
    new: int = 0
    quarantined: int = 0


Received = list[tuple[Delivery, Receipt | Lines]]


class Writer:
    """Writes what was received for each project in one transaction. By the ingest thread alone."""

    def __init__(self, projects: Projects, metrics: Metrics) -> None:
        self._projects, self._metrics = projects, metrics

    def write(self, received: dict[str, Received]) -> None:
        """Append all of it, and answer everybody. Never raises."""
        for name, deliveries in received.items():
            try:
                project = self._projects.open(name)
                receipts = [(each, said) for each, said in deliveries if isinstance(said, Receipt)]
                self._append(project, receipts)
                for delivery, said in deliveries:
                    if isinstance(said, Lines):
                        self._append_lines(project, delivery, said)
            except Exception as error:
                tell("not written", logging.ERROR, error=error, project=name, requests=len(deliveries))
                told = error if isinstance(error, DashcamError) else StoreError(_BUG.format(type(error).__name__))
                _fail([delivery for delivery, _ in deliveries], told)

    def _append(self, project: Project, receipts: list[tuple[Delivery, Receipt]]) -> None:
        """All in one transaction; where the store refuses a record, one request at a time."""
        try:
            self._commit(project, merged(receipt.batch for _, receipt in receipts))
        except RecordRefused:
            for delivery, receipt in receipts:
                self._append_alone(project, delivery, receipt)
        for delivery, receipt in receipts:
            if not delivery.answer.done():
                self._count(delivery, receipt)
                delivery.answer.set_result(
                    Outcome(
                        records=receipt.records,
                        rejected=receipt.rejected,
                        reason=receipt.reason or _aside(receipt),
                        ids=tuple(receipt.ids),
                        is_list=receipt.is_list,
                    )
                )

    def _append_alone(self, project: Project, delivery: Delivery, receipt: Receipt) -> None:
        try:
            try:
                self._commit(project, receipt.batch)
            except RecordRefused:
                append_singly(project.store, receipt.batch, self._refused)
        except DashcamError as error:
            delivery.answer.set_exception(error)

    def _append_lines(self, project: Project, delivery: Delivery, lines: Lines) -> None:
        """A slice of a journal, in a transaction of its own: its answer says how many of its lines were new."""
        known = project.shipped.get(lines.segment, 0)
        reached = max(known, lines.end)
        # A segment that lies in our own folder, too, is collected from there, up to where that has come.
        ours = (project.settings.journals / lines.segment).exists()
        try:
            new = self._commit(project, lines.batch(None if ours else reached))
        except RecordRefused:
            new = append_lines_singly(project.store, lines, self._refused)
        project.shipped[lines.segment] = reached
        kept = len(lines.events) + len(lines.orphans)
        aside = [orphan for orphan in lines.orphans if new == kept or orphan.offset >= known]
        rows = sum(event.offset >= known for event, _ in lines.rows)
        self._metrics.accepted.labels("records").inc(new + rows)
        self._metrics.quarantined.labels("records").inc(len(aside))
        delivery.answer.set_result(Outcome(end=lines.end, new=new + rows, quarantined=min(len(aside), new)))

    def _commit(self, project: Project, batch: Batch) -> int:
        if not any(map(len, msgspec.structs.astuple(batch))):
            return 0
        with self._metrics.commits.time():
            ack = project.store.append(batch)
        project.committed(ack)
        return ack.new

    def _count(self, delivery: Delivery, receipt: Receipt) -> None:
        if delivery.kind == "metrics":
            self._metrics.counted.inc(receipt.records)
            return
        what = _WHAT[delivery.kind]
        self._metrics.accepted.labels(what).inc(receipt.records - receipt.rejected)
        self._metrics.rejected.labels(what).inc(receipt.rejected)
        self._metrics.quarantined.labels(what).inc(len(receipt.batch.orphans))
        if receipt.batch.orphans:
            tell("quarantined", logging.WARNING, what=what, records=len(receipt.batch.orphans), reason=_aside(receipt))
        self._metrics.redacted.inc(receipt.redacted)

    def _refused(self, orphan: Orphan, record: Event | Span | LogRecord) -> None:
        """One record that the store can't hold, and is kept aside."""
        self._metrics.quarantined.labels("refused").inc()
        tell(
            "record quarantined", logging.WARNING, reason=orphan.reason, operation=orphan.operation,
            session_id=getattr(record, "session_id", None), trace_id=record.trace_id,
            step=getattr(record, "step", None), span_id=getattr(record, "span_id", None),
        )  # fmt: skip


def _fail(deliveries: list[Delivery], error: DashcamError) -> None:
    for delivery in deliveries:
        if not delivery.answer.done():
            delivery.answer.set_exception(error)


def _aside(receipt: Receipt) -> str:
    """What a sender should know of records that are kept and can't be joined."""
    orphans = receipt.batch.orphans
    if not orphans:
        return ""
    return f"{len(orphans)} kept in quarantine, for example: {orphans[0].reason}. See them with: dashcam orphans"
