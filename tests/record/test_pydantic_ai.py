"""Agents of Pydantic AI, recorded by the model that they are given, as the store shows it afterwards."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, ModelRetry, RunContext, ToolOutput, capture_run_messages
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    CompactionPart,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import CompletedStreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.usage import RequestUsage, UsageLimits

import dashcam
from dashcam.errors import SettingsError, UnjoinableRecord
from dashcam.record import pydantic_sessions
from dashcam.sdk import emit
from dashcam.sdk.ids import new_id
from dashcam.store.base import EventFilter, SessionFilter
from dashcam.store.sqlite.store import SqliteReader


class Script:
    """A model that says what a list tells it to, and keeps what it was sent."""

    def __init__(self, *answers: ModelResponse | Exception) -> None:
        self.answers = list(answers)
        self.saw: list[list[Any]] = []
        self.instructions: list[str | None] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.saw.append(plain(messages))
        self.instructions.append(info.instructions)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def model(self) -> FunctionModel:
        return FunctionModel(self, model_name="scripted")


def ask(agent: Agent[None, Any], prompt: str, **how: Any) -> Any:
    return asyncio.run(agent.run(prompt, **how))


def plain(messages: list[ModelMessage]) -> list[Any]:
    """Messages as JSON, without the instructions, which are kept as the system prompt."""
    dumped = msgspec.json.decode(ModelMessagesTypeAdapter.dump_json(messages))
    for message in dumped:
        message.pop("instructions", None)
    return list(dumped)


def text(words: str, **usage: Any) -> ModelResponse:
    return ModelResponse([TextPart(words)], usage=RequestUsage(**usage))


def call(*names: str, **args: Any) -> ModelResponse:
    return ModelResponse([ToolCallPart(name, args, tool_call_id=f"call-{name}") for name in names])


def contexts(store: SqliteReader, session_id: str) -> list[list[Any]]:
    """What each model call of a session was sent, rebuilt."""
    rebuilt = []
    for each in store.model_calls(session_id=session_id):
        digests = store.context(bytes.fromhex(each.context_digest or ""))
        bodies = store.bodies(digests)
        rebuilt.append([msgspec.json.decode(bodies[digest]) for digest in digests])
    return rebuilt


def transcript(store: SqliteReader, session_id: str) -> list[tuple[str, list[Any]]]:
    """Each message: who, and of each part its text or its tool and state."""
    said: dict[str, tuple[str, list[Any]]] = {each.id: (each.role, []) for each in store.chat_messages(session_id)}
    for part in store.chat_parts(session_id):
        shown = part.data().get("text") if part.tool_call_id is None else (part.type, part.tool_state)
        said[part.message_id][1].append(shown if shown is not None else part.type)
    return list(said.values())


def metadata(store: SqliteReader, session_id: str, role: str = "assistant") -> list[dict[str, Any]]:
    return [each.metadata() for each in store.chat_messages(session_id) if each.role == role]


def parts(store: SqliteReader, session_id: str, kind: str) -> list[dict[str, Any]]:
    return [part.data() for part in store.chat_parts(session_id) if part.type == kind]


def healthy(store: SqliteReader) -> None:
    assert list(store.verify()) == []
    assert emit.recorder().failed == 0
    assert emit.recorder().malformed == 0


def test_a_run_with_a_tool_is_one_turn_with_two_model_calls(opened: Callable[[], SqliteReader]) -> None:
    script = Script(
        ModelResponse(
            [ThinkingPart("Hm.", signature="sig", provider_name="p"), ToolCallPart("look", '{"n": 7}', "call-1")],
            usage=RequestUsage(input_tokens=100, cache_read_tokens=60, output_tokens=20, output_reasoning_tokens=5),
            provider_response_id="resp-1",
            finish_reason="tool_call",
        ),
        text("Seven is there.", input_tokens=150, output_tokens=4),
    )
    agent = Agent(dashcam.record(script.model(), session_id="s", agent="finder"), instructions="Find things.")

    @agent.tool_plain
    def look(n: int) -> dict[str, int]:
        return {"found": n}

    assert ask(agent, "Where is 7?").output == "Seven is there."
    store = opened()
    assert transcript(store, "s") == [
        ("user", ["Where is 7?"]),
        ("assistant", ["Hm.", ("tool-look", "output-available"), "Seven is there."]),
    ]
    (tool,) = parts(store, "s", "tool-look")
    assert (tool["input"], tool["output"]) == ({"n": 7}, {"found": 7})
    (thought,) = parts(store, "s", "reasoning")
    assert thought["providerMetadata"] == {"pydantic_ai": {"signature": "sig", "provider_name": "p"}}
    session = store.chat_session("s")
    assert session.agent == "finder"
    assert (session.prompt_tokens, session.cache_read, session.completion_tokens) == (40 + 150, 60, 15 + 4)
    assert session.reasoning_tokens == 5
    first, second = store.model_calls(session_id="s")
    assert (first.response_id, first.stop_reason, second.stop_reason) == ("resp-1", "tool-calls", "stop")
    assert (first.wire, first.model, first.provider) == ("pydantic-ai", "scripted", "function")
    assert first.duration_ms is not None and first.duration_ms > 0
    digest = sha256(b"Find things.").hexdigest()
    assert {first.system_prompt_digest, second.system_prompt_digest} == {digest}
    assert store.system_prompt(digest) == "Find things."
    (told,) = metadata(store, "s")
    assert (told["stop_reason"], told["system_prompt_digest"]) == ("stop", digest)
    assert contexts(store, "s") == script.saw
    assert {event.session_id for event in store.events(EventFilter())} == {session.id}
    healthy(store)


def test_the_output_of_a_call_is_the_response_as_it_came(opened: Callable[[], SqliteReader]) -> None:
    script = Script(text("Here."))
    result = ask(Agent(dashcam.record(script.model(), session_id="s")), "?")
    store = opened()
    (recorded,) = store.model_calls(session_id="s")
    digest = bytes.fromhex(recorded.output_digest or "")
    kept = msgspec.json.decode(store.bodies([digest])[digest])
    (sent,) = plain([result.response])
    assert kept["parts"] == sent["parts"]
    assert kept["timestamp"] == sent["timestamp"]


def test_catalog_settings_and_parameters_are_those_of_the_request(opened: Callable[[], SqliteReader]) -> None:
    class Place(BaseModel):
        town: str

    script = Script(ModelResponse([ToolCallPart("final_result", {"town": "Rome"}, "call-1")]))
    agent = Agent(
        dashcam.record(script.model(), session_id="s"),
        output_type=ToolOutput(Place),
        system_prompt="You know towns.",
        instructions="Be brief.",
        model_settings={"temperature": 0.5},
    )

    @agent.tool_plain
    def look(town: str) -> str:
        """Look a town up."""
        return town

    assert ask(agent, "Where?").output == Place(town="Rome")
    store = opened()
    (recorded,) = store.model_calls(session_id="s")
    told = msgspec.json.decode(recorded.settings)
    assert told["temperature"] == 0.5
    assert told["parameters"]["output_mode"] == "tool"
    assert told["parameters"]["allow_text_output"] is False
    assert told["instructions"] == "Be brief."
    assert store.system_prompt(recorded.system_prompt_digest or "") == "You know towns.\n\nBe brief."
    catalog = msgspec.json.decode(store.tool_catalog(recorded.tool_catalog_digest or ""))
    assert [tool["name"] for tool in catalog] == ["look", "final_result"]
    assert catalog[0]["parameters_json_schema"]["properties"] == {"town": {"type": "string"}}
    assert metadata(store, "s")[0]["model"]["temperature"] == 0.5


def test_an_output_tool_completes_the_answer_and_has_its_outcome_in_the_next_run(
    opened: Callable[[], SqliteReader],
) -> None:
    class Place(BaseModel):
        town: str

    script = Script(*(ModelResponse([ToolCallPart("final_result", {"town": "Rome"}, f"c{n}")]) for n in (1, 2)))
    agent = Agent(dashcam.record(script.model(), session_id="s"), output_type=Place)
    first = ask(agent, "Where?")
    store = opened()
    assert transcript(store, "s")[1] == ("assistant", [("tool-final_result", "input-available")])
    assert metadata(store, "s")[0]["stop_reason"] == "stop"

    ask(agent, "Again?", message_history=first.all_messages())
    store = opened()
    assert [role for role, _ in transcript(store, "s")] == ["user", "assistant", "user", "assistant"]
    assert transcript(store, "s")[1] == ("assistant", [("tool-final_result", "output-available")])
    assert [each["stop_reason"] for each in metadata(store, "s")] == ["stop", "stop"]
    assert contexts(store, "s") == script.saw


def test_an_output_tool_has_its_outcome_even_if_the_next_turn_has_a_trace_of_its_own(
    opened: Callable[[], SqliteReader],
) -> None:
    script = Script(*(ModelResponse([ToolCallPart("final_result", {"response": n}, f"c{n}")]) for n in (1, 2)))
    agent = Agent(dashcam.record(script.model()), output_type=ToolOutput(int))
    history: list[ModelMessage] = []
    for question in ("a", "b"):
        with dashcam.use_trace(dashcam.new_trace("s")):
            history = ask(agent, question, message_history=history).all_messages()
    assert transcript(opened(), "s") == [
        ("user", ["a"]),
        ("assistant", [("tool-final_result", "output-available")]),
        ("user", ["b"]),
        ("assistant", [("tool-final_result", "input-available")]),
    ]


def test_a_refused_output_is_asked_for_again_within_the_turn(opened: Callable[[], SqliteReader]) -> None:
    class Place(BaseModel):
        town: str

    wrong = ModelResponse([ToolCallPart("final_result", {"city": "Rome"}, "c1")])
    right = ModelResponse([ToolCallPart("final_result", {"town": "Rome"}, "c2")])
    script = Script(wrong, right)
    ask(Agent(dashcam.record(script.model(), session_id="s"), output_type=Place), "Where?")
    store = opened()
    assert transcript(store, "s") == [
        ("user", ["Where?"]),
        ("assistant", [("tool-final_result", "output-error"), ("tool-final_result", "input-available")]),
    ]
    assert contexts(store, "s") == script.saw


def test_a_text_that_is_refused_is_told_as_a_message_that_a_retry_triggered(
    opened: Callable[[], SqliteReader],
) -> None:
    script = Script(text("no"), text("yes"))
    agent = Agent(dashcam.record(script.model(), session_id="s"), instructions="I")

    @agent.output_validator
    def check(output: str) -> str:
        if output == "no":
            raise ModelRetry("Say yes.")
        return output

    ask(agent, "Well?")
    store = opened()
    asked, again = metadata(store, "s", "user")
    assert "trigger" not in asked
    assert again["trigger"] == "retry"
    assert [role for role, _ in transcript(store, "s")] == ["user", "assistant", "user", "assistant"]
    assert "Say yes." in transcript(store, "s")[2][1][0]
    assert len({each.system_prompt_digest for each in store.model_calls(session_id="s")}) == 1


def test_an_empty_answer_is_asked_again_without_another_system_prompt(opened: Callable[[], SqliteReader]) -> None:
    script = Script(ModelResponse([]), text("Now I speak."))
    ask(Agent(dashcam.record(script.model(), session_id="s"), instructions="I"), "Well?")
    store = opened()
    assert len({each.system_prompt_digest for each in store.model_calls(session_id="s")}) == 1
    assert contexts(store, "s") == script.saw


def test_tools_at_once_that_fail_or_want_another_try_have_each_their_outcome(
    opened: Callable[[], SqliteReader],
) -> None:
    script = Script(call("good", "again"), text("Done."))
    agent = Agent(dashcam.record(script.model(), session_id="s"))

    @agent.tool_plain
    async def good() -> str:
        await asyncio.sleep(0.01)
        return "fine"

    @agent.tool_plain
    def again() -> str:
        raise ModelRetry("Not like this.")

    ask(agent, "Go.")
    store = opened()
    assert transcript(store, "s")[1][1] == [("tool-good", "output-available"), ("tool-again", "output-error"), "Done."]
    assert parts(store, "s", "tool-again")[0]["errorText"] == "Not like this."


def test_a_conversation_that_goes_on_is_recorded_once(opened: Callable[[], SqliteReader]) -> None:
    script = Script(*(text(word) for word in ("one", "two", "two", "three")))
    agent = Agent(dashcam.record(script.model(), session_id="s"))
    history: list[ModelMessage] = []
    for question in ("a", "b", "b", "c"):
        stored = ModelMessagesTypeAdapter.dump_json(history)  # as a host keeps it between two requests
        history = ask(agent, question, message_history=ModelMessagesTypeAdapter.validate_json(stored)).all_messages()
    store = opened()
    said = [words for _, (words,) in transcript(store, "s")]
    assert said == ["a", "one", "b", "two", "b", "two", "c", "three"]
    assert contexts(store, "s") == script.saw
    assert len(store.model_calls(session_id="s")) == 4
    healthy(store)


def test_a_conversation_that_goes_on_in_another_process_is_recorded_once(
    opened: Callable[[], SqliteReader], data: Path
) -> None:
    """Behind a load balancer each turn comes to a worker that has recorded none of the others."""

    def look() -> str:
        return "found"

    stored = b"[]"
    for number in range(4):
        dashcam.configure(data=data)  # a journal of its own, and nothing remembered
        called = ModelResponse(
            [ToolCallPart("look", {}, tool_call_id=f"call-{number}")], usage=RequestUsage(input_tokens=9)
        )
        script = Script(called, text(f"answer {number}", input_tokens=10 + number, output_tokens=3))
        agent = Agent(dashcam.record(script.model(), session_id="s"), instructions="Be kind.")
        agent.tool_plain(look)
        history = ModelMessagesTypeAdapter.validate_json(stored)
        stored = ask(agent, f"question {number}", message_history=history).all_messages_json()
    store = opened()
    said = [(f"question {number}", ("tool-look", "output-available"), f"answer {number}") for number in range(4)]
    assert [each for _, shown in transcript(store, "s") for each in shown] == [each for turn in said for each in turn]
    told = metadata(store, "s")
    assert [each.get("trigger") for each in told] == [None] * 4
    assert {each["system_prompt_digest"] for each in told} == {sha256(b"Be kind.").hexdigest()}
    assert len(store.model_calls(session_id="s")) == 8
    assert store.chat_session("s").total_tokens == 4 * 9 + 10 + 11 + 12 + 13 + 4 * 3
    healthy(store)


def test_a_history_that_the_host_makes_anew_each_time_is_recorded_once(opened: Callable[[], SqliteReader]) -> None:
    script = Script(*(text(word) for word in ("one", "two", "three")))
    agent = Agent(dashcam.record(script.model(), session_id="s"))
    turns: list[tuple[str, str]] = []
    for question in ("a", "b", "a"):
        history: list[ModelMessage] = []
        for asked, answered in turns:
            history += [ModelRequest([UserPromptPart(asked)]), ModelResponse([TextPart(answered)])]
        turns.append((question, ask(agent, question, message_history=history).output))
    said = [words for _, (words,) in transcript(opened(), "s")]
    assert said == ["a", "one", "b", "two", "a", "three"]


def test_a_history_from_elsewhere_is_told_as_earlier_turns(opened: Callable[[], SqliteReader]) -> None:
    before = Script(call("look"), text("It was there.", input_tokens=10, output_tokens=5))
    elsewhere = Agent(before.model())
    elsewhere.tool_plain(look)
    history = ask(elsewhere, "Where?").all_messages()
    script = Script(text("Yes.", input_tokens=30, output_tokens=1))
    agent = Agent(dashcam.record(script.model(), session_id="s"))
    ask(agent, "Sure?", message_history=history)
    store = opened()
    assert transcript(store, "s") == [
        ("user", ["Where?"]),
        ("assistant", [("tool-look", "output-available"), "It was there."]),
        ("user", ["Sure?"]),
        ("assistant", ["Yes."]),
    ]
    earlier, now = metadata(store, "s")
    assert (earlier["trigger"], earlier["stop_reason"]) == ("history", "stop")
    assert earlier["usage"]["output"] >= 5
    assert "trigger" not in now
    assert len(store.model_calls(session_id="s")) == 1
    assert contexts(store, "s") == script.saw


def look() -> str:
    return "here"


def test_a_history_that_is_shortened_and_rewritten_says_nothing_new(opened: Callable[[], SqliteReader]) -> None:
    def shortened(messages: list[ModelMessage]) -> list[ModelMessage]:
        summary = ModelRequest([UserPromptPart("In short: much was said.")])
        return [summary, *messages[-2:]] if len(messages) > 2 else messages

    script = Script(text("one"), text("two"), text("three"))
    agent = Agent(dashcam.record(script.model(), session_id="s"), capabilities=[ProcessHistory(shortened)])
    history: list[ModelMessage] = []
    for question in ("a", "b", "c"):
        history = ask(agent, question, message_history=history).all_messages()
    store = opened()
    assert [words for _, (words,) in transcript(store, "s")] == ["a", "one", "b", "two", "c", "three"]
    assert contexts(store, "s") == script.saw
    assert script.saw[2][0]["parts"][0]["content"] == "In short: much was said."


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["none", "all", "stored", "last"])), max_size=6),
    st.booleans(),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_host_does_to_its_history_each_question_and_answer_is_told_once(
    opened: Callable[[], SqliteReader], questions: list[tuple[str, str]], has_tool: bool
) -> None:
    session_id = f"s-{new_id('')[0]}"
    script = Script()
    agent = Agent(dashcam.record(script.model(), session_id=session_id), instructions="I")
    agent.tool_plain(look)
    history: list[ModelMessage] = []
    for number, (question, keep) in enumerate(questions):
        history = {"none": [], "last": history[-2:]}.get(keep, history)
        if keep == "stored":
            history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
        calls = [ModelResponse([ToolCallPart("look", {}, f"call-{number}")])] if has_tool else []
        script.answers += [*calls, text(f"{question}!")]
        history = ask(agent, question, message_history=history).all_messages()
    if questions:
        store = opened()
        called = [("tool-look", "output-available")] if has_tool else []
        expected = [each for word, _ in questions for each in (("user", [word]), ("assistant", [*called, f"{word}!"]))]
        assert transcript(store, session_id) == expected
        assert contexts(store, session_id) == script.saw


def test_a_call_that_waits_for_approval_has_its_outcome_in_the_run_that_brings_it(
    opened: Callable[[], SqliteReader],
) -> None:
    script = Script(call("drop", "keep"), text("As you wish."))
    agent = Agent(dashcam.record(script.model(), session_id="s"), output_type=[str, DeferredToolRequests])
    agent.tool_plain(name="drop", requires_approval=True)(look)
    agent.tool_plain(name="keep", requires_approval=True)(look)
    waiting = ask(agent, "Clean up.")
    store = opened()
    assert "stop_reason" not in metadata(store, "s")[0]
    results = DeferredToolResults(approvals={"call-drop": ToolDenied("Not this one."), "call-keep": True})
    asyncio.run(agent.run(message_history=waiting.all_messages(), deferred_tool_results=results))
    store = opened()
    assert transcript(store, "s") == [
        ("user", ["Clean up."]),
        ("assistant", [("tool-drop", "output-denied"), ("tool-keep", "output-available"), "As you wish."]),
    ]
    assert metadata(store, "s")[0]["stop_reason"] == "stop"


def test_a_run_that_dies_in_a_tool_is_over_when_the_conversation_goes_on(opened: Callable[[], SqliteReader]) -> None:
    script = Script(call("look"), text("Hello again."))
    agent = Agent(dashcam.record(script.model(), session_id="s"))

    @agent.tool_plain(name="look")
    def dying() -> str:
        raise ConnectionError

    with capture_run_messages() as messages, pytest.raises(ConnectionError):
        ask(agent, "Look.")
    ask(agent, "Hello?", message_history=messages)
    store = opened()
    first, second = metadata(store, "s")
    assert (first["stop_reason"], second["stop_reason"]) == ("error", "stop")
    assert first["error"]["type"] == "unfinished"
    assert transcript(store, "s") == [
        ("user", ["Look."]),
        ("assistant", [("tool-look", "input-available")]),
        ("user", ["Hello?"]),
        ("assistant", ["Hello again."]),
    ]
    assert contexts(store, "s") == script.saw


def test_a_model_that_stands_in_for_another_answers_in_the_same_session(opened: Callable[[], SqliteReader]) -> None:
    failing = FunctionModel(Script(ModelHTTPError(500, "first")), model_name="first")
    second = FunctionModel(Script(text("Here I am.")), model_name="second")
    agent = Agent(FallbackModel(*(dashcam.record(each, session_id="s") for each in (failing, second))))
    assert ask(agent, "Anybody?").output == "Here I am."
    store = opened()
    assert [each.model for each in store.model_calls(session_id="s")] == ["first", "second"]
    assert [words for role, words in transcript(store, "s") if role == "user"] == [["Anybody?"]]
    assert [each["stop_reason"] for each in metadata(store, "s")] == ["error", "stop"]


def test_files_and_marks_of_the_cache_are_kept(opened: Callable[[], SqliteReader]) -> None:
    script = Script(ModelResponse([FilePart(BinaryContent(b"\x89PNG", media_type="image/png"))]), text("x"))
    model = dashcam.record(script.model(), session_id="s")
    prompt: list[Any] = [
        "Look:",
        ImageUrl("https://example.org/cat.png"),
        CachePoint(),
        BinaryContent(b"%PDF", media_type="application/pdf"),
    ]
    asyncio.run(model_request(model, [ModelRequest([UserPromptPart(prompt)])]))
    store = opened()
    files = parts(store, "s", "file")
    assert [(each["mediaType"], each["url"]) for each in files] == [
        ("image/png", "https://example.org/cat.png"),
        ("application/pdf", "data:application/pdf;base64,JVBERg=="),
        ("image/png", "data:image/png;base64,iVBORw=="),
    ]
    assert len(parts(store, "s", "data-cache-point")) == 1
    assert contexts(store, "s") == script.saw


def test_what_the_provider_runs_itself_is_told_with_its_outcome(opened: Callable[[], SqliteReader]) -> None:
    script = Script(
        ModelResponse(
            [
                NativeToolCallPart("web_search", {"query": "rome"}, "n1", provider_name="p"),
                NativeToolReturnPart(tool_name="web_search", content={"hits": 1}, tool_call_id="n1"),
                CompactionPart("All so far."),
                ToolCallPart("look", "{not json", "c1"),
            ]
        ),
        text("Found."),
    )
    agent = Agent(dashcam.record(script.model(), session_id="s"))
    agent.tool_plain(look)
    ask(agent, "?")
    store = opened()
    (search,) = parts(store, "s", "tool-web_search")
    assert (search["state"], search["providerExecuted"], search["output"]) == ("output-available", True, {"hits": 1})
    assert parts(store, "s", "data-compaction")[0]["data"]["summary"] == "All so far."
    (broken,) = parts(store, "s", "tool-look")
    assert (broken["input"], broken["state"]) == ("{not json", "output-error")


def test_a_run_without_a_loop_of_its_own_is_recorded_alike(opened: Callable[[], SqliteReader]) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        Agent(dashcam.record(TestModel(), session_id="s")).run_sync("?")
    finally:
        loop.close()
        asyncio.set_event_loop(None)
    assert [role for role, _ in transcript(opened(), "s")] == ["user", "assistant"]


# Streams


async def spoken(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    if len(messages) == 1:
        yield {0: DeltaThinkingPart(content="Let me ")}
        yield {0: DeltaThinkingPart(content="see.", signature="sig")}
        yield {1: DeltaToolCall(name="look", json_args="", tool_call_id="c1")}
        yield {1: DeltaToolCall(json_args="{}")}
    else:
        yield "It is "
        yield "here."


def test_a_stream_is_recorded_as_it_passes(opened: Callable[[], SqliteReader]) -> None:
    agent = Agent(dashcam.record(FunctionModel(stream_function=spoken), session_id="s"), instructions="I")
    agent.tool_plain(look)
    seen: list[str] = []

    async def run() -> None:
        async with agent.run_stream("Where?") as result:
            async for piece in result.stream_text(delta=True, debounce_by=None):
                seen.append(piece)
                store = opened()
                assert "".join(seen).startswith(transcript(store, "s")[1][1][-1][:5])

    asyncio.run(run())
    assert "".join(seen) == "It is here."
    store = opened()
    assert transcript(store, "s") == [
        ("user", ["Where?"]),
        ("assistant", ["Let me see.", ("tool-look", "output-available"), "It is here."]),
    ]
    (thought,) = parts(store, "s", "reasoning")
    assert thought["providerMetadata"]["pydantic_ai"]["signature"] == "sig"
    assert {part.data()["state"] for part in store.chat_parts("s") if part.type == "text" and "state" in part.data()}
    calls = store.model_calls(session_id="s")
    assert [each.stop_reason for each in calls] == ["tool-calls", "stop"]
    for each in calls:
        assert each.first_token_ms is not None and each.duration_ms is not None
        assert 0 <= each.first_token_ms <= each.duration_ms
    assert all(each.output_tokens for each in calls)
    assert metadata(store, "s")[0]["stop_reason"] == "stop"
    assert "odd" not in metadata(store, "s")[0]
    healthy(store)


def test_events_of_a_run_and_its_nodes_are_those_of_the_bare_model() -> None:
    async def kinds(model: Any) -> list[str]:
        agent = Agent(model)
        agent.tool_plain(look)
        async with agent.run_stream_events("Where?") as events:
            return [event.event_kind async for event in events]

    async def nodes(model: Any) -> list[str]:
        agent = Agent(model)
        agent.tool_plain(look)
        async with agent.iter("Where?") as run:
            return [type(node).__name__ async for node in run]

    bare, watched = FunctionModel(stream_function=spoken), dashcam.record(FunctionModel(stream_function=spoken))
    assert asyncio.run(kinds(watched)) == asyncio.run(kinds(bare))
    assert asyncio.run(nodes(dashcam.record(TestModel()))) == asyncio.run(nodes(TestModel()))


def test_a_stream_that_is_left_keeps_what_came(opened: Callable[[], SqliteReader]) -> None:
    async def endless(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for number in range(1000):
            yield f"{number} "

    agent = Agent(dashcam.record(FunctionModel(stream_function=endless), session_id="s"))

    async def run() -> None:
        async with agent.run_stream("Count.") as result:
            async for _ in result.stream_text(delta=True, debounce_by=None):
                return

    asyncio.run(run())
    store = opened()
    assert transcript(store, "s")[1][1][0].startswith("0 ")
    assert metadata(store, "s")[0]["stop_reason"] == "abort"
    (recorded,) = store.model_calls(session_id="s")
    assert (recorded.stop_reason, recorded.error) == ("abort", None)


def test_a_stream_that_breaks_tells_the_error_and_raises_it(opened: Callable[[], SqliteReader]) -> None:
    async def breaking(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "So far "
        yield "so good"
        raise ConnectionError("the line went dead")

    agent = Agent(dashcam.record(FunctionModel(stream_function=breaking), session_id="s"))

    async def run() -> None:
        async with agent.run_stream("?") as result:
            await result.get_output()

    with pytest.raises(ConnectionError, match="the line went dead"):
        asyncio.run(run())
    store = opened()
    (told,) = metadata(store, "s")
    assert (told["stop_reason"], told["error"]["message"]) == ("error", "the line went dead")
    assert transcript(store, "s")[1] == ("assistant", ["So far so good"])
    (recorded,) = store.model_calls(session_id="s")
    assert (recorded.stop_reason, recorded.error) == ("error", "the line went dead")


def test_calls_that_stream_side_by_side_end_with_all_their_input(opened: Callable[[], SqliteReader]) -> None:
    async def woven(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) > 1:
            yield "Done."
            return
        yield {0: DeltaToolCall(name="echo", json_args='{"word":', tool_call_id="c0")}
        yield {1: DeltaToolCall(name="echo", json_args='{"word":', tool_call_id="c1")}
        yield {0: DeltaToolCall(json_args=' "a"}')}
        yield {1: DeltaToolCall(json_args=' "b"}')}

    agent = Agent(dashcam.record(FunctionModel(stream_function=woven), session_id="s"))

    @agent.tool_plain
    def echo(word: str) -> str:
        return word

    asyncio.run(agent.run("Go.", event_stream_handler=drain))
    tools = parts(opened(), "s", "tool-echo")
    assert [(each["input"], each["output"]) for each in tools] == [({"word": "a"}, "a"), ({"word": "b"}, "b")]


def test_a_stream_whose_task_is_cancelled_is_an_abort(opened: Callable[[], SqliteReader]) -> None:
    async def stalling(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "Well, "
        await asyncio.sleep(30)
        yield "never."

    agent = Agent(dashcam.record(FunctionModel(stream_function=stalling), session_id="s"))

    async def run() -> None:
        await asyncio.wait_for(agent.run("?", event_stream_handler=drain), timeout=0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    store = opened()
    assert transcript(store, "s")[1] == ("assistant", ["Well, "])
    assert metadata(store, "s")[0]["stop_reason"] == "abort"


def test_an_answer_that_a_stream_brings_as_a_whole_is_recorded(opened: Callable[[], SqliteReader]) -> None:
    class Whole(WrapperModel):
        @asynccontextmanager
        async def request_stream(self, messages: Any, settings: Any, parameters: Any, context: Any = None) -> Any:
            response = await self.wrapped.request(messages, settings, parameters)
            yield CompletedStreamedResponse(response, model_request_parameters=parameters)

    model = dashcam.record(Whole(Script(text("All at once.")).model()), session_id="s")
    asyncio.run(Agent(model).run("?", event_stream_handler=drain))
    store = opened()
    assert transcript(store, "s") == [("user", ["?"]), ("assistant", ["All at once."])]


# Failures


def test_a_request_that_fails_is_told_and_raised_unchanged(opened: Callable[[], SqliteReader]) -> None:
    failure = RuntimeError("overloaded")
    script = Script(failure, text("Now."))
    agent = Agent(dashcam.record(script.model(), session_id="s"))
    with pytest.raises(RuntimeError) as raised:
        ask(agent, "?")
    assert raised.value is failure
    ask(agent, "And now?")
    store = opened()
    assert [each["stop_reason"] for each in metadata(store, "s")] == ["error", "stop"]
    assert metadata(store, "s")[0]["error"] == {"type": "RuntimeError", "message": "overloaded"}
    assert [each.error for each in store.model_calls(session_id="s")] == ["overloaded", None]


def test_a_request_that_is_cancelled_is_an_abort(opened: Callable[[], SqliteReader]) -> None:
    async def slow(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(30)
        raise AssertionError

    agent = Agent(dashcam.record(FunctionModel(slow), session_id="s"))

    async def run() -> None:
        await asyncio.wait_for(agent.run("?"), timeout=0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(run())
    store = opened()
    assert metadata(store, "s")[0]["stop_reason"] == "abort"
    assert [each.stop_reason for each in store.model_calls(session_id="s")] == ["abort"]


@pytest.mark.parametrize("streams", [False, True])
def test_nothing_that_goes_wrong_in_recording_reaches_the_agent(streams: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def poison(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    for place in ("items_of", "emit"):
        with monkeypatch.context() as patched:
            patched.setattr(pydantic_sessions, place, poison if place == "items_of" else None)
            agent = Agent(dashcam.record(FunctionModel(Script(text("Fine.")), stream_function=spoken)))
            if streams:
                agent.tool_plain(look)
                asyncio.run(agent.run("?", event_stream_handler=drain))
            else:
                assert ask(agent, "?").output == "Fine."
    assert emit.recorder().failed > 0


async def drain(context: RunContext[Any], events: Any) -> None:
    async for _ in events:
        pass


def test_a_redaction_that_fails_costs_the_record_and_not_the_run(data: Path) -> None:
    def broken(fields: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError

    dashcam.configure(data=data, redaction=dashcam.Redaction(function=broken))
    agent = Agent(dashcam.record(Script(call("look"), text("Fine.")).model()))
    agent.tool_plain(look)
    assert ask(agent, "?").output == "Fine."


def test_a_secret_reaches_the_model_and_not_the_record(opened: Callable[[], SqliteReader], data: Path) -> None:
    key = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"
    script = Script(text("Never say it."))
    ask(Agent(dashcam.record(script.model(), session_id="s")), f"My key is {key}")
    assert key in str(script.saw)
    (recorded,) = opened().model_calls(session_id="s")
    assert recorded.redacted
    assert not any(key.encode() in path.read_bytes() for path in data.rglob("*") if path.is_file())


def test_what_isnt_json_is_told_as_well_as_it_can_be(opened: Callable[[], SqliteReader]) -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    script = Script()
    script.answers = [call("odd"), text("Done.")]
    model = FunctionModel(lambda messages, info: cast("ModelResponse", script.answers.pop(0)))
    agent = Agent(dashcam.record(model, session_id="s"))

    @agent.tool_plain
    def odd() -> ToolReturn[str]:
        return ToolReturn("fine", metadata={"it": Odd(), "nan": float("nan")})

    ask(agent, "a lone \ud800 surrogate")
    store = opened()
    assert [role for role, _ in transcript(store, "s")] == ["user", "assistant"]
    assert "<odd>" in str(contexts(store, "s")[1])
    assert len(store.model_calls(session_id="s")) == 2


# Sessions


def test_the_session_is_the_one_given_then_that_of_the_trace_then_that_of_the_conversation(
    opened: Callable[[], SqliteReader],
) -> None:
    def run(**how: Any) -> Any:
        return ask(Agent(dashcam.record(Script(text("!")).model(), **how)), "?")

    with dashcam.record_session("by-recorder") as chat, dashcam.use_trace(dashcam.new_trace("by-trace")) as trace:
        run(session=chat, session_id="ignored")
        run(session_id="by-id")
        run()
        dashcam.log_event(trace, "tool_call", tool="x")
    conversation = run().all_messages()[0].conversation_id
    store = opened()
    found = {each.session_id: each for each in store.sessions(SessionFilter())}
    assert set(found) == {"by-recorder", "by-id", "by-trace", conversation}
    for session_id in found:
        assert [role for role, _ in transcript(store, session_id)] == ["user", "assistant"]
    assert {each.trace_id for each in store.model_calls(session_id="by-trace")} == {trace.trace_id}


def test_models_that_are_given_one_recorder_share_it(opened: Callable[[], SqliteReader]) -> None:
    with dashcam.record_session("s", agent="host") as chat:
        history: list[ModelMessage] = []
        for word in ("one", "two"):
            agent = Agent(dashcam.record(Script(text(word)).model(), session=chat))
            history = ask(agent, "?", message_history=history).all_messages()
    store = opened()
    assert [words for _, (words,) in transcript(store, "s")] == ["?", "one", "?", "two"]
    assert {each.trace_id for each in store.model_calls(session_id="s")} == {chat.trace.trace_id}


def test_a_model_for_each_run_doesnt_keep_recorders_open_for_ever() -> None:
    for _ in range(pydantic_sessions.MAX_OPEN + 9):
        ask(Agent(dashcam.record(TestModel(), session_id="s")), "?")
    assert len(pydantic_sessions.sessions().of("s").lanes) <= pydantic_sessions.MAX_OPEN + 1


def test_each_trace_of_a_session_holds_its_own_turn(opened: Callable[[], SqliteReader]) -> None:
    script = Script(text("one"), text("two"))
    agent = Agent(dashcam.record(script.model()))
    history: list[ModelMessage] = []
    traces = [dashcam.new_trace("s"), dashcam.new_trace("s")]
    for trace in traces:
        with dashcam.use_trace(trace):
            history = ask(agent, "?", message_history=history).all_messages()
    store = opened()
    assert [words for _, (words,) in transcript(store, "s")] == ["?", "one", "?", "two"]
    assert [each.trace_id for each in store.model_calls(session_id="s")] == [trace.trace_id for trace in traces]


def slow_echo() -> FunctionModel:
    async def echo(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(0.01)
        prompt = messages[0].parts[0]
        assert isinstance(prompt, UserPromptPart)
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("look", {}, f"call-{prompt.content}")])
        return text(f"{prompt.content}!")

    return FunctionModel(echo)


@pytest.mark.parametrize("session_id", [None, "s"])
def test_runs_at_the_same_time_dont_mix(opened: Callable[[], SqliteReader], session_id: str | None) -> None:
    agent = Agent(dashcam.record(slow_echo(), session_id=session_id))

    @agent.tool_plain(name="look")
    async def slow_look() -> str:
        await asyncio.sleep(0.01)
        return "here"

    async def run() -> None:
        await asyncio.gather(*(agent.run(str(number)) for number in range(8)))

    threads = [Thread(target=asyncio.run, args=(run(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = opened()
    sessions = store.sessions(SessionFilter())
    assert len(sessions) == (16 if session_id is None else 1)
    said = [each for session in sessions for each in transcript(store, session.session_id)]
    assert sorted((words for role, words in said if role == "assistant"), key=str) == sorted(
        ([("tool-look", "output-available"), f"{number}!"] for number in range(8) for _ in range(2)), key=str
    )
    assert len(said) == 32
    assert sum(len(store.model_calls(session_id=each.session_id)) for each in sessions) == 32
    healthy(store)


def test_an_agent_inside_a_tool_has_messages_of_its_own(opened: Callable[[], SqliteReader]) -> None:
    inner = Agent(dashcam.record(Script(text("inner answer")).model()))
    outer = Agent(dashcam.record(Script(call("ask"), text("outer answer")).model()))

    @outer.tool_plain(name="ask")
    async def ask_inside() -> str:
        return (await inner.run("inner question")).output

    with dashcam.use_trace(dashcam.new_trace("s")):
        ask(outer, "outer question")
    assert transcript(opened(), "s") == [
        ("user", ["outer question"]),
        ("assistant", [("tool-ask", "output-available"), "outer answer"]),
        ("user", ["inner question"]),
        ("assistant", ["inner answer"]),
    ]


def test_the_oldest_sessions_are_closed_and_a_closed_one_goes_on(
    opened: Callable[[], SqliteReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pydantic_sessions, "MAX_SESSIONS", 2)
    agent = Agent(dashcam.record(TestModel()))
    for session_id in ("a", "b", "c", "a"):
        with dashcam.use_trace(dashcam.new_trace(session_id)):
            ask(agent, "?")
    store = opened()
    assert len(pydantic_sessions.sessions()._sessions) == 2
    assert [role for role, _ in transcript(store, "a")] == ["user", "assistant"] * 2
    ended = [event for event in store.events(EventFilter(session_id="a")) if event.operation == "span_ended"]
    assert "session.run" in {msgspec.json.decode(event.fields)["name"] for event in ended}


@pytest.mark.slow
def test_long_runs_cost_each_message_once(opened: Callable[[], SqliteReader], data: Path) -> None:
    rounds = 60
    script = Script(*(call("look") for _ in range(rounds)), text("Done."))
    for number, answer in enumerate(script.answers[:-1]):
        assert isinstance(answer, ModelResponse)
        answer.parts = [ToolCallPart("look", {}, f"c{number}")]
    agent = Agent(dashcam.record(script.model(), session_id="s"))
    agent.tool_plain(look)
    asyncio.run(agent.run("Go.", usage_limits=UsageLimits(request_limit=None)))
    store = opened()
    assert contexts(store, "s") == script.saw
    written = sum(path.stat().st_size for path in data.rglob("*.jsonl"))
    assert written < rounds * 12_000


@pytest.mark.slow
def test_a_process_that_ends_closes_what_it_recorded(opened: Callable[[], SqliteReader]) -> None:
    code = """
