from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashcam import orphan_rate, run_of
from dashcam.contracts.event import Orphan
from dashcam.views.joinability import orphans_of, question_of, report_of


def record(step: int, trace_id: str = "t", **fields: Any) -> dict[str, Any]:
    return {"session_id": "s", "trace_id": trace_id, "step": step, "kind": "user", **fields}


def test_a_turn_with_two_tool_calls_and_a_model_call_is_rebuilt_in_order() -> None:
    run = [
        record(0, operation="request_received"),
        record(1, operation="tool_call"),
        record(2, operation="tool_call"),
        record(3, operation="model_call"),
    ]
    mixed = [run[2], record(0, "other"), run[0], {"operation": "cost"}, run[3], record(9, "third"), run[1]]
    assert run_of(mixed, "t") == run
    assert run_of(mixed, "nobody") == []


@given(st.permutations(range(20)))
def test_the_order_of_arrival_does_not_matter(steps: list[int]) -> None:
    assert [found["step"] for found in run_of([record(step) for step in steps], "t")] == list(range(20))


def test_a_record_without_a_legible_step_goes_last() -> None:
    run = run_of([{**record(0), "step": None}, record(5), {**record(0), "step": "2"}], "t")
    assert [found["step"] for found in run] == [5, None, "2"]


def test_the_orphan_rate_is_one_number_in_per_cent() -> None:
    mixed = [record(0), record(1), record(2), {"operation": "cost", "usd": 0.0123}]
    assert orphan_rate(mixed) == 25.0
    assert orphan_rate([]) == 0.0
    assert orphan_rate([{}]) == 100.0


@pytest.mark.parametrize(
    "broken", [{"session_id": ""}, {"session_id": " "}, {"trace_id": None}, {"step": None}, {"kind": "x"}]
)
def test_half_a_tuple_is_no_tuple(broken: dict[str, Any]) -> None:
    assert orphan_rate([{**record(0), **broken}]) == 100.0


def test_orphans_come_as_they_are() -> None:
    assert orphans_of([record(0), {"operation": "cost", "usd": 0.0123}]) == [{"operation": "cost", "usd": 0.0123}]


@pytest.mark.parametrize(
    ("operation", "question"),
    [("cost", "no budget"), ("tool_call", "no blame"), ("model_call", "no replay"), ("feedback", "no learning")]
    + [("error", "no diagnosis"), ("reply_ready", "no conversation"), ("", "no timeline"), ("whatever", "no timeline")],
)
def test_each_kind_of_orphan_leaves_a_question_open(operation: str, question: str) -> None:
    assert question_of(operation).startswith(question)


def test_the_report_counts_by_operation_and_by_reason_and_shows_some() -> None:
    orphans = [
        Orphan(segment="list", offset=offset, reason=reason, body=b'{"operation":"cost"}', operation="cost", ts=0)
        for offset, reason in enumerate(["session_id is missing", "trace_id is missing"])
    ]
    report = report_of(1, orphans, "list")
    assert (report.records, report.orphans, round(report.rate, 1)) == (3, 2, 66.7)
    assert report.kinds[0].orphans == 2
    assert report.reasons == {"session_id is missing": 1, "trace_id is missing": 1}
    assert report.samples[0].body == '{"operation":"cost"}'
