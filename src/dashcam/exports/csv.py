"""CSV: a row a part, for spreadsheets and histograms. What tools were given and answered is left out.

A message's tokens and cost stand in the row of its first part alone, so that a column's sum is the session's
own. A text that a spreadsheet would take for a formula gets an apostrophe before it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from dashcam.contracts.chat import USAGE, ChatMessage, ChatPart, tool_name_of
from dashcam.contracts.event import iso_of
from dashcam.contracts.identity import MAX_TIME
from dashcam.store.base import Reader

_MESSAGE = ("session_id", "message_id", "role", "model", "created_at")
_PART = ("part_id", "index", "type", "tool", "tool_call_id", "tool_state", "text")
_TOKENS = {"input_tokens": "input", "output_tokens": "output", "reasoning_tokens": "reasoning"} | {
    name: name for name in USAGE[3:]
}
COLUMNS = (*_MESSAGE, *_PART, *_TOKENS, "cost_usd")

_HUGE = 2**53  # no count of tokens
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write(store: Reader, session_ids: Sequence[str]) -> Iterator[bytes]:
    yield _line(COLUMNS)
    for session_id in session_ids:
        for message in store.chat_messages(session_id):
            about, spent = _about(message), _spent(message)
            empty = True
            for part in store.chat_parts(session_id, message.id):
                yield _row(about | _told_by(part) | spent)
                empty, spent = False, {}
            if empty and spent:
                yield _row(about | spent)


def _about(message: ChatMessage) -> dict[str, Any]:
    model = message.metadata().get("model")
    named = [model.get(key) for key in ("provider_id", "model_id")] if isinstance(model, dict) else []
    return {
        "session_id": message.session_id,
        "message_id": message.id,
        "role": message.role,
        "model": ":".join(str(name) for name in named if name),
        "created_at": _time(message.created_at),
    }


def _told_by(part: ChatPart) -> dict[str, Any]:
    data = part.data()
    text = data.get("text") if part.type in ("text", "reasoning") else None
    return {
        "part_id": part.id,
        "index": part.index,
        "type": part.type,
        "tool": tool_name_of(part.type, data),
        "tool_call_id": part.tool_call_id,
        "tool_state": part.tool_state,
        "text": text if isinstance(text, str) else None,
        "created_at": _time(part.created_at),
    }


def _spent(message: ChatMessage) -> dict[str, Any]:
    """Tokens and cost as the session's sums take them: of assistant messages, and only what is a number in reason."""
    if message.role != "assistant":
        return {}
    metadata = message.metadata()
    usage, cost = metadata.get("usage"), metadata.get("cost_usd")
    told = {column: usage.get(name) for column, name in _TOKENS.items()} if isinstance(usage, dict) else {}
    spent: dict[str, Any] = {
        column: count for column, count in told.items() if type(count) is int and 0 <= count < _HUGE
    }
    plain = isinstance(cost, int | float) and not isinstance(cost, bool)
    return spent | ({"cost_usd": cost} if plain and abs(cost or 0) < 1e300 else {})


def _row(told: dict[str, Any]) -> bytes:
    return _line([_cell(told.get(column)) for column in COLUMNS])


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _line(cells: Sequence[Any]) -> bytes:
    line = io.StringIO(newline="")
    csv.writer(line).writerow(cells)
    return line.getvalue().encode()


def _time(ms: int) -> str:
    return iso_of(ms * 1000) if ms * 1000 < MAX_TIME else str(ms)
