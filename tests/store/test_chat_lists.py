"""The list of sessions and the search for words: one order, every filter, whatever was typed."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from chat_rows import AT, delta, message, part, session, text, turn
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from records import DAY, NOW, event

from dashcam.contracts.chat import ChatRow, Usage
from dashcam.store.base import Batch, Retention, SessionFilter
from dashcam.store.sqlite import chat_read, search
from dashcam.store.sqlite.search import SNIPPET_CHARACTERS
from dashcam.store.sqlite.store import SqliteStore


def ids(store: SqliteStore, **wanted: Any) -> list[str]:
    return [found.session_id for found in store.sessions(SessionFilter(**{"kind": None, **wanted}))]


def test_one_list_holds_chat_sessions_and_sessions_with_events_alone(store: SqliteStore) -> None:
    store.append(Batch(chat=[*turn("chat", AT), *turn("both", AT)]))
    store.append(
        Batch(events=[event(0, session_id="both", ts=NOW + 5_000_000), event(9, session_id="bare", ts=NOW + 1_000_000)])
    )
    both, bare, chat = store.sessions(SessionFilter())
    assert [found.session_id for found in (both, bare, chat)] == ["both", "bare", "chat"]
    assert (both.agent, both.traces, both.events, both.first_at, both.last_at) == ("helper", 1, 1, AT, AT + 5000)
    assert (bare.agent, bare.status, bare.turns, bare.first_at) == (None, "idle", 0, AT + 1000)
    assert (chat.turns, chat.messages, chat.errors, chat.title) == (1, 2, 0, "why?")
    assert (chat.usage, chat.cost_usd) == (Usage(input=10, output=2), 0.5)


def test_pages_follow_one_another_without_gap_or_repetition(store: SqliteStore) -> None:
    names = [f"s{number}" for number in range(23)]
    store.append(Batch(chat=[row for number, name in enumerate(names) for row in turn(name, AT + number // 3)]))
    found: list[str] = []
    while page := ids(store, limit=5, after=found[-1] if found else ""):
        found += page
    assert found == ids(store, limit=100)
    assert sorted(found) == sorted(names)


def test_every_filter_narrows(store: SqliteStore) -> None:
    store.append(
        Batch(
            chat=[
                *turn("a", AT, question="the blue whale"),
                *turn("b", AT + 10, stop_reason="error", cost_usd=3),
                session("b", updated_at=AT + 20, agent="x", model_json='{"provider_id":"Acme","model_id":"big-1"}'),
                session("c", agent="coder", parent_id="a", updated_at=AT + 30),
                session("d", archived_at=AT + 40, updated_at=AT + 40),
                session("e", metadata_json='{"kind":"system:title"}', updated_at=AT + 50),
                session("f", metadata_json='{"kind":"system:a b"}', updated_at=AT + 60),
            ],
            events=[event(0, session_id="g", kind="system:cron", ts=NOW + 70_000)],
        )
    )
    assert ids(store) == ["g", "f", "e", "c", "b", "a"]
    assert ids(store, archived=True) == ["g", "f", "e", "d", "c", "b", "a"]
    assert ids(store, kind="user") == ["f", "c", "b", "a"]
    assert ids(store, kind="system") == ["g", "e"]
    assert ids(store, kind="system:cron") == ["g"]
    assert ids(store, agent="coder") == ["c"]
    assert ids(store, model="acme:BIG") == ["b"]
    assert ids(store, since=AT + 50) == ["g", "f", "e"]
    assert ids(store, until=AT + 19) == ["a"]
    assert ids(store, status="error") == ["b"]
    assert ids(store, status="idle", kind="user") == ["f", "c", "a"]
    assert ids(store, text="whal") == ["a"]
    assert ids(store, text="???") == []
    assert ids(store, has_error=True) == ["b"]
    assert ids(store, has_error=False, agent="helper") == ["f", "e", "a"]
    assert ids(store, min_cost=1.0) == ["b"]
    assert ids(store, parent="a") == ["c"]
    assert store.session_kinds(SessionFilter()) == {"system:cron": 1, "system:title": 1, "user": 4}
    assert store.session_kinds(SessionFilter(agent="helper", limit=1)) == {"system:title": 1, "user": 3}


def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("last", "metadata", "fresh", "stale"),
    [
        ("assistant", {}, "busy", "error"),
        ("assistant", {"stop_reason": "stop"}, "idle", "idle"),
        ("assistant", {"stop_reason": "error"}, "error", "error"),
        ("assistant", {"error": "overloaded"}, "error", "error"),
        ("user", {}, "busy", "idle"),
        ("user", {"queued_at": AT}, "idle", "idle"),
        ("assistant", {"hidden_at": AT}, "idle", "idle"),
        ("system", {}, "idle", "idle"),
    ],
)
def test_a_session_is_busy_while_its_last_turn_is_open_and_fresh(
    store: SqliteStore, last: str, metadata: dict[str, Any], fresh: str, stale: str
) -> None:
    for name, at in (("fresh", now()), ("stale", now() - chat_read.FRESH - 1000)):
        told = {"session_id": name, "created_at": at, "updated_at": at}
        store.append(Batch(chat=[*turn(name, at - 5), message(f"{name}.3", last, metadata, **told)]))
    status = {found.session_id: found.status for found in store.sessions(SessionFilter())}
    assert status == {"fresh": fresh, "stale": stale}
    assert ids(store, status=fresh) == (["fresh", "stale"] if fresh == stale else ["fresh"])


def test_failed_tool_calls_count_as_errors_as_their_state_changes(store: SqliteStore) -> None:
    def told(state: str, at: int) -> ChatRow:
        return part("p", "s.2", {"state": state}, type="tool-x", tool_state=state, index=1, updated_at=AT + at)

    for number, (state, errors) in enumerate(
        [("input-available", 0), ("output-error", 1), ("output-error", 1), ("output-available", 0)]
    ):
        store.append(Batch(chat=[*(turn("s", AT) if not number else ()), told(state, number)]))
        assert store.sessions(SessionFilter())[0].errors == errors
    assert list(store.verify()) == []


def test_the_title_is_how_the_first_user_message_begins(store: SqliteStore) -> None:
    store.append(Batch(chat=[*turn("s", AT, question=""), delta(0, "  Dear\n\t all " + "x" * 200, "s.1.1")]))
    title = store.sessions(SessionFilter())[0].title
    assert title == "Dear all " + "x" * 71
    assert list(store.verify()) == []


@pytest.mark.slow
def test_a_list_over_a_hundred_thousand_events_takes_a_moment(store: SqliteStore) -> None:
    for start in range(0, 100_000, 10_000):
        events = [
            event(at, session_id=f"s{at % 1000}", trace_id=f"t{at % 5000}", ts=NOW + at * 1000)
            for at in range(start, start + 10_000)
        ]
        store.append(Batch(events=events))
    began = time.monotonic()
    page = store.sessions(SessionFilter())
    rest = store.sessions(SessionFilter(after=page[-1].session_id, limit=10_000))
    kinds = store.session_kinds(SessionFilter())
    assert time.monotonic() - began < 0.5
    assert kinds == {"user": len(page) + len(rest)} == {"user": 1000}
    assert {(found.events, found.traces) for found in (*page, *rest)} == {(100, 5)}


def test_the_list_stays_right_when_old_events_and_sessions_go(store: SqliteStore) -> None:
    for day in range(3):
        at = NOW + day * DAY
        events = [event(day * 100 + i, ts=at + i * 1000, trace_id=f"t{day}", session_id=f"s{i % 2}") for i in range(20)]
        store.append(
            Batch(events=events, chat=[*turn(f"c{day}", at // 1000), *(turn("s0", at // 1000) if not day else ())])
        )
    gone = store.retain(Retention(before=NOW + DAY + 10_000))
    assert (gone.chat_sessions, gone.events) == (3, 30)
    found = {each.session_id: (each.agent, each.traces, each.events) for each in store.sessions(SessionFilter())}
    assert found == {"s0": (None, 2, 15), "s1": (None, 2, 15), "c2": ("helper", 0, 0)}
    before = store.sessions(SessionFilter()), store.search("why")
    assert list(store.verify()) == []
    store.forget_projections()
    assert (store.sessions(SessionFilter()), store.search("why")) == before
    assert list(store.verify()) == []


def test_words_are_found_in_data_and_in_sources(store: SqliteStore) -> None:
    plan = part("plan", "s.2", {"data": {"todo": "first\nsecond", "path": "C:\\new"}}, type="data-plan", index=1)
    note = part("note", "s.2", {"data": "plain remark"}, type="data-note", index=2)
    count = part("count", "s.2", {"data": 4711}, type="data-count", index=3)
    empty = part("empty", "s.2", {"data": None, "id": "hidden"}, type="data-empty", index=4)
    page = part("page", "s.2", {"url": "https://example.org/soup", "title": "Soups"}, type="source-url", index=5)
    paper = part("paper", "s.2", {"title": "Stew", "filename": "stew.pdf"}, type="source-document", index=6)
    parts = [plan, note, count, empty, page, paper]
    store.append(Batch(chat=[*turn("s", AT), *parts]))
    for query, wanted in {
        "second": "plan", "new": "plan", "remark": "note", "4711": "count", "example.org": "page", "soups": "page",
        "pdf": "paper",
    }.items():  # fmt: skip
        assert [hit.part_id for hit in store.search(query)] == [wanted], query
    assert store.search("nsecond") == store.search("hidden") == []
    assert list(store.verify()) == []
    store.append(Batch(chat=[replace(plan, data_json='{"data":["third"]}', updated_at=AT + 1)]))
    assert [[hit.part_id for hit in store.search(word)] for word in ("second", "third")] == [[], ["plan"]]
    search.rebuild(store._connection)
    assert [hit.part_id for hit in store.search("third")] == ["plan"]
    assert list(store.verify()) == []


def test_words_are_found_in_what_was_said_and_in_what_tools_took_and_gave(store: SqliteStore) -> None:
    told = {"input": {"path": "C:\\new\\table.txt"}, "output": {"lines": "first\nsecond\tthird"}}
    tool = part("tool", "s.2", {"toolCallId": "x", **told}, type="tool-readFile", index=1, created_at=AT + 5)
    failed = part("failed", "s.2", {"toolName": "shell", "errorText": "exploded badly"}, type="dynamic-tool", index=2)
    begun = part("begun", "s.2", {"rawInput": '{"half'}, type="tool-x", index=3)
    thought = part("thought", "s.2", {"text": "Überlegung"}, type="reasoning", index=4)
    file = part("file", "s.2", {"filename": "summer.png", "url": "data:secret"}, type="file", index=5)
    summary = part("summary", "s.2", {"data": {"summary": "earlier we met"}}, type="data-compaction", index=6)
    store.append(Batch(chat=[*turn("s", AT), tool, failed, begun, thought, file, summary]))
    for query, wanted in {
        "readfile": "tool", "table.txt": "tool", "new": "tool", "second": "tool", "third firs": "tool",
        "shell exploded": "failed", "half": "begun", "uberl": "thought", "SUMMER": "file", "earlier": "summary",
        "because": "s.2.1",
    }.items():  # fmt: skip
        assert [hit.part_id for hit in store.search(query)] == [wanted], query
    assert store.search("secret") == store.search("lastword") == []
    (hit,) = store.search("second")
    assert (hit.session_id, hit.message_id, hit.type) == ("s", "s.2", "tool-readFile")
    assert "\x02second\x03" in hit.snippet


def test_hits_come_newest_first_and_as_many_as_asked_for(store: SqliteStore) -> None:
    store.append(
        Batch(chat=[row for number in range(9) for row in turn(f"s{number}", AT + number, question="fish soup")])
    )
    assert [hit.session_id for hit in store.search("soup fi", limit=3)] == ["s8", "s7", "s6"]
    assert [hit.session_id for hit in store.search("soup", session_id="s2")] == ["s2"]
    assert store.search("soup", limit=-1) == []


def test_a_word_of_a_megabyte_does_not_make_a_snippet_of_a_megabyte(store: SqliteStore) -> None:
    store.append(
        Batch(chat=[*turn("s", AT), text("p", "x" * 1_000_000 + " needle " + "y" * 1_000_000, "s.2", index=1)])
    )
    (hit,) = store.search("needle")
    assert "needle" in hit.snippet
    assert len(hit.snippet) <= SNIPPET_CHARACTERS


def test_words_that_are_no_longer_said_are_no_longer_found(store: SqliteStore) -> None:
    store.append(
        Batch(chat=[*turn("s", AT), text("p", "alpha beta", "s.2", index=1), delta(6, "gamma", updated_at=AT + 1)])
    )
    assert store.search("beta") == []
    store.append(Batch(chat=[text("p", "delta", "s.2", index=1, updated_at=AT + 2)]))
    assert store.search("gamma") == store.search("alpha") == []
    assert len(store.search("delta")) == 1


@pytest.mark.slow
@given(st.lists(st.text(max_size=40), min_size=1, max_size=3), st.text(max_size=30))
@example(["a AND b OR NOT c"], 'NEAR("a" "b", 5)')
@example(["x"], '"')
@example(["x"], "words: x*^")
@example(["x"], "-x + y {a b}: c")
@example(["x"], "\ud800 \x00 '; DROP TABLE chat_parts; --")
@example(["a\x00b"], "a\x00b")
@example(["x"], "e\u0301 \u0301")
def test_nothing_that_is_said_or_typed_is_syntax(
    tmp_path_factory: pytest.TempPathFactory, said: list[str], typed: str
) -> None:
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as store:
        parts = [text(f"p{number}", words, "s.2", index=number + 1) for number, words in enumerate(said)]
        store.append(Batch(chat=[*turn("s", AT), *parts]))
        assert isinstance(store.search(typed), list)
        assert isinstance(ids(store, text=typed), list)
        for words in said:
            store.search(words)
        store.append(
            Batch(chat=[text("p0", typed.encode(errors="replace").decode(), "s.2", index=1, updated_at=AT + 1)])
        )
        assert list(store.verify()) == []
        store.forget_projections()
        assert list(store.verify()) == []


def test_the_index_takes_well_under_the_text_and_a_vacuum_does_it_no_harm(store: SqliteStore, path: Path) -> None:
    source = Path(sqlite3.__file__).parents[1].joinpath("typing.py").read_text()
    parts = [text(f"p{at}", source[at : at + 3000], "s.2", index=at + 1) for at in range(0, len(source), 3000)]
    store.append(Batch(chat=[*turn("gone", AT - 5), *turn("s", AT), *parts]))
    store.retain(Retention(before=NOW))
    (size,) = store._connection.execute("SELECT sum(length(block)) FROM chat_search_data").fetchone()
    assert size < len(source) * 0.6
    found = store.search("isinstance")
    assert len(found) > 5
    store._connection.execute("VACUUM")
    assert store.search("isinstance") == found
    assert list(store.verify()) == []
