"""ACP: what an editor would have seen, in the protocol's own shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from acp import schema
from pydantic import BaseModel
from sample_sessions import NOW, SESSION, fill, message, part

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.exports import acp
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteStore

CLIENT_METHODS = {"initialize", "session/new", "session/prompt", "session/cancel"}
# What each update must hold, as captured from real agents.
UPDATES = {
    "agent_message_chunk": {"content"},
    "agent_thought_chunk": {"content"},
    "tool_call": {"toolCallId", "title", "kind", "status"},
    "tool_call_update": {"toolCallId"},
    "plan": {"entries"},
}
# The protocol's own schema of each request, notification and answer.
PARAMS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeRequest,
    "session/new": schema.NewSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/cancel": schema.CancelNotification,
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
}
RESULTS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/request_permission": schema.RequestPermissionResponse,
}
STATUSES = {"pending", "in_progress", "completed", "failed"}


def traffic(store: SqliteStore) -> list[dict[str, Any]]:
    return [json.loads(line) for line in acp.write(store, [SESSION])]


def check(lines: list[dict[str, Any]]) -> None:
    """Everything that a reader of captured traffic relies on."""
    open_requests: dict[tuple[str, Any], str] = {}
    last = 0.0
    for line in lines:
        assert list(line) == ["ts", "direction", "message"]
        assert line["ts"] >= last
        last, said = line["ts"], line["message"]
        assert said["jsonrpc"] == "2.0"
        other = acp.TO_CLIENT if line["direction"] == acp.TO_AGENT else acp.TO_AGENT
        if "method" not in said:
            asked = open_requests.pop((other, said["id"]))
            assert ("result" in said) != ("error" in said)
            if "result" in said:
                RESULTS[asked].model_validate(said["result"])
            continue
        PARAMS[said["method"]].model_validate(said["params"])
        assert (said["method"] in CLIENT_METHODS) == (line["direction"] == acp.TO_AGENT)
        if "id" in said:
            assert (line["direction"], said["id"]) not in open_requests
            open_requests[line["direction"], said["id"]] = said["method"]
        if said["method"] == "session/update":
            update = said["params"]["update"]
            assert UPDATES[update["sessionUpdate"]] <= update.keys()
            assert update.get("status", "pending") in STATUSES
            assert said["params"]["sessionId"] == SESSION


def test_the_traffic_has_the_shapes_of_the_protocol(store: SqliteStore) -> None:
    fill(store)
    check(traffic(store))


def test_a_session_is_opened_asked_and_answered(store: SqliteStore) -> None:
    fill(store)
    found = traffic(store)
    said = [line["message"] for line in found]
    assert [each["method"] for each in said if "method" in each and each["method"] != "session/update"] == [
        "initialize", "session/new", "session/prompt", *["session/request_permission"] * 3,
        "session/prompt", "session/request_permission", "session/cancel", "session/prompt",
    ]  # fmt: skip
    assert said[2]["params"] == {"cwd": "/srv/app", "mcpServers": []}
    assert said[3]["result"] == {"sessionId": SESSION}
    assert said[4]["params"]["prompt"] == [
        {"type": "text", "text": "Look it up, please"},
        {"type": "image", "data": "iVBORw0=", "mimeType": "image/png"},
    ]
    reasons = [each["result"]["stopReason"] for each in said if "stopReason" in each.get("result", {})]
    assert reasons == ["end_turn", "cancelled"]  # the third was never answered
    assert found[0]["ts"] == NOW / 1000


def test_parts_become_updates_in_their_order(store: SqliteStore) -> None:
    fill(store)
    said = [line["message"] for line in traffic(store)]
    updates = [each["params"]["update"] for each in said if each.get("method") == "session/update"]
    assert [(each["sessionUpdate"], each.get("status")) for each in updates] == [
        ("agent_thought_chunk", None),
        ("tool_call", "pending"), ("tool_call_update", "completed"),
        ("tool_call", "pending"), ("tool_call_update", "failed"),
        ("tool_call", "pending"), ("tool_call_update", "failed"),
        ("plan", None), ("agent_message_chunk", None), ("tool_call", "pending"),
    ]  # fmt: skip
    assert updates[1]["rawInput"] == {"q": "x"}
    assert updates[2]["rawOutput"] == {"hits": 1}
    assert updates[2]["content"] == [{"type": "content", "content": {"type": "text", "text": '{"hits": 1}'}}]
    assert updates[4]["content"][0]["content"]["text"] == "no"
    assert updates[6]["content"][0]["content"]["text"] == "404"
    assert updates[7]["entries"] == [{"content": "Look", "priority": "medium", "status": "completed"}]


def test_a_permission_is_asked_and_answered_as_it_was(store: SqliteStore) -> None:
    fill(store)
    found = traffic(store)
    asked = [line["message"]["params"]["toolCall"]["toolCallId"] for line in found
             if line["message"].get("method") == "session/request_permission"]  # fmt: skip
    outcomes = [
        line["message"]["result"]["outcome"] for line in found if "outcome" in line["message"].get("result", {})
    ]
    assert dict(zip(asked, outcomes, strict=True)) == {
        "c1": {"outcome": "selected", "optionId": "allow_once"},  # an event tells that it was asked
        "c2": {"outcome": "selected", "optionId": "reject_once"},
        "c3": {"outcome": "selected", "optionId": "allow_once"},
        "c4": {"outcome": "cancelled"},
    }


@pytest.mark.parametrize(
    ("metadata", "answer"),
    [
        ({"stop_reason": "length"}, {"result": {"stopReason": "max_tokens"}}),
        ({"stop_reason": "content_filter"}, {"result": {"stopReason": "refusal"}}),
        ({"stop_reason": "max_steps"}, {"result": {"stopReason": "max_turn_requests"}}),
        ({"stop_reason": "tool_calls"}, {"result": {"stopReason": "end_turn"}}),
        ({"stop_reason": "error", "error": "boom"}, {"error": {"code": -32603, "message": "boom"}}),
        ({"stop_reason": "error", "error": {"type": "E", "message": "m"}}, {"error": {"code": -32603, "message": "m"}}),
        ({"stop_reason": "abort", "error": {"message": "m"}}, {"result": {"stopReason": "cancelled"}}),
        ({"stop_reason": "error"}, {"error": {"code": -32603, "message": "error"}}),
    ],
)
def test_how_a_turn_ended_is_told(store: SqliteStore, metadata: dict[str, Any], answer: dict[str, Any]) -> None:
    put(store, message(1, "user"), message(2, "assistant", **metadata))
    last = traffic(store)[-1]["message"]
    assert last == {"jsonrpc": "2.0", "id": 3, **answer}


def test_an_answer_that_is_still_open_leaves_its_prompt_open(store: SqliteStore) -> None:
    put(store, message(1, "user"), message(2, "assistant"))
    assert traffic(store)[-1]["message"]["method"] == "session/prompt"


def test_odd_parts_are_no_reason_to_fail(store: SqliteStore) -> None:
    asked, answer = message(1, "user"), message(2, "assistant", stop_reason=["stop"], error={"a": 1})
    deep = "[" * 300 + "]" * 300
    odd = [
        part(asked, 0, "text", text=None),
        part(asked, 1, "file", url=3),
        part(asked, 2, "file", url="https://example.org/a.pdf", mediaType="application/pdf"),
        part(answer, 0, "tool-x", state="brand-new", toolCallId="c", input=None, approval="yes"),
        part(answer, 1, "data-plan", data={"entries": [1, {}]}),
        part(answer, 2, "data-plan"),
        part(answer, 3, "source-url", url="https://example.org", title=""),
        part(answer, 4, "tool-y", state="output-available", toolCallId="d"),
    ]
    told = {name: getattr(odd[-1], name) for name in ChatPart.__struct_fields__}
    for number, text in enumerate(("{", "[]", f'{{"input": {deep}, "output": {deep}}}')):
        odd.append(ChatPart(**{**told, "id": f"odd{number}", "index": 5 + number, "data_json": text}))
    put(store, asked, answer, *odd)
    found = traffic(store)
    check(found)
    assert found[4]["message"]["params"]["prompt"] == [
        {"type": "resource_link", "uri": "https://example.org/a.pdf", "name": "https://example.org/a.pdf",
         "mimeType": "application/pdf"}
    ]  # fmt: skip


def put(store: SqliteStore, *rows: ChatMessage | ChatPart) -> None:
    store.append(Batch(chat=[ChatSession(id=SESSION, agent="a", created_at=NOW, updated_at=NOW), *rows]))
