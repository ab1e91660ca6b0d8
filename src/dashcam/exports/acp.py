"""ACP: a session as the JSON-RPC traffic that an editor and the agent would have had.

One line a message: `{ts, direction, message}`. The words are the protocol's, so keys are camelCase here and
nowhere else. Times never go back: a part that ran beside the one before it is told after that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dashcam import __version__
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession, tool_name_of
from dashcam.exports.acp_blocks import block_of, plan_entries, text_block
from dashcam.exports.selection import json_text
from dashcam.store.base import EventFilter, Reader

TO_AGENT, TO_CLIENT = "client_to_agent", "agent_to_client"
PROTOCOL = 1

_STOP_REASONS = {
    **dict.fromkeys(("length", "max_tokens", "max-tokens"), "max_tokens"),
    **dict.fromkeys(("max_turn_requests", "max_steps", "max_turns"), "max_turn_requests"),
    **dict.fromkeys(("refusal", "content-filter", "content_filter"), "refusal"),
    **dict.fromkeys(("cancelled", "canceled", "aborted", "abort"), "cancelled"),
}
_OPTIONS = [
    {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
]
_INTERNAL_ERROR = -32603  # of JSON-RPC

Traffic = Iterator[dict[str, Any]]


def write(store: Reader, session_ids: Sequence[str]) -> Iterator[bytes]:
    """The traffic of each session, one after the other, as it would be captured on a connection of its own."""
    for session_id in session_ids:
        for line in _Connection(store, store.chat_session(session_id)).traffic():
            yield msgspec.json.encode(line) + b"\n"


class _Connection:
    """The two ends of one connection, each with a counter of its own for its requests."""

    def __init__(self, store: Reader, session: ChatSession) -> None:
        self._store, self._session = store, session
        self._asked = _asked_calls(store, session.id)
        self._now = session.created_at
        self._requests = {TO_AGENT: 0, TO_CLIENT: 0}
        self._prompt: int | None = None  # the request that is being answered
        self._answer: ChatMessage | None = None  # the newest message of that answer

    def traffic(self) -> Traffic:
        yield from self._open()
        for message in self._store.chat_messages(self._session.id):
            self._now = max(self._now, message.created_at)
            if message.role == "user":
                yield from self._end_turn()
                yield self._ask(message)
            elif message.role == "assistant":
                self._answer = message
                for part in self._store.chat_parts(self._session.id, message.id):
                    yield from self._part(part, _is_aborted(message))
        yield from self._end_turn()

    def _open(self) -> Traffic:
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        client = {"name": "dashcam", "version": __version__}
        agent = {"name": self._session.agent, "version": "unknown"}
        yield self._request(
            "initialize", {"protocolVersion": PROTOCOL, "clientCapabilities": capabilities, "clientInfo": client}
        )
        yield self._result(
            {"protocolVersion": PROTOCOL, "agentCapabilities": {}, "agentInfo": agent, "authMethods": []}
        )
        yield self._request("session/new", {"cwd": self._session.workspace_root or "/", "mcpServers": []})
        yield self._result({"sessionId": self._session.id})

    def _ask(self, message: ChatMessage) -> dict[str, Any]:
        parts = self._store.chat_parts(self._session.id, message.id)
        blocks = [block for part in parts if (block := block_of(part.type, part.data()))]
        request = self._request("session/prompt", {"sessionId": self._session.id, "prompt": blocks})
        self._prompt = self._requests[TO_AGENT]
        return request

    def _end_turn(self) -> Traffic:
        """The answer to the prompt. One that never came, or is not complete, leaves its request open."""
        prompt, answer = self._prompt, self._answer
        self._prompt = self._answer = None
        if prompt is None or answer is None:
            return
        metadata = answer.metadata()
        reason = metadata.get("stop_reason")
        if not isinstance(reason, str):
            return
        self._now = max(self._now, answer.updated_at)
        aborted = _is_aborted(answer)
        if aborted:
            yield self._line(TO_AGENT, {"method": "session/cancel", "params": {"sessionId": self._session.id}})
        if not aborted and (reason == "error" or metadata.get("error") is not None):
            told = {"code": _INTERNAL_ERROR, "message": _message_of(metadata.get("error"))}
            yield self._line(TO_CLIENT, {"id": prompt, "error": told})
        else:
            result = {"stopReason": _STOP_REASONS.get(reason, "end_turn")}
            yield self._line(TO_CLIENT, {"id": prompt, "result": result})

    def _part(self, part: ChatPart, aborted: bool) -> Traffic:
        self._now = max(self._now, part.created_at)
        data = part.data()
        tool = tool_name_of(part.type, data)
        if tool is not None:
            yield from self._tool(part, data, tool, aborted)
        elif part.type == "data-plan":
            yield self._update("plan", entries=plan_entries(data.get("data")))
        elif block := block_of(part.type, data):
            self._now = max(self._now, part.updated_at)
            yield self._update(f"agent_{'thought' if part.type == 'reasoning' else 'message'}_chunk", content=block)

    def _tool(self, part: ChatPart, data: dict[str, Any], tool: str, aborted: bool) -> Traffic:
        call: dict[str, Any] = {"toolCallId": part.tool_call_id or part.id, "title": tool}
        call |= {"kind": "other", "status": "pending"}
        raw = _raw_of(part)  # to the letter, however deep it is nested
        if given := raw.get("input", raw.get("rawInput")):  # as far as it got
            call["rawInput"] = given
        yield self._update("tool_call", **call)
        approval, state = data.get("approval"), part.tool_state
        if isinstance(approval, dict) or call["toolCallId"] in self._asked:
            answer = _decision(approval if isinstance(approval, dict) else {}, state, aborted)
            yield from self._permission(call, answer)
        self._now = max(self._now, part.updated_at)
        about: dict[str, Any] = {"toolCallId": call["toolCallId"]}
        if state == "output-available":
            output = raw.get("output", msgspec.Raw(b"null"))
            said = data.get("output")
            shown = [_content(said if isinstance(said, str) else bytes(output).decode())]
            yield self._update("tool_call_update", **about, status="completed", rawOutput=output, content=shown)
        elif state in ("output-error", "output-denied"):
            reason = approval.get("reason") if isinstance(approval, dict) else None
            said = data.get("errorText") or reason or state.removeprefix("output-")
            yield self._update("tool_call_update", **about, status="failed", content=[_content(_text(said))])
        elif state in ("input-available", "approval-responded"):
            yield self._update("tool_call_update", **about, status="in_progress")

    def _permission(self, call: dict[str, Any], outcome: dict[str, str] | None) -> Traffic:
        """The question to the person, and the answer where there was one."""
        self._requests[TO_CLIENT] += 1
        number = self._requests[TO_CLIENT]
        params = {"sessionId": self._session.id, "toolCall": call, "options": _OPTIONS}
        yield self._line(TO_CLIENT, {"id": number, "method": "session/request_permission", "params": params})
        if outcome is not None:
            yield self._line(TO_AGENT, {"id": number, "result": {"outcome": outcome}})

    def _update(self, update: str, **told: Any) -> dict[str, Any]:
        params = {"sessionId": self._session.id, "update": {"sessionUpdate": update, **told}}
        return self._line(TO_CLIENT, {"method": "session/update", "params": params})

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._requests[TO_AGENT] += 1
        return self._line(TO_AGENT, {"id": self._requests[TO_AGENT], "method": method, "params": params})

    def _result(self, result: dict[str, Any]) -> dict[str, Any]:
        return self._line(TO_CLIENT, {"id": self._requests[TO_AGENT], "result": result})

    def _line(self, direction: str, message: dict[str, Any]) -> dict[str, Any]:
        return {"ts": self._now / 1000, "direction": direction, "message": {"jsonrpc": "2.0", **message}}


def _asked_calls(store: Reader, session_id: str) -> set[str]:
    """The tool calls for which a permission was asked, as the events tell."""
    asked = set()
    for operation in ("permission.evaluate", "span_started", "span_ended"):
        for event in store.events(EventFilter(session_id=session_id, operation=operation)):
            if "ask" not in event.fields:  # quicker than reading every span
                continue
            fields = event.data()
            evaluated = "permission.evaluate" in (operation, fields.get("name")) and fields.get("action") == "ask"
            if evaluated and isinstance(fields.get("tool_call_id"), str):
                asked.add(fields["tool_call_id"])
    return asked


def _decision(approval: dict[str, Any], state: str | None, aborted: bool) -> dict[str, str] | None:
    """What the person chose; None while nobody has."""
    approved = approval.get("approved")
    if not isinstance(approved, bool):
        if state in ("output-available", "output-error"):
            approved = True  # it ran
        elif state == "output-denied":
            approved = False
        else:
            return {"outcome": "cancelled"} if aborted else None
    return {"outcome": "selected", "optionId": "allow_once" if approved else "reject_once"}


def _is_aborted(message: ChatMessage) -> bool:
    reason = message.metadata().get("stop_reason")
    return isinstance(reason, str) and _STOP_REASONS.get(reason) == "cancelled"


def _message_of(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return _text(message) if message else "error"


def _content(text: str) -> dict[str, Any]:
    return {"type": "content", "content": text_block(text)}


def _raw_of(part: ChatPart) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(part.data_json, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value)
