"""Sessions that are projected from traces: replaced as a whole, beside recorded ones, by another process."""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chat_rows import turn
from hypothesis import given, settings
from hypothesis import strategies as st
from projecting import AT, ask, project_all, projection, question
from records import NOW, call, event, span

from dashcam.contracts.score import Score
from dashcam.contracts.span import LogRecord, Span
from dashcam.errors import SessionNotFound, StoreError
from dashcam.store.base import Batch, Lag, Projection, Retention, SessionFilter
from dashcam.store.sqlite.connection import BorrowedLock
from dashcam.store.sqlite.store import SqliteReader, SqliteStore

TAKE_TURNS = """
from dashcam.store.sqlite import connection
connection._POLITENESS = 0  # turns alone, without the pauses between them
import sys, time
from pathlib import Path
from dashcam.store.sqlite.connection import Turns
turns = Turns(Path(sys.argv[1]), shared=True)
print("ready", flush=True)
for _ in range(20):
    turns.take()
    time.sleep(0.002)
    turns.give()
"""
PROJECTED = (
    "projected_traces",
    "projected_messages",
    "projected_turns",
    "projected_sessions",
    "scores",
    "dirty_traces",
)


def replace(store: SqliteStore, **projections: Projection) -> None:
    store.replace(projections, cursor=store.unprojected().cursor)


def texts(store: SqliteReader, session_id: str) -> list[str]:
    return [part.data()["text"] for part in store.chat_parts(session_id)]


def marked(store: SqliteStore) -> list[str]:
    return [trace for (trace,) in store._connection.execute("SELECT trace_id FROM dirty_traces ORDER BY 1")]


def forget_marks(store: SqliteStore) -> None:
    store._connection.execute("DELETE FROM dirty_traces")


def rows(store: SqliteStore, *tables: str) -> dict[str, list[Any]]:
    return {name: sorted(store._connection.execute(f"SELECT * FROM {name}").fetchall()) for name in tables}


def test_what_is_new_is_listed_by_arrival_and_the_cursor_reaches_the_end(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id="b"), span(trace_id="a")], events=[event(0, trace_id="plain")]))
    store.append(Batch(logs=[LogRecord(trace_id="c", ts=1)], events=[event(9, trace_id="d", operation="model_call")]))
    store.append(Batch(events=[event(20, trace_id="also plain")]))
    assert store.lag() == Lag(seq=6, projected=0)
    first = store.unprojected(limit=2)
    assert (first.trace_ids, first.cursor) == (["b", "a"], "3")
    store.replace({name: Projection() for name in first.trace_ids}, cursor=first.cursor)
    rest = store.unprojected()
    assert (rest.trace_ids, rest.cursor) == (["d", "c"], "6")
    store.replace({name: Projection() for name in rest.trace_ids}, cursor=rest.cursor)
    assert (store.unprojected().trace_ids, store.lag()) == ([], Lag(seq=6, projected=6))
    store.append(Batch(events=[event(30, trace_id="plain too")]))
    assert store.lag() == Lag(seq=7, projected=7)


def test_what_arrives_while_a_page_is_projected_is_on_the_next(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id="a"), span(trace_id="b")]))
    page = store.unprojected()
    store.append(Batch(spans=[span(trace_id="a", span_id="late"), span(trace_id="c")]))
    store.replace({name: Projection() for name in page.trace_ids}, cursor=page.cursor)
    assert store.unprojected().trace_ids == ["a", "c"]


def test_a_trace_that_was_projected_whole_is_not_listed_again_for_its_later_spans(store: SqliteStore) -> None:
    for number in range(6):
        store.append(Batch(spans=[span(trace_id="ab"[number % 2], span_id=str(number))]))
    listed = []
    while (page := store.unprojected(limit=1)).trace_ids:
        listed += page.trace_ids
        store.replace({name: Projection() for name in page.trace_ids}, cursor=page.cursor)
    assert listed == ["a", "b"]
    assert store.lag() == Lag(seq=6, projected=6)


