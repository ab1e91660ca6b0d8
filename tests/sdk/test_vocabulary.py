from __future__ import annotations

import pytest

import dashcam
from dashcam.errors import MalformedEvent, UnknownEvent, VocabularyError
from dashcam.sdk.catalog import VOCABULARY, register_event, shapes, standard_vocabulary

TRACE = dashcam.new_trace("s")


@pytest.fixture(autouse=True)
def _catalog_as_it_was() -> object:
    before = dict(VOCABULARY.shapes)
    yield
    VOCABULARY.shapes.clear()
    VOCABULARY.shapes.update(before)


def test_the_catalog_holds_the_names_everybody_needs() -> None:
    names = {shape["name"] for shape in shapes()}
    assert names >= {
        "request_received",
        "tool_call",
        "tool_call_completed",
        "tool_call_failed",
        "model_call",
        "reply_ready",
        "cost",
    }
    assert all(shape["doc"] for shape in shapes())


def test_the_calls_that_the_documentation_prints_run_as_printed(tape: dashcam.testing.Tape) -> None:
    trace = dashcam.new_trace(session_id="chat-42")
    trace = dashcam.log_event(trace, "request_received")
    trace = dashcam.log_event(trace, "tool_call", tool="search")
    trace = dashcam.log_event(trace, "tool_call_completed", tool="search", latency_ms=42)
    trace = dashcam.log_event(trace, "reply_ready")
    trace = dashcam.log_event(trace, "cost", usd=0.0123)
    assert [record["step"] for record in tape.records] == [0, 1, 2, 3, 4]
    assert trace.step == 5


def test_a_missing_field_is_named_where_it_is_emitted(tape: dashcam.testing.Tape) -> None:
    with pytest.raises(
        MalformedEvent, match=r"tool_call_failed breaks its shape: missing tool \(text\); missing error"
    ):
        dashcam.log_event(TRACE, "tool_call_failed")
    assert tape.records == []


@pytest.mark.parametrize(
    ("operation", "fields", "said"),
    [
        ("tool_call", {"tool": 7}, "tool is int, not text"),
        ("tool_call", {"tool": None}, "missing tool"),
        ("cost", {"usd": "free"}, "usd is str, not a number"),
        ("cost", {"usd": True}, "usd is bool, not a number"),
        ("model_call", {"model": "m", "input_tokens": 1.5}, "input_tokens is float, not a whole number"),
        ("model_call", {"model": "m", "messages": "hi"}, "messages is str, not a list"),
    ],
)
def test_a_wrong_type_is_told(operation: str, fields: dict[str, object], said: str, tape: object) -> None:
    with pytest.raises(MalformedEvent, match=said):
        dashcam.log_event(TRACE, operation, **fields)


def test_an_optional_field_may_be_none_and_more_fields_are_kept(tape: dashcam.testing.Tape) -> None:
    dashcam.log_event(TRACE, "tool_call_completed", tool="x", latency_ms=None, rows=3)
    assert tape.records[0]["rows"] == 3


def test_an_unknown_name_is_told_with_the_nearest_one_and_how_to_register_it(tape: object) -> None:
    with pytest.raises(UnknownEvent, match=r"'tool_cal'. Did you mean 'tool_call'\?.*register_event\('tool_cal'"):
        dashcam.log_event(TRACE, "tool_cal", tool="x")


def test_a_host_registers_its_own(tape: dashcam.testing.Tape) -> None:
    register_event("order_placed", required={"order": str}, optional={"usd": float}, doc="Somebody bought.")
    dashcam.log_event(TRACE, "order_placed", order="o-1", usd=9)
    with pytest.raises(MalformedEvent, match="missing order"):
        dashcam.log_event(TRACE, "order_placed", usd=9)


def test_a_closed_shape_refuses_more_fields(tape: object) -> None:
    register_event("ping", optional={"n": int}, closed=True)
    with pytest.raises(MalformedEvent, match="extra is not a field of it"):
        dashcam.log_event(TRACE, "ping", extra=1)


def test_one_name_has_one_shape() -> None:
    register_event("ping", optional={"n": int})
    register_event("ping", optional={"n": int})
    with pytest.raises(VocabularyError, match="registered already"):
        register_event("ping", optional={"n": str})


@pytest.mark.parametrize("field", ["session_id", "trace_id", "step", "kind", "operation", "ts", "span_id"])
def test_a_shape_cannot_claim_what_belongs_to_every_record(field: str) -> None:
    with pytest.raises(VocabularyError, match="belongs to every record"):
        register_event("mine", required={field: str})


def test_a_shape_names_only_types_that_json_has() -> None:
    with pytest.raises(VocabularyError, match="a field is one of"):
        register_event("mine", required={"when": complex})
    with pytest.raises(VocabularyError):
        register_event(" ")


def test_outside_strict_mode_the_record_is_kept_marked_and_counted() -> None:
    with dashcam.testing.recording(strict=False) as tape:
        dashcam.log_event(TRACE, "tool_call")
        dashcam.log_event(TRACE, "never_heard_of")
        assert dashcam.stats()["malformed"] == 2
        missing, unknown = tape.records
    assert missing["_dashcam"] == {"malformed": ["missing tool (text)"]}
    assert "never_heard_of" in unknown["_dashcam"]["malformed"][0]


def test_what_is_looked_at_for_every_record_agrees_with_what_is_told() -> None:
    """The quick check (names once, then types) and the explanation are two pieces of code; they must agree."""
    values: list[object] = [None, "x", 7, 1.5, True, {}, [], (), object()]
    for shape in standard_vocabulary().shapes.values():
        names = [*shape.required, *shape.optional, "other"]
        for name in names:
            for value in values:
                fields = {**{required: plausible(shape.required[required]) for required in shape.required}, name: value}
                quick = shape.has_names(fields) and all(
                    type(fields[field]) in types for field, types in shape.checks_for(fields)
                )
                assert quick == (not shape.faults(fields)), (shape.name, name, value)
        assert shape.has_names({}) == (not shape.required)


def plausible(kind: type) -> object:
    return {str: "x", int: 1, float: 1.0, bool: True, dict: {}, list: [], object: "x"}[kind]
