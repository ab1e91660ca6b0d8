"""A chat session, recorded by hand and from streams, as the store shows it afterwards."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dashcam
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession, Usage
from dashcam.errors import SettingsError, UnreadableInput
from dashcam.record.recorder import SessionRecorder, record_session
from dashcam.record.refresh import open_current
from dashcam.sdk import emit
from dashcam.sdk.settings import settings_from
from dashcam.store.base import EventFilter, SessionFilter
from dashcam.store.sqlite.store import SqliteReader
from dashcam.views.context import request_of

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


REQUESTS = {
    "anthropic": b'{"model": "claude-x", "max_tokens": 9, "system": [{"type":"text","text":"Be kind.","cache_control":'
    b'{"type":"ephemeral"}}], "tools": [ {"name": "b\\u00e9"}, {"name": "a"}], "messages": [{"role": "user",  "content": "hi"}'
    b', {"content": [{"type":"thinking","signature":"abc=="}], "role": "assistant"} ],"metadata":null}',
    "openai": b'{"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"hi]}"}],"model":"claude-x","n":1}',
    "responses": b'{"instructions":"Be kind.","input":[{"role":"user","content":"hi"}] ,"model":"claude-x"}',
    "gemini": b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"systemInstruction":{"parts":[{"text":"Be kind."}]},'
    b'"model":"claude-x"}',
}


@pytest.mark.parametrize("raw", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_request_given_as_sent_comes_back_byte_for_byte(opened: Any, raw: bytes) -> None:
    """Cache markers, signatures, escapes, white space and the order of keys included."""
    with record_session("s", agent="a", model="anthropic:claude-3") as chat:
        chat.user("hi")
        chat.assistant("yes", request=raw)
        chat.assistant("again", request=raw.decode())
        chat.assistant("and again", request=msgspec.json.decode(raw))
    store = opened()
    calls = store.model_calls(session_id="s")
    assert request_of(store, calls[0]) == request_of(store, calls[1]) == raw
    assert msgspec.json.decode(request_of(store, calls[2])) == msgspec.json.decode(raw)
    assert {(call.model, call.provider) for call in calls} == {("claude-x", "anthropic")}
    assert {call.system_prompt_digest for call in calls} == {hashlib.sha256(b"Be kind.").hexdigest()}
    assert store.context(bytes.fromhex(calls[0].context_digest))
    assert list(store.verify()) == []


def test_whatever_is_wrong_with_a_request_the_answer_is_kept(opened: Any, data: Path) -> None:
    """In production; under pytest it is told, before anything is written (below)."""
    dashcam.configure(data=data, strict=False)
    loop: dict[str, Any] = {}
    loop["messages"] = [loop]
    bad = [5, b'{"messages": [', '{"messages":["\\ud800"]}', loop, {"messages": [{"content": "x \ud800"}]}, b"\xff"]
    with record_session("s", agent="a") as chat:
        chat.user("hi")
        for number, request in enumerate(bad):
            chat.assistant(f"answer {number}", request=request)  # type: ignore[arg-type]
        thinking = {"type": "enabled", "budget_tokens": 1000}
        chat.assistant("answer 6", request={"messages": [], "thinking": thinking, "tool_choice": {"type": "auto"}})
    store = opened()
    texts = [part.data()["text"] for part in store.chat_parts("s") if part.type == "text"]
    assert texts == ["hi", *(f"answer {number}" for number in range(7))]
    assert msgspec.json.decode(store.model_calls(session_id="s")[-1].settings)["thinking"] == thinking
    assert dashcam.stats()["dropped"] == 0


def test_an_approval_that_is_awaited_is_no_failure(opened: Any) -> None:
    """The stream ends as it should; the person answers later, to another recorder."""
    with record_session("s", agent="a") as chat:
        chat.user("clean up")
        for chunk in (
            {"type": "start-step"},
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "rm", "input": {}},
            {"type": "tool-approval-request", "toolCallId": "c", "approvalId": "ok"},
            {"type": "finish-step"},
            {"type": "finish", "finishReason": "tool-calls"},
        ):
            chat.chunk(chunk)
    with record_session("s", agent="a") as chat:
        chat.chunk({"type": "tool-output-available", "toolCallId": "c", "output": "done"})
        chat.chunk({"type": "finish"})
    store = opened()
    (call,) = [part for part in store.chat_parts("s") if part.tool_call_id == "c"]
    assert (call.type, call.tool_state) == ("tool-rm", "output-available")
    assert "error" not in list(store.chat_messages("s"))[1].metadata()
    assert not store.sessions(SessionFilter(has_error=True))


def test_usage_after_the_end_of_a_stream_counts(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        chat.user("q")
        chat.chunk({"type": "text-start", "id": "1"})
        chat.chunk({"type": "finish"})
        chat.chunk({"type": "message-metadata", "messageMetadata": {"usage": {"inputTokens": 7, "outputTokens": 2}}})
    assert opened().chat_session("s").total_tokens == 9


def test_an_outcome_that_comes_before_its_call_stays(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        chat.user("q")
        chat.tool_result("c", "found")
        chat.tool_call("look", {"at": 1}, tool_call_id="c")
    (call,) = [part for part in opened().chat_parts("s") if part.tool_call_id == "c"]
    assert (call.tool_state, call.data()["output"], call.data()["input"]) == ("output-available", "found", {"at": 1})


def test_a_request_that_is_none_is_refused_before_anything_is_written(data: Path) -> None:
    chat = record_session("s", agent="a")
    chat.user("hi")
    before = journal(data)
    for bad in (5, b'{"messages": [', "[]"):
        with pytest.raises(SettingsError, match="request is"):
            chat.assistant("yes", request=bad)  # type: ignore[arg-type]
    assert journal(data) == before
    chat.close()


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


HALF = KEY[: len(KEY) // 2], KEY[len(KEY) // 2 :]
LEAKS: dict[str, Any] = {
    "a lone surrogate": lambda chat: chat.user(f"my key is {KEY} \ud83d"),
    "a tool's answer with one": lambda chat: chat.tool_result(chat.tool_call("t", {}), {"a": f"{KEY} \udc80"}),
    "a tool's name": lambda chat: chat.tool_call(f"t {KEY}", {}),
    "a stop reason": lambda chat: chat.chunk({"type": "finish", "finishReason": f"because {KEY}"}),
    "a chunk's type": lambda chat: chat.chunk({"type": f"x {KEY}"}),
    "a name that comes twice": lambda chat: chat.assistant(
        "x", request='{"messages":[{"role":"user","content":"' + KEY + '","content":"fine"}]}'
    ),
    "deltas without a start": lambda chat: [
        chat.chunk({"type": "text-delta", "id": "1", "delta": half}) for half in HALF
    ],
    "deltas after the end": lambda chat: [
        chat.chunk(chunk)
        for chunk in (
            {"type": "text-start", "id": "1"},
            {"type": "text-end", "id": "1"},
            *({"type": "text-delta", "id": "1", "delta": half} for half in HALF),
        )
    ],
    "deltas with metadata": lambda chat: [
        chat.chunk(chunk)
        for chunk in (
            {"type": "text-start", "id": "1"},
            *(
                {"type": "text-delta", "id": "1", "delta": half, "providerMetadata": {"x": {"y": half[:3]}}}
                for half in HALF
            ),
        )
    ],
    "a rule's pattern": lambda chat: chat.decide(
        "c", "t", "allow", rule={"permission": "t", "pattern": f"curl {KEY}", "action": "allow"}
    ),
    "an error": lambda chat: chat.end_turn("error", ValueError(KEY)),
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS.keys())
def test_no_way_leads_a_secret_to_the_disk(leak: Any, data: Path) -> None:
    with record_session(
        "s", agent="a", model="m", permissions=[{"permission": "t", "pattern": f"curl {KEY}", "action": "allow"}],
        metadata={"note": KEY}, workspace_root=f"/tmp/{KEY}",
    ) as chat:  # fmt: skip
        chat.user("go")
        leak(chat)
        chat.user("and on")
        chat.assistant("ok")
    for half in HALF:
        assert half[7:].encode() not in journal(data)


def test_odd_deltas_lose_nothing(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        chat.user("go")
        for chunk in (
            {"type": "text-start", "id": "1"},
            {"type": "text-delta", "id": "1", "delta": "Hello "},
            {"type": "text-delta", "id": "1", "delta": "all ", "providerMetadata": {"a": {"b": 1}}},
            {"type": "text-end", "id": "1"},
            {"type": "text-delta", "id": "1", "delta": "the world"},
            {"type": "text-delta", "id": "2", "delta": "never "},
            {"type": "text-delta", "id": "2", "delta": "begun"},
        ):
            chat.chunk(chunk)
    assert [part.data()["text"] for part in opened().chat_parts("s")][1:] == ["Hello all the world", "never begun"]


def test_what_a_stream_tells_again_and_again_is_not_written_as_often(data: Path) -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    with record_session("s", agent="a") as chat:
        chat.user("go")
        for number in range(2_000):
            chat.chunk({"type": "message-metadata", "messageMetadata": {f"key{number}": "x" * 50}})
        chat.chunk({"type": "text-start", "id": "1"})
        for number in range(2_000):
            metadata = {"a": {"n": number}}
            chat.chunk({"type": "text-delta", "id": "1", "delta": "word " * 10, "providerMetadata": metadata})
        for _ in range(2):
            chat.chunk({"type": "message-metadata", "messageMetadata": loop})
    assert len(journal(data)) < 20_000_000


def test_a_pipe_is_no_attachment(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with record_session("s", agent="a") as chat:
        with pytest.raises(UnreadableInput, match="no plain file"):
            chat.user("look", attachments=[tmp_path / "pipe"])
        with pytest.raises(UnreadableInput, match="no plain file"):
            chat.user("look", references=[tmp_path / "pipe"])


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
    with record_session("s", agent="a", save_on=mode) as chat:
        chat.user("go")
        with chat.assistant() as reply:
            reply.reasoning("hm ")
            for number in range(500):
                reply.text(f"word{number} ")
    texts = [part.data()["text"] for part in opened().chat_parts("s")]
    assert texts == ["go", "hm ", "".join(f"word{number} " for number in range(500))]


def test_what_is_saved_by_turn_waits_no_longer_than_its_buffer(data: Path) -> None:
    with record_session("s", agent="a", save_on="turn", buffer_chars=100) as chat:
        chat.user("go")
        reply = chat.assistant()
        reply.text("a " * 20)
        assert b'"chat.delta"' not in journal(data)
        reply.text("b " * 60)
        assert b'"chat.delta"' in journal(data)


def journal(data: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(data.rglob("*.jsonl")))


def test_what_waits_is_written_when_its_time_is_up_though_nothing_more_comes(data: Path) -> None:
    with record_session("s", agent="a", save_on="turn", buffer_seconds=0.05) as chat:
        chat.user("go")
        chat.assistant().text("still here ")
        deadline = time.monotonic() + 10
        while b"still here" not in journal(data) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert b"still here" in journal(data)


def test_secrets_in_an_attached_text_are_taken_out_of_it(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        chat.user("look", attachments=[("env.txt", f"KEY={KEY}".encode())])
    url = list(opened().chat_parts("s"))[1].data()["url"]
    assert base64.b64decode(url.partition(",")[2]) == b"KEY=[REDACTED]"


@pytest.mark.slow
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


def texts_sent(store: SqliteReader, session_id: str) -> list[list[str]]:
    """What each request of a session held, a text a message."""
    found = []
    for call in store.model_calls(session_id=session_id):
        digests = store.context(bytes.fromhex(call.context_digest or ""))
        bodies = store.bodies(digests)
        messages = [msgspec.json.decode(bodies[digest])["content"] for digest in digests]
        found.append([each if isinstance(each, str) else each[0].get("text", each[0]["type"]) for each in messages])
    return found


def test_a_compaction_folds_and_a_rewind_behind_it_unfolds(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        ids = []
        for number in range(3):
            ids.append(chat.user(f"q{number}"))
            chat.assistant(f"a{number}")
        chat.compaction("SUM", tail_start_id=ids[2])
        later = chat.user("q3")
        chat.assistant("a3")
        chat.rewind(later)
        chat.user("q3, better")
        chat.assistant("a3")
        chat.rewind(ids[1])
        chat.user("q1, better")
        chat.assistant("a1")
    assert texts_sent(opened(), "s")[3:] == [
        ["SUM", "q2", "a2", "q3"],
        ["SUM", "q2", "a2", "q3, better"],
        ["q0", "a0", "q1, better"],
    ]


def test_with_its_history_a_later_recorder_knows_the_whole_request(opened: Any) -> None:
    """As a web server has it: a recorder a request, and the front end sends all messages."""
    call = {"type": "tool-look", "toolCallId": "c", "state": "output-available", "input": {}, "output": "found"}
    step = {"type": "step-start"}
    answer = [step, {"type": "text", "text": "a1"}, call, step, {"type": "text", "text": "a2"}]
    history: list[dict[str, Any]] = [
        {"role": "user", "parts": [{"type": "text", "text": "q1"}]},
        {"role": "assistant", "parts": answer},
    ]
    with record_session("s", agent="a", history=history) as chat:
        chat.user("q2")
        chat.assistant("a3")
    store = opened()
    assert texts_sent(store, "s") == [["q1", "a1", "tool-result", "a2", "q2"]]
    (turn,) = [
        e.data() for e in store.events(EventFilter(session_id="s", operation="span_ended")) if "turn_index" in e.fields
    ]
    assert turn["turn_index"] == 2


def test_a_second_recorder_takes_nothing_back(opened: Any) -> None:
    rule = {"permission": "x", "pattern": "*", "action": "deny", "source": "session"}
    with record_session(
        "kid", agent="a", model="m:1", parent_id="par", metadata={"title": "T"}, workspace_root="/w", permissions=[rule]
    ) as chat:
        chat.user("q")
    with record_session("kid") as chat:
        chat.user("q2")
    session = opened().chat_session("kid")
    assert (session.agent, session.parent_id, session.workspace_root) == ("a", "par", "/w")
    assert msgspec.json.decode(session.permissions_json) == [rule]
    assert msgspec.json.decode(session.metadata_json)["title"] == "T"
    assert msgspec.json.decode(session.model_json)["model_id"] == "1"


@pytest.mark.parametrize("how", ["close", "user", "watch", "reply"])
def test_a_stream_that_broke_off_is_no_complete_answer(how: str, opened: Any) -> None:
    start = [
        {"type": "start-step"},
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "half "},
    ]

    def breaks() -> Iterator[Any]:
        yield from start
        raise ConnectionError("gone")

    chat = record_session("s", agent="a")
    chat.user("q")
    if how == "watch":
        with pytest.raises(ConnectionError):
            list(chat.watch(breaks()))
    elif how == "reply":
        with pytest.raises(ConnectionError), chat.assistant() as reply:
            reply.text("half ")
            raise ConnectionError("gone")
    else:
        for chunk in start:
            chat.chunk(chunk)
    if how == "user":
        chat.user("still there?")
    chat.close()
    store = opened()
    told = list(store.chat_messages("s"))[1].metadata()
    assert told["stop_reason"] == "error"
    assert told["error"]["message"] in ("gone", "The stream ended before the answer did.")
    assert store.sessions(SessionFilter(has_error=True))


def test_usage_that_comes_late_belongs_to_the_step_that_has_ended(opened: Any) -> None:
    """The AI SDK tells it with the message's metadata, after a step or at the end."""
    first, second = {"inputTokens": 10, "outputTokens": 1}, {"inputTokens": 30, "outputTokens": 2}
    with record_session("steps", agent="a", model="openai:gpt-4o") as chat:
        chat.user("q")
        for usage in (first, second):
            for chunk in (
                {"type": "start-step"},
                {"type": "text-start", "id": "1"},
                {"type": "text-end", "id": "1"},
                {"type": "finish-step"},
                {"type": "message-metadata", "messageMetadata": {"usage": usage}},
            ):
                chat.chunk(chunk)
        chat.chunk({"type": "finish", "finishReason": "stop"})
    with record_session("once", agent="a", model="openai:gpt-4o") as chat:
        chat.user("q")
        for chunk in ({"type": "start-step"}, {"type": "finish-step"}):
            chat.chunk(chunk)
        chat.chunk({"type": "finish", "finishReason": "length", "messageMetadata": {"totalUsage": second}})
    with record_session("partly", agent="a", model="openai:gpt-4o") as chat:
        chat.user("q")
        for chunk in ({"type": "start-step"}, {"type": "finish-step", "usage": first}, {"type": "start-step"}):
            chat.chunk(chunk)
        chat.chunk({"type": "finish", "messageMetadata": {"totalUsage": {"inputTokens": 40, "outputTokens": 3}}})
    store = opened()
    assert [call.input_tokens for call in store.model_calls(session_id="steps")] == [10, 30]
    assert store.chat_session("steps").total_tokens == 43
    (call,) = store.model_calls(session_id="once")
    assert (call.input_tokens, call.stop_reason) == (30, "length")
    assert call.cost_usd
    assert store.chat_session("once").total_tokens == 32
    assert store.chat_session("partly").total_tokens == 43


