"""Messages as anybody writes them, into `Said`.

OpenTelemetry's parts, the messages of OpenAI (chat and Responses), Anthropic, Gemini, Bedrock, the AI SDK and
LangChain: told apart part by part (`parts.py`), because senders mix them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from dashcam.contracts.content import slices_of
from dashcam.dialects.otlp.parts import output_of, parts_of, tool_calls_of
from dashcam.dialects.otlp.reading import Role, Said
from dashcam.dialects.otlp.values import canonical, json_of, text

_ROLES: dict[str, Role] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "model", "ai", "aimessagechunk"), "assistant"),
    **dict.fromkeys(("tool", "function"), "tool"),
}
# Items of OpenAI's Responses API that have no role.
_ITEM_ROLES: dict[str, Role] = {
    "function_call": "assistant",
    "custom_tool_call": "assistant",
    "mcp_call": "assistant",
    "reasoning": "assistant",
    "function_call_output": "tool",
    "custom_tool_call_output": "tool",
}
_CLASSES = {"HumanMessage": "human", "AIMessage": "ai", "AIMessageChunk": "ai", "SystemMessage": "system"}
_CLASSES |= {"ToolMessage": "tool", "FunctionMessage": "function"}
_CONTENT = frozenset(("content", "parts", "tool_calls", "function_call", "refusal", "reasoning_content"))
_AROUND = frozenset(("role", "type", "name", "id", "tool_call_id", "index", "finish_reason", "status"))
_PLAIN = frozenset(("role", "parts", "name", "finish_reason"))
_REMEMBERED = 4096  # bytes of a message; longer ones are read each time
_LISTS = ("messages", "contents")  # where a whole request holds its messages


def conversation(value: Any, role: Role = "user") -> tuple[Said, ...] | None:
    """The messages of a JSON text, or of what one decodes to; None where there are none.

    `role` is that of what names none itself.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else None
    if raw is not None and raw.startswith(b"[{") and (pieces := slices_of(raw)) is not None:
        return tuple(_remembered(piece, role) for piece in pieces if piece.strip() != b"null") or None
    decoded = json_of(value) if raw is not None else value
    if not isinstance(decoded, dict | list):
        return (said(None, value, role),) if isinstance(value, str) and value.strip() else None
    if isinstance(decoded, dict):
        inner = next((key for key in _LISTS if isinstance(decoded.get(key), list)), None)
        if inner is None:
            return (said(raw, decoded, role),) if decoded else None
        decoded, raw = decoded[inner], _member(raw, inner)
    if len(decoded) == 1 and isinstance(decoded[0], list):  # LangChain's batch of one
        decoded, raw = decoded[0], None
    slices: Sequence[bytes | None] | None = slices_of(raw) if raw is not None else None
    if slices is None or len(slices) != len(decoded):
        slices = [None] * len(decoded)
    told = zip(slices, decoded, strict=True)
    return tuple(said(piece, message, role) for piece, message in told if message is not None) or None


def _remembered(piece: bytes, role: Role) -> Said:
    """A message of a list. An agent sends its history again with every call: most were read before.

    Each caller gets parts of its own, since who puts turns together tells them apart by what they are.
    """
    if len(piece) > _REMEMBERED:
        return said(piece, json_of(piece.decode()), role)
    known = _read_before(piece, role)
    return Said(role=known.role, parts=tuple(map(dict, known.parts)), raw=piece)


@lru_cache(maxsize=4096)
def _read_before(piece: bytes, role: Role) -> Said:
    return said(piece, json_of(piece.decode()), role)


def said(raw: bytes | None, message: Any, default_role: Role) -> Said:
    """One message. `raw` is how it was sent, where that is known."""
    if not isinstance(message, dict):
        whole = {"role": default_role, "content": message}
        return Said(role=default_role, parts=tuple(parts_of(message)), raw=canonical(whole) if raw is None else raw)
    named, plain = message.get("role"), message.get("parts")
    if isinstance(plain, list) and named in ("user", "assistant", "system") and message.keys() <= _PLAIN:
        role, parts = _ROLES[named], parts_of(plain)  # as OpenTelemetry has it, and nearly everybody
    else:
        role, body = _unwrapped(message, default_role)
        parts = _tool_parts(body) if role == "tool" else _parts(body)
    # Anthropic, Gemini and others have the user hand over what tools gave.
    if role == "user" and parts and all(part["type"] == "tool-result" for part in parts):
        role = "tool"
    return Said(role=role, parts=tuple(parts), raw=canonical(message) if raw is None else raw)