def test_a_session_is_what_its_traces_come_to(store: SqliteStore) -> None:
    later = projection("b", 20, "why", agent="second", model="m2", provider="p", metadata_json='{"user_id":"u","n":2}')
    earlier = projection("a", 10, "what", agent="first", model="m1", metadata_json='{"n":1,"big":1e400}')
    store.append(Batch(spans=[span(trace_id="a"), span(trace_id="b")]))
    replace(store, b=later)
    replace(store, a=earlier)
    found = store.chat_session("s")
    assert (found.agent, found.created_at, found.updated_at) == ("first", AT + 10, AT + 25)
    assert found.model_json == '{"provider_id":"p","model_id":"m2"}'
    assert '"origin":"otlp"' in found.metadata_json and '"user_id":"u"' in found.metadata_json
    assert '"n":2' in found.metadata_json and '"kind":"user"' in found.metadata_json
    (listed,) = store.sessions(SessionFilter())
    assert (listed.traces, listed.turns, listed.title) == (2, 2, "what")
    assert texts(store, "s") == ["what", "why"]
    assert [hit.session_id for hit in store.search("why")] == ["s"]
    assert list(store.verify()) == []


def test_only_what_differs_is_written(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id="a", span_id="p")]))
    told = projection("a", 10, "what", "why", calls=[call(trace_id="a", span_id="p")])
    replace(store, a=told)
    before = store._connection.total_changes
    replace(store, a=told)
    assert store._connection.total_changes - before == 1  # the cursor
    replace(store, a=projection("a", 10, "what", "who", calls=[call(trace_id="a", span_id="p")]))
    assert texts(store, "s") == ["what", "who"]
    assert store.search("why") == []
    assert list(store.verify()) == []


def test_a_trace_that_tells_nothing_more_takes_its_session_with_it(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id="a")], events=[event(0, session_id="with events", trace_id="a")]))
    both = projection("a", 10, "what"), projection("a", 10, "why", session_id="with events")
    joined = Projection(
        pieces=[*both[0].pieces, *both[1].pieces], messages=[*both[0].messages, *both[1].messages],
        parts=[*both[0].parts, *both[1].parts],
    )  # fmt: skip
    replace(store, a=joined)
    assert {found.session_id for found in store.sessions(SessionFilter())} == {"s", "with events"}
    replace(store, a=Projection())
    (left,) = store.sessions(SessionFilter())
    assert (left.session_id, left.agent, left.messages, left.traces) == ("with events", None, 0, 1)
    with pytest.raises(SessionNotFound):
        store.chat_session("s")
    assert store.search("what") == []
    assert list(store.verify()) == []


def test_a_trace_that_moves_to_another_session_takes_its_messages_along(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id="a")]))
    replace(store, a=projection("a", 10, "what", session_id="trace:a"))
    replace(store, a=projection("a", 10, "what", session_id="s"))
    assert [found.session_id for found in store.sessions(SessionFilter())] == ["s"]
    assert texts(store, "s") == ["what"]
    assert list(store.verify()) == []


def test_a_recorded_session_is_told_by_its_recorder_alone(store: SqliteStore) -> None:
    store.append(Batch(chat=turn("s", AT, question="recorded"), spans=[span(trace_id="a")]))
    before = rows(store, "chat_sessions", "chat_messages", "chat_parts")
    assert store.is_recorded("s") and not store.is_recorded("other")
    replace(store, a=projection("a", 10, "spans say"))
    assert rows(store, "chat_sessions", "chat_messages", "chat_parts") == before
    (listed,) = store.sessions(SessionFilter())
    assert (listed.traces, listed.title) == (1, "recorded")
    assert [found.trace_id for found in store.traces("s")] == ["a"]
    assert list(store.verify()) == []


def test_what_is_projected_gives_way_to_a_recorder(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id="a"), span(trace_id="b")]))
    replace(store, a=projection("a", 10, "spans say"), b=projection("b", 10, "else", session_id="other"))
    store.append(Batch(chat=turn("s", AT, question="recorded")))
    assert store.is_recorded("s") and not store.is_recorded("other")
    assert texts(store, "s") == ["recorded", "because"]
    assert store.search("spans say") == []
    assert store.unprojected().trace_ids == ["a"]
    replace(store, a=projection("a", 10, "spans say"))
    assert texts(store, "s") == ["recorded", "because"]
    assert list(store.verify()) == []


def test_a_recorder_that_comes_while_a_trace_is_projected_is_not_overlooked(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id="a")]))
    replace(store, a=projection("a", 10, "first"))
    store.append(Batch(spans=[span(trace_id="a", span_id="more")]))
    page = store.unprojected()
    store.append(Batch(chat=turn("s", AT)))
    store.replace({"a": projection("a", 10, "second")}, cursor=page.cursor)
    assert store.unprojected().trace_ids == ["a"]
    assert texts(store, "s") == ["why?", "because"]