def test_where_nobody_says_where_steps_end_a_tools_outcome_does(opened: Any) -> None:
    with record_session("s", agent="a") as chat:
        chat.user("q")
        for chunk in (
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "look", "input": {}},
            {"type": "tool-output-available", "toolCallId": "c", "output": "found"},
            {"type": "text-start", "id": "1"},
            {"type": "text-delta", "id": "1", "delta": "so"},
            {"type": "text-end", "id": "1"},
            {"type": "finish"},
        ):
            chat.chunk(chunk)
        chat.user("q2")
        chat.assistant("a2")
    assert texts_sent(opened(), "s") == [
        ["q"],
        ["q", "tool-call", "tool-result"],
        ["q", "tool-call", "tool-result", "so", "q2"],
    ]


def test_a_request_that_was_never_answered_is_known(opened: Any) -> None:
    chat = record_session("s", agent="a", model="openai:gpt-4o", system_prompt="Be kind.", tools=[{"name": "t"}])
    chat.user("q")
    chat.begin_step()
    store = opened()  # as if it were killed now
    (call,) = store.model_calls(session_id="s")
    assert call.error == "no answer was recorded"
    assert msgspec.json.decode(request_of(store, call))["system"] == "Be kind."
    assert list(store.chat_messages("s"))[1].metadata()["system_prompt_digest"] == call.system_prompt_digest
    chat.assistant("now").end(usage={"input": 1})
    chat.close()
    store = opened()
    assert [each.error for each in store.model_calls(session_id="s")] == [None]
    assert list(store.verify()) == []


