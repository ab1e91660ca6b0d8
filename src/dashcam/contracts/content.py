"""Contents: the digests of what a model was sent, and the difference between two requests.

A message is known by the SHA-256 of its bytes, a context (the list of messages of one request) by a
rolling hash over those, so that the digests of all its prefixes fall out of one pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

EMPTY_CONTEXT = sha256(b"dashcam.context.v1").digest()

_STRIDE = 512  # lists are compared this many at a time, which C does, before Python looks at single ones

# Shape: what providers add for themselves says nothing about what the model was told.
_PROVIDER_KEYS = frozenset(
    [
        *("providerMetadata", "callProviderMetadata", "resultProviderMetadata", "providerOptions"),
        *("cache_control", "signature", "thoughtSignature", "thought_signature", "encrypted_content"),
        *("response_metadata", "usage_metadata"),
    ]
)
# Pydantic AI writes them into its messages: when and by which run, not what.
_RUN_KEYS = frozenset(
    [
        *("timestamp", "usage", "run_id", "conversation_id", "metadata", "model_name", "finish_reason", "state"),
        *("provider_name", "provider_url", "provider_details", "provider_response_id", "instructions"),
        *("model_id", "canonical_system", "workspace_ref", "history_digest", "failed_attempts"),
    ]
)
_CALL_ID_KEYS = frozenset(("tool_call_id", "tool_use_id", "toolCallId", "toolUseId", "call_id"))
_CALL_TYPES = frozenset(
    [
        *("tool_use", "server_tool_use", "mcp_tool_use"),
        *("tool_call", "tool_call_response", "server_tool_call", "server_tool_call_response"),
    ]
)
# Only these lead from a message to its parts. Arguments and results are the tool's own words: an `id`
# or a `signature` in there is kept as it is.
_PART_LISTS = frozenset(("content", "parts", "tool_calls", "toolInvocations"))
_PART_OBJECTS = frozenset(
    (
        "functionCall",
        "functionResponse",
        "toolUse",
        "toolResult",
        "toolInvocation",
        "approval",
        "additional_kwargs",
    )
)
_PARTS_WITH_ID = frozenset(("tool_calls", "functionCall", "functionResponse", "approval"))


class Link(msgspec.Struct, frozen=True):
    """How one list of digests comes out of another.

    Rules: the list is the parent's first `head`, then `middle` without its last `appended`, then the
    parent's last `tail`, then those `appended`; `head + tail` is at most the parent's length;
    `appended` is 0 where `tail` is.
    """

    head: int
    tail: int
    middle: tuple[bytes, ...]
    appended: int = 0


class LinkedContext(msgspec.Struct, frozen=True):
    """A context told as the difference to the one before it; without a parent `link.middle` is all of it."""

    digest: bytes
    parent: bytes | None
    link: Link


def digest_of(body: bytes) -> bytes:
    """SHA-256 of the bytes as sent."""
    return sha256(body).digest()


def slices_of(raw: bytes) -> list[bytes] | None:
    """The messages of a JSON array, byte for byte; None where they would not rejoin to exactly `raw`.

    White space beside a comma goes with the message: Python's json.dumps writes `, `, and taken as one
    content such a history would be stored again with every call.
    """
    try:
        parts = msgspec.json.decode(raw, type=list[msgspec.Raw])
    except (ValueError, RecursionError):
        return None
    slices, start = [], 1
    for number, part in enumerate(parts, 1):
        end = raw.index(bytes(part), start) + len(bytes(part))
        end = raw.index(b",", end) if number < len(parts) else len(raw) - 1
        slices.append(raw[start:end])
        start = end + 1
    return slices if b"[" + b",".join(slices) + b"]" == raw else None


def prefix_digests(message_digests: Iterable[bytes], start: bytes = EMPTY_CONTEXT) -> list[bytes]:
    """The context digests of every prefix, shortest first; `start` is the prefix already hashed."""
    prefixes = [start]
    for digest in message_digests:
        start = sha256(start + digest).digest()
        prefixes.append(start)
    return prefixes


def context_digest(message_digests: Iterable[bytes]) -> bytes:
    return prefix_digests(message_digests)[-1]


def shapes_of(messages: Iterable[bytes]) -> list[bytes]:
    """Each message as it is compared: canonical JSON, tool-call ids numbered by first use.

    What isn't JSON is its own shape.
    """
    numbers: dict[str, str] = {}
    return [_shape_of(message, numbers) for message in messages]


def shape_digests(messages: Iterable[bytes]) -> list[bytes]:
    """One digest a message, equal between two runs that differ in random ids alone."""
    return [digest_of(shape) for shape in shapes_of(messages)]


def shape_digest(messages: Iterable[bytes]) -> bytes:
    """One digest for the whole conversation."""
    return context_digest(shape_digests(messages))


def link(parent: Sequence[bytes], child: Sequence[bytes]) -> Link:
    """The difference that makes `child` out of `parent`.

    One edit anywhere (cut, insert, replace) followed by new messages costs no more than what is new.
    """
    head = _common(parent, child)
    rest = list(child[head:])
    tail, end = _longest_tail(parent[head:], rest)
    middle = (*rest[: end - tail], *rest[end:])
    return Link(head, tail, middle, len(rest) - end if tail else 0)


def apply_link(parent: Sequence[bytes], change: Link) -> list[bytes]:
    """The list that `change` makes out of `parent`; raises ValueError if it doesn't fit."""
    kept = len(parent) - change.tail
    cut = len(change.middle) - change.appended
    if not (0 <= change.head <= kept <= len(parent) and 0 <= cut <= len(change.middle)):
        raise ValueError(f"a link that keeps {change.head} and {change.tail} doesn't fit a list of {len(parent)}")
    return [*parent[: change.head], *change.middle[:cut], *parent[kept:], *change.middle[cut:]]


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """The length of the longest common prefix."""
    shorter, same = min(len(one), len(other)), 0
    while same + _STRIDE <= shorter and one[same : same + _STRIDE] == other[same : same + _STRIDE]:
        same += _STRIDE
    while same < shorter and one[same] == other[same]:
        same += 1
    return same


