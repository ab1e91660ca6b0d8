"""Whether a turn can be run again, what that takes, and which recorded call answers a new one."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatRow, ChatSession
from dashcam.errors import NotFound
from dashcam.record.recorder import record_session
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteReader, SqliteStore
from dashcam.views import replay
from dashcam.views.parts import ToolPart
from dashcam.views.replay import Matcher, Overrides, key_of, with_settings

KEY = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"
TOOLS = [{"name": "lookup", "input_schema": {"type": "object"}}]


def record(session_id: str = "s", **options: Any) -> None:
    """Two turns, the second with a tool call."""
    told = {"model": "openai:gpt-5", "system_prompt": "Be kind.", "tools": TOOLS, "settings": {"temperature": 0.2}}
    with record_session(session_id, agent="shop", **{**told, **options}) as chat:
        chat.user("Hello")
        chat.assistant("Hi!")
        chat.user("Where is order 7?")
        call = chat.tool_call("lookup", {"order": 7})
        chat.tool_result(call, {"state": "shipped"})
        chat.assistant("It is on its way.")


def test_the_inputs_of_a_turn_are_those_of_its_first_model_call(opened: Any) -> None:
    record()
    plan = replay.load(opened(), "s", 2)
    assert (plan.eligible, plan.missing, plan.redacted) == (True, [], [])
    inputs = plan.inputs
    assert inputs is not None
    assert (inputs.model.provider_id, inputs.model.model_id) == ("openai", "gpt-5")
    assert inputs.system_prompt == inputs.instructions == "Be kind."
    assert json.loads(inputs.tool_catalog or "") == TOOLS
    assert [json.loads(body)["role"] for body in inputs.messages] == ["user", "assistant", "user"]
    assert (inputs.settings, inputs.wire) == ({"temperature": 0.2}, "ai-sdk")
    assert len(plan.answers) == 2


def test_changes_are_applied_and_leave_the_rest_alone(opened: Any) -> None:
    record()
    changes = Overrides(system_prompt="Be terse.", settings={"temperature": 0, "extra_body.a.b": [1]})
    inputs = replay.load(opened(), "s", 2, changes).inputs
    assert inputs is not None
    assert inputs.system_prompt == inputs.instructions == "Be terse."
    assert inputs.settings == {"temperature": 0, "extra_body": {"a": {"b": [1]}}}
    assert inputs.model.model_id == "gpt-5"


def test_what_was_not_recorded_is_named(opened: Any) -> None:
    record("no-model", model=None)
    with record_session("no-tools", agent="a", model="openai:gpt-5") as chat:
        chat.user("Where is order 7?")
        chat.begin_step({"messages": [{"role": "user", "content": "Where is order 7?"}]})
        chat.tool_result(chat.tool_call("lookup", {"order": 7}), "shipped")
    store = opened()
    plan = replay.load(store, "no-tools", 1)
    assert plan.missing == ["the tool catalog: tools were called, and which there were was not recorded"]
    assert replay.load(store, "no-model", 1).missing == ["the name of the model"]
    assert replay.load(store, "no-model", 1, Overrides(model="openai:gpt-5")).eligible


def test_rows_without_model_calls_say_that_the_request_is_unknown(store: SqliteStore) -> None:
    at: Any = {"created_at": 1, "updated_at": 1}
    rows: list[ChatRow] = [
        ChatSession(id="s", agent="a", **at),
        ChatMessage(id="m", session_id="s", role="user", **at),
        ChatPart(id="p", message_id="m", session_id="s", index=0, type="text", data_json='{"type":"text"}', **at),
        ChatMessage(id="n", session_id="s", role="assistant", created_at=2, updated_at=2),
    ]
    store.append(Batch(chat=rows))
    (plan,) = replay.load_all(store, "s")
    assert plan.missing == ["the request to the model: no model call was recorded for this turn"]
    assert plan.inputs is None


def test_bodies_that_the_store_lost_make_a_turn_unfit_unless_they_are_replaced(opened: Any) -> None:
    record()

    class Emptied:
        """A store whose prompts, catalogs and contents were pruned."""

        def __init__(self, store: SqliteReader) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        def system_prompt(self, digest: str) -> str:
            return self._store.system_prompt("0" * 64)

        def tool_catalog(self, digest: str) -> str:
            return self._store.tool_catalog("0" * 64)

        def bodies(self, digests: Any) -> dict[bytes, bytes]:
            return {}

    store: Any = Emptied(opened())
    missing = replay.load(store, "s", 2).missing
    assert [reason.split(" ")[1] for reason in missing] == ["system", "tool", "of"]
    assert "3 of the 3 messages" in missing[2]
    with_prompt = replay.load(store, "s", 2, Overrides(system_prompt="Be terse.")).missing
    assert [reason.split(" ")[1] for reason in with_prompt] == ["tool", "of"]


def test_a_turn_that_is_not_there_is_told_with_how_many_there_are(opened: Any) -> None:
    record()
    with pytest.raises(NotFound, match="has 2 turns, and no turn 9"):
        replay.load(opened(), "s", 9)


def test_where_secrets_were_taken_out_is_told_and_a_new_prompt_needs_no_old_one(opened: Any) -> None:
    with record_session("s", agent="a", model="openai:gpt-5", system_prompt=f"Use {KEY}.") as chat:
        chat.user(f"My key is {KEY}.")
        chat.assistant(f"{KEY} is yours.")
    store = opened()
    plan = replay.load(store, "s", 1)
    assert plan.eligible
    assert set(plan.redacted) == {"system", "messages.0.content.0.text"}
    assert replay.load(store, "s", 1, Overrides(system_prompt="Hi.")).redacted == ["messages.0.content.0.text"]


def test_a_prompt_among_the_messages_is_sent_once_and_replaced_there(opened: Any) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "The user is on a train."},
    ]
    with record_session("s", agent="a", model="openai:gpt-5") as chat:
        chat.user("hi")
        chat.assistant("ho", request={"messages": messages[:2]})
    store = opened()
    inputs = replay.load(store, "s", 1).inputs
    assert inputs is not None
    assert (inputs.system_prompt, inputs.instructions, len(inputs.messages)) == ("Be kind.", None, 2)
    changed = replay.load(store, "s", 1, Overrides(system_prompt="Be terse.")).inputs
    assert changed is not None
    assert changed.instructions == "Be terse."
    assert [json.loads(body)["role"] for body in changed.messages] == ["user"]


def test_the_system_parts_of_pydantic_ai_are_replaced_within_their_message(opened: Any) -> None:
    parts = [
        {"part_kind": "system-prompt", "content": "Be kind."},
        {"part_kind": "user-prompt", "content": "hi"},
    ]
    with record_session("s", agent="a", model="openai:gpt-5") as chat:
        chat.user("hi")
        request = chat.calls.request(
            [chat.calls.message({"kind": "request", "parts": parts})],
            prompt="Be kind.\n\nIt is late.",
            tools=None,
            settings={"instructions": "It is late."},
            wire="pydantic-ai",
        )
        chat.assistant("ho", request=request)
    store = opened()
    inputs = replay.load(store, "s", 1).inputs
    assert inputs is not None
    assert inputs.instructions == "It is late."
    changed = replay.load(store, "s", 1, Overrides(system_prompt="Be terse.")).inputs
    assert changed is not None
    assert "instructions" not in changed.settings
    assert [part["part_kind"] for part in json.loads(changed.messages[0])["parts"]] == ["user-prompt"]


# Requests that the recorder put together

NO_PROMPT = "no system prompt was told to the recorder: the model is asked without one"
NO_TOOLS = "no tool catalog was told to the recorder: the model is asked without tools"
NO_HISTORY = "the messages of earlier turns were not told to the recorder that made this call"
TOLD: dict[str, Any] = {"agent": "a", "model": "openai:gpt-5", "system_prompt": "Be kind.", "tools": []}


def inexact(store: SqliteReader, session_id: str = "s") -> list[list[str]]:
    """What isn't as it was, turn by turn; every turn can be run again."""
    plans = list(replay.load_all(store, session_id))
    assert [plan.missing for plan in plans] == [[]] * len(plans)
    return [plan.inexact for plan in plans]


