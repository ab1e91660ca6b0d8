from __future__ import annotations

import pytest

import dashcam
from dashcam.contracts.event import Event
from dashcam.dialects.lines import parse_line
from dashcam.views.timeline import Timeline, timeline_of


def timeline(tape: dashcam.testing.Tape) -> Timeline:
    lines = [line for path in sorted(tape.folder.rglob("*.jsonl")) for line in path.read_bytes().splitlines()]
    events = [parse_line(line, "x", offset, 0) for offset, line in enumerate(lines)]
    return timeline_of([event for event in events if isinstance(event, Event)])


def test_costs_of_calls_and_cost_events_add_up_and_nothing_told_is_nothing_known(tape: dashcam.testing.Tape) -> None:
    trace = dashcam.log_event(dashcam.new_trace("s"), "request_received")
    assert timeline(tape).cost_usd is None
    assert timeline(tape).tokens is None
    trace = dashcam.log_event(trace, "model_call", model="m", cost_usd=5, input_tokens=10, output_tokens=-3)
    dashcam.log_event(trace, "cost", usd=0.01, reason="search api")
    assert timeline(tape).cost_usd == pytest.approx(5.01)
    assert timeline(tape).tokens == 10


def test_a_failure_that_ends_the_spans_around_it_counts_once(tape: dashcam.testing.Tape) -> None:
    trace = dashcam.new_trace("s")
    for told in (True, False):
        with pytest.raises(OSError), trace.span("outer") as outer, outer.span("inner") as inner:
            if told:
                dashcam.log_event(inner, "tool_call_failed", tool="x", error="no")
            raise OSError
    with pytest.raises(OSError), trace.span("alone"):
        raise OSError
    found = timeline(tape)
    assert found.failures == 3
    assert sum(step.failed for step in found.steps) == 6


def test_a_span_that_never_ended_is_marked(tape: dashcam.testing.Tape) -> None:
    trace = dashcam.new_trace("s")
    trace.span("dies").__enter__()
    with trace.span("ends"):
        pass
    found = timeline(tape)
    assert found.unfinished == 1
    assert [step.marks for step in found.steps] == [("never ended",), (), ()]


def test_records_at_one_step_stand_by_their_time() -> None:
    lines = [
        b'{"session_id":"s","trace_id":"t","step":1,"kind":"user","operation":"late","ts":"2030-01-01T00:00:00.000009Z"}',
        b'{"session_id":"s","trace_id":"t","step":1,"kind":"user","operation":"early","ts":"2030-01-01T00:00:00.000001Z"}',
        b'{"session_id":"s","trace_id":"t","step":0,"kind":"user","operation":"first","ts":"2030-01-01T00:00:00.000005Z"}',
    ]
    events = [parse_line(line, "x", offset, 0) for offset, line in enumerate(lines)]
    found = timeline_of([event for event in events if isinstance(event, Event)])
    assert [step.operation for step in found.steps] == ["first", "early", "late"]
    assert found.shared_steps == 1


def test_what_the_columns_tell_is_not_told_again() -> None:
    line = b'{"session_id":"s","trace_id":"t","step":0,"event":"clicked","timestamp":1893456000,"type":"web","x":1}'
    event = parse_line(line, "x", 0, 0)
    assert isinstance(event, Event)
    assert timeline_of([event]).steps[0].fields == {"x": 1, "type": "web"}
