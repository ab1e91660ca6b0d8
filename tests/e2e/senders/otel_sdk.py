"""The OpenTelemetry SDK, over HTTP or gRPC: `otel_sdk.py http|grpc ADDRESS SESSION`."""

from __future__ import annotations

import json
import sys

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter


def exporter(how: str, address: str) -> SpanExporter:
    if how == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc

        return OverGrpc(endpoint=address, insecure=True)
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHttp

    return OverHttp(endpoint=f"{address}/v1/traces", compression=Compression.Gzip)


def main(how: str, address: str, session: str) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "otel-sdk"}))
    provider.add_span_processor(BatchSpanProcessor(exporter(how, address)))
    tracer = provider.get_tracer("senders")
    with tracer.start_as_current_span("invoke_agent helper") as agent:
        agent.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session})
        with tracer.start_as_current_span("chat gpt-4o") as call:
            call.set_attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "openai",
                    "gen_ai.request.model": "gpt-4o",
                    "gen_ai.conversation.id": session,
                    "gen_ai.input.messages": json.dumps([said("user", "What is the weather?")]),
                    "gen_ai.output.messages": json.dumps([said("assistant", "Sunny.") | {"finish_reason": "stop"}]),
                    "gen_ai.usage.input_tokens": 100,
                    "gen_ai.usage.cache_read.input_tokens": 60,
                    "gen_ai.usage.output_tokens": 7,
                }
            )
    assert provider.force_flush(20_000)
    provider.shutdown()


def said(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


main(*sys.argv[1:])
