"""The Logfire SDK with an instrumented Pydantic AI agent: `logfire_sdk.py ADDRESS SESSION`."""

from __future__ import annotations

import sys

import logfire
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel


def main(address: str, session: str) -> None:
    logfire.configure(
        token="local", service_name="logfire-sdk", advanced=logfire.AdvancedOptions(base_url=address),
        console=False, inspect_arguments=False,
    )  # fmt: skip
    logfire.instrument_pydantic_ai()
    agent = Agent(TestModel(custom_output_text="Sunny, 21 degrees."), name="weather")
    with logfire.span("a day"):
        agent.run_sync("What is the weather in Paris?", conversation_id=session)
    assert logfire.force_flush(20_000)
    logfire.shutdown()


main(*sys.argv[1:])
