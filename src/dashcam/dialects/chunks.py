"""A chunk of an AI SDK stream, however it comes: an object, its JSON, its SSE line, or Pydantic AI's own class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

DONE = "[DONE]"


def chunk_of(given: Any) -> Any:
    """The chunk as a dict; None for what is no chunk but part of the transport. What can't be read comes back as it is,
    to be kept and told as odd.
    """
    if isinstance(given, Mapping):
        return given
    if isinstance(given, str | bytes | bytearray):
        text = given if isinstance(given, str) else bytes(given).decode("utf-8", "replace")
        text = text.strip()
        if text.startswith(("event:", "id:", "retry:", ":")) or not text:
            return None
        text = text.removeprefix("data:").strip()
        if text == DONE:
            return None
        try:
            return msgspec.json.decode(text)
        except (ValueError, RecursionError):
            return text
    dump = getattr(given, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else given
