"""OTLP over HTTP: traces, logs and metrics, as protobuf or JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, Router, post

from dashcam.errors import UnsupportedForm
from dashcam.record.receive import Form, Signal
from dashcam.server.access import BEARER, BEARER_OR_BASIC
from dashcam.server.answers import MEDIA, answer_status
from dashcam.server.doors import AnyRequest, body_operation, deliver
from dashcam.server.writing import Outcome

_FORMS: dict[str, Form] = {
    "application/x-protobuf": "protobuf",
    "application/protobuf": "protobuf",
    "application/json": "json",
}
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords", "metrics": "rejectedDataPoints"}
_TYPES = ("application/x-protobuf", "application/json")


def form_of(content_type: str) -> Form:
    """The form of a body, whatever else its content type says."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in _FORMS:
        raise UnsupportedForm(
            f"Content-Type {content_type!r:.80} is not read here. Send application/x-protobuf or application/json."
        )
    return _FORMS[media]


async def export(request: AnyRequest, signal: Signal, challenge: str = BEARER) -> Response[bytes]:
    """Take an export request; 200 when it is on the disk."""
    form = form_of(request.headers.get("content-type", ""))
    outcome = await deliver(request, signal, form, challenge=challenge)
    return Response(response_message(signal, outcome, form), status_code=200, media_type=MEDIA[form])


def response_message(signal: Signal, outcome: Outcome, form: Form) -> bytes:
    """ExportTraceServiceResponse and its like: empty, or with a partial success."""
    if form == "json":
        if not outcome.rejected and not outcome.reason:
            return b"{}"
        told = {_REJECTED[signal]: str(outcome.rejected), "errorMessage": outcome.reason}
        return msgspec.json.encode({"partialSuccess": told})
    if not outcome.rejected and not outcome.reason:  # a reason alone is a warning, as the standard has it
        return b""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    # The three responses have the same fields under other names, so that on the wire they are the same message.
    message = ExportTraceServiceResponse()
    message.partial_success.rejected_spans = outcome.rejected
    message.partial_success.error_message = outcome.reason
    return bytes(message.SerializeToString())


def _described(noun: str) -> dict[str, Any]:
    description = f"An Export{noun}ServiceRequest of OTLP; gzip and deflate are read, too."
    return {"operation_class": body_operation(description, *_TYPES), "status_code": 200, "tags": ["otlp"]}


@post("/v1/traces", summary="Spans (OTLP)", **_described("Trace"))
async def export_traces(request: AnyRequest) -> Response[bytes]:
    """Answers 200 when the spans are on the disk. 429 and 503 say when to send them again; 4xx never to."""
    return await export(request, "traces")


@post("/v1/logs", summary="Log records (OTLP)", **_described("Logs"))
async def export_logs(request: AnyRequest) -> Response[bytes]:
    """As for spans. A record without a trace belongs to the session that it names, or is kept in quarantine."""
    return await export(request, "logs")


@post("/v1/metrics", summary="Metrics (OTLP): counted, not kept", **_described("Metrics"))
async def export_metrics(request: AnyRequest) -> Response[bytes]:
    """Senders of traces send metrics to the same address. They are checked and counted, and nothing is kept."""
    return await export(request, "metrics")


@post("/api/public/otel/v1/traces", summary="Spans of the Langfuse SDKs (OTLP)", **_described("Trace"))
async def export_langfuse_traces(request: AnyRequest) -> Response[bytes]:
    """As /v1/traces, where the Langfuse SDKs look for it. The secret key is the key."""
    return await export(request, "traces", challenge=BEARER_OR_BASIC)


ROUTES = Router(
    "/",
    route_handlers=[export_traces, export_logs, export_metrics, export_langfuse_traces],
    exception_handlers={Exception: answer_status},
)
