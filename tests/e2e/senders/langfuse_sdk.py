"""The Langfuse SDK, with a score: `langfuse_sdk.py ADDRESS SESSION`."""

from __future__ import annotations

import sys

from langfuse import Langfuse, propagate_attributes


def main(address: str, session: str) -> None:
    client = Langfuse(public_key="pk-lf-local", secret_key="sk-lf-local", base_url=address)
    with (
        propagate_attributes(session_id=session, user_id="user-1", tags=["test"]),
        client.start_as_current_observation(as_type="agent", name="helper"),client.start_as_current_observation(
        as_type="generation", name="answer", model="gpt-4o-mini",
        input=[{"role": "user", "content": "What is the weather in Paris?"}],
    ) as generation
    ):  # fmt: skip
        generation.update(
            output={"role": "assistant", "content": "Sunny."},
            usage_details={"input": 40, "output": 5, "input_cached_tokens": 60},
            cost_details={"total": 0.25},
        )
        generation.score(name="quality", value=0.9, comment="good enough")
    client.flush()
    client.shutdown()


main(*sys.argv[1:])
