"""Can this run be reconstructed? Runs by trace, orphans, and what each kind of orphan can't answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dashcam.contracts.event import Orphan
from dashcam.contracts.identity import fault_of_record
from dashcam.store.base import Reader

# What nobody can answer any more, by what the orphan was about. The first word that fits decides.
_QUESTIONS = (
    (("cost", "usd", "price", "billing"), "no budget: this money can't be charged to a session or a run"),
    (("tool", "function"), "no blame: nobody can say which run called this tool, or what came of it"),
    (
        ("model", "llm", "completion", "generation", "prompt"),
        "no replay: the run that asked the model can't be rebuilt",
    ),
    (("error", "fail", "exception"), "no diagnosis: the failure can't be traced to what led to it"),
    (("feedback", "score", "eval", "verdict"), "no learning: the judgement belongs to no answer"),
    (("retriev", "search"), "no relevance: what was found can't be tied to the answer that used it"),
    (("request", "reply", "message", "user"), "no conversation: this can't be put into its session"),
)
SAMPLES = 5
REASONS = 10_000  # the newest orphans, whose reasons are counted
JOURNALS = "journals of this project"
OPENTELEMETRY = "OpenTelemetry spans and log records"
_OTHERWISE = "no timeline: this can't be put into the run that it belongs to"


class OrphanKind(msgspec.Struct, frozen=True, kw_only=True):
    """Orphans of one operation, and the question that they leave open."""

    operation: str
    orphans: int
    question: str


class SourceRate(msgspec.Struct, frozen=True, kw_only=True):
    """The orphan rate of one source of records."""

    source: str
    records: int
    orphans: int
    rate: float  # per cent


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One orphan: where it stands, why it is one, and how it begins."""

    source: str
    offset: int
    reason: str
    body: str


class OrphanReport(msgspec.Struct, frozen=True, kw_only=True):
    """How much can't be joined, where it came from, and what that costs."""

    records: int
    orphans: int
    rate: float  # per cent
    sources: list[SourceRate]
    kinds: list[OrphanKind]
    reasons: dict[str, int]
    samples: list[Sample]  # the newest of them
    session_by: dict[str, int] = {}  # traces of spans, by how their session was found; "none": there is none


def run_of(records: Iterable[Mapping[str, Any]], trace_id: str) -> list[Mapping[str, Any]]:
    """The records of one trace in the order of their steps; those of other traces are left out."""
    run = [record for record in records if record.get("trace_id") == trace_id]
    return sorted(run, key=_step_of)


def orphan_rate(records: Iterable[Mapping[str, Any]]) -> float:
    """How many per cent of the records can't be joined to a run, from 0 to 100."""
    faults = [fault_of_record(record) for record in records]
    return _rate(sum(fault is not None for fault in faults), len(faults))


def orphans_of(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records that can't be joined, as they are."""
    return [record for record in records if fault_of_record(record) is not None]


def question_of(operation: str) -> str:
    """What an orphan of this operation leaves unanswerable."""
    name = operation.lower()
    return next((text for words, text in _QUESTIONS if any(word in name for word in words)), _OTHERWISE)


def report_of(events: int, orphans: Sequence[Orphan], source: str) -> OrphanReport:
    """The report on records that all came from one place."""
    operations = Counter(orphan.operation for orphan in orphans)
    return _report(operations, orphans, [(source, events + len(orphans), len(orphans))])


def load(store: Reader) -> OrphanReport:
    """The report on everything in the store."""
    names = {
        source.segment: OPENTELEMETRY if source.segment == "otlp" else source.path or JOURNALS
        for source in store.sources()
    }
    records, lost = Counter[str](), Counter[str]()
    for figure in store.figures("source"):
        records[names[figure.by]] += figure.events + figure.orphans
        lost[names[figure.by]] += figure.orphans
    if joined := store.spans_and_logs():
        records[OPENTELEMETRY] += joined
    sources = [(name, count, lost[name]) for name, count in sorted(records.items())]
    operations = Counter({figure.by: figure.orphans for figure in store.figures("operation") if figure.orphans})
    report = _report(operations, list(store.orphans(limit=REASONS)), sources)
    return msgspec.structs.replace(report, session_by=store.session_by())


def _report(
    operations: Counter[str], newest: Sequence[Orphan], sources: Sequence[tuple[str, int, int]]
) -> OrphanReport:
    total, orphans = sum(records for _, records, _ in sources), sum(operations.values())
    return OrphanReport(
        records=total,
        orphans=orphans,
        rate=_rate(orphans, total),
        sources=[
            SourceRate(source=name, records=records, orphans=lost, rate=_rate(lost, records))
            for name, records, lost in sources
        ],
        kinds=[
            OrphanKind(operation=name or "(unnamed)", orphans=count, question=question_of(name))
            for name, count in operations.most_common()
        ],
        reasons=dict(Counter(orphan.reason for orphan in newest).most_common(20)),
        samples=[
            Sample(source=orphan.segment, offset=orphan.offset, reason=orphan.reason, body=_start_of(orphan.body))
            for orphan in newest[:SAMPLES]
        ],
    )


def _start_of(body: bytes) -> str:
    return body[:500].decode(errors="replace")


def _rate(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0


def _step_of(record: Mapping[str, Any]) -> float:
    """A record without a legible step goes last."""
    step = record.get("step")
    return step if isinstance(step, int | float) and not isinstance(step, bool) else float("inf")
