"""Coding agents' own telemetry: Claude Code and Gemini CLI as captured, Codex as documented."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from otlp_samples import logs, logs_of, spans

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp import claude_code, codex, gemini_cli
from dashcam.dialects.otlp.reading import EventView, LogView, Reading, Said, SpanView

CLAUDE, GEMINI = "claude-code-native-protobuf", "gemini-cli-native"
SESSION_OF_CLAUDE = "a53bd963-9115-4bb0-9d65-ca2464118f7d"
SESSION_OF_GEMINI = "7648e2a3-a3db-4aca-a66b-80c4e0094791"
ANSWERS = [
    "I will look at the project first.",
    "Delegating.",
    "Now write the notes file.",
    "Done. I listed the files, read the README and wrote notes.txt.",
]


def read_spans(dialect: ModuleType, sender: str) -> list[Reading]:
    records = logs(sender)
    return [dialect.read(view, logs_of(view, records)) for view in spans(sender)]


def read_logs(dialect: ModuleType, sender: str) -> list[Reading]:
    return [dialect.read_log(log) for log in logs(sender)]


def of_kind(readings: list[Reading], kind: str) -> list[Reading]:
    return [reading for reading in readings if reading.kind == kind]


def words(messages: tuple[Said, ...] | None) -> str:
    return "".join(part["text"] for each in messages or () for part in each.parts if part["type"] == "text")


def is_aside(reading: Reading) -> bool:
    return (reading.metadata or {}).get("aside") is True


def total(readings: list[Reading]) -> Usage:
    return sum((reading.usage for reading in readings if reading.usage), Usage())


# Claude Code


def test_claude_code_everything_names_its_session() -> None:
    readings = read_spans(claude_code, CLAUDE) + read_logs(claude_code, CLAUDE)
    assert {reading.session_id for reading in readings} == {SESSION_OF_CLAUDE}
    assert {reading.dialect for reading in readings} == {"claude_code"}


def test_claude_code_the_conversation_stands_in_records() -> None:
    said = of_kind(read_logs(claude_code, CLAUDE), "said")
    assert [words(each.input) for each in said if each.input] == ["Look at this project and write notes"]
    assert [words(each.output) for each in said if each.output and not is_aside(each)] == ANSWERS


def test_claude_code_titles_and_sub_agents_do_not_answer_the_user() -> None:
    asides = [each for each in of_kind(read_logs(claude_code, CLAUDE), "said") if is_aside(each)]
    assert [(each.metadata or {})["query_source"] for each in asides] == [
        "generate_session_title",
        "agent:builtin:general-purpose",
        "agent:builtin:general-purpose",
    ]
    assert words(asides[0].output) == "Short title for the session"


@pytest.mark.parametrize(
    ("source", "aside"),
    [
        ("repl_main_thread", False),
        ("repl_main_thread:outputStyle:custom", False),
        ("sdk", False),
        ("main", False),
        ("compact", True),
        ("auxiliary", True),
        ("agent:custom", True),
    ],
)
def test_claude_code_only_the_main_loop_answers_the_user(source: str, aside: bool) -> None:
    told = {"response": "hi", "query_source": source}
    log = LogView(trace_id="", name="assistant_response", scope="com.anthropic.claude_code.events", attributes=told)
    reading = claude_code.read_log(log)
    assert reading is not None
    assert is_aside(reading) is aside


def test_claude_code_each_call_is_told_by_a_span_and_by_records_with_one_id() -> None:
    calls = {each.response_id: each for each in of_kind(read_spans(claude_code, CLAUDE), "model")}
    requests = {each.response_id: each for each in of_kind(read_logs(claude_code, CLAUDE), "model")}
    assert len(calls) == 8
    assert calls.keys() == requests.keys()
    said = {each.response_id for each in of_kind(read_logs(claude_code, CLAUDE), "said") if each.output}
    assert said < calls.keys()
    for response_id, call in calls.items():
        assert (call.model, call.provider, call.usage) == ("claude-opus-4-8", "anthropic", requests[response_id].usage)


def test_claude_code_tokens_and_costs_count_once() -> None:
    calls = of_kind(read_spans(claude_code, CLAUDE), "model")
    assert total(calls) == Usage(input=8 * 12, output=316, cache_read=8 * 2048, cache_write=8 * 350)
    costs = [each.cost_usd for each in of_kind(read_logs(claude_code, CLAUDE), "model")]
    assert sum(cost for cost in costs if cost) == pytest.approx(0.034072, abs=1e-6)
    assert not any(each.cost_usd for each in calls)


def test_claude_code_calls_say_why_they_ended_and_how_soon_they_began() -> None:
    calls = of_kind(read_spans(claude_code, CLAUDE), "model")
    assert Counter(each.stop_reason for each in calls) == {"tool_calls": 5, "stop": 3}
    assert all(each.first_token_ms for each in calls)


def test_claude_code_a_tool_run_is_one_span_and_one_record() -> None:
    runs = {each.call_id: each for each in of_kind(read_spans(claude_code, CLAUDE), "tool")}
    records = {each.call_id: each for each in of_kind(read_logs(claude_code, CLAUDE), "tool")}
    assert runs.keys() == records.keys()
    assert Counter(each.tool for each in runs.values()) == {"Bash": 4, "Agent": 1, "Write": 1}
    by_command = {str(each.arguments.get("command")): each for each in records.values()}
    readme, missing = by_command["cat README.md"], by_command["cat does-not-exist.txt"]
    assert readme.arguments == {"command": "cat README.md", "description": "Read readme"}
    assert (runs[readme.call_id].result, readme.error) == ("# Demo", None)
    assert (runs[missing.call_id].result, missing.error) == (None, "Shell command failed")


def test_claude_code_what_is_inside_a_tool_run_is_a_plain_span() -> None:
    inside = [view for view in spans(CLAUDE) if view.name.startswith("claude_code.tool.")]
    assert len(inside) == 12
    assert {claude_code.read(view, []).kind for view in inside} == {"span"}  # type: ignore[union-attr]


def test_claude_code_the_prompt_is_read_from_the_span_where_no_record_tells_it() -> None:
    (view,) = [view for view in spans(CLAUDE) if view.name == "claude_code.interaction"]
    alone, beside = claude_code.read(view, []), claude_code.read(view, logs_of(view, logs(CLAUDE)))
    assert alone is not None
    assert beside is not None
    assert (alone.kind, words(alone.input)) == ("agent", "Look at this project and write notes")
    assert (beside.kind, beside.input) == ("agent", None)


def test_claude_code_errors_are_told() -> None:
    told = {"model": "claude-opus-4-8", "error": "Overloaded", "status_code": "529", "attempt": 11}
    failed = claude_code.read_log(LogView(trace_id="", name="claude_code.api_error", attributes=told))
    assert failed is not None
    assert (failed.kind, failed.error, failed.usage) == ("model", "Overloaded", None)
    span = SpanView(trace_id="t", span_id="s", name="claude_code.llm_request", attributes={"success": False})
    assert claude_code.read(span, []).error == "error"  # type: ignore[union-attr]


# Gemini CLI


def test_gemini_cli_everything_names_its_session() -> None:
    readings = read_spans(gemini_cli, GEMINI) + read_logs(gemini_cli, GEMINI)
    assert {reading.session_id for reading in readings} == {SESSION_OF_GEMINI}


def test_gemini_cli_spans_tell_the_session_and_records_repeat_it() -> None:
    assert Counter(each.kind for each in read_spans(gemini_cli, GEMINI)) == {"model": 5, "tool": 5, "span": 4}
    assert {each.kind for each in read_logs(gemini_cli, GEMINI)} == {"span"}


def test_gemini_cli_answers() -> None:
    calls = of_kind(read_spans(gemini_cli, GEMINI), "model")
    assert [words(each.output) for each in calls] == [
        "I will look at the project first.",
        "",
        "Planning.",
        "Now write the notes file.",
        "Done. I listed the files, read the README and wrote notes.txt.",
    ]
    assert calls[0].output is not None
    assert calls[0].output[0].parts == (
        {"type": "reasoning", "text": "**Thinking**\nFirst I should look at the directory."},
        {"type": "text", "text": "I will look at the project first."},
        {
            "type": "tool-call",
            "toolCallId": "run_shell_command_1794727126509_0",
            "toolName": "run_shell_command",
            "input": {"command": "ls -la"},
        },
    )


def test_gemini_cli_tool_runs_have_the_ids_of_their_calls() -> None:
    readings = read_spans(gemini_cli, GEMINI)
    asked = [
        part["toolCallId"]
        for each in of_kind(readings, "model")
        for message in each.output or ()
        for part in message.parts
        if part["type"] == "tool-call"
    ]
    runs = of_kind(readings, "tool")
    assert sorted(str(each.call_id) for each in runs) == sorted(asked)
    assert Counter(each.tool for each in runs) == {"run_shell_command": 3, "write_todos": 1, "write_file": 1}
    by_command = {each.arguments.get("command"): each for each in runs}
    assert "# Demo" in by_command["cat README.md"].result
    assert [each.error for each in runs] == [None] * 5


def test_gemini_cli_records_know_what_was_cached_and_thought_under_the_id_of_the_call() -> None:
    calls = of_kind(read_spans(gemini_cli, GEMINI), "model")
    added = {each.response_id: each for each in read_logs(gemini_cli, GEMINI) if each.usage}
    assert total(calls) == Usage(input=5 * 900, output=5 * 40)
    assert [each.response_id for each in calls] == list(added)
    assert total(list(added.values())) == Usage(input=5 * 388, output=5 * 40, reasoning=5 * 25, cache_read=5 * 512)
    assert total(list(added.values())).total == 5 * 965


def test_gemini_cli_an_answer_in_pieces_is_one_message_with_one_id() -> None:
    session = {"session.id": "s"}
    pieces = '[{"role":"model","parts":[{"text":"Hel"}]},{"role":"model","parts":[{"text":"lo"}]}]'
    told = {"gen_ai.operation.name": "llm_call", "gen_ai.output.messages": pieces, "gen_ai.usage.input_tokens": 7}
    call = gemini_cli.read(SpanView(trace_id="t", span_id="s", scope="gemini-cli", attributes=told | session), [])
    streamed = (
        '[{"candidates":[{"content":{"role":"model","parts":[{"text":"Hel"}]}}]},{"usageMetadata":{}},'
        '{"candidates":[{"content":{"role":"model","parts":[{"text":"lo"}]}}]}]'
    )
    response = {"response_text": streamed, "input_token_count": 7, "tool_token_count": 3}
    record = gemini_cli.read_log(LogView(trace_id="", name="gemini_cli.api_response", attributes=response | session))
    assert call is not None
    assert record is not None
    assert call.output == record.output
    assert call.output is not None
    assert call.output[0].parts == ({"type": "text", "text": "Hello"},)
    assert call.output[0].raw == b'{"parts":[{"text":"Hel"},{"text":"lo"}],"role":"model"}'
    assert call.response_id == record.response_id is not None


def test_gemini_cli_the_catalog_is_one_list_of_functions() -> None:
    call = of_kind(read_spans(gemini_cli, GEMINI), "model")[0]
    declared = msgspec.json.decode(call.tools or "null")
    assert {"run_shell_command", "write_file", "write_todos"} < {function["name"] for function in declared}


def test_gemini_cli_a_tool_that_failed_says_why() -> None:
    told = {
        "gen_ai.operation.name": "tool_call",
        "gen_ai.tool.name": "read_file",
        "gen_ai.tool.call_id": "read_file__1",
        "gen_ai.input.messages": '{"name":"read_file","args":{"path":"x"}}',
        "gen_ai.output.messages": '{"status":"error","response":{"error":{"message":"no such file"},"resultDisplay":"!"}}',
    }
    run = gemini_cli.read(SpanView(trace_id="t", span_id="s", scope="gemini-cli", attributes=told), [])
    assert run is not None
    assert (run.tool, run.call_id, run.arguments) == ("read_file", "1", {"path": "x"})
    assert (run.result, run.error) == ("!", "no such file")


def test_gemini_cli_helper_requests_do_not_answer_the_user() -> None:
    view = SpanView(trace_id="t", span_id="s", scope="gemini-cli", attributes={"gen_ai.operation.name": "llm_call"})
    for role, aside in (("main", False), ("utility_summarizer", True)):
        log = LogView(trace_id="t", span_id="s", name="gemini_cli.api_request", attributes={"role": role})
        reading = gemini_cli.read(view, [log])
        assert reading is not None
        assert is_aside(reading) is aside


# Codex


def from_codex(event: str, **told: Any) -> Reading:
    """A record as Codex sends it: most numbers are texts, and its name is a place in the source."""
    attributes = {
        "event.name": f"codex.{event}",
        "conversation.id": "019e-conv",
        "model": "gpt-5.5",
        "user.email": "me@example.com",
        **{key.replace("__", "."): value for key, value in told.items()},
    }
    log = LogView(
        trace_id="session:019e-conv",
        name="event otel/src/events/session_telemetry.rs:412",
        scope="codex_otel.log_only",
        attributes=attributes,
    )
    reading = codex.read_log(log)
    assert reading is not None
    assert (reading.session_id, reading.agent, reading.dialect) == ("019e-conv", "codex", "codex")
    return reading


def test_codex_what_the_user_and_the_agent_said() -> None:
    prompt = from_codex("user_prompt", prompt="fix the tests", prompt_length="13")
    assert (prompt.kind, words(prompt.input), prompt.output) == ("said", "fix the tests", None)
    answer = from_codex("agent_response", response="Done.", agent__type="main")
    assert (answer.kind, words(answer.output), is_aside(answer)) == ("said", "Done.", False)
    assert is_aside(from_codex("agent_response", response="Report.", agent__type="subagent"))


def test_codex_a_completed_stream_is_a_model_call_whose_parts_are_within_the_wholes() -> None:
    call = from_codex(
        "sse_event",
        event__kind="response.completed",
        input_token_count="1000",
        output_token_count="90",
        cached_token_count=600,
        reasoning_token_count=40,
        tool_token_count="1090",
        ttft_ms=250,
    )
    assert (call.kind, call.model, call.provider, call.first_token_ms) == ("model", "gpt-5.5", "openai", 250)
    assert call.usage == Usage(input=400, output=50, reasoning=40, cache_read=600)
    assert call.usage.total == 1090


def test_codex_other_events_of_a_stream_are_no_calls() -> None:
    assert from_codex("sse_event", event__kind="response.output_text.delta", duration_ms="3").kind == "span"
    assert from_codex("websocket_event", event__kind="response.completed").kind == "span"


def test_codex_a_failed_request_is_a_model_call_with_the_error() -> None:
    failed = from_codex("api_request", http__response__status_code=429, endpoint="/responses", attempt=1)
    assert (failed.kind, failed.error) == ("model", "HTTP 429")
    broken = from_codex("sse_event", event__kind="response.failed", error__message="overloaded")
    assert (broken.kind, broken.error, broken.stop_reason) == ("model", "overloaded", None)
    assert from_codex("api_request", http__response__status_code=200, endpoint="/responses").kind == "span"
    assert from_codex("api_request", http__response__status_code=500, endpoint="/models").kind == "span"


def test_codex_a_tool_run() -> None:
    told = {"tool_name": "shell", "call_id": "call_1", "arguments": '{"command":["ls"]}', "output": "a\nb"}
    run = from_codex("tool_result", success="true", **told)
    assert (run.kind, run.tool, run.call_id, run.error) == ("tool", "shell", "call_1", None)
    assert (run.arguments, run.result) == ({"command": ["ls"]}, "a\nb")
    assert from_codex("tool_result", tool_name="shell", output="denied", success="false").error == "denied"


def test_codex_what_is_told_again_without_content_is_no_second_run() -> None:
    twin = {"event.name": "codex.tool_result", "tool_name": "shell", "call_id": "call_1", "output_length": 3}
    reading = codex.read_log(LogView(trace_id="t", attributes=twin))
    assert reading is not None
    assert reading.kind == "span"
    counts = {"event.name": "codex.sse_event", "event.kind": "response.completed", "input_token_count": 1}
    again = codex.read_log(LogView(trace_id="t", scope="codex_otel.trace_safe", attributes=counts))
    assert again is not None
    assert again.kind == "span"


def test_codex_a_conversation_begins_with_its_settings_and_a_decision_names_its_call() -> None:
    begin = from_codex("conversation_starts", provider_name="OpenAI", reasoning_effort="high", context_window=272000)
    assert (begin.kind, begin.provider, begin.model) == ("span", "OpenAI", "gpt-5.5")
    assert begin.settings == {"reasoning_effort": "high", "context_window": 272000}
    decision = from_codex("tool_decision", tool_name="shell", call_id="call_1", decision="approved", source="user")
    assert (decision.kind, decision.call_id) == ("span", "call_1")
    assert decision.metadata == {"decision": "approved", "source": "user"}


def test_codex_its_spans_are_plain_whatever_they_repeat() -> None:
    told = {"gen_ai.usage.input_tokens": 1000, "thread_id": "019e-conv", "thread.id": 7}
    resource = {"service.name": "codex_exec"}
    view = SpanView(trace_id="t", span_id="s", name="handle_responses", attributes=told, resource=resource)
    reading = codex.read(view, [])
    assert reading is not None
    assert (reading.kind, reading.session_id, reading.usage) == ("span", "019e-conv", None)


# All


def test_nobody_reads_what_others_sent() -> None:
    for dialect, sender in ((claude_code, GEMINI), (gemini_cli, CLAUDE), (codex, CLAUDE), (codex, GEMINI)):
        assert set(read_spans(dialect, sender)) | set(read_logs(dialect, sender)) == {None}


odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.sampled_from(["true", "false", "[]", "{}", '[{"parts":[{"text":1}]}]', '[{"candidates":[{"content":[]}]}]'])
    | st.sampled_from(['[{"functionDeclarations":{}}]', '{"response":{"responseParts":[{"functionResponse":{}}]}}'])
    | st.sampled_from(['[{"parts":[{"functionCall":{"id":"x"}}]}]', '{"args":[],"response":[]}', "response.completed"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
SPAN_NAMES = ["claude_code.interaction", "claude_code.llm_request", "claude_code.tool", "claude_code.x", "llm_call"]
EVENTS = {
    "com.anthropic.claude_code.events": "user_prompt assistant_response api_request api_error tool_result tool_decision",
    "gemini-cli": "gemini_cli.user_prompt gemini_cli.api_response gemini_cli.tool_call",
    "codex_otel.log_only": " ".join(f"codex.{event}" for event in codex._EVENTS),
}
KEYS = sorted(
    {key for sender in (CLAUDE, GEMINI) for view in spans(sender) for key in view.attributes}
    | {key for sender in (CLAUDE, GEMINI) for log in logs(sender) for key in log.attributes}
    | {
        "event.kind",
        "kind",
        "error",
        "error.message",
        "status",
        "endpoint",
        "cached_token_count",
        "arguments",
        "output",
    }
    | {"reasoning_token_count", "cache_write_token_count", "conversation.id", "agent.type", "call_id", "result"}
)
attributes = st.dictionaries(st.sampled_from(KEYS), odd, max_size=12)


@pytest.mark.slow
@given(
    st.sampled_from([*SPAN_NAMES, "tool_call", "schedule_tool_calls"]),
    attributes,
    attributes,
    st.sampled_from(["gemini-cli", ""]),
)
@settings(deadline=None)
def test_reading_a_span_never_fails(name: str, told: dict[str, Any], more: dict[str, Any], scope: str) -> None:
    told = told | ({"gen_ai.operation.name": name} if scope else {})
    events = [EventView("tool.output", 0, more)]
    resource = {"service.name": "codex"} | more
    view = SpanView(
        trace_id="t", span_id="s", name=name, scope=scope, attributes=told, events=events, resource=resource
    )
    log = LogView(trace_id="t", span_id="s", attributes=more)
    readings = [dialect.read(view, [log]) for dialect in (claude_code, gemini_cli, codex)]
    assert (readings[0] is not None) == name.startswith("claude_code.")
    assert readings[1] is not None or not scope


@given(st.sampled_from([(scope, name) for scope, names in EVENTS.items() for name in names.split()]), attributes)
@settings(deadline=None)
def test_reading_a_record_never_fails(event: tuple[str, str], told: dict[str, Any]) -> None:
    scope, name = event
    log = LogView(trace_id="", scope=scope, name=name, attributes=told)
    readings = [dialect.read_log(log) for dialect in (claude_code, gemini_cli, codex)]
    assert any(readings)
    for reading in readings:
        assert reading is None or reading.kind in ("model", "tool", "said", "span")
