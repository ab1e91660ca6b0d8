"""Whether somebody is at work on a session, told from its messages."""

from __future__ import annotations

import time
from collections.abc import Iterable

from dashcam.contracts.chat import ChatMessage

FRESH = 60_000  # milliseconds without a word after which an open turn counts as broken off


def status_of(messages: Iterable[ChatMessage], last_at: int, now: int | None = None) -> str:
    """busy, idle or error, as the list of sessions has it. Times are milliseconds."""
    state = "idle"
    for message in messages:
        metadata = message.metadata()
        if metadata.get("hidden_at") is not None:
            continue
        if message.role == "assistant":
            failed = metadata.get("stop_reason") == "error" or metadata.get("error") is not None
            state = "error" if failed else "open" if metadata.get("stop_reason") is None else "idle"
        elif message.role == "user" and metadata.get("queued_at") is None:
            state = "asked"
        last_at = max(last_at, message.updated_at)
    if state in ("open", "asked"):
        fresh = last_at >= (time.time_ns() // 1_000_000 if now is None else now) - FRESH
        return "busy" if fresh else "error" if state == "open" else "idle"
    return state