import asyncio, dashcam
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
asyncio.run(Agent(dashcam.record(TestModel(), session_id="s")).run("?"))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    ended = [event for event in opened().events(EventFilter(session_id="s")) if event.operation == "span_ended"]
    assert [msgspec.json.decode(event.fields)["name"] for event in ended] == ["session.turn", "session.run"]


def test_a_message_that_is_changed_in_place_is_told_as_it_was_sent(opened: Callable[[], SqliteReader]) -> None:
    """JSON is made once of a message, unless something in it has changed, however deep."""

    def meddling(messages: list[ModelMessage]) -> list[ModelMessage]:
        for message in messages[:-1]:
            for part in message.parts:
                args: Any = getattr(part, "args", None)
                if isinstance(args, dict):
                    args["marks"].append(len(messages))
                elif isinstance(part, ToolReturnPart):
                    part.content = f"(left out at {len(messages)})"
        return messages

    script = Script(*(ModelResponse([ToolCallPart("mark", {"marks": []}, f"c{n}")]) for n in range(4)), text("Done."))
    agent = Agent(dashcam.record(script.model(), session_id="s"), capabilities=[ProcessHistory(meddling)])

    @agent.tool_plain
    def mark(marks: list[int]) -> str:
        return "a long result"

    ask(agent, "Go.")
    store = opened()
    assert contexts(store, "s") == script.saw
    assert [part["output"] for part in parts(store, "s", "tool-mark")] == ["a long result"] * 4