def test_a_prompt_and_a_catalog_that_nobody_told_are_not_exact_and_not_missing(opened: Any) -> None:
    record("untold", system_prompt=None, tools=None)
    record("told")
    record("none", tools=[])
    store = opened()
    assert inexact(store, "untold") == [[NO_PROMPT, NO_TOOLS]] * 2
    assert inexact(store, "told") == inexact(store, "none") == [[], []]
    assert replay.load(store, "untold", 1, Overrides(system_prompt="Be kind.")).inexact == [NO_TOOLS]


def test_a_request_that_was_handed_over_lacks_nothing(opened: Any) -> None:
    for question in ("One", "Two"):
        with record_session("s", agent="a", model="openai:gpt-5") as chat:
            chat.user(question)
            chat.assistant("ho", request={"messages": [{"role": "user", "content": question}]})
    assert inexact(opened()) == [[], []]


def test_a_recorder_for_each_turn_sees_its_own_turn_alone_and_that_is_said(opened: Any) -> None:
    for question in ("One", "Two"):
        with record_session("s", **TOLD) as chat:
            chat.user(question)
            chat.assistant("ho")
    assert inexact(opened()) == [[], [NO_HISTORY]]


def test_a_recorder_that_is_told_the_history_makes_whole_requests(opened: Any) -> None:
    history: list[dict[str, Any]] = []
    for question in ("One", "Two"):
        with record_session("s", history=history, **TOLD) as chat:
            chat.user(question)
            chat.assistant("ho")
        history += [
            {"id": question, "role": "user", "parts": [{"type": "text", "text": question}]},
            {"id": f"{question}!", "role": "assistant", "parts": [{"type": "text", "text": "ho"}]},
        ]
    assert inexact(opened()) == [[], []]


