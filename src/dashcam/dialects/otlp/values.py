"""Values of attributes, read with care: a sender may put anything anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.reading import SpanView

_MOST = 2**53  # what a JSON number holds exactly; more tokens than that are no count
_SCRUBBED = "[Scrubbed due to"  # Logfire takes out whatever is named `session`
_DEEPEST_INDEX = 9  # digits

# Whose session a span belongs to, the first that tells it. Each application chooses its keys of metadata.
_SESSION_NAMES = (
    *("session_id", "sessionId", "conversation_id", "conversationId"),
    *("thread_id", "threadId", "chat_id", "chatId"),
)
_SESSION_KEYS = dict.fromkeys(
    [
        *("langfuse.session.id", "session.id", "gen_ai.conversation.id"),
        *(f"langfuse.trace.metadata.{name}" for name in _SESSION_NAMES),
        *(f"langfuse.observation.metadata.{name}" for name in _SESSION_NAMES),
        *(f"ai.telemetry.metadata.{name}" for name in ("sessionId", *_SESSION_NAMES)),
        *(f"traceloop.association.properties.{name}" for name in _SESSION_NAMES),
        *("conversation.id", "session_id", "thread_id", "gcp.vertex.agent.session_id"),
    ]
)
_USER_KEYS = dict.fromkeys(
    [
        *("langfuse.user.id", "user.id", "enduser.id"),
        *("langfuse.trace.metadata.user_id", "langfuse.trace.metadata.userId"),
        *("ai.telemetry.metadata.userId", "ai.telemetry.metadata.user_id"),
        *("traceloop.association.properties.user_id", "traceloop.association.properties.userId", "user_id"),
    ]
)
_STOPS = {
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "completed"), "stop"),
    **dict.fromkeys(("length", "max_tokens"), "length"),
}


def text(attributes: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these that is a text with something in it."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value.strip():
            return value
    return None


def name(attributes: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these that names something: a text, or a number as text."""
    for key in keys:
        value = attributes.get(key)
        if value is None:
            continue
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = _as_text(value)
        if isinstance(value, str) and value.strip() and not value.startswith(_SCRUBBED):
            return value
    return None


def number(attributes: Mapping[str, Any], *keys: str) -> float | None:
    """The first of these that is a finite number; a text that says one counts."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            try:
                found = float(value)
            except (ValueError, OverflowError):
                continue
            if math.isfinite(found):
                return found
    return None


def integer(attributes: Mapping[str, Any], *keys: str) -> int | None:
    """The first of these that is a whole number, of a size that a JSON number holds exactly."""
    for key in keys:
        found = number(attributes, key)
        if found is not None and found.is_integer() and abs(found) <= _MOST:
            return int(found)
    return None


def count(attributes: Mapping[str, Any], *keys: str) -> int | None:
    """The largest count under these names: who has a newer name for it leaves the older one out, or at 0."""
    most = None
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            found = value if type(value) is int and value <= _MOST else integer(attributes, key)
            if found is not None and found >= 0 and (most is None or found > most):
                most = found
    return most


def usage_within(
    sent: int | None, answered: int | None, *, read: int | None, write: int | None, reasoning: int | None
) -> Usage | None:
    """Tokens in parts that don't overlap, where the sums include what came from a cache and what was thought.

    A sum that is smaller than what it should include doesn't include it.
    """
    if sent is answered is read is write is reasoning is None:
        return None
    cached = (read or 0) + (write or 0)
    return Usage(
        input=(sent or 0) - (cached if (sent or 0) >= cached else 0),
        output=max(0, (answered or 0) - (reasoning or 0)),
        reasoning=reasoning or 0,
        cache_read=read or 0,
        cache_write=write or 0,
    )


def flag(attributes: Mapping[str, Any], *keys: str) -> bool | None:
    """The first of these that is true or false."""
    return next((value for key in keys if isinstance(value := attributes.get(key), bool)), None)


def json_of(value: Any) -> Any:
    """A JSON text decoded; None where it isn't one."""
    if not isinstance(value, str | bytes):
        return None
    try:
        return msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return None


def structure_of(value: Any) -> Any:
    """A JSON text that holds an object or a list as that; anything else as it is."""
    if isinstance(value, str) and not value.lstrip().startswith(("{", "[")):
        return value
    decoded = json_of(value)
    return decoded if isinstance(decoded, dict | list) else value


def value_of(value: Any) -> Any:
    """The same, and a text in quotes without them: who writes every value as JSON quotes a text, too."""
    decoded = json_of(value)
    return decoded if isinstance(decoded, dict | list | str) else value


def canonical(value: Any) -> bytes:
    """A value as JSON, the same bytes for the same value; never fails."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, OverflowError, RecursionError):
        pass
    try:
        # Half a character can't be told in JSON that everybody reads.
        return json.dumps(value, default=str, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError):
        return b"null"


def json_text(value: Any) -> str | None:
    """A value as JSON text, to the letter where it is a text already; None where there is none."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else canonical(value).decode()


def listed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The entries under `prefix.<N>.<rest>` as dicts by `rest`, in the order of N wherever that begins.

    An entry `prefix.<N>` with nothing behind it stands under "".
    """
    entries: dict[int, dict[str, Any]] = {}
    start = prefix + "."
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        index, _, rest = key[len(start) :].partition(".")
        if index.isascii() and index.isdigit() and len(index) <= _DEEPEST_INDEX:
            entries.setdefault(int(index), {})[rest] = value
    return [entries[index] for index in sorted(entries)]


def stop_reason(value: Any) -> str | None:
    """Why a model stopped, by one name whoever says it.

    Of several the first; but where one is a tool call the answer goes on, whatever the others say.
    """
    value = structure_of(value)  # Logfire writes lists as JSON
    told = value if isinstance(value, list) else [value]
    reasons = [_stop(each) for each in told if isinstance(each, str) and each]
    return "tool_calls" if "tool_calls" in reasons else next(iter(reasons), None)


def session_of(attributes: Mapping[str, Any]) -> str | None:
    """The session that a span or a log record names, by the documented precedence."""
    return _named(attributes, _SESSION_KEYS)


def user_of(attributes: Mapping[str, Any]) -> str | None:
    """The user that a span or a log record names."""
    return _named(attributes, _USER_KEYS)


def error_of(view: SpanView) -> str | None:
    """What went wrong, where something did."""
    kind = text(view.attributes, "error.type")
    raised = [event.attributes for event in view.events if event.name == "exception"]
    if view.status != "error" and (view.status == "ok" or not (kind or raised)):
        return None
    if view.status_message:
        return view.status_message
    said = [text(event, "exception.message") or text(event, "exception.type") for event in raised]
    return next((each for each in reversed(said) if each), None) or kind or "error"


def _named(attributes: Mapping[str, Any], keys: dict[str, None]) -> str | None:
    """Most spans tell none of them, and every dialect asks: so that is found out at once."""
    return None if keys.keys().isdisjoint(attributes) else name(attributes, *keys)


def _stop(reason: str) -> str:
    return _STOPS.get(reason.lower().replace("-", "_"), reason)


def _as_text(value: float) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than Python writes
        return hex(int(value))
