"""Chat rows in the store: later ones win, deltas join, sums are kept, and nothing depends on the batches."""

from __future__ import annotations

import sqlite3
import time
from math import fsum
from pathlib import Path
from typing import Any

import pytest
from chat_rows import AT, delta, dump, message, part, session, text, turn
from hypothesis import given
from hypothesis import strategies as st
from records import NOW, call, event

from dashcam.contracts.chat import ROLLUPS, ChatRow
from dashcam.contracts.content import Link, LinkedContext, context_digest, digest_of
from dashcam.errors import RecordRefused, SessionNotFound
from dashcam.store.base import Batch, Projection, SessionFilter
from dashcam.store.sqlite import migrate as migrating
from dashcam.store.sqlite.connection import BLANK
from dashcam.store.sqlite.store import SqliteStore

COUNTS = st.one_of(st.integers(0, 10**6), st.just(-1), st.just("3"), st.just(True), st.just(1.5), st.just(10**30))
COSTS = st.one_of(st.none(), st.floats(0, 10), st.just("free"), st.just([]), st.just(10**400), st.just(True))
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "usage": st.one_of(st.dictionaries(st.sampled_from([*ROLLUPS.values(), "other"]), COUNTS), st.just(7)),
        "cost_usd": COSTS,
        "stop_reason": st.sampled_from(["stop", "error", None]),
        "hidden_at": st.just(AT),
    },
)
MESSAGES = st.builds(
    lambda key, role, metadata, at: message(f"m{key}", role, metadata, updated_at=AT + at),
    st.integers(0, 4),
    st.sampled_from(["user", "assistant", "system"]),
    METADATA.map(lambda told: {key: value for key, value in told.items() if value != 10**400}),
    st.integers(0, 5),
)


def is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**53


@pytest.mark.slow
@given(st.lists(st.lists(MESSAGES, max_size=6), max_size=5))
def test_rollups_are_the_sums_over_the_assistant_messages_whatever_comes(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Any]]
) -> None:
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as store:
        store.append(Batch(chat=[session()]))
        for batch in batches:
            store.append(Batch(chat=batch))
        told = [found.metadata() for found in store.chat_messages("s") if found.role == "assistant"]
        usages = [usage for metadata in told if isinstance(usage := metadata.get("usage"), dict)]
        kept = store.chat_session("s")
        for column, name in ROLLUPS.items():
            assert getattr(kept, column) == sum(usage[name] for usage in usages if is_count(usage.get(name)))
        assert kept.total_tokens == sum(getattr(kept, column) for column in ROLLUPS)
        costs = [metadata["cost_usd"] for metadata in told if type(metadata.get("cost_usd")) in (int, float)]
        assert kept.cost_usd == (fsum(costs) if costs else None)
        assert list(store.verify()) == []


def test_a_batch_appended_twice_changes_nothing(store: SqliteStore) -> None:
    rows: list[ChatRow] = [*turn("s", AT), text("p", "so", "s.2", index=1), delta(2, " it"), delta(5, " goes")]
    rows += [message("s.2", metadata={"stop_reason": "stop", "cost_usd": 1}, updated_at=AT + 5)]
    store.append(Batch(chat=rows, events=[event(0)]))
    before = dump(store)
    changes = store._connection.total_changes
    store.append(Batch(chat=rows, events=[event(0)]))
    assert dump(store) == before
    assert store._connection.total_changes - changes <= 1  # the log's own count