def test_when_a_recording_is_let_go_of_the_spans_that_are_left_tell_its_session(store: SqliteStore) -> None:
    store.append(Batch(chat=turn("s", AT), spans=[span(trace_id="a", end_ns=(NOW + 50_000_000) * 1000)]))
    told = projection("a", 40_000, "what")
    replace(store, a=told)
    assert store.retain(Retention(before=NOW + 20_000_000)).chat_sessions == 1
    assert store.unprojected().trace_ids == ["a"]
    assert list(store.verify()) == []
    replace(store, a=told)
    assert texts(store, "s") == ["what"]
    assert list(store.verify()) == []


def test_an_earlier_trace_that_arrives_late_has_those_judged_again_that_told_its_turns(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id=name) for name in "abcde"]))
    replace(store, c=projection("c", 30, "one", "two", "three", history=2), d=projection("d", 40, "four"))
    replace(store, e=projection("e", 30, "one", history=1, session_id="other"))
    forget_marks(store)
    replace(store, b=projection("b", 20, "two"))
    assert marked(store) == ["c"]
    forget_marks(store)
    replace(store, b=projection("b", 20, "two"))
    assert marked(store) == []
    replace(store, c=projection("c", 30, "one", "three", history=1))
    assert marked(store) == ["d"]


def test_a_trace_that_tells_less_or_leaves_has_all_later_ones_judged_again(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id=name) for name in "abc"]))
    replace(store, a=projection("a", 10, "one"), b=projection("b", 20, "two", "more"), c=projection("c", 30, "three"))
    forget_marks(store)
    replace(store, b=projection("b", 20, "two"))
    assert marked(store) == ["c"]
    forget_marks(store)
    replace(store, a=projection("a", 10, "one", session_id="elsewhere"))
    assert marked(store) == ["b", "c"]


def test_a_trace_that_began_earlier_than_was_known_has_those_between_judged_again(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id=name) for name in "abc"]))
    replace(store, a=projection("a", 10, "one"), b=projection("b", 20, "two"), c=projection("c", 30, "three"))
    forget_marks(store)
    replace(store, c=projection("c", 15, "three"))
    assert marked(store) == ["b"]


def test_a_trace_that_goes_on_from_another_follows_it(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id=name) for name in "abc"]))
    replace(store, b=projection("b", 20, "two", session_id="trace:b", starts=b"1", ends=b"2"))
    replace(store, c=projection("c", 30, "three", session_id="trace:c", starts=b"9"))
    forget_marks(store)
    first = projection("a", 10, "one", session_id="trace:a", ends=b"1")
    replace(store, a=first)
    assert marked(store) == ["b"]
    assert [found.trace_id for found in store.traces_ending(b"1")] == ["a"]
    forget_marks(store)
    replace(store, a=first)
    assert marked(store) == []
    replace(store, a=projection("a", 10, "one", session_id="named", ends=b"1"))
    assert marked(store) == ["b"]
    forget_marks(store)
    replace(store, a=projection("a", 10, "one", session_id="named"))
    assert marked(store) == ["b"]


def test_a_mark_that_the_same_replacement_makes_stays(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id=name) for name in "ab"]))
    replace(store, a=projection("a", 10, "one"), b=projection("b", 20, "one", "two", history=1))
    assert store.unprojected().trace_ids == ["b"]
    replace(store, b=projection("b", 20, "two"))
    assert store.unprojected().trace_ids == []
    assert store.lag().projected == store.lag().seq


def test_a_message_that_two_traces_tell_is_there_once_and_as_long_as_one_does(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id="a"), span(trace_id="b")]))
    replace(store, b=projection("b", 20, "of b", ids="same"))
    replace(store, a=projection("a", 10, "of a", ids="same"))
    assert texts(store, "s") == ["of a"]
    replace(store, b=projection("b", 20, "of b again", ids="same"))
    assert texts(store, "s") == ["of a"]
    forget_marks(store)
    silent = msgspec.structs.replace(projection("a", 10, "of a"), messages=[], parts=[])
    replace(store, a=silent)
    assert marked(store) == ["b"]
    replace(store, b=projection("b", 20, "of b again", ids="same"))
    assert texts(store, "s") == ["of b again"]
    assert list(store.verify()) == []


