"""OpenInference's instrumentation around the OpenAI client: `openinference_openai.py ADDRESS MODEL_ADDRESS SESSION`."""

from __future__ import annotations

import sys

from openai import OpenAI
from openinference.instrumentation import using_session
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def main(address: str, model_address: str, session: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{address}/v1/traces")))
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    client = OpenAI(base_url=f"{model_address}/v1", api_key="none", max_retries=0)
    messages: list[dict[str, object]] = [{"role": "system", "content": "You are a weather helper."}]
    with using_session(session):
        for question in ("What is the weather in Paris?", "And in Rome?"):
            messages.append({"role": "user", "content": question})
            answer = client.chat.completions.create(model="gpt-4o-mini", messages=messages)  # type: ignore[arg-type]
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
    assert provider.force_flush(20_000)
    provider.shutdown()


main(*sys.argv[1:])
