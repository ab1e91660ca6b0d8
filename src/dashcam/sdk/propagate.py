"""A trace across a process boundary: W3C trace context and baggage, and headers of our own."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping, MutableMapping
from urllib.parse import quote, unquote

from dashcam.contracts.identity import (
    fault_of_kind,
    is_otel_span_id,
    is_otel_trace_id,
    otel_trace_id,
)
from dashcam.errors import UnjoinableRecord
from dashcam.sdk.trace import Trace

SESSION_HEADER = "X-Dashcam-Session-Id"
TRACE_HEADER = "X-Dashcam-Trace-Id"

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
# What baggage and headers may carry as it is; everything else goes percent-encoded.
_SAFE = "!#$&'()*+-./:<=>?@[]^_`{|}~"
_MAX_HEADER = 8192


def otel_span_id(span_id: str) -> str:
    """The 16 hex digits under which this span leaves: itself, or derived where it is opaque."""
    if is_otel_span_id(span_id):
        return span_id
    return hashlib.sha256(b"dashcam.span.v1\0" + span_id.encode()).hexdigest()[:16]


def inject(trace: Trace, headers: MutableMapping[str, str] | None = None) -> MutableMapping[str, str]:
    """Write `trace` into the headers of a request; what is there already is kept or replaced by name."""
    headers = {} if headers is None else headers
    # Names of headers have no case: one that is there in another spelling would be a second identity.
    spelled = {name.lower(): name for name in headers}

    def put(name: str, value: str) -> None:
        headers[spelled.get(name.lower(), name)] = value

    ours = {"session.id": trace.session_id, "dashcam.kind": trace.kind, "dashcam.step": str(trace.step)}
    others = headers.get(spelled.get("baggage", "baggage"), "").split(",")
    members = [member.strip() for member in others if _name_of(member) not in {"", *ours}]
    members += [f"{name}={quote(value, safe=_SAFE)}" for name, value in ours.items()]
    put("traceparent", f"00-{otel_trace_id(trace.trace_id)}-{otel_span_id(trace.span_id)}-01")
    put("baggage", ",".join(members))
    put(SESSION_HEADER, quote(trace.session_id, safe=_SAFE))
    put(TRACE_HEADER, quote(trace.trace_id, safe=_SAFE))
    return headers


def extract(headers: Mapping[str, str], *, session_id: str | None = None) -> Trace:
    """The trace that the headers of a request carry.

    Our own headers name the ids verbatim, so they win; then `traceparent` and the baggage's
    `session.id`. `session_id` is used where the request names no session. Raises UnjoinableRecord
    where one of the two ids is nowhere: an id from outside is never made up.
    """
    plain = {name.lower(): value for name, value in headers.items() if len(value) <= _MAX_HEADER}
    baggage = _baggage(plain.get("baggage", ""))
    parent = _TRACEPARENT.fullmatch(plain.get("traceparent", "").strip())
    otel_trace, otel_span = (parent[1], parent[2]) if parent else ("", "")
    if not is_otel_trace_id(otel_trace) or not is_otel_span_id(otel_span):
        otel_trace = otel_span = ""
    trace_id = unquote(plain.get(TRACE_HEADER.lower(), "")) or otel_trace
    session = unquote(plain.get(SESSION_HEADER.lower(), "")) or baggage.get("session.id") or session_id or ""
    if not session.strip() or not trace_id.strip():
        missing = "trace_id" if session.strip() else "session_id"
        raise UnjoinableRecord(
            f"{missing} is missing from the headers: send {SESSION_HEADER} and {TRACE_HEADER}, or traceparent "
            "with session.id in baggage; dashcam.inject(trace, headers) writes them all."
        )
    kind, step = baggage.get("dashcam.kind", "user"), baggage.get("dashcam.step", "0")
    return Trace(
        session,
        trace_id,
        # What orders and what sorts is a courtesy of the sender; nonsense there doesn't lose the join.
        step=int(step) if step.isascii() and step.isdigit() and len(step) < 16 else 0,
        kind="user" if fault_of_kind(kind) else kind,
        # The sender's span belongs to the trace of `traceparent`; another trace has no use for it.
        span_id=otel_span if otel_trace == otel_trace_id(trace_id) else "",
    )


def from_otel(session_id: str, *, kind: str = "user") -> Trace:
    """A trace with the ids of the active OpenTelemetry span, so that our records join to it.

    Without that SDK, or without an active span, this is an UnjoinableRecord: there is nothing to join to.
    """
    # Looked up, never imported: if nobody loaded OpenTelemetry, no span of its can be active.
    api = sys.modules.get("opentelemetry.trace")
    context = api.get_current_span().get_span_context() if api else None
    if context is None or not context.is_valid:
        raise UnjoinableRecord("No OpenTelemetry span is active here. Start one, or use dashcam.new_trace().")
    parent = getattr(api.get_current_span(), "parent", None) if api else None
    return Trace(
        session_id,
        f"{context.trace_id:032x}",
        kind=kind,
        span_id=f"{context.span_id:016x}",
        parent_span_id=f"{parent.span_id:016x}" if parent else None,
    )


def _baggage(header: str) -> dict[str, str]:
    """The members of a W3C baggage header; what can't be read is passed over, as the standard says."""
    found: dict[str, str] = {}
    for member in header.split(",")[:180]:
        name, equals, rest = member.partition("=")
        if equals:
            found[name.strip()] = unquote(rest.partition(";")[0].strip())
    return found


def _name_of(member: str) -> str:
    return member.partition("=")[0].strip()