def test_of_a_score_told_twice_the_later_stands(store: SqliteStore) -> None:
    store.append(Batch(logs=[LogRecord(trace_id="a", ts=1), LogRecord(trace_id="b", ts=2)]))
    score: dict[str, Any] = {"score_id": "x", "session_id": "s", "trace_id": "a", "name": "good"}
    replace(store, a=Projection(scores=[Score(**score, value=1.0, ts=5), Score(**score, value=0.5, ts=4)]))
    replace(store, b=Projection(scores=[Score(**score, label="bad", ts=9)]))
    assert [(found.label, found.ts) for found in store.scores(session_id="s")] == [("bad", 9)]
    assert store.scores(trace_id="b") == []
    replace(store, b=Projection())
    assert [found.value for found in store.scores(trace_id="a")] == [1.0]


def test_turns_that_earlier_traces_tell_are_counted(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(trace_id=name) for name in "abc"]))
    replace(store, a=projection("a", 10, "one"), b=projection("b", 20, "one", "two"), c=projection("c", 20, "three"))
    assert store.told_before("s", (AT + 20, "c")) == {ask("one"): 2, ask("two"): 1}
    assert store.told_before("s", (AT + 20, "b")) == {ask("one"): 1}
    assert store.told_before("other", (AT + 99, "z")) == {}
    assert store.session_by() == {"attribute": 3}


