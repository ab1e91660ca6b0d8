"""A chat session: its row, its messages, their parts, and the rules that they keep.

The rows are the tables' columns, one for one, so that a row, an exported line and a table read alike.
`*_json` columns hold JSON text: `chat_parts.data_json` is the AI SDK part, verbatim and whole.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dashcam.contracts.identity import MAX_TIME

Id = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Millis = Annotated[int, Meta(ge=0, lt=MAX_TIME // 1000)]  # since 1970, UTC

SESSION, MESSAGE, PART = "ses_", "msg_", "prt_"
TICKS = 4096  # ids that one process can mint in a millisecond without running ahead of the clock
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # in ASCII order: ids sort as text
_TAIL = 12
_TAILS = 62**_TAIL
_PAIRS = [low + high for high in _DIGITS for low in _DIGITS]

# The states of a tool call in AI SDK v6. One that is not among them is kept all the same.
TOOL_STATES = (
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
)
FINAL_STATES = frozenset(TOOL_STATES[4:])
COMPACTION = "data-compaction"  # reserved: a summary that stands for what came before it


class ChatSession(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `chat_sessions`.

    Rules: `agent` never changes; the token columns are the sums over the session's assistant messages
    and `total_tokens` is the sum of those five, all kept by the store, whatever a writer says;
    `cost_usd` is the sum of what writers supplied, None where none did; `parent_id` and
    `parent_message_id` are set on a branch.
    """

    id: Id
    agent: str
    workspace_root: str | None = None
    model_json: str = "{}"
    parent_id: str | None = None
    parent_message_id: str | None = None
    permissions_json: str = "[]"
    metadata_json: str = "{}"
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    reasoning_tokens: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0
    total_tokens: Count = 0
    cost_usd: float | None = None
    created_at: Millis
    updated_at: Millis
    archived_at: Millis | None = None


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `chat_messages`. Ordered by `created_at`, then `id`.

    Keys of `metadata_json`, each optional: usage, model (with the settings used), agent, cost_usd,
    system_prompt_digest, tool_catalog_digest, permissions, stop_reason, error, queued_at, hidden_at,
    snapshot_id, trigger, trace_id, step. An assistant message without stop_reason is still open.
    """

    id: Id
    session_id: Id
    role: Literal["user", "assistant", "system"]
    metadata_json: str = "{}"
    created_at: Millis
    updated_at: Millis

    def metadata(self) -> dict[str, Any]:
        return object_of(self.metadata_json)


class ChatPart(msgspec.Struct, frozen=True, kw_only=True):
    """One row of `chat_parts`.

    Rules: `index` grows within a message and is never given again; one row for each tool call, whose
    `tool_state` is the last one observed; `data_json` holds the whole part, whatever its size.
    """

    id: Id
    message_id: Id
    session_id: Id
    index: Count
    type: Id
    data_json: str
    tool_call_id: str | None = None
    tool_state: str | None = None
    created_at: Millis
    updated_at: Millis

    def data(self) -> dict[str, Any]:
        return object_of(self.data_json)


class PartDelta(msgspec.Struct, frozen=True, kw_only=True):
    """What a part's text goes on with from character `at`: so that a stream is not written again with every word.

    Rules: what the text holds beyond `at` is replaced, so that a delta told twice changes nothing.
    """

    session_id: Id
    part_id: Id
    path: Literal["text", "rawInput"] = "text"
    at: Count
    text: str
    updated_at: Millis


ChatRow = ChatSession | ChatMessage | ChatPart | PartDelta


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens in five parts that never overlap: `input` is without what the cache served or took,
    `output` without reasoning.
    """

    input: Count = 0
    output: Count = 0
    reasoning: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.reasoning + self.cache_read + self.cache_write

    @property
    def context(self) -> int:
        """What the model was sent, however much of it came out of a cache."""
        return self.input + self.cache_read + self.cache_write

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in USAGE})


USAGE = Usage.__struct_fields__
# chat_sessions calls two of them by older names.
ROLLUPS = dict(
    zip(("prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read", "cache_write"), USAGE, strict=True)
)


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """Which model, as `model_json` and `metadata_json.model` name it."""

    provider_id: str = ""
    model_id: str = ""
    variant: str | msgspec.UnsetType = msgspec.UNSET


class PermissionRule(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do what: `permission` is a tool id, a capability or `*`; `pattern` a glob on its arguments."""

    permission: Id
    pattern: str = "*"
    action: Literal["allow", "deny", "ask"]
    source: Literal["manifest", "session", "project"] = "session"
    added_at: Millis | msgspec.UnsetType = msgspec.UNSET


def make_id(prefix: str, tick: int, tail: int) -> str:
    """An id of 30 characters: what it is of, 14 hex digits of time, 12 of `tail`."""
    return f"{prefix}{tick:014x}{_base62(tail)}"


def derived_id(prefix: str, created_at: int, origin: str, key: str) -> str:
    """The id of what was made elsewhere: the same each time, whoever asks."""
    tail = int.from_bytes(sha256(f"{origin}\0{key}".encode()).digest())
    return make_id(prefix, created_at * TICKS, tail)


def _base62(number: int) -> str:
    """The last digits of a number, the very last first; two at a time, since many ids are made."""
    number %= _TAILS
    pairs = []
    for _ in range(_TAIL // 2):
        number, pair = divmod(number, 62 * 62)
        pairs.append(_PAIRS[pair])
    return "".join(pairs)


def object_of(text: str) -> dict[str, Any]:
    """A JSON object from a column; what isn't one (somebody edited it by hand) is an empty one."""
    try:
        decoded = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def usage_of(metadata: dict[str, Any]) -> Usage | None:
    """The usage that a message's metadata tells, None where it doesn't or not legibly."""
    try:
        return msgspec.convert(metadata["usage"], Usage)
    except (KeyError, msgspec.ValidationError):
        return None


def tool_name_of(part_type: str, data: dict[str, Any]) -> str | None:
    """The tool that a part calls: in its type, or in the part where the tool is dynamic. None for other parts."""
    if part_type == "dynamic-tool":
        return str(data.get("toolName") or "dynamic-tool")
    return part_type.removeprefix("tool-") if part_type.startswith("tool-") else None
