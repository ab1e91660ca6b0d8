"""Lines of the journal that are rows and not events: chat rows, and the contents that model calls name.

Each carries the tuple like every line, but takes no step of its own: a row belongs to the step at which
it was written. `chat.delta` lets a streamed text cost what is new of it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatRow, ChatSession, Count, Id, Millis, PartDelta
from dashcam.contracts.content import Link, LinkedContext
from dashcam.contracts.event import Event

Hex = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Content(msgspec.Struct, frozen=True):
    """The bytes of one message as a model was sent it."""

    body: bytes


class SystemPrompt(msgspec.Struct, frozen=True):
    """An assembled system prompt."""

    body: str


class ToolCatalog(msgspec.Struct, frozen=True):
    """The tools that a model was offered, as sent."""

    body: str


Row = ChatRow | Content | SystemPrompt | ToolCatalog | LinkedContext


class _Session(msgspec.Struct, kw_only=True):
    agent: str
    workspace_root: str | None = None
    model: msgspec.Raw = msgspec.Raw(b"{}")
    parent_id: str | None = None
    parent_message_id: str | None = None
    permissions: msgspec.Raw = msgspec.Raw(b"[]")
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    created_at: Millis
    updated_at: Millis
    archived_at: Millis | None = None


class _Message(msgspec.Struct, kw_only=True):
    message_id: Id
    role: Literal["user", "assistant", "system"]
    metadata: msgspec.Raw = msgspec.Raw(b"{}")
    created_at: Millis
    updated_at: Millis


class _Part(msgspec.Struct, kw_only=True):
    part_id: Id
    message_id: Id
    index: Count
    type: Id
    data: msgspec.Raw
    tool_call_id: str | None = None
    tool_state: str | None = None
    created_at: Millis
    updated_at: Millis


class _Delta(msgspec.Struct, kw_only=True):
    part_id: Id
    path: Literal["text", "rawInput"] = "text"
    at: Count
    text: str
    updated_at: Millis


class _Body(msgspec.Struct):
    body: str = ""
    base64: str | None = None  # where the bytes are no text


class _Context(msgspec.Struct):
    digest: Hex
    middle: list[Hex]
    parent: Hex | None = None
    head: Count = 0
    tail: Count = 0
    appended: Count = 0


def _session(line: _Session, session_id: str) -> ChatSession:
    told = _columns(line, {"model": "model_json", "permissions": "permissions_json", "metadata": "metadata_json"})
    return ChatSession(id=session_id, **told)


def _message(line: _Message, session_id: str) -> ChatMessage:
    return ChatMessage(session_id=session_id, **_columns(line, {"message_id": "id", "metadata": "metadata_json"}))


def _part(line: _Part, session_id: str) -> ChatPart:
    return ChatPart(session_id=session_id, **_columns(line, {"part_id": "id", "data": "data_json"}))


def _delta(line: _Delta, session_id: str) -> PartDelta:
    return PartDelta(session_id=session_id, **_columns(line, {}))


def _columns(line: msgspec.Struct, renamed: Mapping[str, str]) -> dict[str, Any]:
    """The fields under their columns' names, what is JSON as its text, to the letter."""
    return {
        renamed.get(name, name): bytes(value).decode() if isinstance(value, msgspec.Raw) else value
        for name, value in msgspec.structs.asdict(line).items()
    }


def _content(line: _Body, _: str) -> Content:
    return Content(line.body.encode() if line.base64 is None else b64decode(line.base64, validate=True))


def _linked(line: _Context, _: str) -> LinkedContext:
    middle = tuple(map(bytes.fromhex, line.middle))
    parent = None if line.parent is None else bytes.fromhex(line.parent)
    return LinkedContext(bytes.fromhex(line.digest), parent, Link(line.head, line.tail, middle, line.appended))


_READ: dict[str, tuple[type, Callable[[Any, str], Row]]] = {
    "chat.session": (_Session, _session),
    "chat.message": (_Message, _message),
    "chat.part": (_Part, _part),
    "chat.delta": (_Delta, _delta),
    "content.message": (_Body, _content),
    "content.system_prompt": (_Body, lambda line, _: SystemPrompt(line.body)),
    "content.tool_catalog": (_Body, lambda line, _: ToolCatalog(line.body)),
    "content.context": (_Context, _linked),
}
ROWS = frozenset(_READ)


def row_of(event: Event) -> Row:
    """The row that a line of the journal holds; raises ValueError where it isn't one."""
    shape, build = _READ[event.operation]
    return build(msgspec.json.decode(event.fields, type=shape), event.session_id)


def body_fields(body: bytes) -> dict[str, str]:
    """The fields of a `content.*` line."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(body).decode()}


def context_fields(digest: bytes, parent: bytes | None, change: Link) -> dict[str, Any]:
    """The fields of a `content.context` line."""
    told: dict[str, Any] = {"digest": digest.hex(), "middle": [each.hex() for each in change.middle]}
    if parent is not None:
        told |= {"parent": parent.hex(), "head": change.head, "tail": change.tail, "appended": change.appended}
    return told
