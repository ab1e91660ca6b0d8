from __future__ import annotations

from pathlib import Path

import pytest

import dashcam
from dashcam.testing import recording


def agent() -> None:
    """Code under test that sets itself up, as a main function does."""
    dashcam.configure(redaction=dashcam.Redaction(keys=("customer_no",)), strict=False)
    trace = dashcam.log_event(dashcam.new_trace("s"), "tool_call", tool="x", customer_no="C-99")
    dashcam.log_event(trace, "reply_ready")


def test_the_tape_can_be_read_in_the_block_and_after_it() -> None:
    with recording() as tape:
        dashcam.log_event(dashcam.new_trace("s"), "reply_ready")
        inside = tape.records
    assert tape.records == inside
    assert len(inside) == 1
    assert not tape.folder.exists()


def test_what_the_code_under_test_configures_stays_on_the_tape(data: Path) -> None:
    with recording() as tape:
        agent()
    assert [record["operation"] for record in tape.records] == ["tool_call", "reply_ready"]
    assert tape.records[0]["customer_no"] == "[REDACTED]"
    assert not data.exists()


def test_the_hosts_redaction_holds_on_the_tape() -> None:
    dashcam.configure(redaction=dashcam.Redaction(keys=("customer_no",)))
    with recording() as tape:
        dashcam.log_event(dashcam.new_trace("s"), "tool_call", tool="x", customer_no="C-99")
    assert tape.records[0]["customer_no"] == "[REDACTED]"


def test_a_tape_is_strict_whatever_is_configured() -> None:
    with recording(), pytest.raises(dashcam.DashcamError):
        dashcam.configure(strict=False)
        dashcam.log_event(dashcam.new_trace("s"), "never_heard_of")


def test_ids_and_times_count() -> None:
    with recording() as tape:
        for _ in range(2):
            dashcam.log_event(dashcam.new_trace("s"), "reply_ready")
    assert [record["trace_id"] for record in tape.records] == [f"{1:032x}", f"{2:032x}"]
    assert [record["ts"] for record in tape.records] == ["2030-01-01T00:00:00.001000Z", "2030-01-01T00:00:00.002000Z"]


def test_recordings_nest_and_what_was_before_comes_back(data: Path) -> None:
    dashcam.log_event(dashcam.new_trace("outside"), "reply_ready")
    with recording() as outer:
        dashcam.log_event(dashcam.new_trace("outer"), "reply_ready")
        with recording() as inner:
            dashcam.log_event(dashcam.new_trace("inner"), "reply_ready")
        dashcam.log_event(dashcam.new_trace("outer"), "reply_ready")
    dashcam.log_event(dashcam.new_trace("outside"), "reply_ready")
    assert [record["session_id"] for record in outer.records] == ["outer", "outer"]
    assert [record["session_id"] for record in inner.records] == ["inner"]
    (segment,) = data.rglob("*.jsonl")
    assert segment.read_text().count("outside") == 2


def test_many_segments_come_in_their_order() -> None:
    with recording(segment_bytes=1) as tape:
        trace = dashcam.new_trace("s")
        for _ in range(15):
            trace = dashcam.log_event(trace, "reply_ready")
    assert [record["step"] for record in tape.records] == list(range(15))


def test_a_bad_setting_leaves_nothing_behind(data: Path) -> None:
    with pytest.raises(dashcam.DashcamError), recording(fsync="bad"):
        pass
    dashcam.log_event(dashcam.new_trace("s"), "reply_ready")
    assert list(data.rglob("*.jsonl"))
