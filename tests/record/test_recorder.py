"""A chat session, recorded by hand and from streams, as the store shows it afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dashcam
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession, Usage
from dashcam.contracts.content import context_digest
from dashcam.errors import SettingsError, UnreadableInput
from dashcam.record.recorder import SessionRecorder, record_session
from dashcam.record.refresh import open_current
from dashcam.record.saving import Saving
from dashcam.sdk import emit
from dashcam.sdk.settings import settings_from
from dashcam.store.base import EventFilter, SessionFilter
from dashcam.store.sqlite.store import SqliteReader

KEY = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"


def rows(store: SqliteReader, session_id: str) -> tuple[ChatSession, list[ChatMessage], list[ChatPart]]:
    return (
        store.chat_session(session_id),
        list(store.chat_messages(session_id)),
        list(store.chat_parts(session_id)),
    )


def order(chat: SessionRecorder) -> None:
    """A turn with one tool call."""
    chat.user("Where is order 7?")
    call = chat.tool_call("lookup", {"order": 7})
    chat.tool_result(call, {"state": "shipped"})
    chat.assistant("It is on its way.", usage={"input": 900, "output": 12, "cache_read": 100})


def test_a_session_by_hand_becomes_rows_with_everything_that_explains_it(opened: Any) -> None:
    rules = [{"permission": "lookup", "pattern": "*", "action": "allow", "source": "manifest"}]
    tools = [{"name": "lookup", "description": "Finds an order."}]
    with record_session(
        "chat-42", agent="support", model="anthropic:claude-sonnet-4-5", system_prompt="Be kind.", tools=tools,
        settings={"temperature": 0.2}, permissions=rules, workspace_root="/srv/shop",
    ) as chat:  # fmt: skip
        order(chat)
    store = opened()
    session, messages, parts = rows(store, "chat-42")
    assert (session.agent, session.workspace_root) == ("support", "/srv/shop")
    assert msgspec.json.decode(session.model_json) == {"provider_id": "anthropic", "model_id": "claude-sonnet-4-5"}
    assert (session.prompt_tokens, session.completion_tokens, session.cache_read) == (900, 12, 100)
    assert session.total_tokens == 1012
    assert session.cost_usd
    assert [message.role for message in messages] == ["user", "assistant"]
    told = messages[1].metadata()
    assert told["system_prompt_digest"] == hashlib.sha256(b"Be kind.").hexdigest()
    assert store.system_prompt(told["system_prompt_digest"]) == "Be kind."
    assert msgspec.json.decode(store.tool_catalog(told["tool_catalog_digest"])) == tools
    assert told["model"] == {"provider_id": "anthropic", "model_id": "claude-sonnet-4-5", "temperature": 0.2}
    assert told["permissions"] == rules
    assert told["stop_reason"] == "stop"
    assert [(part.type, part.tool_state) for part in parts] == [
        ("text", None),
        ("tool-lookup", "output-available"),
        ("text", None),
    ]
    assert parts[1].data()["output"] == {"state": "shipped"}


def test_ids_have_the_form_of_the_contract_and_sort_in_the_order_of_their_making(opened: Any) -> None:
    with record_session(agent="a") as chat:
        for number in range(20):
            chat.user(f"{number}")
            chat.assistant("ok")
    _, messages, parts = rows(opened(), chat.id)
    assert chat.id.startswith("ses_")
    for prefix, ids in (("msg_", [m.id for m in messages]), ("prt_", [p.id for p in parts])):
        assert all(len(each) == 30 and each.startswith(prefix) for each in ids)
        assert ids == sorted(ids)


def test_every_event_of_the_session_joins_its_row(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        order(chat)
    store = opened()
    events = list(store.events(EventFilter(session_id="s")))
    assert {event.session_id for event in events} == {store.chat_session("s").id}
    assert [event.step for event in events] == list(range(len(events)))
    assert {"model_call", "tool_call", "tool_call_completed", "request_received", "reply_ready"} <= {
        event.operation for event in events
    }
    metadata = list(store.chat_messages("s"))[1].metadata()
    assert metadata["trace_id"] == chat.trace.trace_id


def test_the_spans_of_the_contract_carry_their_attributes(opened: Any) -> None:
    rule = {"permission": "lookup", "pattern": "order:*", "action": "allow", "source": "project"}
    with record_session("s", agent="a", model="openai:gpt-4o", permissions=[rule]) as chat:
        chat.user("go")
        call = chat.tool_call("lookup", {"order": 7}, permission=rule)
        chat.tool_result(call, error="no such order")
        chat.assistant("Sorry.", usage={"input": 1, "output": 2})
        chat.compaction("They asked for order 7.", auto=False, usage={"input": 30, "output": 5})
    ended = [e.data() for e in opened().events(EventFilter(session_id="s", operation="span_ended"))]
    by_name = {span["name"]: span for span in ended}
    assert by_name["session.run"]["agent"] == "a"
    assert (by_name["session.run"]["model_id"], by_name["session.run"]["provider_id"]) == ("gpt-4o", "openai")
    turn = by_name["session.turn"]
    assert (turn["turn_index"], turn["stop_reason"], turn["tokens"]["total"]) == (1, "stop", 3)
    assert turn["duration_ms"] >= 0
    tool = by_name["tool.call"]
    assert (tool["tool_id"], tool["tool_call_id"], tool["truncated"], tool["status"]) == (
        "lookup",
        call,
        False,
        "error",
    )
    assert tool["error"]["message"] == "no such order"
    permission = by_name["permission.evaluate"]
    assert (permission["tool_id"], permission["pattern"], permission["action"], permission["source"]) == (
        "lookup", "order:*", "allow", "project",
    )  # fmt: skip
    assert permission["rules"] == [rule] == [permission["rule"]]
    compaction = by_name["compaction.run"]
    assert (compaction["input_tokens"], compaction["output_tokens"]) == (30, 5)
    assert compaction["summarized_message_count"] > 0


def test_each_model_call_leads_to_the_exact_request(opened: Any) -> None:
    with record_session("s", agent="a", model="openai:gpt-4o", system_prompt="Be brief.") as chat:
        order(chat)
        chat.user("Thanks")
        chat.assistant("Welcome", usage={"input": 5, "output": 1})
    store = opened()
    calls = store.model_calls(session_id="s")
    assert [call.wire for call in calls] == ["ai-sdk"] * 3
    contexts = [store.context(bytes.fromhex(call.context_digest)) for call in calls]
    assert [len(context) for context in contexts] == [1, 3, 5]
    bodies = store.bodies(contexts[-1])
    roles = [msgspec.json.decode(bodies[digest])["role"] for digest in contexts[-1]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    answer = msgspec.json.decode(store.bodies([bytes.fromhex(calls[-1].output_digest)]).popitem()[1])
    assert answer == {"role": "assistant", "content": [{"type": "text", "text": "Welcome"}]}
    assert {call.message_id for call in calls} == {m.id for m in store.chat_messages("s") if m.role == "assistant"}


def test_a_request_given_as_sent_is_kept_byte_for_byte(opened: Any) -> None:
    """Cache markers, signatures, white space and the order of keys included."""
    raw = (
        b'{"model": "claude-x", "max_tokens": 9, "system": [{"type":"text","text":"Be kind.",'
        b'"cache_control":{"type":"ephemeral"}}], "tools": [{"name": "b"}, {"name": "a"}], "messages": ['
        b'{"role": "user",  "content": "hi"}, {"content": [{"type":"thinking","signature":"abc=="}], "role": "assistant"}]}'
    )
    with record_session("s", agent="a", model="anthropic:claude-x") as chat:
        chat.user("hi")
        chat.assistant("yes", request=raw)
    store = opened()
    (call,) = store.model_calls(session_id="s")
    digests = store.context(bytes.fromhex(call.context_digest))
    bodies = store.bodies(digests)
    sent = b"[" + b",".join(bodies[digest] for digest in digests) + b"]"
    assert sent == raw[raw.index(b'"messages": ') + len(b'"messages": ') : -1]
    assert call.system_prompt_digest == hashlib.sha256(b"Be kind.").hexdigest()
    assert [tool["name"] for tool in msgspec.json.decode(store.tool_catalog(call.tool_catalog_digest))] == ["b", "a"]
    assert msgspec.json.decode(call.settings)["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert context_digest(digests).hex() == call.context_digest


def test_secrets_reach_no_disk_and_the_call_says_where_they_were(opened: Any, data: Path) -> None:
    with record_session("s", agent="a", model="m", system_prompt=f"Use {KEY}.") as chat:
        chat.user(f"My key is {KEY}, keep it.")
        with chat.assistant() as reply:
            for start in range(0, len(KEY), 5):
                reply.text(KEY[start : start + 5])
            reply.text(" is yours.")
    store = opened()
    written = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert KEY[8:].encode() not in written
    assert KEY[8:20].encode() not in written
    (call,) = store.model_calls(session_id="s")
    assert call.redacted
    assert set(msgspec.json.decode(call.redacted_paths)) >= {"system", "messages.0.content.0.text"}
    assert list(store.chat_parts("s"))[-1].data()["text"] == "[REDACTED] is yours."
    assert store.system_prompt(call.system_prompt_digest) == "Use [REDACTED]."


def test_unknown_models_have_no_cost_and_never_zero(opened: Any) -> None:
    with record_session("s", agent="a", model="acme:mystery-1") as chat:
        chat.user("hi")
        chat.assistant("ho", usage={"input": 1, "output": 1})
    store = opened()
    assert store.chat_session("s").cost_usd is None
    assert store.model_calls(session_id="s")[0].cost_usd is None


def test_cached_tokens_are_counted_once_whatever_the_provider_reports(opened: Any) -> None:
    openai = {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 800}}
    with record_session("s", agent="a", model="openai:gpt-4o") as chat:
        chat.user("hi")
        chat.assistant("ho", usage=openai)
    session = opened().chat_session("s")
    assert (session.prompt_tokens, session.cache_read, session.total_tokens) == (200, 800, 1050)


def test_attachments_keep_their_bytes_and_references_their_digest(opened: Any, tmp_path: Path) -> None:
    image, log = tmp_path / "shot.png", tmp_path / "big.log"
    image.write_bytes(b"\x89PNG" + bytes(range(256)))
    log.write_bytes(b"line\n" * 1000)
    with record_session("s", agent="a") as chat:
        chat.user("look", attachments=[image, ("notes.txt", b"hello", "text/plain")], references=[log])
        with pytest.raises(UnreadableInput, match="gone"):
            chat.user("and", attachments=[tmp_path / "gone"])
    data = [part.data() for part in opened().chat_parts("s")]
    assert data[1]["mediaType"] == "image/png"
    assert data[2] == {
        "type": "file", "mediaType": "text/plain", "filename": "notes.txt", "url": "data:text/plain;base64,aGVsbG8=",
    }  # fmt: skip
    digest = hashlib.sha256(log.read_bytes()).hexdigest()
    assert data[3] == {
        "type": "data-file-ref",
        "data": {"path": str(log), "size": 5000, "sha256": digest, "mediaType": data[3]["data"]["mediaType"]},
    }


def test_all_seven_tool_states_and_one_never_seen_are_kept_as_they_come(opened: Any) -> None:
    chunks: list[dict[str, Any]] = []
    for name in "abcdefg":
        chunks += [{"type": "tool-input-start", "toolCallId": name, "toolName": "t"}]
        if name != "a":
            chunks += [{"type": "tool-input-available", "toolCallId": name, "toolName": "t", "input": {}}]
    for name in "cdg":
        chunks.append({"type": "tool-approval-request", "toolCallId": name, "approvalId": f"ok-{name}"})
    chunks += [
        {"type": "tool-approval-response", "approvalId": "ok-d", "approved": True},
        {"type": "tool-output-available", "toolCallId": "e", "output": 1},
        {"type": "tool-output-error", "toolCallId": "f", "errorText": "no"},
        {"type": "tool-output-denied", "toolCallId": "g"},
    ]
    with record_session("s", agent="a") as chat:
        chat.user("go")
        for chunk in chunks:
            chat.chunk(chunk)
        chat.tool_call("t", {}, tool_call_id="h", state="pondering")
    states = {part.tool_call_id: part.tool_state for part in opened().chat_parts("s") if part.tool_call_id}
    assert states == {
        "a": "input-streaming", "b": "input-available", "c": "approval-requested", "d": "approval-responded",
        "e": "output-available", "f": "output-error", "g": "output-denied", "h": "pondering",
    }  # fmt: skip


def test_a_stream_is_recorded_as_it_passes_sync_async_and_as_sse(opened: Any) -> None:
    stream: list[Any] = [
        {"type": "start", "messageId": "m1"},
        'data: {"type": "start-step"}\n\n',
        {"type": "text-start", "id": "1"},
        b'{"type": "text-delta", "id": "1", "delta": "Hel"}',
        {"type": "text-delta", "id": "1", "delta": "lo"},
        {"type": "text-end", "id": "1"},
        {"type": "finish-step", "usage": {"inputTokens": 10, "outputTokens": 2, "cachedInputTokens": 4}},
        {"type": "finish", "finishReason": "stop"},
        "data: [DONE]",
    ]

    async def source() -> AsyncIterator[Any]:
        for chunk in stream:
            yield chunk

    async def follow(chat: SessionRecorder) -> list[Any]:
        return [chunk async for chunk in chat.watch(source())]

    with record_session("s", agent="a", model="openai:gpt-4o") as chat:
        chat.user("one")
        assert list(chat.watch(stream)) == stream
        chat.user("two")
        assert asyncio.run(follow(chat)) == stream
    store = opened()
    session, messages, parts = rows(store, "s")
    assert [part.data().get("text") for part in parts if part.type == "text"] == ["one", "Hello", "two", "Hello"]
    assert (session.prompt_tokens, session.cache_read, session.completion_tokens) == (12, 8, 4)
    assert [m.metadata()["stop_reason"] for m in messages if m.role == "assistant"] == ["stop", "stop"]
    assert all(call.first_token_ms is not None for call in store.model_calls(session_id="s"))


@pytest.mark.parametrize("mode", ["chunk", "step", "turn"])
def test_whenever_it_is_saved_the_result_is_the_same(mode: Any, opened: Any) -> None:
    with record_session("s", agent="a", saving=Saving(on=mode)) as chat:
        chat.user("go")
        with chat.assistant() as reply:
            reply.reasoning("hm ")
            for number in range(500):
                reply.text(f"word{number} ")
    texts = [part.data()["text"] for part in opened().chat_parts("s")]
    assert texts == ["go", "hm ", "".join(f"word{number} " for number in range(500))]


def test_what_is_saved_by_turn_waits_no_longer_than_its_buffer(data: Path) -> None:
    with record_session("s", agent="a", saving=Saving(on="turn", buffer_chars=100)) as chat:
        chat.user("go")
        reply = chat.assistant()
        reply.text("a " * 20)
        assert b'"chat.delta"' not in journal(data)
        reply.text("b " * 60)
        assert b'"chat.delta"' in journal(data)


def journal(data: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(data.rglob("*.jsonl")))


def test_a_hundred_thousand_deltas_are_not_a_hundred_thousand_snapshots(opened: Any, data: Path) -> None:
    """What is written grows with the text, not with its square."""
    text = "word " * 100_000
    with record_session("s", agent="a") as chat:
        chat.user("go")
        with chat.assistant() as reply:
            for start in range(0, len(text), 5):
                reply.text(text[start : start + 5])
    assert journal(data).count(b'"chat.part"') < 10
    assert len(journal(data)) < 20 * len(text)
    assert list(opened().chat_parts("s"))[-1].data()["text"] == text


def test_an_abort_and_an_error_leave_the_truth(opened: Any) -> None:
    with pytest.raises(RuntimeError), record_session("s", agent="a") as chat:
        chat.user("one")
        chat.assistant().text("Half an ans")
        chat.chunk({"type": "tool-input-start", "toolCallId": "c", "toolName": "t"})
        chat.chunk({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"a": 1'})
        chat.abort()
        chat.user("two")
        chat.assistant().text("And then ")
        raise RuntimeError("the host broke")
    store = opened()
    _, messages, parts = rows(store, "s")
    told = [message.metadata() for message in messages if message.role == "assistant"]
    assert told[0]["stop_reason"] == "abort"
    assert (told[1]["stop_reason"], told[1]["error"]["message"]) == ("error", "the host broke")
    texts = [part.data().get("text") for part in parts if part.type == "text"]
    assert texts == ["one", "Half an ans", "two", "And then "]
    call = next(part for part in parts if part.tool_call_id == "c")
    assert (call.tool_state, call.data()["rawInput"]) == ("input-streaming", '{"a": 1')
    assert store.sessions(SessionFilter())[0].status == "error"


def test_an_open_turn_is_busy_and_a_finished_one_idle(opened: Any) -> None:
    chat = record_session("s", agent="a")
    chat.user("go")
    chat.assistant().text("thinking ")
    assert opened().sessions(SessionFilter())[0].status == "busy"
    chat.end_turn()
    assert opened().sessions(SessionFilter())[0].status == "idle"
    chat.close()


def test_bad_chunks_are_kept_told_and_never_raised(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        chat.user("go")
        for chunk in (
            {"type": "text-delta", "id": "9", "delta": "out of nowhere"},
            {"type": "tool-output-available", "toolCallId": "x", "output": 1},
            {"type": "hologram", "depth": 3},
            {"no": "type"},
            "not json",
            None,
            7,
        ):
            chat.chunk(chunk)
    _, messages, parts = rows(opened(), "s")
    assert parts[1].data()["text"] == "out of nowhere"
    assert any(part.type == "hologram" and part.data()["depth"] == 3 for part in parts)
    assert len(messages[1].metadata()["odd"]) >= 5


def test_a_rewind_hides_and_never_deletes(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        chat.user("one")
        chat.assistant("first")
        second = chat.user("two")
        chat.assistant("second")
        assert chat.rewind(second) == 2
        chat.user("two, better")
        chat.assistant("third")
        with pytest.raises(SettingsError, match="msg_x"):
            chat.rewind("msg_x")
    store = opened()
    _, messages, _ = rows(store, "s")
    assert ["hidden_at" in message.metadata() for message in messages] == [False, False, True, True, False, False]
    last = store.model_calls(session_id="s")[-1]
    assert len(store.context(bytes.fromhex(last.context_digest))) == 3


def test_the_current_trace_lends_its_session(opened: Any) -> None:
    trace = dashcam.new_trace("chat-7")
    with dashcam.use_trace(trace), record_session(agent="a") as chat:
        chat.user("hi")
        dashcam.log_event(dashcam.current_trace(), "decision", choice="left")
    assert chat.id == "chat-7"
    events = list(opened().events(EventFilter(trace_id=trace.trace_id)))
    assert sorted(event.step for event in events) == list(range(len(events)))


def test_system_traffic_is_told_apart(opened: Any) -> None:
    with record_session("nightly", agent="a", kind="system:cron") as chat:
        chat.user("clean up")
    store = opened()
    assert store.sessions(SessionFilter()) == []
    assert [each.session_id for each in store.sessions(SessionFilter(kind="system"))] == ["nightly"]


def test_trouble_of_ours_never_reaches_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = record_session("s", agent="a")

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("dashcam.record.lines.Lines.row", broken)
    assert chat.user("hi") == ""
    with chat.assistant() as reply:
        reply.text("still here")
    chat.close()
    assert dashcam.stats()["dropped"] > 0
    with pytest.raises(TypeError):
        chat.user(nonsense=1)  # type: ignore[call-arg]


def test_after_a_fork_the_child_tells_everything_itself(opened: Any) -> None:
    """Its lines may be collected before its parent's."""
    chat = record_session("s", agent="a", system_prompt="Be kind.")
    chat.user("one")
    chat.assistant("first", stop_reason="stop")
    pid = os.fork()
    if not pid:
        chat.user("two")
        chat.assistant("second", stop_reason="stop")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    chat.close()
    assert list(opened().verify()) == []


