"""What a span or a log record says an agent did, whichever dialect says it.

`SpanView` and `LogView` are what a dialect reads, `Reading` is what it makes of it. A field that is None was not
told; a dialect never guesses.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from dashcam.contracts.chat import Usage
from dashcam.contracts.score import Score

# model: one request to a model. tool: one run of a tool. agent: what encloses model calls and tools, and may repeat
# their sums. retrieval: a search. said: a message that somebody wrote, told outside of any call. span: anything else.
Kind = Literal["model", "tool", "agent", "retrieval", "said", "span"]
Role = Literal["system", "user", "assistant", "tool"]


class EventView(msgspec.Struct, frozen=True):
    """An event on a span."""

    name: str
    at_ns: int
    attributes: dict[str, Any]


class SpanView(msgspec.Struct, frozen=True, kw_only=True):
    """A span, decoded: attribute values are str, bool, int, float, bytes, list or dict."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    status: str = "unset"
    status_message: str = ""
    attributes: dict[str, Any] = {}
    events: list[EventView] = []
    scope: str = ""  # name of the instrumentation scope
    resource: dict[str, Any] = {}
    redacted: bool = False  # secrets were taken out of it


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """A log record, decoded. `name` is its event name, from wherever the sender puts that."""

    trace_id: str
    span_id: str | None = None
    at_ns: int = 0
    name: str = ""
    severity: str = ""
    body: Any = None
    attributes: dict[str, Any] = {}
    scope: str = ""
    resource: dict[str, Any] = {}


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """One message, as a model was sent it or gave it.

    `raw` is the message as it was sent: its slice of the sender's JSON, or canonical JSON where the sender tells it
    in pieces. `parts` are these dicts, close to those of the AI SDK:

    - `{"type": "text", "text": str}`, `{"type": "reasoning", "text": str}`
    - `{"type": "tool-call", "toolCallId": str | None, "toolName": str, "input": Any}`
    - `{"type": "tool-result", "toolCallId": str | None, "toolName": str | None, "output": Any, "error": bool}`
    - `{"type": "file", "mediaType": str, "url": str}` (data: URLs for what came inline)
    - `{"type": "data-<name>", "data": Any}` for everything else, so that nothing is lost
    """

    role: Role
    parts: tuple[dict[str, Any], ...]
    raw: bytes


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one span, or one log record, tells."""

    kind: Kind | None = None
    dialect: str | None = None
    # Whose
    session_id: str | None = None
    user_id: str | None = None
    agent: str | None = None
    metadata: dict[str, Any] | None = None  # tags, release, environment: what a session's row may carry
    # A model call
    provider: str | None = None
    model: str | None = None  # that answered, else that was asked
    settings: dict[str, Any] | None = None
    system: str | None = None  # where it isn't among the messages
    tools: str | None = None  # the catalog, JSON to the letter where the sender tells it as one text
    input: tuple[Said, ...] | None = None
    output: tuple[Said, ...] | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    response_id: str | None = None
    stop_reason: str | None = None
    first_token_ms: float | None = None
    # A tool call, or a retrieval
    tool: str | None = None
    call_id: str | None = None
    arguments: Any = None
    result: Any = None
    # Anything
    error: str | None = None
    score: Score | None = None
    pending: bool = False  # stands for a span that is still running, whose own id is `stands_for`
    stands_for: str | None = None
    parent_span_id: str | None = None  # where the span's own is not the real one
