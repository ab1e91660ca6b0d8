"""A Pydantic AI agent on its test model, instrumented: `pydantic_agent.py ADDRESS SESSION`."""

from __future__ import annotations

import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.test import TestModel


def main(address: str, session: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{address}/v1/traces")))
    agent = Agent(TestModel(custom_output_text="Sunny, 21 degrees."), name="weather", instructions="Be brief.")

    @agent.tool_plain
    def get_weather(city: str) -> str:
        return f"sunny in {city}"

    agent.instrument = InstrumentationSettings(tracer_provider=provider)
    agent.run_sync("What is the weather in Paris?", conversation_id=session)
    assert provider.force_flush(20_000)
    provider.shutdown()


main(*sys.argv[1:])
