from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

import dashcam
from dashcam import UnjoinableRecord, extract, from_otel, inject, new_trace
from dashcam.contracts.identity import otel_trace_id


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60), st.integers(0, 10**9))
def test_what_is_injected_is_extracted_verbatim(session: str, trace_id: str, step: int) -> None:
    try:
        trace = dashcam.Trace(session, trace_id, step, "system:x")
    except UnjoinableRecord:
        return
    headers = inject(trace)
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    assert extract(headers) == trace


def test_the_traceparent_is_the_standards_own() -> None:
    trace = new_trace("chat-42")
    headers = inject(trace)
    assert headers["traceparent"] == f"00-{trace.trace_id}-{trace.span_id}-01"
    assert "session.id=chat-42" in headers["baggage"]
    assert headers["X-Dashcam-Session-Id"] == "chat-42"
    assert headers["X-Dashcam-Trace-Id"] == trace.trace_id


def test_an_opaque_trace_leaves_under_its_derived_id_and_comes_back_as_itself() -> None:
    trace = new_trace("s", trace_id="req-1")
    headers = inject(trace)
    assert headers["traceparent"].split("-")[1] == otel_trace_id("req-1")
    assert extract(headers).trace_id == "req-1"


def test_other_peoples_baggage_is_kept() -> None:
    headers = inject(new_trace("s"), {"Baggage": "tenant=acme;p=1, session.id=old"})
    members = headers["Baggage"].split(",")
    assert "tenant=acme;p=1" in members
    assert sum("session.id" in member for member in members) == 1


def test_a_request_of_any_opentelemetry_client_can_be_joined() -> None:
    headers = {
        "Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "Baggage": "session.id=chat%2042",
    }
    trace = extract(headers)
    assert (trace.session_id, trace.trace_id) == ("chat 42", "4bf92f3577b34da6a3ce929d0e0e4736")
    assert trace.span("x").parent_span_id == "00f067aa0ba902b7"


def test_our_own_headers_alone_are_enough_and_win() -> None:
    trace = extract({"x-dashcam-session-id": "s", "x-dashcam-trace-id": "t", "baggage": "session.id=other"})
    assert (trace.session_id, trace.trace_id) == ("s", "t")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        {"baggage": "session.id=s"},
        {"baggage": "session.id=s", "traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01"},
        {"baggage": "session.id=s", "traceparent": "garbage"},
        {"X-Dashcam-Session-Id": " ", "X-Dashcam-Trace-Id": "t"},
    ],
)
def test_headers_without_a_whole_identity_are_refused_never_made_up(headers: dict[str, str]) -> None:
    with pytest.raises(UnjoinableRecord):
        extract(headers)


def test_a_session_can_be_supplied_where_the_request_names_none() -> None:
    headers = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    assert extract(headers, session_id="mine").session_id == "mine"


def test_nonsense_in_the_courtesies_does_not_lose_the_join() -> None:
    trace = extract(
        {
            "x-dashcam-session-id": "s",
            "x-dashcam-trace-id": "t",
            "baggage": "dashcam.step=-9,dashcam.kind=root",
        }
    )
    assert (trace.step, trace.kind) == (0, "user")


def test_the_active_opentelemetry_span_lends_its_ids() -> None:
    tracer = TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner") as inner:
        trace = from_otel("s")
        assert trace.trace_id == f"{inner.get_span_context().trace_id:032x}"
        assert trace.span_id == f"{inner.get_span_context().span_id:016x}"
        assert trace.parent_span_id == f"{outer.get_span_context().span_id:016x}"


def test_without_an_active_span_there_is_nothing_to_join_to() -> None:
    with pytest.raises(UnjoinableRecord, match="new_trace"):
        from_otel("s")


def test_a_forwarded_request_carries_one_identity_however_its_headers_are_spelled() -> None:
    headers = {"Traceparent": "old", "BAGGAGE": "a=b", "x-dashcam-session-id": "old", "X-DASHCAM-TRACE-ID": "old"}
    trace = new_trace("s")
    assert len(inject(trace, headers)) == 4
    assert extract(headers) == trace
