"""What one record costs the host: log_event beside an OpenTelemetry span, json.dumps and the bare minimum."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import dashcam
from benchmarks.figures import Figure, at_most, plain, race

NOTE = ("A user asked why the order was late and the agent looked it up in the table of deliveries, then " * 3)[:200]
FIELDS: dict[str, Any] = {
    "tool": "search",
    "latency_ms": 42,
    "note": NOTE,
    "a": 1,
    "b": 2.5,
    "c": True,
    "d": None,
    "e": "hello",
}
ATTRIBUTES: dict[str, Any] = {name: value for name, value in FIELDS.items() if value is not None} | {"d": ""}


class Nowhere(SpanExporter):
    """Takes spans and does nothing with them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        dashcam.configure(data=folder, strict=False)
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Nowhere()))
        tracer = provider.get_tracer("bench")
        trace = dashcam.new_trace(session_id="chat-42")
        record = {
            "session_id": trace.session_id,
            "trace_id": trace.trace_id,
            "step": 0,
            "kind": "user",
            "operation": "tool_call_completed",
            "ts": datetime.now(UTC),
            **FIELDS,
        }
        as_text = {**record, "ts": datetime.now(UTC).isoformat()}
        fd = os.open(Path(folder) / "bare.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        log_event = dashcam.log_event
        encode = msgspec.json.Encoder().encode

        def ours() -> None:
            log_event(
                trace,
                "tool_call_completed",
                tool="search",
                latency_ms=42,
                note=NOTE,
                a=1,
                b=2.5,
                c=True,
                d=None,
                e="hi",
            )

        def span() -> None:
            with tracer.start_as_current_span("tool_call_completed", attributes=ATTRIBUTES):
                pass

        best = race(
            {
                "ours": ours,
                "span": span,
                "bare": lambda: os.write(fd, encode(record) + b"\n"),
                "json": lambda: os.write(fd, json.dumps(as_text).encode() + b"\n"),
            },
            loops=5_000,
            rounds=25,
        )
        os.close(fd)
        provider.shutdown()
        stats = dashcam.stats()
        assert stats["dropped"] == stats["malformed"] == stats["redacted"] == 0, stats
    return [
        plain("dashcam.log_event, on disk when it returns", best["ours"], "µs"),
        plain("OpenTelemetry span, batched, exported nowhere", best["span"], "µs"),
        plain("json.dumps + os.write", best["json"], "µs"),
        plain("msgspec encode + os.write", best["bare"], "µs"),
        at_most("log_event / OpenTelemetry span", best["ours"] / best["span"], 0.2),
        at_most("log_event / (msgspec encode + os.write)", best["ours"] / best["bare"], 2.5),
        plain("log_event / (json.dumps + os.write)", best["ours"] / best["json"], "x"),
    ]
