"""What the spans of a chat session say of themselves, in plain names that a dashboard can count on."""

from __future__ import annotations

from typing import Any

from dashcam.contracts.chat import USAGE, usage_of

_OF_SESSION = frozenset(("session.run", "compaction.run"))
_TIMED = frozenset(("session.turn", "tool.call"))


def span_attributes(name: str, session_id: str, fields: dict[str, Any]) -> dict[str, Any]:
    """What a span's beginning or end tells beyond its fields as they are, or in the place of one."""
    told: dict[str, Any] = {}
    if name in _OF_SESSION:
        told["session_id"] = session_id
    if name in _TIMED:
        told["duration_ms"] = fields.get("duration_ms")
    if name == "session.turn":
        told |= _tokens(fields)
    if name == "tool.call" and fields.get("status") == "error":
        told["error"] = _message(fields.get("error"))
    return told


def _tokens(fields: dict[str, Any]) -> dict[str, int]:
    """All tokens and each kind of them; nothing where nobody counted."""
    usage = usage_of({"usage": fields.get("tokens")}) if fields.get("tokens") else None
    if usage is None:
        return {}
    return {"tokens": usage.total, **{f"tokens.{name}": getattr(usage, name) for name in USAGE}}


def _message(error: Any) -> str:
    return str((error.get("message") if isinstance(error, dict) else error) or "failed")
