"""Requests into batches, and what becomes of a record that the store can't hold."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from sent import logs, traces_body

from dashcam.contracts.span import Span
from dashcam.errors import DashcamError
from dashcam.record.receive import Receipt, append_singly, merged, receive_lines, receive_otlp
from dashcam.sdk.redaction import Redaction, Redactor
from dashcam.server.metrics import Metrics
from dashcam.server.projects import Projects
from dashcam.server.writing import Delivery, Outcome, Writer
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteStore

TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(number: int, start_ns: int = 1) -> Span:
    return Span(trace_id=TRACE, span_id=f"{number:016x}", name=f"span {number}", start_ns=start_ns, end_ns=2, body=b"x")


UNSTORABLE = span(99, start_ns=2**70)


def test_a_record_that_the_store_refuses_goes_to_quarantine_alone(store: SqliteStore) -> None:
    refused: list[str] = []
    new = append_singly(
        store, Batch(spans=[span(1), UNSTORABLE, span(2)]), lambda orphan, record: refused.append(orphan.reason)
    )
    assert new == 3
    assert [each.name for each in store.spans(TRACE)] == ["span 1", "span 2"]
    (orphan,) = store.orphans()
    assert orphan.reason.startswith("refused by the store")
    assert refused == [orphan.reason]


def test_a_record_that_the_store_refuses_costs_the_requests_beside_it_nothing(data: Path) -> None:
    projects, metrics = Projects(data), Metrics()
    deliveries = [Delivery(project="default", kind="traces", body=b"") for _ in range(3)]
    batches = [Batch(spans=[span(1)]), Batch(spans=[UNSTORABLE]), Batch(spans=[span(2)])]
    received = [(each, Receipt(batch=batch, records=1)) for each, batch in zip(deliveries, batches, strict=True)]
    try:
        Writer(projects, metrics).write({"default": list(received)})
        answers: list[Future[Outcome]] = [each.answer for each in deliveries]
        assert [answer.result(0).records for answer in answers] == [1, 1, 1]
        with projects.reader("default") as reader:
            assert len(reader.spans(TRACE)) == 2
            assert len(list(reader.orphans())) == 1
    finally:
        projects.close()


def test_a_project_that_cant_be_named_fails_its_own_requests_alone(data: Path) -> None:
    projects = Projects(data)
    bad, good = (Delivery(project=name, kind="traces", body=b"") for name in ("../up", "default"))
    try:
        Writer(projects, Metrics()).write(
            {each.project: [(each, Receipt(batch=Batch(spans=[span(1)])))] for each in (bad, good)}
        )
        assert isinstance(bad.answer.exception(0), DashcamError)
        assert good.answer.result(0)
    finally:
        projects.close()


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_what_belongs_to_nothing_has_the_same_place_however_it_is_sent(signal: str) -> None:
    body = logs(text="alone") if signal == "logs" else traces_body(2, trace_id=b"short")[1]
    redactor = Redactor(Redaction())
    first, second = (receive_otlp(signal, body, "protobuf", redactor) for _ in range(2))  # type: ignore[arg-type]
    places = [(orphan.segment, orphan.offset) for orphan in first.batch.orphans]
    assert places == [(orphan.segment, orphan.offset) for orphan in second.batch.orphans]
    assert len(set(places)) == len(places) == first.records


def test_merging_keeps_everything_in_its_order() -> None:
    whole = merged([Batch(spans=[span(1)], contents=[b"a"]), Batch(), Batch(spans=[span(2)], contents=[b"b"])])
    assert ([each.name for each in whole.spans], list(whole.contents)) == (["span 1", "span 2"], [b"a", b"b"])


def test_lines_know_where_they_stand() -> None:
    body = b"rubbish\n\n{}\n"
    lines = receive_lines(body, "a.jsonl", 100)
    assert [(orphan.segment, orphan.offset) for orphan in lines.orphans] == [("a.jsonl", 100), ("a.jsonl", 109)]
    assert lines.end == 100 + len(body)