def system_text(value: Any) -> str | None:
    """System instructions as one text: parts, texts, a message, or text already; None where there are none."""
    decoded = json_of(value)
    if isinstance(decoded, str | list | dict):
        value = decoded
    if isinstance(value, dict) and ("parts" in value or "content" in value) and value.get("type") is None:
        return text_in(_parts(value))
    pieces = value if isinstance(value, list) else [value]
    found = [text_in(_parts(each) if _is_message(each) else parts_of(each)) for each in pieces if each is not None]
    return "\n\n".join(each for each in found if each) or None


def split_system(messages: Sequence[Said]) -> tuple[str | None, tuple[Said, ...]]:
    """The text of the system messages that stand first, and the messages after them."""
    first = next((place for place, each in enumerate(messages) if each.role != "system"), len(messages))
    texts = [text_in(each.parts) for each in messages[:first]]
    return "\n\n".join(each for each in texts if each) or None, tuple(messages[first:])


def text_in(parts: Sequence[dict[str, Any]]) -> str | None:
    """The text of a message, without its reasoning, calls and files."""
    return "\n\n".join(part["text"] for part in parts if part["type"] == "text" and part["text"]) or None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def _member(raw: bytes | None, key: str) -> bytes | None:
    if raw is None:
        return None
    try:
        return bytes(msgspec.json.decode(raw, type=dict[str, msgspec.Raw])[key])
    except (ValueError, KeyError, RecursionError):
        return None


def _unwrapped(message: dict[str, Any], default: Role) -> tuple[Role, dict[str, Any]]:
    """Whose message it is, and the dict that holds it: LangChain and others put it into another."""
    named = text(message, "role", "type")
    kwargs, data, inner = message.get("kwargs"), message.get("data"), message.get("message")
    if "lc" in message and isinstance(kwargs, dict):
        path = message.get("id")
        made = path[-1] if isinstance(path, list) and path else None
        named, message = text(kwargs, "role", "type") or _CLASSES.get(str(made)), kwargs
    elif named in _ROLES and isinstance(data, dict) and "content" not in message and "parts" not in message:
        message = data
    elif isinstance(inner, dict) and "role" not in message:
        named, message = text(inner, "role", "type"), inner
    role = _ROLES.get((named or "").lower()) or _ITEM_ROLES.get(text(message, "type") or "")
    return role or default, message


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """All that a message holds, in the order in which a model says it: reasoning, words, calls."""
    kind = text(message, "type") or "message"
    bare = _CONTENT.isdisjoint(message)
    is_part = kind in _ITEM_ROLES or (bare and kind != "message" and kind.lower() not in _ROLES)
    if is_part:
        return parts_of({key: value for key, value in message.items() if key != "role"})
    if bare:
        return parts_of({key: value for key, value in message.items() if key not in _AROUND} or None)
    parts: list[dict[str, Any]] = []
    thought = text(message, "reasoning_content", "reasoning", "thinking")
    if thought:
        parts.append({"type": "reasoning", "text": thought})
    # Older AI SDK messages tell their text in both.
    parts += (parts_of(message.get("parts")) or parts_of(message.get("content"))) + _refusal(message)
    return parts + [call for call in tool_calls_of(message) if not _is_told(call, parts)]


def _is_told(call: dict[str, Any], parts: Sequence[dict[str, Any]]) -> bool:
    """LangChain tells a call among the blocks and again beside them."""
    same = call["toolCallId"]
    return same is not None and any(part["type"] == "tool-call" and part["toolCallId"] == same for part in parts)


def _refusal(message: dict[str, Any]) -> list[dict[str, Any]]:
    refusal = text(message, "refusal")
    return [{"type": "text", "text": refusal}] if refusal else []


def _tool_parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    """What a tool gave: its parts where they say so themselves, else the whole content is the result."""
    parts = _parts(message)
    if any(part["type"] in ("tool-result", "tool-call") for part in parts):
        return parts
    return [
        {
            "type": "tool-result",
            "toolCallId": text(message, "tool_call_id", "toolCallId", "call_id", "id"),
            "toolName": text(message, "name", "tool_name"),
            "output": output_of(message.get("content", message.get("parts"))),
            "error": message.get("status") == "error" or message.get("is_error") is True,
        }
    ]
