"""Rows that tell one thing twice: a session's row takes nothing back, and a tool call has one row, whoever answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from chat_rows import AT, delta, dump, message, part, session, turn
from hypothesis import example, given
from hypothesis import strategies as st

from dashcam.contracts.chat import ChatPart, ChatRow, ChatSession
from dashcam.store.base import Batch, SessionFilter
from dashcam.store.sqlite.store import SqliteStore

MODEL = '{"provider_id":"openai","model_id":"gpt-5"}'
RULES = '[{"permission":"*","action":"ask"}]'
TOLD: dict[str, Any] = {
    "parent_id": "before",
    "parent_message_id": "before.1",
    "workspace_root": "/srv",
    "archived_at": AT,
    "permissions_json": RULES,
    "model_json": MODEL,
    "metadata_json": '{"kind": "user", "big": 123456789012345678901234567890}',
}


def rows_of(store: SqliteStore) -> dict[str, list[tuple[Any, ...]]]:
    """What is kept, without the numbers that the index counts by."""
    return {name: rows for name, rows in dump(store).items() if name != "chat_texts"}


@pytest.mark.parametrize("model", ["{}", '{"provider_id":"","model_id":""}', '{"variant":"fast"}', "no json"])
@pytest.mark.parametrize("at", [AT + 1, AT, AT - 1])
def test_a_session_row_that_says_less_erases_nothing(store: SqliteStore, model: str, at: int) -> None:
    store.append(Batch(chat=[session(**TOLD)]))
    store.append(Batch(chat=[session(agent="other", model_json=model, updated_at=at)]))
    kept = store.chat_session("s")
    assert {name: getattr(kept, name) for name in TOLD} == TOLD
    assert (kept.agent, kept.updated_at) == ("helper", max(at, AT))


def test_an_older_session_row_fills_what_is_missing_and_changes_nothing_else(store: SqliteStore) -> None:
    store.append(Batch(chat=[session(workspace_root="/new", metadata_json='{"a":2}', updated_at=AT + 1)]))
    store.append(Batch(chat=[session(**{**TOLD, "metadata_json": '{"a":1,"kind":"system:cron"}'})]))
    kept = store.chat_session("s")
    assert (kept.workspace_root, kept.parent_id, kept.model_json) == ("/new", "before", MODEL)
    assert msgspec.json.decode(kept.metadata_json) == {"a": 2, "kind": "system:cron"}
    (listed,) = store.sessions(SessionFilter(kind="system", archived=True))
    assert (listed.model, listed.parent_id) == ("gpt-5", "before")
    assert list(store.verify()) == []


def test_the_metadata_of_a_session_grows_and_keeps_its_letters(store: SqliteStore) -> None:
    store.append(Batch(chat=[session(metadata_json='{"n": 1.0, "deep": {"x": [1,  2]}}')]))
    changes = store._connection.total_changes
    store.append(Batch(chat=[session(metadata_json=less) for less in ('{"n": 1.0}', "{}", "no json")]))
    assert store._connection.total_changes - changes <= 1  # the log's own count
    store.append(Batch(chat=[session(metadata_json='{"n":true,"new":null}', updated_at=AT + 1)]))
    assert store.chat_session("s").metadata_json == '{"n":true,"deep":{"x": [1,  2]},"new":null}'


SESSIONS = st.builds(
    lambda told, metadata, at: session(
        **told, metadata_json=msgspec.json.encode(metadata).decode(), updated_at=AT + at
    ),
    st.fixed_dictionaries({}, optional={name: st.just(TOLD[name]) for name in TOLD if name != "metadata_json"}),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 2)),
    st.integers(0, 3),
)


@pytest.mark.slow
@given(st.lists(SESSIONS, min_size=1, max_size=5))
@example([session(metadata_json=told) for told in ('{"a":1}', '{"a":0}', '{"c":0,"a":0,"b":0}')])
def test_session_rows_told_again_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, rows: list[ChatSession]
) -> None:
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as store:
        store.append(Batch(chat=rows))
        before, changes = dump(store), store._connection.total_changes
        store.append(Batch(chat=rows))
        assert dump(store) == before
        assert store._connection.total_changes - changes <= 1  # the log's own count
        kept = store.chat_session("s")
        for name in TOLD.keys() - {"metadata_json"}:
            told = {getattr(row, name) for row in rows}
            assert getattr(kept, name) == (TOLD[name] if TOLD[name] in told else told.pop())
        assert {*msgspec.json.decode(kept.metadata_json)} == {
            key for row in rows for key in msgspec.json.decode(row.metadata_json)
        }


def call(at: int, state: str, *, key: str = "call", **data: Any) -> ChatPart:
    """A row of the part that calls the tool."""
    told = {"type": "tool-pay", "toolCallId": "c", "state": state, **data}
    return part(key, "m1", told, type="tool-pay", tool_call_id="c", tool_state=state, updated_at=AT + at)


def answer(at: int, state: str, *, key: str = "stub", **data: Any) -> ChatPart:
    """A row of the part by which another process answers that call, of which it knows no more than the id."""
    told = {"type": "dynamic-tool", "toolName": "unknown", "toolCallId": "c", "state": state, **data}
    given = {"created_at": AT + 10, "updated_at": AT + at}
    return part(key, "m2", told, type="dynamic-tool", tool_call_id="c", tool_state=state, **given)


def parts_of(store: SqliteStore) -> list[ChatPart]:
    return [found for found in store.chat_parts("s") if found.tool_call_id]


HEAD: list[ChatRow] = [session(), message("m1"), message("m2", created_at=AT + 10)]
ASKED: list[ChatRow] = [
    call(0, "input-streaming"),
    delta(0, '{"sum', "call", path="rawInput", updated_at=AT + 1),
    delta(5, '":7}', "call", path="rawInput", updated_at=AT + 2),
    call(3, "input-available", input={"sum": 7}),
]
APPROVED = {"id": "a", "approved": True, "reason": "fine"}
STORIES: dict[str, tuple[Sequence[ChatRow], Sequence[ChatRow], dict[str, Any]]] = {
    "a tool of the client": (
        ASKED,
        [answer(11, "output-available", output={"paid": 7.0})],
        {"state": "output-available", "input": {"sum": 7}, "output": {"paid": 7.0}},
    ),
    "an approval": (
        [*ASKED, call(4, "approval-requested", input={"sum": 7}, approval={"id": "a"})],
        [
            answer(11, "approval-responded", approval=APPROVED),
            answer(12, "output-available", approval=APPROVED, output="half", preliminary=True),
            answer(13, "output-available", approval=APPROVED, output="whole", providerExecuted=True),
        ],
        {
            "state": "output-available",
            "input": {"sum": 7},
            "approval": APPROVED,
            "providerExecuted": True,
            "output": "whole",
        },
    ),
    "a failure after a denial, told by two processes": (
        ASKED,
        [
            answer(11, "approval-responded", key="stub2", approval={"id": "a", "approved": False}),
            answer(12, "output-error", errorText="exploded"),
        ],
        {
            "state": "output-error",
            "input": {"sum": 7},
            "approval": {"id": "a", "approved": False},
            "errorText": "exploded",
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
@given(data=st.data())
def test_a_call_that_another_process_answered_is_one_row_whatever_is_collected_first(
    tmp_path_factory: pytest.TempPathFactory, story: str, data: st.DataObject
) -> None:
    asked, answered, wanted = STORIES[story]
    told: list[list[ChatRow]] = [[*HEAD, *asked], [*HEAD[:1], HEAD[2], *answered]]
    turns = data.draw(st.permutations([0] * len(told[0]) + [1] * len(told[1])))
    streams = [iter(rows) for rows in told]
    rows = [next(streams[who]) for who in turns]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as store:
        for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            store.append(Batch(chat=rows[start:end]))
        (found,) = parts_of(store)
        assert found.data() == {"type": "tool-pay", "toolCallId": "c", **wanted}
        assert (found.id, found.message_id, found.tool_state) == ("call", "m1", wanted["state"])
        assert found.updated_at == answered[-1].updated_at
        before = rows_of(store)
        for again in (told[1], told[0], rows):
            store.append(Batch(chat=again))
            assert rows_of(store) == before
        assert list(store.verify()) == []
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as other:
        other.append(Batch(chat=told[0]))
        other.append(Batch(chat=told[1]))
        assert rows_of(other) == before


@pytest.mark.parametrize("is_stub_first", [False, True])
def test_lists_and_search_follow_a_joined_call(store: SqliteStore, is_stub_first: bool) -> None:
    asked: list[ChatRow] = [*turn("s", AT), message("m1"), call(1, "input-available", input="please")]
    failed = [answer(2, "output-error", errorText="exploded")]
    for rows in (failed, asked) if is_stub_first else (asked, failed):
        store.append(Batch(chat=rows))
    (listed,) = store.sessions(SessionFilter())
    assert listed.errors == 1
    assert [hit.part_id for hit in store.search("exploded")] == ["call"]
    assert [hit.part_id for hit in store.search("please pay")] == ["call"]
    store.append(Batch(chat=[answer(3, "output-available", output="mended")]))
    (listed,) = store.sessions(SessionFilter())
    assert listed.errors == 0
    assert store.search("exploded") == store.search("unknown") == []
    assert [hit.part_id for hit in store.search("mended")] == ["call"]
    assert list(store.verify()) == []


def test_an_older_answer_changes_no_outcome(store: SqliteStore) -> None:
    done = call(9, "output-available", input=1, output="mine")
    store.append(Batch(chat=[*HEAD, done]))
    store.append(Batch(chat=[answer(8, "output-error", errorText="late")]))
    assert parts_of(store) == [done]


def test_the_same_moment_counts_as_newer(store: SqliteStore) -> None:
    store.append(Batch(chat=[*HEAD, answer(0, "output-available", output=1)]))
    store.append(Batch(chat=[call(0, "input-available", input=2)]))
    (found,) = parts_of(store)
    assert (found.id, found.data()["output"], found.data()["input"]) == ("call", 1, 2)


@pytest.mark.parametrize(
    "odd",
    [
        answer(5, "output-available", input={}),
        answer(5, "input-streaming", rawInput='{"half'),
        answer(5, "output-available", toolName="pay"),
        msgspec.structs.replace(answer(5, "output-available"), tool_call_id="other"),
        msgspec.structs.replace(answer(5, "output-available"), data_json="["),
        msgspec.structs.replace(answer(5, "output-available"), type="tool-unknown"),
    ],
)
def test_what_is_more_than_an_answer_stays_a_part_of_its_own(store: SqliteStore, odd: ChatPart) -> None:
    asked = call(1, "input-available", input=1)
    store.append(Batch(chat=[*HEAD, asked, odd]))
    assert parts_of(store) == [asked, odd]


def test_a_call_of_another_session_is_left_alone(store: SqliteStore) -> None:
    asked = call(1, "input-available", input=1)
    stub = msgspec.structs.replace(answer(5, "output-available", output=1), session_id="t", message_id="t.2")
    store.append(Batch(chat=[*HEAD, asked, *turn("t", AT), stub]))
    assert parts_of(store) == [asked]
    assert [found.id for found in store.chat_parts("t") if found.tool_call_id] == ["stub"]


def test_an_answer_without_its_call_stays_until_that_comes(store: SqliteStore) -> None:
    store.append(Batch(chat=[*HEAD, answer(5, "output-available", output=1)]))
    assert [found.id for found in parts_of(store)] == ["stub"]
    odd = msgspec.structs.replace(call(1, "input-available"), data_json="no json")
    store.append(Batch(chat=[odd]))
    assert [found.id for found in parts_of(store)] == ["call", "stub"]
    store.append(Batch(chat=[call(2, "input-available", input=1)]))
    assert [found.id for found in parts_of(store)] == ["call"]


def test_an_approval_keeps_what_was_asked(store: SqliteStore) -> None:
    asked = call(1, "approval-requested", input=1, approval={"id": "a", "signature": "s"})
    store.append(Batch(chat=[*HEAD, asked, answer(5, "approval-responded", approval={"id": "a", "approved": True})]))
    (found,) = parts_of(store)
    assert found.data()["approval"] == {"id": "a", "signature": "s", "approved": True}
    assert found.tool_state == found.data()["state"] == "approval-responded"