def test_prompts_come_with_the_calls_and_sessions_that_used_them(store: SqliteStore) -> None:
    digest = sha256(b"Be kind.").hexdigest()
    calls = [call(trace_id="a", span_id="p", session_id=name, system_prompt_digest=digest) for name in ("s", "s", "u")]
    store.append(Batch(spans=[span(trace_id="a")], system_prompts=["Never used."]))
    replace(store, a=Projection(model_calls=calls, system_prompts=["Be kind."], tool_catalogs=["[]"]))
    found = {prompt.digest: prompt for prompt in store.prompts()}
    used = found[digest]
    assert (used.calls, used.sessions, used.size, used.beginning, used.last_at) == (3, 2, 8, "Be kind.", NOW // 1000)
    assert len(found) == 2
    first = store.prompts(limit=1)
    assert [prompt.digest for prompt in (*first, *store.prompts(after=first[0].digest))] == list(found)
    assert list(store.verify()) == []


def test_forgetting_leaves_the_log_and_recorded_sessions(store: SqliteStore) -> None:
    store.append(Batch(chat=turn("recorded", AT), spans=[span(trace_id="a")], events=[event(0)]))
    replace(store, a=projection("a", 10, "what", session_id="projected"))
    store.forget_projections()
    assert {found.session_id for found in store.sessions(SessionFilter())} == {"recorded", "s"}
    assert all(found == [] for found in rows(store, *PROJECTED).values())
    assert store.unprojected().trace_ids == ["a"]
    assert list(store.verify()) == []


def test_a_cursor_that_was_set_back_meanwhile_stays_there(store: SqliteStore, path: Path) -> None:
    store.append(Batch(spans=[span(trace_id="a")]))
    replace(store, a=Projection())
    store.append(Batch(spans=[span(trace_id="b")]))
    with SqliteStore(path, lock=BorrowedLock()) as projector:
        page = projector.unprojected()
        assert page.trace_ids == ["b"]
        store.forget_projections()
        projector.replace({"b": Projection()}, cursor=page.cursor)
        assert projector.unprojected().trace_ids == ["a", "b"]


def test_a_projector_appends_nothing(store: SqliteStore, path: Path) -> None:
    with SqliteStore(path, lock=BorrowedLock()) as projector, pytest.raises(StoreError, match="projecting only"):
        projector.append(Batch(spans=[span()]))


def test_retention_takes_what_was_projected_along(store: SqliteStore) -> None:
    old, new = [(NOW + seconds * 1_000_000) * 1000 for seconds in (1, 100)]
    spans = [
        span(trace_id="gone", end_ns=old),
        span(trace_id="left", end_ns=old),
        span(trace_id="left", span_id="q", end_ns=new),
    ]
    store.append(Batch(spans=spans, logs=[LogRecord(trace_id="gone", ts=NOW)]))
    replace(store, gone=projection("gone", 10, "what", session_id="gone"), left=projection("left", 10, "why"))
    forget_marks(store)
    gone = store.retain(Retention(before=NOW + 50_000_000))
    assert (gone.spans, gone.logs, gone.chat_sessions) == (2, 1, 0)
    assert [found.session_id for found in store.sessions(SessionFilter())] == ["s"]
    assert store.search("what") == []
    assert store.unprojected().trace_ids == ["left"]
    assert list(store.verify()) == []


def test_a_trace_that_is_let_go_of_while_it_is_projected_does_not_come_back(store: SqliteStore, path: Path) -> None:
    store.append(Batch(spans=[span(trace_id="a", end_ns=NOW * 1000)]))
    with SqliteStore(path, lock=BorrowedLock()) as projector:
        page = projector.unprojected()
        store.retain(Retention(before=NOW + 1))
        projector.replace({"a": projection("a", 10, "what")}, cursor=page.cursor)
    assert store.sessions(SessionFilter()) == []
    assert list(store.verify()) == []


def test_a_writer_that_never_pauses_lets_the_other_have_its_turn(store: SqliteStore, path: Path) -> None:
    with SqliteStore(path, lock=BorrowedLock()):
        pass
    command = [sys.executable, "-c", TAKE_TURNS, str(path.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        taken = 0
        while other.poll() is None:
            store.append(Batch(spans=[span(trace_id="a", span_id=str(taken))]))
            taken += 1
        assert other.returncode == 0
    # Twenty turns of theirs: had we gone first each time that we could, it would be thousands of ours.
    assert taken < 200


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("DELETE FROM chat_messages", "is projected from a trace and is not there"),
        ("DELETE FROM projected_messages", "no trace tells it"),
        ("DELETE FROM projected_traces", "is noted as projected, and no trace tells it"),
        ("UPDATE projected_turns SET session_id = 'x'", "tells turns of a session that it is not part of"),
        ("DELETE FROM spans", "nothing of it is in the log"),
        ("DELETE FROM chat_sessions", "is noted as projected and has no row"),
        ("UPDATE projected_traces SET last_at = last_at + 100000", "is listed with other figures"),
    ],
)
def test_verify_finds_damage_to_what_is_projected(store: SqliteStore, statement: str, part: str) -> None:
    store.append(Batch(spans=[span(trace_id="a")]))
    replace(store, a=projection("a", 10, "what"))
    assert list(store.verify()) == []
    store._connection.execute(statement)
    assert any(part in found for found in store.verify())
    store.forget_projections()
    assert list(store.verify()) == []


# A conversation as an agent's framework sends it: each trace repeats all questions before its own.
conversations = st.lists(
    st.tuples(st.sampled_from(["s", "u"]), st.integers(1, 40), st.lists(st.sampled_from("wxyz"), max_size=4)),
    min_size=1,
    max_size=7,
)


@pytest.mark.slow
@settings(max_examples=60)
@given(conversations, st.data())
def test_sessions_come_out_the_same_in_any_order_of_arrival(
    tmp_path_factory: pytest.TempPathFactory, traces: list[tuple[str, int, list[str]]], data: st.DataObject
) -> None:
    spans: list[Span] = []
    for number, (session_id, start, earlier) in enumerate(traces):
        spans += question(f"t{number}", start, session_id, [*earlier, f"own {number}"])
    found = []
    for order in (spans, data.draw(st.permutations(spans)), data.draw(st.permutations(spans))):
        with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as store:
            for each in order:
                store.append(Batch(spans=[each]))
                if data.draw(st.booleans()):
                    project_all(store)
            project_all(store)
            assert store.lag().projected == store.lag().seq
            assert list(store.verify()) == []
            told = rows(store, "chat_sessions", "chat_messages", "chat_parts", *PROJECTED)
            found.append((told, store.sessions(SessionFilter()), store.session_by()))
            store.forget_projections()
            project_all(store)
            assert rows(store, "chat_sessions", "chat_messages", "chat_parts", *PROJECTED) == told
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
def test_one_process_appends_while_another_projects(store: SqliteStore, path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("projecting.py")), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        for number in range(150):
            store.append(
                Batch(spans=question(f"t{number % 60}", number % 60 + 1, "s", [f"own {number % 60}"], f"p{number}"))
            )
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(60) == 0
    assert store.lag() == Lag(seq=store.lag().seq, projected=store.lag().seq)
    assert store.unprojected().trace_ids == []
    assert sorted(texts(store, "s")) == sorted(f"own {number}" for number in range(60))
    assert list(store.verify()) == []
