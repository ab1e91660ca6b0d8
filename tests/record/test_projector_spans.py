"""Traces of real senders, through the store: what is read of them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from agent_traces import request_of, session_requests

from dashcam.contracts.chat import ChatMessage, ChatSession
from dashcam.dialects.otlp import wire
from dashcam.record import projector
from dashcam.record.projector import GROUP, project_all, project_some
from dashcam.record.traces import Judged
from dashcam.store.base import Batch, Context, Reader, SessionFilter, TraceLog
from dashcam.store.sqlite.store import SqliteStore

SAMPLES = Path(__file__).parents[1] / "data" / "otlp"
NAMES = sorted(folder.name for folder in SAMPLES.iterdir() if folder.is_dir())


def batch_of(file: Path) -> Batch:
    body = file.read_bytes()
    body = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
    form: Any = "json" if body.startswith(b"{") else "protobuf"
    if "traces" in file.name:
        received = wire.receive_traces(wire.parse_traces(body, form), None)
    else:
        received = wire.receive_logs(wire.parse_logs(body, form), None)
    contexts = [Context(digests) for digests in received.contexts]
    return Batch(spans=received.spans, logs=received.logs, contents=received.contents, contexts=contexts)


def send(store: SqliteStore, name: str, *, backwards: bool = False) -> None:
    """All that a sender sent, projected after each request."""
    files = sorted(
        file for file in (SAMPLES / name).glob("*.body") if "v1_traces" in file.name or "v1_logs" in file.name
    )
    for file in reversed(files) if backwards else files:
        store.append(batch_of(file))
        project_all(store)


def conversation(store: SqliteStore, session_id: str) -> list[tuple[str, list[str]]]:
    """Who said what: texts, and tools with their states."""
    found: list[tuple[str, list[str]]] = []
    for message in store.chat_messages(session_id):
        parts = [part.data() for part in store.chat_parts(session_id, message.id)]
        told = [f"{part['type']} {part['state']}" if "state" in part else part.get("text") for part in parts]
        found.append((message.role, [each for each in told if each]))
    return found


def rows(store: SqliteStore) -> list[Any]:
    ids = [session.session_id for session in store.sessions(SessionFilter(kind=None))]
    return [
        (
            store.chat_session(each),
            list(store.chat_messages(each)),
            list(store.chat_parts(each)),
            store.model_calls(session_id=each),
        )
        for each in ids
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_sender_s_requests_give_the_same_sessions_in_any_order(name: str, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    with SqliteStore(tmp_path / "1" / "a.db") as forth, SqliteStore(tmp_path / "2" / "b.db") as back:
        send(forth, name)
        send(back, name, backwards=True)
        assert rows(forth) == rows(back)
        assert rows(forth)
        assert not list(forth.verify())


def test_claude_code_s_spans_and_records_are_one_conversation(store: SqliteStore) -> None:
    send(store, "claude-code-native-protobuf")
    (session,) = store.sessions(SessionFilter())
    assert conversation(store, session.session_id) == [
        ("user", ["Look at this project and write notes"]),
        (
            "assistant",
            [
                "I will look at the project first.",
                "tool-Bash output-available",
                "tool-Bash output-available",
                "tool-Bash output-error",
                "Delegating.",
                "tool-Agent output-available",
                "Now write the notes file.",
                "tool-Write output-available",
                "Done. I listed the files, read the README and wrote notes.txt.",
            ],
        ),
    ]
    calls = store.model_calls(session_id=session.session_id)
    assert len(calls) == len({call.response_id for call in calls}) == 8
    assert [call.message_id is None for call in calls] == [True] + [False] * 7  # the title is nobody's answer
    assert all(call.cost_usd for call in calls)
    assert session.traces == 2


def test_gemini_s_records_tell_what_came_out_of_the_cache(store: SqliteStore) -> None:
    send(store, "gemini-cli-native")
    (session,) = store.sessions(SessionFilter())
    calls = store.model_calls(session_id=session.session_id)
    assert len(calls) == 5
    assert all(call.cache_read and call.reasoning_tokens for call in calls)
    said = conversation(store, session.session_id)
    assert [role for role, _ in said].count("user") == 1
    assert said[-1] == ("assistant", ["**Thinking**\nAll steps are finished.", *said[-1][1][1:]])


def test_the_same_question_asked_twice_in_a_trace_is_two_turns(store: SqliteStore) -> None:
    send(store, "langfuse")
    assert [role for role, _ in conversation(store, "sess-lf-1")] == ["user", "assistant"] * 3
    assert store.chat_session("sess-lf-1").total_tokens == 4 * 154


def test_an_agent_s_loop_is_told_once_though_every_call_repeats_it(store: SqliteStore) -> None:
    for trace in session_requests(3, 4):
        received = wire.receive_traces(wire.parse_traces(request_of(trace), "protobuf"), None)
        store.append(
            Batch(spans=received.spans, contents=received.contents, contexts=[Context(c) for c in received.contexts])
        )
    project_all(store)
    (session,) = store.sessions(SessionFilter())
    assert (session.turns, session.messages, session.agent, session.traces) == (3, 6, "scout", 3)
    assert conversation(store, "s")[3] == (
        "assistant",
        [*[each for loop in range(3) for each in (f"answer 1.{loop}", "tool-look output-available")], "answer 1.3"],
    )
    assert session.usage.total == 3 * sum(13 + loop for loop in range(4))


def test_calls_that_are_traces_of_their_own_are_one_conversation(store: SqliteStore) -> None:
    for trace in session_requests(2, 2, apart=True):
        store.append(Batch(spans=wire.receive_traces(wire.parse_traces(request_of(trace), "protobuf"), None).spans))
    project_all(store)
    assert conversation(store, "s") == [
        ("user", ["question 0"]),
        ("assistant", ["answer 0.0"]),
        ("assistant", ["tool-look output-available"]),
        ("assistant", ["answer 0.1"]),
        ("user", ["question 1"]),
        ("assistant", ["answer 1.0"]),
        ("assistant", ["tool-look output-available"]),
        ("assistant", ["answer 1.1"]),
    ]


def test_a_tool_whose_call_is_in_another_trace_is_told_once_whichever_comes_first(tmp_path: Path) -> None:
    asking, running, *_ = session_requests(1, 2, apart=True)
    found = []
    for name, order in (("1", (asking, running)), ("2", (running, asking))):
        (tmp_path / name).mkdir()
        with SqliteStore(tmp_path / name / "s.db") as store:
            for trace in order:
                store.append(
                    Batch(spans=wire.receive_traces(wire.parse_traces(request_of(trace), "protobuf"), None).spans)
                )
                project_all(store)
            found.append(conversation(store, "s"))
    assert found[0] == found[1]
    assert found[0][1:] == [("assistant", ["answer 0.0"]), ("assistant", ["tool-look output-available"])]


def test_a_question_that_failed_in_one_trace_is_not_told_by_the_next(store: SqliteStore) -> None:
    first, second = session_requests(2, 1, failing=[0])
    for trace in (second, first):
        store.append(Batch(spans=wire.receive_traces(wire.parse_traces(request_of(trace), "protobuf"), None).spans))
        project_all(store)
    assert conversation(store, "s") == [
        ("user", ["question 0"]),
        ("assistant", []),
        ("user", ["question 1"]),
        ("assistant", ["answer 1.0"]),
    ]


def test_a_session_that_is_recorded_is_told_by_its_recorder_alone(store: SqliteStore) -> None:
    recorded = ChatMessage(id="msg_1", session_id="s", role="user", created_at=1, updated_at=1)
    store.append(Batch(chat=[ChatSession(id="s", agent="host", created_at=1, updated_at=1), recorded]))
    (trace,) = session_requests(1, 2)
    store.append(Batch(spans=wire.receive_traces(wire.parse_traces(request_of(trace), "protobuf"), None).spans))
    project_all(store)
    assert list(store.chat_messages("s")) == [recorded]
    assert store.model_calls(session_id="s") == []
    assert [found.spans for found in store.traces("s")] == [4]


def test_a_group_of_traces_at_a_time_leaves_the_rest_for_the_next(store: SqliteStore) -> None:
    for trace in session_requests(3, 1):
        store.append(Batch(spans=wire.receive_traces(wire.parse_traces(request_of(trace), "protobuf"), None).spans))
    assert GROUP > 2
    assert project_some(store, group=2) == 2
    assert store.lag().projected < store.lag().seq
    assert project_some(store, group=2) >= 1
    project_all(store)
    assert store.lag().projected == store.lag().seq
    assert project_some(store) == 0


def test_a_trace_that_cannot_be_judged_stops_no_other(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with one, the others become sessions, the log goes on, and it is told."""
    send(store, "openinference-langchain")
    (session,) = store.sessions(SessionFilter())
    poisoned = store.traces(session.session_id)[0].trace_id
    store.forget_projections()
    send(store, "traceloop")
    whole = projector.judge

    def judge(reader: Reader, trace_id: str, log: TraceLog) -> Judged:
        if trace_id == poisoned:
            raise ZeroDivisionError
        return whole(reader, trace_id, log)

    monkeypatch.setattr(projector, "judge", judge)
    store.forget_projections()
    told: list[str] = []
    while projector.project_some(store, refused=lambda trace_id, error: told.append(trace_id)):
        pass
    assert told == [poisoned]
    assert [session.session_id for session in store.sessions(SessionFilter())] == ["sess-tl-1"]
    assert store.lag().projected == store.lag().seq