def _longest_tail(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """The longest end of `old` that stands anywhere in `new`: its length, and where it ends there.

    Knuth-Morris-Pratt from the back: linear even where the same message repeats a thousand times.
    """
    if not old or old[-1] not in new:
        return 0, 0
    pattern = list(old[: -len(new) - 1 : -1])
    borders, matched = [0], 0
    for item in pattern[1:]:
        while matched and pattern[matched] != item:
            matched = borders[matched - 1]
        matched += pattern[matched] == item
        borders.append(matched)
    best, start, matched = 0, 0, 0
    for place in range(len(new) - 1, -1, -1):
        while matched and (matched == len(pattern) or pattern[matched] != new[place]):
            matched = borders[matched - 1]
        matched += pattern[matched] == new[place]
        if matched > best:
            best, start = matched, place
    return best, start + best


def _shape_of(message: bytes, numbers: dict[str, str]) -> bytes:
    try:
        decoded = msgspec.json.decode(message)
        return msgspec.json.encode(_part(decoded, numbers, has_id=True), order="sorted")
    except (ValueError, RecursionError):
        return message


def _part(value: Any, numbers: dict[str, str], *, has_id: bool) -> Any:
    """A message or one of its parts, without the provider's own and with its ids numbered."""
    if not isinstance(value, dict):
        return value
    has_id = has_id or value.get("type") in _CALL_TYPES
    dropped = _PROVIDER_KEYS
    if "part_kind" in value or (value.get("kind") in ("request", "response") and "parts" in value):
        dropped |= _RUN_KEYS
    shape = {}
    # In the order of the keys, so that the order of first use doesn't hang on how a client writes JSON.
    for key in sorted(value.keys() - dropped):
        inner = value[key]
        if isinstance(inner, str) and (key in _CALL_ID_KEYS or (key == "id" and has_id)):
            inner = numbers.setdefault(inner, f"#{len(numbers) + 1}")
        elif isinstance(inner, list) and key in _PART_LISTS:
            inner = [_part(item, numbers, has_id=key in _PARTS_WITH_ID) for item in inner]
        elif isinstance(inner, dict) and key in _PART_OBJECTS:
            inner = _part(inner, numbers, has_id=key in _PARTS_WITH_ID)
        shape[key] = inner
    return shape