@pytest.mark.slow
@given(st.lists(st.text(max_size=5), min_size=1, max_size=20), st.data())
def test_deltas_grouped_into_batches_in_any_way_give_the_same_part(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], data: st.DataObject
) -> None:
    rows: list[ChatRow] = [*turn("s", AT), text("p", "", "s.2", index=1)]
    at = 0
    for number, piece in enumerate(pieces):
        rows.append(delta(at, piece, updated_at=AT + number // 3))
        at += len(piece)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as store:
        for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            store.append(Batch(chat=rows[start:end]))
            store.append(Batch(chat=rows[start:end]))
        (found,) = [found for found in store.chat_parts("s", "s.2") if found.id == "p"]
        assert found.data() == {"type": "text", "text": "".join(pieces)}
        assert list(store.verify()) == []


def test_a_hundred_thousand_deltas_are_one_row_in_a_moment(store: SqliteStore) -> None:
    store.append(Batch(chat=[*turn("s", AT), text("p", "", "s.2", index=1)]))
    began, changes = time.monotonic(), store._connection.total_changes
    store.append(Batch(chat=[delta(3 * number, "ab ", updated_at=AT + 1) for number in range(100_000)]))
    assert time.monotonic() - began < 5
    assert store._connection.total_changes - changes < 40
    assert list(store.chat_parts("s"))[-1].data()["text"] == "ab " * 100_000


def test_a_lost_delta_leaves_a_mark_and_the_final_part_mends_it(store: SqliteStore) -> None:
    store.append(Batch(chat=[*turn("s", AT), text("p", "one ", "s.2", index=1), delta(8, "three", updated_at=AT + 1)]))
    assert list(store.chat_parts("s"))[-1].data()["text"] == "one \ufffdthree"
    store.append(Batch(chat=[text("p", "one two three", "s.2", index=1, updated_at=AT + 2)]))
    store.append(Batch(chat=[delta(0, "late", updated_at=AT + 1)]))
    assert list(store.chat_parts("s"))[-1].data()["text"] == "one two three"


def test_the_input_of_a_tool_call_grows_as_well(store: SqliteStore) -> None:
    begun = part("p", "s.2", {"type": "tool-read", "state": "input-streaming"}, type="tool-read", index=1)
    store.append(
        Batch(chat=[*turn("s", AT), begun, delta(0, '{"pa', path="rawInput"), delta(4, 'th"', path="rawInput")])
    )
    assert list(store.chat_parts("s"))[-1].data()["rawInput"] == '{"path"'


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (delta(0, "x", "nobody"), "is not there"),
        (delta(0, "x", "s.1.1", session_id="t"), "belongs to session s"),
        (message("s.1", session_id="t"), "belongs to session s"),
        (text("s.1.1", "x", "t.1", session_id="t"), "belongs to session s"),
        (text("new", "x", "s.1", session_id="t"), "belongs to session s"),
        (delta(0, "x", "odd"), "no JSON object"),
        (session(" "), "CHECK"),
    ],
)
def test_a_row_that_contradicts_what_is_there_is_refused(store: SqliteStore, row: ChatRow, says: str) -> None:
    store.append(Batch(chat=[*turn("s", AT), part("odd", "s.2", data_json="[", index=9)]))
    before = dump(store)
    with pytest.raises(RecordRefused, match=says):
        store.append(Batch(chat=[row]))
    assert dump(store) == before


def test_rows_whose_parents_were_lost_are_kept_and_the_parents_come_later(store: SqliteStore) -> None:
    store.append(Batch(chat=[text("p", "here all the same")]))
    (stub,) = store.chat_messages("s")
    assert (store.chat_session("s").agent, stub.role) == ("", "assistant")
    store.append(Batch(chat=[session(updated_at=1, metadata_json='{"kind":"system:cron"}'), message("m", "user")]))
    assert store.chat_session("s").agent == "helper"
    assert [found.role for found in store.chat_messages("s")] == ["user"]
    (listed,) = store.sessions(SessionFilter(kind="system"))
    assert (listed.kind, listed.title, listed.turns) == ("system:cron", "here all the same", 1)
    assert list(store.verify()) == []


def test_a_sessions_agent_stays_and_its_own_row_is_judged_by_its_own_time(store: SqliteStore) -> None:
    store.append(Batch(chat=[*turn("s", AT), message("later", updated_at=AT + 9)]))
    store.append(Batch(chat=[session(agent="other", created_at=AT - 5, updated_at=AT + 3, archived_at=AT + 3)]))
    store.append(Batch(chat=[session(updated_at=AT + 2, archived_at=AT + 2)]))
    kept = store.chat_session("s")
    assert (kept.agent, kept.created_at, kept.updated_at) == ("helper", AT - 5, AT + 9)
    assert (kept.archived_at, kept.prompt_tokens) == (AT + 3, 10)


def test_what_a_writer_says_of_the_rollups_is_not_believed(store: SqliteStore) -> None:
    store.append(Batch(chat=[session(prompt_tokens=99, total_tokens=99, cost_usd=9.0)]))
    kept = store.chat_session("s")
    assert (kept.prompt_tokens, kept.total_tokens, kept.cost_usd) == (0, 0, None)


def test_messages_and_parts_come_in_the_order_in_which_they_were_said(store: SqliteStore, path: Path) -> None:
    told = [("b", 2), ("a", 2), ("c", 1)]
    rows: list[ChatRow] = [session(), *(message(key, created_at=AT + at) for key, at in told)]
    rows += [text(f"{key}{index}", f"{key}{index}", key, index=index) for index in (1, 0) for key, _ in told]
    store.append(Batch(chat=rows))
    assert [found.id for found in store.chat_messages("s")] == ["c", "a", "b"]
    wanted = ["c0", "c1", "a0", "a1", "b0", "b1"]
    assert [found.id for found in store.chat_parts("s")] == wanted
    assert [found.id for found in store.chat_parts("s", "a")] == ["a0", "a1"]
    assert list(store.chat_parts("t", "a")) == []
    other = sqlite3.connect(path)
    assert [row[0] for row in other.execute("SELECT * FROM chat_parts_ordered WHERE session_id = ?", ("s",))] == wanted
    plan = other.execute("EXPLAIN QUERY PLAN SELECT * FROM chat_parts_ordered WHERE session_id = 's'").fetchall()
    assert not [step for step in plan if "TEMP B-TREE" in step[3] or step[3].startswith("SCAN")]
    by_index = other.execute('SELECT id FROM chat_parts WHERE session_id = ? ORDER BY "index"', ("s",)).fetchall()
    assert {row[0] for row in by_index[:3]} == {"a0", "b0", "c0"}
    other.close()


