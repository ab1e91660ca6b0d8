"""A chat session for the tests of views, told message by message and kept in a real store."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatRow, ChatSession
from dashcam.contracts.content import context_digest, digest_of
from dashcam.contracts.event import Event
from dashcam.store.base import Batch, Context, Projection, Store

NOW = 1_700_000_000_000  # milliseconds
SECOND = 1_000
MODEL = {"provider_id": "anthropic", "model_id": "claude-sonnet-4-5", "temperature": 0.2}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def tool(name: str, call_id: str, **told: Any) -> dict[str, Any]:
    return {"type": f"tool-{name}", "toolCallId": call_id, "state": "output-available", **told}


def said(role: str, content: str) -> bytes:
    """A message as a model is sent it."""
    return json.dumps({"role": role, "content": content}).encode()


class Chat:
    """Grows a second a message."""

    def __init__(self, session_id: str = "s", trace_id: str = "t", **given: Any) -> None:
        self.session_id, self.trace_id = session_id, trace_id
        self.at = NOW
        self.session = {"id": session_id, "agent": "shop", "model_json": json.dumps(MODEL), **given}
        self.rows: list[ChatRow] = []
        self.events: list[Event] = []
        self.calls: list[ModelCall] = []
        self.contents: list[bytes] = []
        self.contexts: list[Context] = []
        self.prompts: list[str] = []
        self.catalogs: list[str] = []

    def message(self, role: str, *parts: dict[str, Any], **metadata: Any) -> str:
        self.at += SECOND
        number = sum(isinstance(row, ChatMessage) for row in self.rows)
        message_id = f"{self.session_id}-m{number:05}"
        told = {"trace_id": self.trace_id, **metadata}
        self.rows.append(
            ChatMessage(
                id=message_id,
                session_id=self.session_id,
                role=role,  # type: ignore[arg-type]
                metadata_json=json.dumps({name: value for name, value in told.items() if value is not None}),
                created_at=self.at,
                updated_at=self.at,
            )
        )
        for index, part in enumerate(parts):
            self.rows.append(
                ChatPart(
                    id=f"{message_id}-p{index:05}",
                    message_id=message_id,
                    session_id=self.session_id,
                    index=index,
                    type=part["type"],
                    data_json=json.dumps(part),
                    tool_call_id=part.get("toolCallId"),
                    tool_state=part.get("state") if "toolCallId" in part else None,
                    created_at=self.at,
                    updated_at=self.at + 500,
                )
            )
        return message_id

    def user(self, said: str, **metadata: Any) -> str:
        return self.message("user", text(said), **metadata)

    def assistant(self, *parts: dict[str, Any] | str, **metadata: Any) -> str:
        told = {"stop_reason": "end_turn", "model": MODEL, **metadata}
        return self.message("assistant", *(text(part) if isinstance(part, str) else part for part in parts), **told)

    def call(
        self, message_id: str, messages: list[bytes], *, prompt: str = "", catalog: str = "", **given: Any
    ) -> ModelCall:
        digests = tuple(map(digest_of, messages))
        self.contents += messages
        self.contexts.append(Context(digests))
        self.prompts += [prompt] if prompt else []
        self.catalogs += [catalog] if catalog else []
        told = {
            "session_id": self.session_id, "trace_id": self.trace_id, "kind": "user", "model": "claude-sonnet-4-5",
            "step": len(self.calls), "ts": self.at * 1000, "message_id": message_id, "provider": "anthropic",
            "system_prompt_digest": sha256(prompt.encode()).hexdigest() if prompt else None,
            "tool_catalog_digest": sha256(catalog.encode()).hexdigest() if catalog else None,
            "context_digest": context_digest(digests).hex(), **given,
        }  # fmt: skip
        self.calls.append(ModelCall(**told))
        return self.calls[-1]

    def span(self, name: str, **fields: Any) -> None:
        place = len(self.events)
        self.events.append(
            Event(
                segment=f"{self.session_id}.jsonl",
                offset=place,
                session_id=self.session_id,
                trace_id=self.trace_id,
                step=place,
                kind="user",
                operation="span_ended",
                ts=self.at * 1000,
                fields=json.dumps({"name": name, **fields}),
            )
        )

    def keep(self, store: Store) -> Chat:
        session = ChatSession(**{"created_at": NOW, "updated_at": self.at, **self.session})
        store.append(
            Batch(
                chat=[session, *self.rows],
                events=self.events,
                contents=self.contents,
                contexts=self.contexts,
                system_prompts=self.prompts,
                tool_catalogs=self.catalogs,
            )
        )
        if self.calls:
            page = store.unprojected()
            store.replace({self.trace_id: Projection(model_calls=self.calls)}, cursor=page.cursor)
        return self
