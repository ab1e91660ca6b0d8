"""Answers as JSON: whatever a recorded value holds, there is an answer."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response

DEEPEST = 200  # levels of a value that could not be told as it is; what is below is left out

_encode = msgspec.json.Encoder().encode


class Told(Response[Any]):
    """An answer of the API."""

    def render(self, content: Any, media_type: str, enc_hook: Any = None) -> bytes:
        return content if isinstance(content, bytes) else encode(content)


def encode(value: Any) -> bytes:
    """As JSON. Numbers of any size stay what they are; half a character becomes a question mark."""
    try:
        return _encode(value)
    except (ValueError, OverflowError, RecursionError, TypeError):
        return _encode(_plain(value, DEEPEST))


def _plain(value: Any, levels: int) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict() if levels:
            return {_plain(str(name), 0): _plain(each, levels - 1) for name, each in value.items()}
        case list() | tuple() | set() | frozenset() if levels:
            return [_plain(each, levels - 1) for each in value]
        case msgspec.Struct():
            config = value.__struct_config__
            tag = {config.tag_field: config.tag} if config.tag_field else {}
            return _plain({**tag, **msgspec.structs.asdict(value)}, levels)
        case dict() | list() | tuple() | set() | frozenset():
            return "…"
    return value
