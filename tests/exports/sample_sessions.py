"""Sessions for the tests of exports, with every kind of row that a recorder writes."""

from __future__ import annotations

import json
from typing import Any

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.contracts.content import context_digest, digest_of
from dashcam.contracts.event import Event
from dashcam.record.projector import project_all
from dashcam.store.base import Batch, Context
from dashcam.store.sqlite.store import SqliteStore

SESSION = "chat-42"
NOW = 1_800_000_000_000  # milliseconds
PROMPT, CATALOG = "You are careful.\nIt is noon.", '[{"name":"search"}]'
TRACE = "0af7651916cd43dd8448eb211c80319c"


def text(value: object) -> str:
    return json.dumps(value)


def message(number: int, role: str, session_id: str = SESSION, **metadata: Any) -> ChatMessage:
    return ChatMessage(
        id=f"msg_{session_id}_{number}",
        session_id=session_id,
        role=role,  # type: ignore[arg-type]
        metadata_json=text(metadata),
        created_at=NOW + number * 1000,
        updated_at=NOW + number * 1000 + 500,
    )


def part(of: ChatMessage, index: int, kind: str, *, state: str | None = None, **data: Any) -> ChatPart:
    call_id = data.get("toolCallId")
    told = {"type": kind, **data} | ({"state": state} if state else {})
    return ChatPart(
        id=f"prt_{of.id}_{index}",
        message_id=of.id,
        session_id=of.session_id,
        index=index,
        type=kind,
        data_json=text(told),
        tool_call_id=call_id,
        tool_state=state,
        created_at=of.created_at + index * 10,
        updated_at=of.created_at + index * 10 + 5,
    )


def event(offset: int, operation: str, session_id: str = SESSION, trace_id: str = TRACE, **fields: Any) -> Event:
    ts = (NOW + offset * 10) * 1000
    return Event("a.jsonl", offset, session_id, trace_id, offset, "user", operation, ts, text(fields))


def conversation(session_id: str = SESSION) -> list[ChatSession | ChatMessage | ChatPart]:
    """Three turns: one with tools of every outcome, one that was cancelled, one that was rewound."""
    first, answer = (
        message(1, "user", session_id),
        message(
            2,
            "assistant",
            session_id,
            usage={"input": 100, "output": 20, "reasoning": 3, "cache_read": 50, "cache_write": 7},
            model={"provider_id": "openai", "model_id": "gpt-5", "temperature": 0.5},
            cost_usd=0.25,
            stop_reason="stop",
            system_prompt_digest=digest_of(PROMPT.encode()).hex(),
            tool_catalog_digest=digest_of(CATALOG.encode()).hex(),
        ),
    )
    again, broken = (
        message(3, "user", session_id),
        message(4, "assistant", session_id, stop_reason="aborted", usage={"input": 5}, cost_usd=0.125),
    )
    hidden, late = message(5, "user", session_id, hidden_at=NOW), message(6, "assistant", session_id)
    session = ChatSession(
        id=session_id, agent="helper", workspace_root="/srv/app", created_at=NOW, updated_at=NOW + 9000
    )
    return [
        session,
        first,
        part(first, 0, "text", text="Look it up, please"),
        part(first, 1, "file", url="data:image/png;base64,iVBORw0=", mediaType="image/png", filename="a.png"),
        answer,
        part(answer, 0, "step-start"),
        part(answer, 1, "reasoning", text="Where could it be?"),
        part(answer, 2, "tool-search", state="output-available", toolCallId="c1", input={"q": "x"}, output={"hits": 1}),
        part(answer, 3, "tool-rm", state="output-denied", toolCallId="c2", input={"path": "/"},
             approval={"id": "a1", "approved": False, "reason": "no"}),
        part(answer, 4, "dynamic-tool", state="output-error", toolCallId="c3", toolName="fetch", input={},
             errorText="404", approval={"id": "a2", "approved": True}),
        part(answer, 5, "data-plan", data={"entries": [{"content": "Look", "status": "completed", "priority": "urgent"}]}),
        part(answer, 6, "text", text="=1+1 is what I found"),
        again,
        part(again, 0, "text", text="And now?"),
        broken,
        part(broken, 0, "tool-run", state="approval-requested", toolCallId="c4", input={}, approval={"id": "a3"}),
        hidden,
        part(hidden, 0, "text", text="Taken back"),
        late,
    ]  # fmt: skip


def fill(store: SqliteStore, session_id: str = SESSION, trace_id: str = TRACE, start: int = 0) -> None:
    """A session with all that can be recorded of it, projected."""
    bodies = [text({"role": "user", "content": f"message {number}"}).encode() for number in range(4)]
    bodies[3] = b"\xff\x00 not text"
    digests = [digest_of(body) for body in bodies]
    lists = [digests[:2], digests[:3], digests]
    digest = digest_of(PROMPT.encode()).hex()
    catalog = digest_of(CATALOG.encode()).hex()
    events = [
        event(start, "request_received", session_id, trace_id),
        event(start + 1, "span_started", session_id, trace_id, name="session.turn", span_id="00f067aa0ba902b7", turn_index=1),
        *(
            event(
                start + 2 + number,
                "model_call",
                session_id,
                trace_id,
                model="gpt-5",
                provider="openai",
                span_id="00f067aa0ba902b7",
                context_digest=context_digest(each).hex(),
                system_prompt_digest=digest,
                tool_catalog_digest=catalog,
                input_tokens=10,
                cache_read=5,
                output_tokens=4,
                reasoning_tokens=1,
                latency_ms=3.5,
                settings={"temperature": 0.5},
            )
            for number, each in enumerate(lists)
        ),
        event(start + 5, "tool_call_failed", session_id, trace_id, tool="fetch", error="404", span_id="00f067aa0ba902b7"),
        event(start + 6, "span_ended", session_id, trace_id, name="session.turn", span_id="00f067aa0ba902b7",
              started_at="2027-01-15T08:00:00Z", duration_ms=50.0, status="error", error={"type": "E", "message": "m"}),
        event(start + 7, "span_started", session_id, trace_id, name="tool.call", span_id="b7ad6b7169203331",
              parent_span_id="00f067aa0ba902b7"),
        event(start + 8, "permission.evaluate", session_id, trace_id, tool_id="search", tool_call_id="c1", action="ask"),
    ]  # fmt: skip
    store.append(
        Batch(
            chat=conversation(session_id),
            events=events,
            contents=bodies,
            contexts=[Context(tuple(each)) for each in lists],
            system_prompts=[PROMPT],
            tool_catalogs=[CATALOG],
        )
    )
    project_all(store)