chunk_usage: st.SearchStrategy[dict[str, int]] = st.builds(
    dict,
    inputTokens=st.integers(0, 10_000),
    outputTokens=st.integers(0, 10_000),
    cachedInputTokens=st.integers(0, 10_000),
    reasoningTokens=st.integers(0, 10_000),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.lists(chunk_usage, max_size=4), max_size=5))
def test_rollups_equal_the_sums_over_messages_for_any_stream(
    turns: list[list[dict[str, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("data")
    before = emit.use_recorder(None)
    dashcam.configure(data=data)
    try:
        with record_session("s", agent="a", model="openai:gpt-4o") as chat:
            for steps in turns:
                chat.user("go")
                for usage in steps:
                    for chunk in ({"type": "start-step"}, {"type": "finish-step", "usage": usage}):
                        chat.chunk(chunk)
        with open_current(settings_from({}, data=data)) as store:
            session, messages, _ = rows(store, "s")
            told = [msgspec.convert(m.metadata()["usage"], Usage) for m in messages if "usage" in m.metadata()]
            total = sum(told, Usage())
            calls = store.model_calls(session_id="s")
            assert list(store.verify()) == []
    finally:
        ours = emit.use_recorder(before)
        assert ours
        ours.close()
    assert (session.prompt_tokens, session.cache_read, session.completion_tokens, session.reasoning_tokens) == (
        total.input, total.cache_read, total.output, total.reasoning,
    )  # fmt: skip
    assert (
        session.total_tokens
        == total.total
        == sum(
            (c.input_tokens or 0) + (c.cache_read or 0) + (c.output_tokens or 0) + (c.reasoning_tokens or 0)
            for c in calls
        )
    )