def test_what_a_rewind_had_hidden_was_rightly_not_sent(opened: Any) -> None:
    with record_session("s", **TOLD) as chat:
        for question in ("One", "Two"):
            message_id = chat.user(question)
            chat.assistant("ho")
        time.sleep(0.002)  # times are told to the millisecond
        chat.rewind(message_id)
        chat.user("Three")
        chat.assistant("ho")
    assert inexact(opened()) == [[], [], []]


def test_a_turn_that_was_hidden_later_is_judged_by_what_there_was_then(opened: Any) -> None:
    for question in ("One", "Two"):
        with record_session("s", **TOLD) as chat:
            message_id = chat.user(question)
            chat.assistant("ho")
            time.sleep(0.002)
            if question == "Two":
                chat.rewind(message_id)
    assert inexact(opened()) == [[], [NO_HISTORY]]


def test_a_summary_stands_for_what_came_before_it(opened: Any) -> None:
    with record_session("s", **TOLD) as chat:
        for question in ("One", "Two"):
            chat.user(question)
            chat.assistant("ho")
        chat.compaction("They said hello.")
        chat.user("Three")
        chat.assistant("ho")
    assert inexact(opened()) == [[], [], []]


@given(st.binary(max_size=20) | st.sampled_from([b'{"role":7}', b'["user"]', b'"user"', b"null", b'{"role":"tool"}']))
def test_whatever_a_message_is_it_is_a_users_only_if_it_says_so(body: bytes) -> None:
    assert not replay._is_asked(body)
    assert replay._is_asked(b'{"content":"hi","role":"user"}')


# Tool calls


def call(tool: str, given: Any, output: Any = "x", state: str = "output-available") -> ToolPart:
    ids: Any = {"id": "p", "message_id": "m", "created_at": 0, "updated_at": 0}
    return ToolPart(**ids, tool=tool, tool_call_id="c", state=state, input=given, output=output)


def outcomes(matcher: Matcher, *calls: tuple[str, Any]) -> list[tuple[str, Any]]:
    matches = [matcher.match(tool, given) for tool, given in calls]
    return [(match.outcome, match.recorded.output if match.recorded else None) for match in matches]


def test_the_same_calls_in_the_same_order_are_hits_each_with_its_own_outcome() -> None:
    recorded = [call("a", {"x": 1}, "first"), call("b", {}, "b"), call("a", {"x": 1}, "second")]
    matcher = Matcher(recorded, lambda: recorded)
    made = (("a", {"x": 1}), ("b", None), ("a", {"x": 1}))
    assert outcomes(matcher, *made) == [("hit", "first"), ("hit", "b"), ("hit", "second")]


def test_another_order_or_more_calls_than_recorded_have_diverged_and_are_answered() -> None:
    recorded = [call("a", 1, "A"), call("b", 2, "B")]
    matcher = Matcher(recorded, lambda: recorded)
    assert outcomes(matcher, ("b", 2), ("a", 1), ("b", 2)) == [("hit", "B"), ("diverged", "A"), ("diverged", "B")]


def test_another_input_is_answered_only_where_just_that_call_stands_in_the_session() -> None:
    recorded = [call("a", 1, "A")]
    matcher = Matcher(recorded, lambda: [call("a", 9, "earlier"), *recorded])
    made = (("a", 9), ("a", 3), ("never", 1))
    assert outcomes(matcher, *made) == [("diverged", "earlier"), ("diverged", None), ("miss", None)]


def test_a_call_that_was_broken_off_answers_nothing() -> None:
    recorded = [call("a", 1, None, state="input-available")]
    assert outcomes(Matcher(recorded, lambda: recorded), ("a", 1)) == [("miss", None)]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.sampled_from("abc"), JSON), max_size=6))
def test_a_turn_that_is_run_as_it_was_is_all_hits(calls: list[tuple[str, Any]]) -> None:
    recorded = [call(tool, given, number) for number, (tool, given) in enumerate(calls)]
    made = msgspec.json.decode(msgspec.json.encode(calls))
    assert outcomes(Matcher(recorded, lambda: recorded), *made) == [("hit", n) for n in range(len(calls))]


@pytest.mark.slow
@given(st.dictionaries(st.text(), JSON))
def test_the_order_of_keys_makes_no_other_call(given_input: dict[str, Any]) -> None:
    turned = dict(reversed(given_input.items()))
    assert key_of("t", given_input) == key_of("t", turned)


@given(JSON)
def test_any_value_has_a_key(value: Any) -> None:
    assert key_of("t", value) == key_of("t", value)
    assert key_of("t", value) != key_of("u", value)


def test_names_with_dots_lead_into_objects_and_change_nothing_that_was_given() -> None:
    before = {"a": {"b": 1}, "c": 2}
    assert with_settings(before, {"a.d": 3, "c.e": 4}) == {"a": {"b": 1, "d": 3}, "c": {"e": 4}}
    assert before == {"a": {"b": 1}, "c": 2}