def test_what_is_not_there_is_said_to_be(store: SqliteStore) -> None:
    with pytest.raises(SessionNotFound, match="nobody"):
        store.chat_session("nobody")
    assert list(store.chat_messages("nobody")) == []
    assert list(store.chat_parts("nobody")) == []


def test_model_calls_are_found_by_trace_and_by_session(store: SqliteStore) -> None:
    told = [("t", 1, 5), ("u", 0, 1), ("t", 0, 5)]
    calls = [call(trace_id=trace, step=step, ts=NOW + ts, message_id="m", wire="ai-sdk") for trace, step, ts in told]
    calls.append(call(trace_id="v", session_id="other"))
    for found in calls:
        store.replace({found.trace_id: Projection(model_calls=[each for each in calls if each.trace_id == found.trace_id])},
                      cursor="0")  # fmt: skip
    assert [(found.trace_id, found.step) for found in store.model_calls(session_id="s")] == [
        ("u", 0),
        ("t", 0),
        ("t", 1),
    ]
    assert [found.step for found in store.model_calls("t")] == [0, 1]
    assert store.model_calls("t")[0] == calls[2]


def test_a_context_told_as_a_difference_is_put_together_and_checked(store: SqliteStore) -> None:
    bodies = [f'{{"n":{number}}}'.encode() for number in range(3)]
    digests = [digest_of(body) for body in bodies]
    wholes = [context_digest(digests[:length]) for length in range(4)]
    first = LinkedContext(wholes[2], None, Link(0, 0, tuple(digests[:2])))
    second = LinkedContext(wholes[3], wholes[2], Link(2, 0, (digests[2],)))
    with pytest.raises(RecordRefused, match="put together"):
        store.append(Batch(contents=bodies, contexts=[second]))
    store.append(Batch(contents=bodies, contexts=[first, second]))
    assert store.context(wholes[3]) == digests
    for wrong in (
        LinkedContext(wholes[1], wholes[3], Link(2, 0, ())),
        LinkedContext(wholes[1], wholes[3], Link(9, 0, ())),
        LinkedContext(wholes[1], None, Link(0, 0, (b"short",))),
    ):
        with pytest.raises(RecordRefused, match="context"):
            store.append(Batch(contexts=[wrong]))
    assert list(store.verify()) == []


def test_a_store_from_before_chat_sessions_is_brought_up_to_date(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(migrating.migrations()[0][1].replace("BLANK", BLANK) + "; PRAGMA user_version = 1;")
    connection.execute("INSERT INTO sources (segment, updated_at) VALUES ('a.jsonl', 0)")
    for seq, (name, trace) in enumerate([("old", "t"), ("old", "u"), ("new", "v")]):
        told = (seq + 1, 1, seq, name, trace, 0, "user", "model_call", NOW + seq * 1000, '{"model":"m"}')
        connection.execute(f"INSERT INTO events VALUES ({','.join('?' * 10)}, 0)", told)
    connection.execute(
        "INSERT INTO rollups SELECT date(ts / 1000000, 'unixepoch'), 1, kind, operation, count(*), 0, 0, 0 FROM events"
    )
    connection.execute("INSERT INTO meta VALUES ('seq', '3'), ('projected', '3')")
    connection.commit()
    connection.close()
    with SqliteStore(path) as store:
        found = store.sessions(SessionFilter())
        assert [(each.session_id, each.traces, each.events) for each in found] == [("new", 1, 1), ("old", 2, 2)]
        assert store.unprojected().trace_ids == ["t", "u", "v"]
        assert list(store.verify()) == []
        store.append(Batch(chat=turn("s", AT)))
        assert list(store.verify()) == []


def test_json_that_somebody_broke_by_hand_breaks_nothing(store: SqliteStore, path: Path) -> None:
    store.append(Batch(chat=turn("s", AT)))
    other = sqlite3.connect(path)
    other.execute("UPDATE chat_messages SET metadata_json = '{\"usage\":' WHERE role = 'assistant'")
    other.execute("UPDATE chat_sessions SET metadata_json = 'no', model_json = '[]'")
    other.commit()
    other.close()
    store.forget_projections()
    assert list(store.verify()) == []
    assert store.chat_session("s").total_tokens == 0
    assert store.sessions(SessionFilter())[0].status == "error"
