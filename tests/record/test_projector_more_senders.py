"""The weather agent as many senders tell it, through the store: the conversation, each thing once."""

from __future__ import annotations

import pytest
from test_projector_spans import conversation, send

from dashcam.store.base import SessionFilter
from dashcam.store.sqlite.store import SqliteStore

QUESTION, AGAIN = ("user", ["What is the weather in Paris?"]), ("user", ["And again?"])
THOUGHT, PLAN = "The user wants the weather; I should call the tool.", "I will look at the project first."
RAN, ANSWER = "tool-get_weather output-available", "It is sunny in Paris."
WHOLE = [QUESTION, ("assistant", [THOUGHT, PLAN, RAN, ANSWER])]
PLAIN = [QUESTION, ("assistant", [PLAN, RAN, ANSWER])]
ONCE_MORE = [AGAIN, ("assistant", [ANSWER])]
# Each request is a trace of its own: what a tool gave is known from the next.
APART = [QUESTION, ("assistant", [PLAN]), ("assistant", [RAN, ANSWER])]

CONVERSATIONS = {
    "openinference-openai-agents": (WHOLE, 2),
    "openinference-langchain-responses": (WHOLE, 2),
    "openinference-llama-index": (PLAIN, 2),
    "strands-agents-latest": (WHOLE, 2),
    "google-adk": (WHOLE, 2),
    "google-adk-latest": (WHOLE, 2),
    "ms-agent-framework": (PLAIN, 2),
    "logfire-openai-agents": (WHOLE, 2),
    "pydantic-ai-v6": ([*WHOLE, AGAIN, *WHOLE[1:]], 4),
    "traceloop-anthropic": ([*WHOLE, *ONCE_MORE], 3),
    "vercel-ai-sdk-5-protobuf": ([*PLAIN, *PLAIN], 4),
    "otel-genai-openai-responses": (APART, 2),
    "otel-openai-v2-legacy-events": ([*APART, *ONCE_MORE], 3),
    "otel-openai-v2-latest-span": ([*APART, *ONCE_MORE], 3),
    "otel-openai-v2-latest-both": ([*APART, *ONCE_MORE], 3),
    "codex-native": ([QUESTION, ("assistant", ["tool-exec_command output-available"])], 2),
    "claude-code-native-json": ([QUESTION, ("assistant", [PLAN, "tool-Bash output-available", ANSWER])], 2),
}


@pytest.mark.parametrize("sender", CONVERSATIONS)
def test_a_conversation_is_told_once(sender: str, store: SqliteStore) -> None:
    send(store, sender)
    (session,) = store.sessions(SessionFilter())
    told, calls = CONVERSATIONS[sender]
    assert conversation(store, session.session_id) == told
    assert len(store.model_calls(session_id=session.session_id)) == calls


def test_runs_of_the_seventh_ai_sdk_are_sessions_of_their_own(store: SqliteStore) -> None:
    """It names no session, and both begin anew."""
    send(store, "vercel-ai-sdk-7")
    sessions = list(store.sessions(SessionFilter()))
    assert [conversation(store, session.session_id) for session in sessions] == [WHOLE, WHOLE]


def test_a_request_that_the_client_tells_of_too_is_one_call(store: SqliteStore) -> None:
    """Anthropic's SDK tells of each request inside the span that has the words; of a stream in a trace of its own."""
    send(store, "openinference-anthropic")
    first = [QUESTION, ("assistant", [THOUGHT, PLAN]), ("assistant", [RAN, ANSWER])]
    assert conversation(store, "weather-session-1") == [*first, *ONCE_MORE]
    calls = store.model_calls(session_id="weather-session-1")
    assert [(call.response_id, call.output_tokens) for call in calls] == [
        ("msg_0002", 27),
        ("msg_0004", 27),
        ("msg_0006", 27),
    ]
