"""The weather agent as many senders tell it: who says what, the tools, the tokens, whose session it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from otlp_samples import SAMPLES, logs, logs_of, spans

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp import wire
from dashcam.dialects.otlp.read import read, read_log
from dashcam.dialects.otlp.reading import Reading, Said

# Everything that is said in these samples, by one letter: a message is a word of them.
LETTERS = {
    ("system", "text", "You are a weather agent. Use the tools you have."): "s",
    ("user", "text", "What is the weather in Paris?"): "q",
    ("user", "text", "And again?"): "g",
    ("assistant", "reasoning", "The user wants the weather; I should call the tool."): "t",
    ("assistant", "text", "The user wants the weather; I should call the tool."): "T",  # ADK tells thoughts as words
    ("assistant", "text", "I will look at the project first."): "p",
    ("assistant", "text", "It is sunny in Paris."): "a",
}
RESULT = "Sunny, 24 degrees in Paris"
RAN = ("get_weather", {"city": "Paris"}, RESULT)
OPENAI = Usage(input=56, output=26, reasoning=8, cache_read=64)
SUMS = Usage(input=120, output=34)
CACHED = Usage(input=56, output=34, cache_read=64)
ANTHROPIC = Usage(input=12, output=27, cache_read=2048, cache_write=350)
BESIDE = ("", "")  # Anthropic's own SDK tells of the same call, without its words


class Told(NamedTuple):
    """What is read of a sender: of every model call what it was sent and gave."""

    sender: str
    calls: list[tuple[str, str]]
    usage: Usage
    session: str | None = None
    agent: str | None = None
    ran: Sequence[tuple[Any, ...]] = (RAN,)


SESSION = "weather-session-1"
AGENT = "weather_agent"
OF_ADK = ("get_weather", {"city": "Paris"}, {"result": RESULT})
SENDERS = [
    Told(
        "openinference-anthropic",
        [("s q", "tpc"), BESIDE, ("q tpc r", "a"), BESIDE, ("q tpc r a g", "a"), BESIDE],
        ANTHROPIC,
        SESSION,
        ran=[],
    ),
    Told("openinference-openai-agents", [("s q", "t p c"), ("s q t p c r", "a")], OPENAI, agent=AGENT),
    Told("openinference-langchain-responses", [("s q", "tpc"), ("s q tpc r", "a")], OPENAI, SESSION)._replace(
        ran=[("get_weather", "Paris", RESULT)]
    ),
    Told("openinference-llama-index", [("s q", "pc"), ("s q pc r", "a")], OPENAI, SESSION),
    Told(
        # With a call it leaves out what was said beside it.
        "otel-openai-v2-legacy-events",
        [("s q", "pc"), ("s q c r", "a"), ("s q c r a g", "a")],
        SUMS,
        ran=[],
    ),
    *(
        Told(sender, [("s q", "cp"), ("s q cp r", "a"), ("s q cp r a g", "a")], SUMS, ran=[])
        for sender in ("otel-openai-v2-latest-span", "otel-openai-v2-latest-both")
    ),
    Told("otel-genai-openai-responses", [("q", "pc"), ("q t p c r", "a")], OPENAI, ran=[]),
    Told("strands-agents-latest", [("q", "tpc"), ("q tpc r", "a")], CACHED, SESSION, AGENT),
    *(
        Told(
            sender,
            [("q", "Tpc"), ("q Tpc r", "a")],
            Usage(input=56, output=34, reasoning=8, cache_read=64),
            SESSION,
            AGENT,
            ran,
        )
        for sender, ran in (("google-adk", [("get_weather", None, None)]), ("google-adk-latest", [OF_ADK]))
    ),
    Told("ms-agent-framework", [("q", "pc"), ("q pc r", "a")], OPENAI, agent=AGENT),
    Told(
        "pydantic-ai-v6",
        [("q", "tpc"), ("q tpc r", "a"), ("q tpc r a g", "tpc"), ("q tpc r a g tpc r", "a")],
        OPENAI,
        SESSION,
        AGENT,
        [RAN, RAN],
    ),
    Told("logfire-openai-agents", [("s q", "t p c"), ("s q t p c r", "a")], OPENAI, agent=AGENT),
    Told(
        "traceloop-anthropic",
        [("q", "tpc"), BESIDE, ("q tpc r", "a"), BESIDE, ("q tpc r a g", "a"), BESIDE],
        ANTHROPIC,
        SESSION,
        ran=[],
    ),
    Told(
        "vercel-ai-sdk-5-protobuf",
        [("s q", "pc"), ("s q ptc r", "a"), ("s q", "pc"), ("s q tpc r", "a")],
        SUMS,
        SESSION,
        AGENT,
        [RAN, RAN],
    ),
    Told("vercel-ai-sdk-7", [("q", "tpc"), ("q tpc r", "a")] * 2, CACHED, agent=AGENT, ran=[RAN, RAN]),
]


def readings_of(sender: str) -> list[Reading]:
    """What every span tells, in the order of time; without those that stand for others."""
    records = logs(sender)
    views = sorted(spans(sender), key=lambda view: view.start_ns)
    return [told for view in views if not (told := read(view, logs_of(view, records))).pending]


def calls_of(sender: str) -> list[Reading]:
    return [each for each in readings_of(sender) if each.kind == "model"]


def words(messages: tuple[Said, ...] | None) -> str:
    return " ".join("".join(letter(message.role, part) for part in message.parts) for message in messages or ())


def letter(role: str, part: dict[str, Any]) -> str:
    if part["type"] == "tool-call":
        assert (role, part["toolName"], part["input"]) == ("assistant", "get_weather", {"city": "Paris"})
        return "c"
    if part["type"] == "tool-result":
        assert (role, part["error"]) == ("tool", False)
        assert part["output"] in (RESULT, {"result": RESULT})
        return "r"
    return LETTERS[role, part["type"], part["text"]]


@pytest.mark.parametrize("told", SENDERS, ids=lambda told: told.sender)
def test_each_call_was_sent_and_gave_what_was_said(told: Told) -> None:
    assert [(words(each.input), words(each.output)) for each in calls_of(told.sender)] == told.calls


@pytest.mark.parametrize("told", SENDERS, ids=lambda told: told.sender)
def test_instructions_stand_among_the_messages_or_beside_them(told: Told) -> None:
    for call in calls_of(told.sender):
        among = "s" in words(call.input).split()
        assert among or not call.input or (call.system or "").startswith("You are a weather agent.")


@pytest.mark.parametrize("told", SENDERS, ids=lambda told: told.sender)
def test_a_call_that_a_tool_call_ends_says_so(told: Told) -> None:
    stops = [each.stop_reason for each in calls_of(told.sender) if each.input]
    reasons = ["tool_calls" if "c" in gave else "stop" for heard, gave in told.calls if heard]
    if told.sender.startswith("google-adk"):  # Gemini knows no such reason
        reasons = ["stop"] * len(reasons)
    assert stops == reasons


@pytest.mark.parametrize("told", SENDERS, ids=lambda told: told.sender)
def test_tokens_are_told_apart_and_none_twice(told: Told) -> None:
    usages = [each.usage for each in calls_of(told.sender)]
    if told.sender == "vercel-ai-sdk-5-protobuf":  # only what it streams tells the parts
        assert usages == [SUMS, SUMS, OPENAI, OPENAI]
    elif told.sender == "traceloop-anthropic":  # of a stream it adds the count of the beginning to that of the end
        assert usages[4] == Usage(input=12, output=28, cache_read=2048, cache_write=350)
        assert usages[:4] + usages[5:] == [ANTHROPIC] * 5
    else:
        assert usages == [told.usage] * len(told.calls)


@pytest.mark.parametrize("told", SENDERS, ids=lambda told: told.sender)
def test_a_run_of_a_tool_has_its_arguments_and_its_result(told: Told) -> None:
    tools = [each for each in readings_of(told.sender) if each.kind == "tool"]
    assert [(each.tool, each.arguments, each.result) for each in tools] == list(told.ran)


@pytest.mark.parametrize("told", SENDERS, ids=lambda told: told.sender)
def test_session_and_agent_are_those_that_somebody_named(told: Told) -> None:
    readings = readings_of(told.sender)
    assert {each.session_id for each in readings} - {None} == {told.session} - {None}
    assert {each.agent for each in readings} - {None} == {told.agent} - {None}


@pytest.mark.parametrize("told", SENDERS, ids=lambda told: told.sender)
def test_what_calls_answer_is_joined_by_ids_or_by_names(told: Told) -> None:
    """A result names its call by the id that the call has; ADK makes ids up that match nothing, so names do."""
    for call in calls_of(told.sender):
        parts = [part for message in (call.input or ()) for part in message.parts]
        asked = [part for part in parts if part["type"] == "tool-call"]
        given = [part for part in parts if part["type"] == "tool-result"]
        assert [part["toolCallId"] for part in given] == [part["toolCallId"] for part in asked]
        assert all(part["toolCallId"] or part["toolName"] == "get_weather" for part in given)


def test_a_helper_that_asks_no_model_is_no_call() -> None:
    """LlamaIndex names a function that prepares a request a model call, too."""
    named = [view for view in spans("openinference-llama-index") if view.attributes["openinference.span.kind"] == "LLM"]
    kinds = [(view.name.rpartition(".")[2], read(view).kind) for view in sorted(named, key=lambda view: view.start_ns)]
    assert kinds == [("_prepare_chat_with_tools", "span"), ("astream_chat", "model")] * 2


def test_a_span_that_is_running_is_of_the_kind_that_it_will_be() -> None:
    standing = [read(view) for view in spans("logfire-openai-agents")]
    assert [each.kind for each in standing if each.pending] == ["agent", "agent", "agent", "agent", "model"] + [
        "agent",
        "model",
    ]


def test_codex_tells_all_in_log_records() -> None:
    told = [reading for log in logs("codex-native") if (reading := read_log(log)) is not None]
    assert {each.session_id for each in told} == {"01a1dffc-8022-7101-abfb-57d326551986"}
    assert [words(each.input) for each in told if each.kind == "said"] == ["q"]
    assert [each.usage for each in told if each.kind == "model"] == [OPENAI, OPENAI]
    (tool,) = [each for each in told if each.kind == "tool"]
    assert (tool.tool, tool.arguments) == ("exec_command", {"cmd": f"echo {RESULT}"})
    assert str(tool.result).endswith(f"{RESULT}\n")
    assert {read(view).kind for view in spans("codex-native")} == {"span"}


def test_claude_code_tells_the_same_in_json() -> None:
    readings = readings_of("claude-code-native-json")
    (session,) = {each.session_id for each in readings}
    alone = [told for log in logs("claude-code-native-json") if (told := read_log(log)) is not None]
    assert {each.session_id for each in alone} == {session}
    calls = [each for each in readings if each.kind == "model"]
    assert [(each.usage, each.stop_reason) for each in calls] == [(ANTHROPIC, "tool_calls"), (ANTHROPIC, "stop")]
    costs = {each.response_id: each.cost_usd for each in alone if each.cost_usd}
    assert costs.keys() == {each.response_id for each in calls}
    assert RESULT in {each.result for each in readings if each.kind == "tool"}


def test_records_of_codex_stand_with_their_session_though_some_have_a_trace() -> None:
    (body,) = (SAMPLES / "codex-native").glob("*_logs.body")
    received = wire.receive_logs(wire.parse_logs(body.read_bytes(), "protobuf"), None)
    assert any(record.trace_id for record in logs("codex-native"))
    assert {record.trace_id for record in received.logs} == {"session:01a1dffc-8022-7101-abfb-57d326551986"}
