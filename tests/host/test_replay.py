"""A turn run again: what the model is sent, who answers its tool calls, and the branch that comes of it."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent, FunctionToolset, RunContext
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

import dashcam
from dashcam.contracts.chat import object_of
from dashcam.errors import ModelFailed, NotFound, NotReplayable, SettingsError, UnreadableInput
from dashcam.host import recall, replay, tools, wire
from dashcam.host.models import Played, open_model, parameters_from, script, settings_from
from dashcam.host.replay import Replayed
from dashcam.host.tools import Tools
from dashcam.host.turn import Options
from dashcam.record.branch import branch
from dashcam.record.pydantic_ai import record
from dashcam.record.recorder import SessionRecorder, record_session
from dashcam.record.refresh import open_current
from dashcam.sdk import emit
from dashcam.sdk.settings import Settings
from dashcam.sdk.settings import settings_from as read_settings
from dashcam.store.base import EventFilter, SessionFilter
from dashcam.store.sqlite.store import SqliteReader
from dashcam.views import diff, turns
from dashcam.views.context import request_of
from dashcam.views.replay import Overrides

KEY = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"
SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}}
CATALOG = [
    {"name": "lookup", "description": "Finds an order.", "input_schema": SCHEMA},
    {"name": "refund", "description": "Pays back.", "input_schema": SCHEMA},
]
NAMES = [
    *("type", "text", "image", "source", "data", "url", "file", "input", "id", "name", "toolName", "toolCallId"),
    *("tool_use_id", "content", "output", "value", "function", "arguments", "kind", "parameters", "properties"),
    *("mediaType", "media_type", "thinking", "signature", "providerOptions", "anthropic", "tools", "output_mode"),
]
KINDS = [
    *("text", "file", "image", "document", "image_url", "input_audio", "data-x", "reasoning", "thinking"),
    *("tool-call", "tool_use", "tool-result", "tool_result", "redacted_thinking"),
]
ROLES, WIRES = ["user", "assistant", "tool", "system"], ["ai-sdk", "as-given", "pydantic-ai"]
RECORDED = Options(changes=Overrides(model="recorded"))


@pytest.fixture
def settings(data: Path) -> Settings:
    return read_settings({}, data=data)


@pytest.fixture
def opened(settings: Settings) -> Iterator[Callable[[], SqliteReader]]:
    """Opens the store with all that was recorded so far; closed with the test."""
    stores: list[SqliteReader] = []

    def open_it() -> SqliteReader:
        stores.append(open_current(settings))
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


@pytest.fixture
def chat() -> str:
    """Two turns; the second calls both tools, one of which fails."""
    with record_session(
        "chat", agent="shop", model="openai:gpt-5", system_prompt="Be kind.", tools=CATALOG,
        settings={"temperature": 0.2}, workspace_root="/srv/shop",
        permissions=[{"permission": "*", "action": "allow"}],
    ) as recorder:  # fmt: skip
        recorder.user("Is order 3 there?")
        call = recorder.tool_call("lookup", {"order": 3}, tool_call_id="c0")
        recorder.tool_result(call, "no")
        recorder.assistant("No.", usage={"input": 5, "output": 2})
        recorder.user("Refund order 7.")
        call = recorder.tool_call("lookup", {"order": 7}, tool_call_id="c1")
        recorder.tool_result(call, {"state": "shipped"})
        call = recorder.tool_call("refund", {"order": 7}, tool_call_id="c2")
        recorder.tool_result(call, error="too late")
        recorder.assistant("It is too late for that.", usage={"input": 50, "output": 20})
    return "chat"


class Asked(list[tuple[list[ModelMessage], AgentInfo]]):
    """What a model was sent, request by request."""


def answering(*answers: Any) -> tuple[FunctionModel, Asked]:
    """A model that gives these answers: a text, or tool calls as (name, input)."""
    asked, rest = Asked(), iter(answers)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append((list(messages), info))
        said = next(rest)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, str):
            return ModelResponse([TextPart(said)])
        return ModelResponse([ToolCallPart(tool, given) for tool, given in said])

    return FunctionModel(answer, model_name="mine"), asked


def run(settings: Settings, opened: Any, turn: int = 2, **options: Any) -> tuple[Replayed, SqliteReader]:
    report = replay.run(settings, opened(), "chat", turn, Options(**options))
    return report, opened()


def outcomes(report: Replayed) -> list[tuple[str, str, str | None]]:
    return [(call.tool, call.outcome, call.answered_by) for call in report.calls]


# What the model is sent


def test_the_model_is_sent_what_it_was_sent_then(chat: str, settings: Settings, opened: Any) -> None:
    model, asked = answering("Fine.")
    report, _ = run(settings, opened, model=model)
    ((messages, info),) = asked
    assert (report.eligible, report.exact, report.stopped, report.steps) == (True, True, None, 1)
    assert info.instructions == "Be kind."
    assert info.model_settings == {"temperature": 0.2}
    assert [(tool.name, tool.parameters_json_schema) for tool in info.function_tools] == [
        ("lookup", SCHEMA),
        ("refund", SCHEMA),
    ]
    said = [part for message in messages for part in message.parts]
    assert [(part.part_kind, getattr(part, "content", None)) for part in said] == [
        ("user-prompt", "Is order 3 there?"),
        ("tool-call", None),
        ("tool-return", "no"),
        ("text", "No."),
        ("user-prompt", "Refund order 7."),
    ]


def test_changes_reach_the_model_and_the_record(chat: str, settings: Settings, opened: Any) -> None:
    model, asked = answering("Fine.")
    changes = Overrides(system_prompt="Be terse.", settings={"temperature": 0, "extra_body.effort": "low"})
    report, store = run(settings, opened, model=model, changes=changes)
    ((_, info),) = asked
    assert info.instructions == "Be terse."
    assert info.model_settings == {"temperature": 0, "extra_body": {"effort": "low"}}
    (call,) = store.model_calls(session_id=report.branch_id)
    assert store.system_prompt(call.system_prompt_digest or "") == "Be terse."
    told = object_of(store.chat_session(report.branch_id or "").metadata_json)["replay"]
    assert (told["of"], told["turn"], told["overrides"]["settings"]["temperature"]) == ("chat", 2, 0)
    found = diff.load(store, "chat", report.branch_id or "", turn=2).turns[0]
    assert {"system_prompt", "settings", "model"} <= set(found.changed)


def test_a_setting_that_no_model_hears_of_is_refused(chat: str, settings: Settings, opened: Any) -> None:
    with pytest.raises(SettingsError, match="no setting 'temprature'"):
        run(settings, opened, changes=Overrides(settings={"temprature": 0}))


# Who answers


def test_recorded_answers_played_back_are_all_hits_and_make_no_difference(
    chat: str, settings: Settings, opened: Any
) -> None:
    report = replay.run(settings, opened(), "chat", 2, RECORDED)
    store = opened()
    assert outcomes(report) == [("lookup", "hit", "recording"), ("refund", "hit", "recording")]
    assert [call.recorded_id for call in report.calls] == ["c1", "c2"]
    assert report.calls[1].error == "too late"
    found = diff.load(store, "chat", report.branch_id or "")
    assert (found.diverged_at, found.message) == (None, None)
    original = store.model_calls(session_id="chat")[2:]
    again = store.model_calls(session_id=report.branch_id)
    assert [request_of(store, call) for call in again] == [request_of(store, call) for call in original]
    assert [call.output_digest for call in again] == [call.output_digest for call in original]
    assert {call.input_tokens for call in again} == {None}  # nothing was spent


def test_outcomes_reach_the_model_with_what_became_of_them(chat: str, settings: Settings, opened: Any) -> None:
    model, asked = answering([("lookup", {"order": 7}), ("refund", {"order": 7})], "Sorry.")
    report, _ = run(settings, opened, model=model)
    assert outcomes(report) == [("lookup", "hit", "recording"), ("refund", "hit", "recording")]
    returned = [part for part in asked[1][0][-1].parts if isinstance(part, ToolReturnPart)]
    assert [(part.content, part.outcome) for part in returned] == [
        ({"state": "shipped"}, "success"),
        ("too late", "failed"),
    ]


def test_a_call_from_elsewhere_in_the_session_is_answered_and_has_diverged(
    chat: str, settings: Settings, opened: Any
) -> None:
    model, asked = answering([("lookup", {"order": 3})], "No.")
    report, _ = run(settings, opened, model=model)
    assert outcomes(report) == [("lookup", "diverged", "recording")]
    assert report.calls[0].recorded_id == "c0"
    assert len(asked) == 2


def test_a_call_that_nobody_answers_stops_the_replay_with_what_there_is(
    chat: str, settings: Settings, opened: Any
) -> None:
    model, _ = answering([("lookup", {"order": 7}), ("weather", {"town": "Bern"}), ("lookup", {"order": 9})])
    report, store = run(settings, opened, model=model)
    assert outcomes(report) == [("lookup", "hit", "recording"), ("weather", "miss", None), ("lookup", "diverged", None)]
    assert report.stopped == "tool weather not recorded; run it with --run-tools --tools module:name"
    assert not report.failed
    parts = turns.at(store, report.branch_id or "", 2)[1].tool_calls
    assert [part.state for part in parts] == ["output-available", "input-available", "input-available"]


def test_tools_that_were_named_run_and_what_they_log_joins_the_branch(
    chat: str, settings: Settings, opened: Any
) -> None:
    def weather(town: str) -> dict[str, str]:
        dashcam.log_event(dashcam.current_trace(), "decision", choice=town)
        return {"in": town}

    async def lookup(context: RunContext[None], order: int) -> str:
        raise LookupError(f"no {order}")

    named = Tools(FunctionToolset([weather, lookup]).tools.values())
    model, _ = answering([("weather", {"town": "Bern"}), ("lookup", {"order": 9})], "Rain.")
    report, store = run(settings, opened, model=model, tools=named)
    assert outcomes(report) == [("weather", "miss", "tool"), ("lookup", "diverged", "tool")]
    assert report.calls[0].output == {"in": "Bern"}
    assert report.calls[1].error == "LookupError: no 9"
    assert report.stopped is None
    (event,) = store.events(EventFilter(session_id=report.branch_id, operation="decision"))
    assert event.kind == "system:replay"


def test_only_what_is_not_recorded_runs(chat: str, settings: Settings, opened: Any) -> None:
    def lookup(order: int) -> str:
        raise AssertionError("it was recorded")

    model, _ = answering([("lookup", {"order": 7})], "Fine.")
    report, _ = run(settings, opened, model=model, tools=Tools([tools._tool(lookup)]))
    assert outcomes(report) == [("lookup", "hit", "recording")]


def test_a_tool_that_hangs_is_given_up(chat: str, settings: Settings, opened: Any) -> None:
    def weather() -> None:
        time.sleep(30)

    model, _ = answering([("weather", {})], "Fine.")
    began = time.monotonic()
    report, _ = run(settings, opened, model=model, tools=Tools([tools._tool(weather)]), tool_timeout=0.05)
    assert "longer than 0.05 s" in (report.calls[0].error or "")
    assert time.monotonic() - began < 20


def test_a_model_that_goes_on_for_ever_is_stopped(chat: str, settings: Settings, opened: Any) -> None:
    model, asked = answering(*[[("lookup", {"order": 7})]] * 9)
    report, _ = run(settings, opened, model=model, max_steps=3)
    assert len(asked) == report.steps == 3
    assert "--max-steps" in (report.stopped or "")
    assert [call.outcome for call in report.calls] == ["hit", "diverged", "diverged"]


def test_a_model_that_fails_leaves_a_branch_that_says_so(chat: str, settings: Settings, opened: Any) -> None:
    model, _ = answering([("lookup", {"order": 7})], RuntimeError("over capacity"))
    report, store = run(settings, opened, model=model)
    assert report.failed
    assert report.stopped == "the model failed: over capacity"
    turn = turns.at(store, report.branch_id or "", 2)[1]
    assert (turn.stop_reason, turn.error) == ("error", "RuntimeError: over capacity")


def test_models_that_can_not_be_asked_are_told_before_anything_is_recorded(
    chat: str, settings: Settings, opened: Any, tmp_path: Path
) -> None:
    for name in ("nobody:knows", "gpt-without-provider", "openai:gpt-5"):
        with pytest.raises(ModelFailed, match="--model recorded"):
            run(settings, opened, changes=Overrides(model=name))
    with pytest.raises(UnreadableInput, match="can't be read"):
        run(settings, opened, changes=Overrides(model=f"scripted:{tmp_path / 'gone'}"))
    assert opened().sessions(SessionFilter(kind=None, parent="chat")) == []


def test_verbose_tells_requests_and_pieces(chat: str, settings: Settings, opened: Any) -> None:
    told: list[tuple[str, Any]] = []
    options = Options(changes=Overrides(model="recorded"), tell=lambda what, value: told.append((what, value)))
    report = replay.run(settings, opened(), "chat", 2, options)
    assert outcomes(report) == [("lookup", "hit", "recording"), ("refund", "hit", "recording")]
    requests = {what: value for what, value in told if what.startswith("request")}
    assert requests["request 1"]["instructions"] == "Be kind."
    assert [requests[f"request {n}"]["known_messages"] for n in (1, 2, 3)] == [0, 5, 7]
    assert any("too late for that" in json.dumps(value) for what, value in told if what == "part_start")


def test_a_library_model_without_a_script_works_as_well(chat: str, settings: Settings, opened: Any) -> None:
    report, _ = run(settings, opened, turn=1, changes=Overrides(model="test"), max_steps=2)
    assert {call.tool for call in report.calls} == {"lookup", "refund"}
    assert isinstance(open_model("test"), TestModel)


# The branch


def test_the_branch_holds_copies_up_to_the_question_and_the_new_answer(
    chat: str, settings: Settings, opened: Any
) -> None:
    model, _ = answering("Done.")
    report, store = run(settings, opened, model=model)
    row = store.chat_session(report.branch_id or "")
    theirs, ours = (list(store.chat_messages(each)) for each in ("chat", row.id))
    assert (row.parent_id, row.parent_message_id) == ("chat", theirs[2].id)
    assert (row.agent, row.workspace_root) == ("shop", "/srv/shop")
    assert [message.role for message in ours] == ["user", "assistant", "user", "assistant"]
    copied = [part.data_json for message in theirs[:3] for part in store.chat_parts("chat", message.id)]
    assert [part.data_json for message in ours[:3] for part in store.chat_parts(row.id, message.id)] == copied
    ids = {message.id for message in theirs} | {part.id for part in store.chat_parts("chat")}
    assert not ids & ({message.id for message in ours} | {part.id for part in store.chat_parts(row.id)})
    assert [message.metadata().get("copied_from") for message in ours] == [*(m.id for m in theirs[:3]), None]
    assert ours[1].metadata()["usage"] == theirs[1].metadata()["usage"]
    assert row.prompt_tokens >= 5
    listed = store.sessions(SessionFilter(kind="system", parent="chat"))
    assert [each.session_id for each in listed] == [row.id]
    assert [each.session_id for each in store.sessions(SessionFilter())] == ["chat"]
    assert list(store.verify()) == []


def test_the_turn_of_a_branch_is_counted_as_in_its_parent(chat: str, settings: Settings, opened: Any) -> None:
    report, store = run(settings, opened, model=answering("Done.")[0])
    events = store.events(EventFilter(session_id=report.branch_id, operation="span_ended"))
    told = [event.data() for event in events]
    assert [each["turn_index"] for each in told if each["name"] == "session.turn"] == [2]


def test_what_a_rewind_has_hidden_is_not_copied(settings: Settings, opened: Any) -> None:
    with record_session("chat", agent="a", model="openai:gpt-5") as recorder:
        first = recorder.user("One")
        recorder.assistant("1")
        recorder.rewind(first)
        recorder.user("Two")
        recorder.assistant("2")
        recorder.user("Three")
        recorder.assistant("3")
    report, store = run(settings, opened, turn=3, model=answering("4")[0])
    texts = [part.data()["text"] for part in store.chat_parts(report.branch_id or "")]
    assert texts == ["Two", "2", "Three", "4"]


def test_a_branch_may_end_with_an_answer_too(chat: str, opened: Any) -> None:
    store = opened()
    answer = list(store.chat_messages("chat"))[1]
    with record_session("fork", agent="a", parent_id="chat", parent_message_id=answer.id) as recorder:
        copy_id = branch(store, "chat", answer.id, recorder)
        recorder.user("And 4?")
        with pytest.raises(NotFound, match="no message 'gone'"):
            branch(store, "chat", "gone", recorder)
    after = opened()
    messages = list(after.chat_messages("fork"))
    assert [message.role for message in messages] == ["user", "assistant", "user"]
    assert messages[1].id == copy_id


def test_each_run_is_logged_beside_the_call_that_it_repeats(chat: str, settings: Settings, opened: Any) -> None:
    first, _ = run(settings, opened, model=answering("Done.")[0])
    options = Overrides(settings={"extra_headers": {"authorization": f"Bearer {KEY}"}})
    run(settings, opened, model=answering([("weather", {})])[0], changes=options)
    path = settings.folder / "replay_runs.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 2
    call = opened().model_calls(session_id="chat")[2]
    for row in rows:
        assert (row["session_id"], row["trace_id"], row["step"]) == (call.session_id, call.trace_id, call.step)
        assert (row["kind"], row["operation"], row["turn"]) == ("system:replay", "replay_run", 2)
        assert row["duration_ms"] > 0
    assert rows[0]["branch_id"] == first.branch_id
    assert (rows[1]["calls"], rows[1]["exact"]) == ({"miss": 1}, True)
    assert KEY[8:] not in path.read_text()
    orphans = dashcam.orphan_rate(rows)
    assert orphans == 0


def test_code_of_the_tools_can_not_lead_the_recording_elsewhere(
    chat: str, settings: Settings, opened: Any, tmp_path: Path
) -> None:
    def weather() -> str:
        dashcam.configure(data=tmp_path / "elsewhere")
        return "rain"

    before = emit.recorder()
    model, _ = answering([("weather", {})], "Rain.")
    report, store = run(settings, opened, model=model, tools=Tools([tools._tool(weather)]))
    assert turns.at(store, report.branch_id or "", 2)[1].assistant_text == "Rain."
    assert emit.recorder() is before
    assert not (tmp_path / "elsewhere").exists()


# What can't be, or not exactly


def test_a_redacted_turn_is_replayed_and_said_not_to_be_exact(settings: Settings, opened: Any) -> None:
    with record_session("chat", agent="a", model="openai:gpt-5") as recorder:
        recorder.user(f"My key is {KEY}.")
        recorder.assistant("Thanks.")
    report, _ = run(settings, opened, turn=1, model=answering("Hm.")[0])
    assert (report.eligible, report.exact) == (True, False)
    assert report.redacted == ["messages.0.content.0.text"]


def test_what_can_not_be_sent_again_is_missing(settings: Settings, opened: Any) -> None:
    request = {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]}
    with record_session("chat", agent="a", model="openai:gpt-5") as recorder:
        recorder.user("hi")
        recorder.assistant("ho", request=request)
    store = opened()
    report, ready = replay.check(store, "chat", 1)
    assert ready is None
    assert report.missing == ["a form that can be sent again (messages.0.content.0: a part of the type 'hologram')"]
    with pytest.raises(NotReplayable, match="hologram"):
        replay.run(settings, store, "chat", 1)
    assert [each.eligible for each in replay.check_all(store, "chat")] == [False]


def test_a_recording_without_answers_can_not_be_played_back(settings: Settings, opened: Any) -> None:
    with record_session("chat", agent="a", model="openai:gpt-5") as recorder:
        recorder.user("hi")
        recorder.begin_step({"messages": [USER]})
        recorder.end_step(output={"role": "wizard"})
    report = replay.run(settings, opened(), "chat", 1, RECORDED)
    assert "The recorded answer 1 can't be said again: output: the role 'wizard' is not known" in (report.stopped or "")
    assert turns.at(opened(), report.branch_id or "", 1)[1].stop_reason == "error"


def fails_at_once(recorder: SessionRecorder) -> None:
    recorder.begin_step()
    raise RuntimeError("over capacity")


def fails_and_is_not_told_to_have_ended_so(recorder: SessionRecorder) -> None:
    recorder.begin_step()
    recorder.end_step(error="over capacity")


def fails_in_the_middle_of_a_word(recorder: SessionRecorder) -> None:
    recorder.chunk({"type": "start-step"})
    recorder.chunk({"type": "text-start", "id": "1"})
    recorder.chunk({"type": "text-delta", "id": "1", "delta": "It is on its w"})
    recorder.chunk({"type": "error", "errorText": "over capacity"})


def fails_while_a_tool_runs(recorder: SessionRecorder) -> None:
    recorder.tool_call("lookup", {"order": 7}, tool_call_id="c1")
    raise RuntimeError("over capacity")


def fails_after_a_tool_has_run(recorder: SessionRecorder) -> None:
    recorder.tool_result(recorder.tool_call("lookup", {"order": 7}, tool_call_id="c1"), "shipped")
    raise RuntimeError("over capacity")


@pytest.mark.parametrize(
    "fail",
    [
        fails_at_once,
        fails_and_is_not_told_to_have_ended_so,
        fails_in_the_middle_of_a_word,
        fails_while_a_tool_runs,
        fails_after_a_tool_has_run,
    ],
)
def test_a_turn_that_failed_is_played_back_to_the_same_end(
    fail: Callable[[SessionRecorder], None], settings: Settings, opened: Any
) -> None:
    with suppress(RuntimeError), record_session("chat", agent="a", model="openai:gpt-5", tools=CATALOG) as recorder:
        recorder.user("Where is order 7?")
        fail(recorder)
    report = replay.run(settings, opened(), "chat", 1, RECORDED)
    assert (report.stopped or "").endswith("over capacity")
    assert (report.steps, report.failed) == (1, fail is not fails_after_a_tool_has_run)
    store = opened()
    then, now = (turns.at(store, each, 1)[1] for each in ("chat", report.branch_id or ""))
    assert (now.stop_reason, now.error) == (then.stop_reason, then.error)
    assert [call.error for call in now.calls] == [call.error for call in then.calls]
    found = diff.load_pair(store, "chat", 1, report.branch_id or "", 1)
    assert (found.diverged_at, found.turns[0].changed) == (None, [])


@pytest.mark.parametrize("reason", ["length", "content-filter", "abort"])
def test_a_turn_is_played_back_to_the_end_that_it_had(reason: str, settings: Settings, opened: Any) -> None:
    with record_session("chat", agent="a", model="openai:gpt-5") as recorder:
        recorder.user("hi")
        recorder.assistant("It is on", stop_reason=reason)
    report = replay.run(settings, opened(), "chat", 1, RECORDED)
    assert report.stopped is None
    assert turns.at(opened(), report.branch_id or "", 1)[1].stop_reason == reason


def test_a_turn_that_ended_with_a_tools_outcome_is_not_asked_for_more(settings: Settings, opened: Any) -> None:
    with record_session("chat", agent="a", model="openai:gpt-5", tools=CATALOG) as recorder:
        recorder.user("Where is order 7?")
        recorder.tool_result(recorder.tool_call("lookup", {"order": 7}), "shipped")
        recorder.end_turn("tool-calls")
    report = replay.run(settings, opened(), "chat", 1, RECORDED)
    assert (report.stopped, report.steps, outcomes(report)) == (None, 1, [("lookup", "hit", "recording")])
    assert turns.at(opened(), report.branch_id or "", 1)[1].stop_reason == "tool-calls"


@pytest.mark.parametrize("said", [None, "h"])
def test_an_answer_that_failed_and_was_asked_for_again_is_played_back_as_it_came_in_the_end(
    said: str | None, settings: Settings, opened: Any
) -> None:
    with record_session("chat", agent="a", model="openai:gpt-5") as recorder:
        recorder.user("hi")
        recorder.begin_step()
        recorder.end_step(error="over capacity", output=said)
        recorder.assistant("ho")
    report = replay.run(settings, opened(), "chat", 1, RECORDED)
    assert (report.stopped, report.steps) == (None, 1)
    assert turns.at(opened(), report.branch_id or "", 1)[1].assistant_text == "ho"


# Whole sessions of Pydantic AI


def test_a_session_of_pydantic_ai_is_replayed_from_its_own_messages(settings: Settings, opened: Any) -> None:
    model, _ = answering([("lookup", {"order": 7})], "Shipped.")
    agent = Agent(record(model, session_id="chat"), instructions="Be kind.", system_prompt="You sell.")

    @agent.tool_plain
    def lookup(order: int) -> str:
        return f"{order} is on its way"

    asyncio.run(agent.run("Where is 7?", model_settings={"temperature": 0.5}))
    again, asked = answering([("lookup", {"order": 7})], "Shipped.")
    report, store = run(settings, opened, turn=1, model=again)
    assert (report.missing, report.exact, report.inexact) == ([], True, [])
    assert outcomes(report) == [("lookup", "hit", "recording")]
    (messages, info), (more, _) = asked
    assert info.instructions == "Be kind."
    assert info.model_settings == {"temperature": 0.5}
    assert [tool.name for tool in info.function_tools] == ["lookup"]
    assert [part.part_kind for part in messages[0].parts] == ["system-prompt", "user-prompt"]
    assert more[-1].parts[0].content == "7 is on its way"  # type: ignore[union-attr]
    calls = store.model_calls(session_id=report.branch_id)
    assert calls[0].context_digest == store.model_calls(session_id="chat")[0].context_digest
    assert calls[0].system_prompt_digest == store.model_calls(session_id="chat")[0].system_prompt_digest
    played = replay.run(settings, store, "chat", 1, RECORDED)
    assert outcomes(played) == [("lookup", "hit", "recording")]
    changed, sent = answering("Ok.")
    run(settings, opened, turn=1, model=changed, changes=Overrides(system_prompt="Be terse."))
    assert sent[0][1].instructions == "Be terse."
    assert [part.part_kind for part in sent[0][0][0].parts] == ["user-prompt"]


def test_an_output_that_is_a_tool_call_ends_the_turn(settings: Settings, opened: Any) -> None:
    model, _ = answering([("final_result", {"response": 7})])
    asyncio.run(Agent(record(model, session_id="chat"), output_type=int).run("How many?"))
    report = replay.run(settings, opened(), "chat", 1, RECORDED)
    assert (report.stopped, report.calls, report.steps) == (None, [], 1)
    assert turns.at(opened(), report.branch_id or "", 1)[1].stop_reason == "stop"


# Sessions whose requests were handed over

USER = {"role": "user", "content": "Where is 7?"}
OPENAI_TURN = [
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "lookup", "arguments": '{"order":7}'}},
    ]},
    {"role": "tool", "tool_call_id": "c", "content": '{"state":"shipped"}'},
]  # fmt: skip
ANTHROPIC_TURN = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "lookup", "input": {"order": 7}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": '{"state":"shipped"}'}]},
]


@pytest.mark.parametrize(("provider", "said"), [("openai", OPENAI_TURN), ("anthropic", ANTHROPIC_TURN)])
def test_a_session_with_a_providers_own_requests_goes_on_in_their_form(
    provider: str, said: list[Any], settings: Settings, opened: Any
) -> None:
    catalog = [{"name": "lookup", "parameters" if provider == "openai" else "input_schema": SCHEMA}]
    more = {"system": "Be kind.", "tools": catalog, "max_tokens": 99}
    with record_session("chat", agent="a", model=f"{provider}:m") as recorder:
        recorder.user("Where is 7?")
        recorder.begin_step({"messages": [USER], **more})
        recorder.tool_call("lookup", {"order": 7}, tool_call_id="c")
        recorder.tool_result("c", {"state": "shipped"})
        recorder.begin_step({"messages": [USER, *said], **more})
        recorder.chunk({"type": "text-start", "id": "1"})
        recorder.chunk({"type": "text-delta", "id": "1", "delta": "Shipped."})
        recorder.chunk({"type": "text-end", "id": "1"})
        recorder.end_step()
    report = replay.run(settings, opened(), "chat", 1, RECORDED)
    store = opened()
    assert (report.exact, outcomes(report)) == (True, [("lookup", "hit", "recording")])
    calls = [store.model_calls(session_id=each) for each in ("chat", report.branch_id)]
    assert [call.context_digest for call in calls[1]] == [call.context_digest for call in calls[0]]
    assert diff.load(store, "chat", report.branch_id or "").diverged_at is None


# Wires


def messages(*given: Any, name: str = "as-given") -> list[ModelMessage]:
    return wire.messages_from(name, [json.dumps(each).encode() for each in given]).messages


def test_openai_messages_are_understood() -> None:
    function = {"name": "lookup", "arguments": '{"order":7}'}
    found = messages(
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "https://x/y.png"}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "shipped"},
    )  # fmt: skip
    first, second, third = found
    assert isinstance(first, ModelRequest)
    assert isinstance(first.parts[0], SystemPromptPart)
    assert isinstance(first.parts[1], UserPromptPart)
    assert first.parts[1].content == ["look", ImageUrl("https://x/y.png")]
    assert [(part.tool_name, part.args) for part in second.parts if isinstance(part, ToolCallPart)] == [
        ("lookup", '{"order":7}')
    ]
    assert isinstance(third.parts[0], ToolReturnPart)
    assert (third.parts[0].tool_name, third.parts[0].content) == ("lookup", "shipped")


def test_anthropic_messages_are_understood() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "no"}], "is_error": True}
    found = messages(
        {"role": "user", "content": [image]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "c", "name": "lookup", "input": {"order": 7}},
        ]},
        {"role": "user", "content": [result, {"type": "text", "text": "go on"}]},
    )  # fmt: skip
    assert isinstance(found[0].parts[0], UserPromptPart)
    content = found[0].parts[0].content[0]
    assert isinstance(content, BinaryContent)
    assert (content.data, content.media_type) == (b"hi", "image/png")
    thought = found[1].parts[0]
    assert isinstance(thought, ThinkingPart)
    assert (thought.content, thought.signature, thought.provider_name) == ("hm", "s", "anthropic")
    returned = found[2].parts[0]
    assert isinstance(returned, ToolReturnPart)
    assert (returned.content, returned.outcome) == ("no", "failed")


@pytest.mark.parametrize(
    "output",
    [
        "Hi.",
        {"role": "assistant", "content": "Hi."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"},
        {"choices": [{"message": {"role": "assistant", "content": "Hi."}}], "usage": {}},
        {"kind": "response", "parts": [{"part_kind": "text", "content": "Hi."}]},
    ],
)
def test_answers_are_understood_in_every_form_in_which_hosts_keep_them(output: Any) -> None:
    assert [part.content for part in wire.answer_from("as-given", json.dumps(output).encode()).parts] == ["Hi."]  # type: ignore[union-attr]


@pytest.mark.parametrize("odd", [b"", b"7", b"{}", b"[]", b'{"role":"user","content":"hi"}', b'{"choices":[]}'])
def test_what_is_no_answer_is_refused(odd: bytes) -> None:
    with pytest.raises(wire.Unconvertible, match=r"^output"):
        wire.answer_from("as-given", odd)


def test_outcomes_of_the_ai_sdk_are_understood() -> None:
    def result(output: dict[str, Any]) -> dict[str, Any]:
        return {"type": "tool-result", "toolCallId": "c", "toolName": "t", "output": output}

    content = [result({"type": "execution-denied", "reason": "no"}), result({"type": "json", "value": [1]})]
    (request,) = messages({"role": "tool", "content": content}, name="ai-sdk")
    found = [(part.content, part.outcome) for part in request.parts if isinstance(part, ToolReturnPart)]
    assert found == [("no", "denied"), ([1], "success")]


@pytest.mark.parametrize(
    "odd",
    [
        7,
        None,
        {},
        {"role": "wizard", "content": "hi"},
        {"role": "user", "content": 7},
        {"role": "user", "content": [7]},
        {"role": "user", "content": [{"type": "text", "text": 7}]},
        {"role": "user", "content": [{"type": "file", "data": "not base64", "mediaType": "a/b"}]},
        {"role": "user", "content": [{"type": "file", "data": "data:text/plain,hello"}]},
        {"role": "user", "content": [{"type": "image", "source": {}}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolName": 1}]},
        {"role": "assistant", "tool_calls": [7]},
        {"role": "tool", "content": "of which call?"},
        {"role": "tool", "content": [{"type": "tool-result"}]},
    ],
)
def test_odd_messages_are_refused_and_never_crash(odd: Any) -> None:
    with pytest.raises(wire.Unconvertible, match=r"^messages\.0"):
        messages(odd)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "text", "data:;base64,aGk=", "https://x/y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
PARTS = st.lists(
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4).flatmap(
        lambda part: st.sampled_from(KINDS).map(lambda kind: {**part, "type": kind})
    )
    | JSON,
    max_size=3,
)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(ROLES), PARTS | JSON, JSON), max_size=4), st.sampled_from(WIRES))
def test_whatever_was_recorded_is_converted_or_refused(said: list[tuple[str, Any, Any]], name: str) -> None:
    bodies = [json.dumps({"role": role, "content": content, "tool_calls": calls}) for role, content, calls in said]
    try:
        found = wire.messages_from(name, [body.encode() for body in bodies])
    except wire.Unconvertible as error:
        assert str(error).startswith("messages")
    else:
        assert all(message.parts for message in found.messages)


@pytest.mark.slow
@given(JSON, JSON)
def test_whatever_catalog_and_settings_were_recorded_they_make_a_request(catalog: Any, told: Any) -> None:
    settings = {"parameters": told, "temperature": told}
    parameters, _ = parameters_from(json.dumps(catalog), settings)
    assert all(isinstance(tool.parameters_json_schema, dict) for tool in parameters.function_tools)
    assert settings_from(settings)[0] == {"temperature": told}


def test_messages_that_are_not_pydantic_ais_are_refused() -> None:
    with pytest.raises(wire.Unconvertible, match="not as Pydantic AI has them"):
        messages({"kind": "request", "parts": [{"part_kind": "hologram"}]}, name="pydantic-ai")


def test_data_of_the_hosts_own_is_sent_as_text_and_said_not_to_be_exact() -> None:
    part = {"type": "data-file-ref", "data": {"path": "a.log"}}
    converted = wire.messages_from("ai-sdk", [json.dumps({"role": "user", "content": [part]}).encode()])
    (content,) = [part.content for part in converted.messages[0].parts if isinstance(part, UserPromptPart)]
    assert content == '{"data-file-ref":{"path":"a.log"}}'
    assert "messages.0.content.0" in converted.inexact[0]


# Settings, catalogs, scripts, tools


def test_settings_are_known_by_the_names_of_others_and_what_is_left_out_is_told() -> None:
    found, unknown = settings_from({"maxOutputTokens": 9, "stop": "x", "model": "m", "stream": True, "verbosity": 1})
    assert found == {"max_tokens": 9, "stop_sequences": ["x"]}
    assert unknown == ["settings.verbosity is left out: not a setting of Pydantic AI"]


def test_tools_of_every_providers_form_are_offered() -> None:
    catalog = [
        {"type": "function", "function": {"name": "a", "parameters": SCHEMA}},
        {"name": "b", "input_schema": SCHEMA},
        {"toolSpec": {"name": "c", "inputSchema": {"json": SCHEMA}}},
        {"name": "d"},
        {"type": "web_search_20250305", "name": "e"},
        {"name": "f", "kind": "output", "parameters_json_schema": SCHEMA},
    ]
    parameters, inexact = parameters_from(json.dumps(catalog), {"parameters": {"allow_text_output": False}})
    assert [(tool.name, bool(tool.parameters_json_schema["properties"])) for tool in parameters.function_tools] == [
        ("a", True), ("b", True), ("c", True), ("d", False),
    ]  # fmt: skip
    assert [tool.name for tool in parameters.output_tools] == ["f"]
    assert not parameters.allow_text_output
    assert [told.split(" ")[0] for told in inexact] == ["tools.d", "tools.e"]


@pytest.mark.parametrize("odd", ["[", "{}", "[7]", '[{"tool": 7}]', '[[{"text": null}]]'])
def test_a_script_that_is_none_is_refused(odd: str, tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(odd)
    with pytest.raises(UnreadableInput, match=r"script\.json"):
        script(path)


def test_a_script_answers_in_its_order_and_then_fails(
    chat: str, settings: Settings, opened: Any, tmp_path: Path
) -> None:
    path = tmp_path / "script.json"
    path.write_text('[[{"reasoning": "hm"}, {"tool": "lookup", "input": {"order": 7}, "id": "mine"}]]')
    report, store = run(settings, opened, changes=Overrides(model=f"scripted:{path}"))
    assert [call.tool_call_id for call in report.calls] == ["mine"]
    assert "has 1 answers, and the model was asked once more" in (report.stopped or "")
    assert [part.type for part in store.chat_parts(report.branch_id or "")][-2:] == ["reasoning", "tool-lookup"]
    path.write_text('[{"error": "too busy"}]')
    assert isinstance(open_model(f"scripted:{path}"), Played)
    report, _ = run(settings, opened, changes=Overrides(model=f"scripted:{path}"))
    assert report.stopped == "the model failed: too busy"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module of tools into the working folder; gives its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(code: str) -> str:
        (tmp_path / "tools_of_mine.py").write_text(code)
        return "tools_of_mine"

    yield write
    sys.modules.pop("tools_of_mine", None)


@pytest.mark.parametrize(
    "code",
    [
        "def lookup(order: int): return order",
        "async def _f(order: int): return order\nlookup = {'lookup': _f}",
        "def lookup(order: int): return order\n_f = lookup\nlookup = [_f]",
        "from pydantic_ai import FunctionToolset\n_s = FunctionToolset()\n@_s.tool_plain\ndef lookup(order: int): return order\nlookup = _s",
        "from pydantic_ai import Tool, RunContext\ndef _f(c: RunContext[None], order: int): return order\nlookup = Tool(_f, name='lookup')",
    ],
)
def test_tools_are_loaded_in_every_form(code: str, module: Callable[[str], str]) -> None:
    loaded = tools.load(f"{module(code)}:lookup")
    assert loaded.names == ["lookup"]
    assert loaded.run("lookup", {"order": 7}, 10).output == 7
    assert "validation error" in (loaded.run("lookup", {"order": "x"}, 10).error or "")


@pytest.mark.parametrize(
    ("code", "where", "told"),
    [
        ("x = 1", "tools_of_mine:x", "holds no tools"),
        ("x = 1", "tools_of_mine:y", "no attribute 'y'"),
        ("x = 1", "tools_of_mine", "Write it as module:name"),
        ("1 / 0", "tools_of_mine:x", "ZeroDivisionError"),
        ("", "no.such.module:x", "can't be imported"),
    ],
)
def test_tools_that_are_not_there_are_told(code: str, where: str, told: str, module: Callable[[str], str]) -> None:
    module(code)
    with pytest.raises(UnreadableInput, match=told):
        tools.load(where)


def test_a_tool_that_ends_the_process_ends_only_itself() -> None:
    def lookup() -> None:
        sys.exit(3)

    assert Tools([tools._tool(lookup)]).run("lookup", None, 10).error == "SystemExit: 3"


# One tool call


def test_a_tool_call_is_made_again_with_the_same_input(chat: str, settings: Settings, opened: Any) -> None:
    given = []

    def lookup(order: int) -> dict[str, str]:
        given.append(order)
        return {"state": "shipped"}

    def refund(order: int) -> None:
        raise ValueError("too late" if order == 7 else "?")

    named = Tools([tools._tool(lookup), tools._tool(refund)])
    same = recall.run(settings, opened(), "chat", "c1", named)
    assert (same.equal, same.new.output, given) == (True, {"state": "shipped"}, [7])
    failed = recall.run(settings, opened(), "chat", "c2", named)
    assert failed.equal
    assert (failed.old and failed.old.error, failed.new.error) == ("too late", "ValueError: too late")
    other = recall.run(settings, opened(), "chat", "c0", named)
    assert not other.equal
    rows = [json.loads(line) for line in (settings.folder / "replay_runs.jsonl").read_text().splitlines()]
    assert [(row["tool_call_id"], row["equal"]) for row in rows] == [("c1", True), ("c2", True), ("c0", False)]
    metadata = list(opened().chat_messages("chat"))[3].metadata()
    assert (rows[0]["trace_id"], rows[0]["step"]) == (metadata["trace_id"], metadata["step"])


def test_a_tool_call_that_is_not_there_or_not_named_is_told(chat: str, settings: Settings, opened: Any) -> None:
    def other() -> None: ...

    named = Tools([tools._tool(other)])
    with pytest.raises(NotFound, match="no tool call 'gone'"):
        recall.run(settings, opened(), "chat", "gone", named)
    with pytest.raises(NotFound, match="'lookup' is not among the tools that --tools names: other"):
        recall.run(settings, opened(), "chat", "c1", named)


def test_an_input_that_was_redacted_is_said_not_to_be_exact(settings: Settings, opened: Any) -> None:
    def login(key: str) -> str:
        return key

    with record_session("chat", agent="a") as recorder:
        recorder.user("go")
        call = recorder.tool_call("login", {"key": KEY})
        recorder.tool_result(call, "in")
    found = recall.run(settings, opened(), "chat", call, Tools([tools._tool(login)]))
    assert not found.exact
    assert KEY not in str(found)