# The name


def test_the_name_is_the_room_and_the_function() -> None:
    code = """
import sys, dashcam
assert "pydantic_ai" not in sys.modules
from dashcam.record.collect import collect_journals
import dashcam.record.refresh
assert callable(dashcam.record) and "record" in dir(dashcam)
assert "pydantic_ai" not in sys.modules
sys.modules["pydantic_ai"] = None
try:
    dashcam.record("openai:gpt-5")
except dashcam.DashcamError as error:
    print(type(error).__name__, error)
"""
    told = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert "MissingExtra dashcam.record needs" in told
    assert "dashcam[host]" in told


def test_options_that_cant_be_used_are_told_at_once() -> None:
    with pytest.raises(UnjoinableRecord):
        dashcam.record(TestModel(), session_id="")
    with pytest.raises(SettingsError):
        dashcam.record(TestModel(), permissions=[{"action": "perhaps"}])
    with pytest.raises(SettingsError, match=r"colour.*record_session takes: session_id, agent"):
        dashcam.record(TestModel(), colour="red")


def test_the_recorded_model_is_a_model_like_the_one_inside() -> None:
    inside = TestModel()
    recorded = dashcam.record(inside)
    assert (recorded.model_name, recorded.system, recorded.wrapped) == (inside.model_name, inside.system, inside)
