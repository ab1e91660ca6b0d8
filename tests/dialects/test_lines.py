from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dashcam
from dashcam.contracts.event import MALFORMED, REDACTED, Event, Orphan
from dashcam.dialects.lines import operation_of, parse_line, time_of

OURS: dict[str, Any] = {
    "session_id": "s",
    "trace_id": "t",
    "step": 3,
    "kind": "user",
    "operation": "tool_call",
    "ts": "2030-01-01T00:00:00.000001Z",
    "tool": "x",
}


def parse(record: object) -> Event | Orphan:
    line = record if isinstance(record, bytes) else msgspec.json.encode(record)
    return parse_line(line, "segment", 7, now=123)


def test_a_line_of_ours_becomes_an_event() -> None:
    event = parse(OURS)
    assert isinstance(event, Event)
    assert (event.segment, event.offset, event.step, event.operation) == ("segment", 7, 3, "tool_call")
    assert event.ts == 1_893_456_000_000_001
    assert event.fields == '{"tool":"x"}'
    assert event.as_record() == OURS


def test_every_line_that_the_sdk_writes_comes_back_as_it_was(tape: dashcam.testing.Tape) -> None:
    with dashcam.system_trace("x").span("work") as trace:
        dashcam.log_event(trace, "model_call", model="m", cost_usd=1.10, big=2**63, text="ü\n\u2028")
    for path in tape.folder.glob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            event = parse(line)
            assert isinstance(event, Event)
            assert event.as_record() == msgspec.json.decode(line)


def test_values_are_kept_to_the_letter() -> None:
    line = msgspec.json.encode(OURS)[:-1] + b',"n":1.10,"e":1e5,"u":"\\u00fc"}'
    event = parse(line)
    assert isinstance(event, Event)
    assert event.fields == '{"tool":"x","n":1.10,"e":1e5,"u":"\\u00fc"}'


def test_our_marks_become_bits() -> None:
    event = parse({**OURS, "_dashcam": {"malformed": ["x"], "redacted": ["y"]}})
    assert isinstance(event, Event)
    assert event.marks == MALFORMED | REDACTED
    assert parse({**OURS, "_dashcam": "theirs"}).marks == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"session_id": None}, "session_id is missing"),
        ({"session_id": " "}, "session_id is empty"),
        ({"trace_id": ""}, "trace_id is empty"),
        ({"trace_id": 7}, "trace_id is int"),
        ({"trace_id": "x" * 300}, "300 characters"),
        ({"step": None}, "step is missing"),
        ({"step": -1}, "step is -1"),
        ({"step": True}, "step is True"),
        ({"step": "1"}, "step is '1'"),
        ({"kind": "robot"}, "kind is 'robot'"),
    ],
)
def test_a_record_without_the_tuple_goes_to_quarantine_with_the_reason(change: dict[str, Any], reason: str) -> None:
    line = msgspec.json.encode({**OURS, **change})
    orphan = parse(line)
    assert isinstance(orphan, Orphan)
    assert reason in orphan.reason
    assert (orphan.body, orphan.operation) == (line, "tool_call")


@pytest.mark.parametrize("line", [b"", b"{", b"[1]", b"null", b'"x"', b'{"a":1}{', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_record_goes_to_quarantine_whole(line: bytes) -> None:
    orphan = parse(line)
    assert isinstance(orphan, Orphan)
    assert orphan.body == line


def test_a_shape_that_uses_kind_for_something_else_keeps_it() -> None:
    frozen = {
        "schema": "session.iterate.v1",
        "session_id": "s",
        "trace_id": "t",
        "step": 0,
        "trace_kind": "user",
        "kind": "fill",
    }
    event = parse(frozen)
    assert isinstance(event, Event)
    assert (event.kind, event.operation) == ("user", "session.iterate.v1")
    assert msgspec.json.decode(event.fields)["kind"] == "fill"


def test_a_foreign_record_says_when_and_what_in_its_own_words() -> None:
    event = parse({"session_id": "s", "trace_id": "t", "step": 0, "event": "clicked", "timestamp": 1_893_456_000.5})
    assert isinstance(event, Event)
    assert (event.operation, event.ts, event.kind) == ("clicked", 1_893_456_000_500_000, "user")
    silent = parse({"session_id": "s", "trace_id": "t", "step": 0})
    assert isinstance(silent, Event)
    assert (silent.operation, silent.ts) == ("record", 123)


@pytest.mark.parametrize("said", [1_893_456_000, 1_893_456_000_000, 1_893_456_000_000_000, "2030-01-01T00:00:00"])
def test_times_are_read_in_every_unit(said: object) -> None:
    assert time_of({"ts": said}) == 1_893_456_000_000_000


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: st.dictionaries(st.sampled_from(list(OURS)) | st.text(max_size=3), x, max_size=8),
    ).map(lambda x: msgspec.json.encode(str(x)) if not isinstance(x, dict) else repr(x).encode())
)
def test_no_line_whatsoever_raises(line: bytes) -> None:
    parse(line)


@given(
    st.dictionaries(
        st.sampled_from(list(OURS)),
        st.none()
        | st.booleans()
        | st.integers(-5, 5)
        | st.text(max_size=5)
        | st.just("user")
        | st.just("2030-01-01T00:00:00Z"),
    )
)
def test_an_event_always_has_a_whole_identity(record: dict[str, Any]) -> None:
    found = parse(record)
    if isinstance(found, Event):
        assert found.session_id.strip() and found.trace_id.strip() and found.step >= 0
        assert found.kind == "user" or found.kind.startswith("system:")
        assert found.operation.strip()


def test_a_name_that_is_no_text_says_nothing() -> None:
    assert operation_of({"operation": 7, "event": "x"}) == "x"
    assert time_of({"ts": "yesterday"}) is None
    assert time_of({"ts": True}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"step": 2**63},
        {"step": 2**64 - 1},
        {"kind": "system:\0"},
        {"session_id": "a\0"},
        {"x": {"y": [1] * 3}, "trace_kind": 7},
    ],
)
def test_what_a_store_cannot_hold_never_becomes_an_event(change: dict[str, Any]) -> None:
    found = parse({**OURS, **change})
    assert isinstance(found, Orphan) or (found.step <= 2**62 and "\0" not in found.kind + found.session_id)


@pytest.mark.parametrize(
    "ts", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1960-01-01T00:00:00Z", -1, 1e300]
)
def test_a_time_outside_all_calendars_is_no_time(ts: object) -> None:
    event = parse({**OURS, "ts": ts})
    assert isinstance(event, Event)
    assert event.ts == 123
    assert msgspec.json.decode(event.fields)["ts"] == ts


def test_a_line_nested_too_deep_is_quarantined() -> None:
    deep = msgspec.json.encode(OURS)[:-1] + b',"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    assert isinstance(parse(deep), Orphan | Event)


@pytest.mark.parametrize("value", ["1e999", "-1e999", "1" * 400, "1" * 9_000])
def test_numbers_that_only_some_parsers_take_are_read_all_the_same(value: str) -> None:
    event = parse(msgspec.json.encode(OURS)[:-1] + b',"cost_usd":' + value.encode() + b"}")
    assert isinstance(event, Event)
    assert event.as_record()["tool"] == "x"


def test_a_byte_order_mark_and_line_ends_of_other_systems_are_no_trouble() -> None:
    line = msgspec.json.encode({**OURS, "_dashcam": {"redacted": ["x"]}})
    for variant in (b"\xef\xbb\xbf" + line, line + b"\r"):
        event = parse(variant)
        assert isinstance(event, Event)
        assert event.marks == REDACTED
