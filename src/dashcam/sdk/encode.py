"""A record as one line of JSON, whatever its values are."""

from __future__ import annotations

from typing import Any

import msgspec

from dashcam.contracts.identity import MARKS

MAX_DEPTH = 64
MAX_REPR = 1_000

_encode = msgspec.json.Encoder().encode


def encode_line(record: dict[str, Any]) -> tuple[bytes, bool]:
    """The record as a line, and whether values had to be replaced because JSON can't hold them."""
    try:
        return _encode(record) + b"\n", False
    except Exception:
        # Any value can fail in a way of its own (no JSON form, lone surrogates, a loop, a number
        # beyond 64 bits): the record is kept all the same, with a text in that value's place.
        replaced: list[str] = []
        tame = {key: _tame(value, key, replaced, MAX_DEPTH) for key, value in record.items()}
        tame[MARKS] = {**(tame.get(MARKS) or {}), "unencodable": replaced}
        return _encode(tame) + b"\n", True


def _tame(value: Any, path: str, replaced: list[str], depth: int) -> Any:
    """The same value, with what JSON can't hold replaced by a text that says what stood there."""
    if depth and isinstance(value, dict):
        return {_text(key): _tame(item, f"{path}.{_text(key)}", replaced, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_tame(item, f"{path}.{index}", replaced, depth - 1) for index, item in enumerate(value)]
    try:
        _encode(value)
        return value
    except Exception:
        replaced.append(_text(path))
        return _text(value)


def _text(value: object) -> str:
    """Some text for any object, encodable and short."""
    try:
        text = value if isinstance(value, str) else repr(value)[:MAX_REPR]
    except Exception:
        text = f"<{type(value).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()
