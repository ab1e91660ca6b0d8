"""A chat session turn by turn."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chats import MODEL, NOW, Chat, text, tool
from hypothesis import given
from hypothesis import strategies as st

from dashcam.contracts.chat import ChatPart, Model, Usage
from dashcam.contracts.event import Event
from dashcam.errors import NotFound, SessionNotFound
from dashcam.store.base import EventFilter
from dashcam.store.sqlite.store import SqliteReader, SqliteStore
from dashcam.views import turns
from dashcam.views.catalog import tools_of
from dashcam.views.parts import (
    CompactionPart,
    DataPart,
    FilePart,
    OtherPart,
    ReasoningPart,
    SourcePart,
    StepStart,
    TextPart,
    ToolPart,
    part_of,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CATALOG = json.dumps([{"name": "search"}, {"name": "read"}])


def load(store: SqliteReader, session_id: str = "s") -> list[turns.Turn]:
    return list(turns.load(store, session_id))


def test_a_turn_is_a_user_message_and_the_answers_up_to_the_next_one(store: SqliteStore) -> None:
    chat = Chat()
    chat.message("system", text("Be kind."))
    chat.user("first")
    chat.assistant("one")
    chat.assistant("two")
    chat.user("second")
    chat.user("third")
    chat.assistant("three")
    chat.keep(store)
    found = load(store)
    assert [turn.number for turn in found] == [1, 2, 3]
    assert [[message.role for message in turn.messages] for turn in found] == [
        ["system", "user", "assistant", "assistant"],
        ["user"],
        ["user", "assistant"],
    ]
    assert (found[0].user_text, found[0].assistant_text) == ("first", "one\n\ntwo")
    assert found[1].assistant == []
    assert found[1].duration_ms is None


def test_what_the_answers_tell_is_summed_and_the_last_one_names_the_model(store: SqliteStore) -> None:
    chat = Chat()
    chat.user("hi")
    chat.assistant("a", usage={"input": 10, "output": 2, "cache_read": 5}, cost_usd=0.25, model={"model_id": "old"})
    chat.assistant(
        "b",
        usage={"input": 1, "reasoning": 3, "cache_write": 4},
        cost_usd=0.5,
        model={**MODEL, "variant": "thinking"},
        agent="helper",
        permissions=[{"permission": "*", "action": "ask"}],
        step=7,
    )
    chat.keep(store)
    (turn,) = load(store)
    assert turn.usage == Usage(input=11, output=2, reasoning=3, cache_read=5, cache_write=4)
    assert turn.cost_usd == 0.75
    assert turn.model == Model(provider_id="anthropic", model_id="claude-sonnet-4-5", variant="thinking")
    assert turn.settings == {"temperature": 0.2}
    assert (turn.agent, turn.stop_reason, turn.trace_id, turn.step) == ("helper", "end_turn", "t", 7)
    assert turn.permissions == [{"permission": "*", "action": "ask"}]
    assert turn.duration_ms == 2500  # from the question to the last sign of the last answer
    assert not turn.is_open


def test_what_nobody_told_is_none_and_never_zero(store: SqliteStore) -> None:
    chat = Chat()
    chat.user("hi")
    chat.assistant("…", model=None, stop_reason=None)
    chat.keep(store)
    (turn,) = load(store)
    unknown = (
        turn.usage,
        turn.cost_usd,
        turn.model,
        turn.tools_available,
        turn.system_prompt_digest,
        turn.first_token_ms,
    )
    assert unknown == (None,) * 6
    assert turn.is_open


def test_every_kind_of_part_is_seen_as_what_it_is(store: SqliteStore) -> None:
    chat = Chat()
    chat.user("hi")
    chat.assistant(
        {"type": "step-start"},
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "wor", "state": "streaming"},
        tool("search", "c1", input={"q": 1}, output=[2]),
        {"type": "dynamic-tool", "toolName": "mcp", "toolCallId": "c2", "state": "output-error", "errorText": "no"},
        tool("rm", "c3", state="output-denied", approval={"id": "a", "approved": False, "reason": "too risky"}),
        tool("slow", "c4", state="input-streaming", rawInput='{"q'),
        {"type": "file", "mediaType": "image/png", "filename": "a.png", "url": "data:x"},
        {"type": "source-url", "url": "https://example.org", "title": "T"},
        {"type": "data-weather", "data": {"sun": True}},
        {"type": "data-compaction", "data": {"summary": "so far", "tail_start_id": "m", "auto": True}},
        {"type": "hologram", "depth": 3},
    )
    chat.keep(store)
    parts = load(store)[0].assistant[0].parts
    kinds = [StepStart, ReasoningPart, TextPart, ToolPart, ToolPart, ToolPart, ToolPart, FilePart, SourcePart]
    assert [type(part) for part in parts] == [*kinds, DataPart, CompactionPart, OtherPart]
    good, failed, denied, slow = load(store)[0].tool_calls
    assert (good.tool, good.state, good.input, good.output) == ("search", "output-available", {"q": 1}, [2])
    assert (failed.tool, failed.error, failed.failed) == ("mcp", "no", True)
    assert (denied.error, denied.failed) == ("too risky", True)
    assert (slow.state, slow.input) == ("input-streaming", '{"q')
    compaction = parts[-2]
    assert isinstance(compaction, CompactionPart)
    assert (compaction.summary, compaction.tail_start_id, compaction.auto) == ("so far", "m", True)


def test_each_tool_call_has_the_decision_that_was_made_about_it(store: SqliteStore) -> None:
    chat = Chat()
    chat.user("hi")
    chat.assistant(tool("search", "c1"), tool("rm", "c2", state="output-denied"), tool("read", "c3"))
    rule = {"permission": "rm", "pattern": "*", "action": "deny"}
    chat.span("permission.evaluate", tool_call_id="c1", tool_id="search", pattern="*", action="allow", source="session")
    chat.span("permission.evaluate", tool_call_id="c2", action="deny", source="manifest", rule=rule, rules=[rule])
    chat.span("tool.call", tool_call_id="c3", action="allow", note="no permission.evaluate at all")
    chat.span("permission.evaluate", tool_call_id=["c3"], action="allow")
    chat.keep(store)
    first, second, third = load(store)[0].tool_calls
    assert first.decision
    assert (first.decision.action, first.decision.source, first.decision.tool_id) == ("allow", "session", "search")
    assert second.decision
    assert (second.decision.rule, second.decision.rules) == (rule, [rule])
    assert third.decision is None


def test_calls_are_those_of_the_turns_own_answers_with_or_without_a_trace(store: SqliteStore) -> None:
    for session, trace in (("s", "t"), ("imported", None)):
        chat = Chat(session_id=session, trace_id=trace or "elsewhere")
        for number in range(3):
            chat.user("q", trace_id=trace)
            answer = chat.assistant("a", trace_id=trace)
            chat.call(answer, [b"1"] * (number + 1), first_token_ms=number + 0.5, catalog=CATALOG)
        chat.keep(store)
        found = load(store, session)
        assert [[call.step for call in turn.calls] for turn in found] == [[0], [1], [2]]
        assert [turn.first_token_ms for turn in found] == [0.5, 1.5, 2.5]
        assert found[0].tools_available == ["search", "read"]


def test_available_tools_come_from_the_catalog_and_called_ones_are_told_once(store: SqliteStore) -> None:
    chat = Chat()
    chat.user("hi")
    answer = chat.assistant(tool("read", "1"), tool("read", "2"), tool("search", "3"))
    call = chat.call(answer, [b"1"], catalog=CATALOG)
    chat.user("again")
    chat.assistant("x", tool_catalog_digest="0" * 64)
    chat.keep(store)
    first, second = load(store)
    assert (first.tools_available, first.tools_called) == (["search", "read"], ["read", "search"])
    assert first.tool_catalog_digest == call.tool_catalog_digest
    assert second.tools_available is None  # the catalog isn't in the store


def test_a_summary_is_counted_but_does_not_answer(store: SqliteStore) -> None:
    chat = Chat()
    chat.user("hi")
    chat.assistant("a", usage={"input": 1}, stop_reason="length")
    compaction = {"type": "data-compaction", "data": {"summary": "s"}}
    chat.assistant(
        compaction, usage={"input": 2}, stop_reason="stop", trigger="compaction", model={"model_id": "small"}
    )
    chat.keep(store)
    (turn,) = load(store)
    assert turn.usage == Usage(input=3)
    assert (turn.stop_reason, turn.model and turn.model.model_id) == ("length", "claude-sonnet-4-5")


def test_hidden_and_queued_turns_say_so(store: SqliteStore) -> None:
    chat = Chat()
    chat.user("old", hidden_at=NOW + 9)
    chat.assistant("old answer", hidden_at=NOW + 9, error={"type": "X", "message": "lost"})
    chat.user("new", queued_at=NOW + 5)
    chat.assistant("new answer")
    chat.keep(store)
    old, new = load(store)
    assert (old.hidden_at, old.error) == (NOW + 9, "X: lost")
    assert (new.hidden_at, new.queued_at) == (None, NOW + 5)
    assert new.duration_ms == 500  # without the wait


def test_one_turn_is_read_with_the_answered_one_before_it(store: SqliteStore) -> None:
    chat = Chat()
    for number in range(3):
        chat.user(f"q{number}")
        chat.assistant(f"a{number}")
    chat.user("unanswered")
    chat.user("last")
    chat.keep(store)
    before, turn = turns.at(store, "s", 1)
    assert (before, turn.user_text) == (None, "q0")
    before, turn = turns.at(store, "s", 5)
    assert before
    assert (before.number, turn.user_text) == (3, "last")
    with pytest.raises(NotFound, match="5 turns"):
        turns.at(store, "s", 6)


def test_a_session_that_is_not_there_is_told_at_once(store: SqliteStore) -> None:
    with pytest.raises(SessionNotFound):
        turns.load(store, "nope")


class _Counting(SqliteReader):
    """Counts what it is asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: list[str] = []

    def events(self, wanted: EventFilter) -> Iterator[Event]:
        self.asked.append("events")
        return super().events(wanted)