def test_a_recorder_goes_on_after_it_was_closed(opened: Any) -> None:
    chat = record_session("s", agent="a")
    chat.user("one")
    chat.close()
    chat.user("two")
    chat.assistant("yes")
    chat.close()
    store = opened()
    assert [message.role for message in store.chat_messages("s")] == ["user", "user", "assistant"]
    spans = [e.data() for e in store.events(EventFilter(session_id="s", operation="span_ended"))]
    assert [span["name"] for span in spans].count("session.run") == 2


@pytest.mark.parametrize(
    "options",
    [
        {"model": 4},
        {"settings": "hot"},
        {"permissions": "allow"},
        {"permissions": [{"permission": "x", "action": "maybe"}]},
    ],
)
def test_options_that_cannot_be_used_are_told_and_how_to_write_them(options: Any) -> None:
    with pytest.raises(SettingsError, match=r"Write|each"):
        record_session("s", **options)


def test_a_rule_that_is_none_keeps_its_call_from_being_recorded(data: Path) -> None:
    with record_session("s", agent="a") as chat:
        chat.user("q")
        before = journal(data)
        with pytest.raises(SettingsError, match="manifest"):
            chat.tool_call("t", {}, permission={"permission": "t", "action": "allow", "source": "user"})
        assert journal(data) == before


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


@pytest.mark.slow
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