def test_the_decisions_of_a_trace_are_asked_for_once(store: SqliteStore) -> None:
    chat = Chat()
    for number in range(20):
        chat.user("q")
        chat.assistant(tool("read", str(number)))
    chat.keep(store)
    with _Counting(store.path) as reader:
        assert len(load(reader)) == 20
        assert reader.asked == ["events"]


@pytest.mark.slow
def test_a_long_session_is_read_in_the_memory_of_one_turn(store: SqliteStore) -> None:
    chat = Chat()
    for number in range(500):
        chat.trace_id = f"t{number}"
        chat.user("q")
        chat.assistant(*(tool("read", f"{number}-{each}", output="x" * 2_000) for each in range(19)))
    chat.keep(store)  # 10,000 parts, 20 MB
    del chat
    with SqliteReader(store.path) as reader:
        tracemalloc.start()
        try:
            parts = sum(len(turn.parts) for turn in turns.load(reader, "s"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert parts == 10_000
    assert peak < 2_000_000


@given(
    st.sampled_from(["text", "reasoning", "tool-x", "dynamic-tool", "file", "source-url", "data-compaction", "?"]), JSON
)
def test_a_part_may_hold_anything(kind: str, data: Any) -> None:
    row = ChatPart(
        id="p",
        message_id="m",
        session_id="s",
        index=0,
        type=kind,
        data_json=json.dumps(data),
        created_at=0,
        updated_at=0,
    )
    assert part_of(row, {}).id == "p"


@pytest.mark.parametrize("broken", ["", "{", "[1]", '{"text":"\\ud800"}'])
def test_a_part_that_is_no_json_object_is_shown_as_it_stands(broken: str) -> None:
    row = ChatPart(
        id="p", message_id="m", session_id="s", index=0, type="text", data_json=broken, created_at=0, updated_at=0
    )
    part = part_of(row, {})
    assert isinstance(part, OtherPart)
    assert part.data == broken


@given(
    st.dictionaries(
        st.sampled_from(["usage", "model", "cost_usd", "error", "permissions", "hidden_at", "trace_id"]), JSON
    )
)
def test_metadata_may_hold_anything(metadata: dict[str, Any]) -> None:
    message = turns.Message(id="m", role="assistant", parts=[], metadata=metadata, created_at=1, updated_at=1)
    assert turns.turn_from(1, [message], []).number == 1


@pytest.mark.parametrize(
    ("catalog", "names"),
    [
        ('[{"name":"a"},{"name":"b","x":1}]', ["a", "b"]),
        ('[{"type":"function","function":{"name":"a"}}]', ["a"]),
        ('[{"toolSpec":{"name":"a"}}]', ["a"]),
        ('{"tools":[{"toolSpec":{"name":"a"}}]}', ["a"]),
        ('[{"functionDeclarations":[{"name":"a"},{"name":"b"}]}]', ["a", "b"]),
        ('{"a":{"description":"x"},"b":{}}', ["a", "b"]),
        ('[{"type":"web_search"},{"name":"a"},{"name":"a"},{},7]', ["web_search", "a", "a#2", "unnamed", "unnamed#2"]),
        ("not json", []),
        ("7", []),
    ],
)
def test_a_catalog_is_read_in_whosever_form(catalog: str, names: list[str]) -> None:
    assert list(tools_of(catalog)) == names
