"""A record as one line of JSON, whatever its values are.

Most of a line repeats from record to record: who it belongs to, and what it is called. Those parts are
encoded once and put together with what is new.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from dashcam.contracts.identity import MARKS, require_identity, root_span_id

MAX_DEPTH = 64
MAX_REPR = 1_000

_encode = msgspec.json.Encoder().encode


@lru_cache(maxsize=1024)
def frame(session_id: str, trace_id: str, span_id: str, parent_span_id: str | None) -> tuple[bytes, bytes]:
    """How the lines of a trace begin, up to the step, and what comes behind their time.

    That is the span, except for the trace's root, which the trace id tells. A Trace is checked when it is
    made; here it is checked again, before its first line, in case that it was tampered with.
    """
    require_identity(session_id, trace_id, 0, "user")
    start = b'{"session_id":%b,"trace_id":%b,"step":' % (_encode(session_id), _encode(trace_id))
    if span_id == root_span_id(trace_id):
        return start, b","
    parent = b"" if parent_span_id is None else b',"parent_span_id":' + _encode(parent_span_id)
    return start, b',"span_id":%b%b,' % (_encode(span_id), parent)


@lru_cache(maxsize=1024)
def middle(kind: str, operation: str) -> bytes:
    """What comes between the step and the time. The kind is checked again, as in `frame`."""
    require_identity("checked", "checked", 0, kind)
    return b',"kind":%b,"operation":%b,"ts":' % (_encode(kind), _encode(operation))


def line_of(start: bytes, step: int, between: bytes, ts: datetime, where: bytes, fields: dict[str, Any]) -> bytes:
    """The parts as one line."""
    rest = _encode(fields)
    # Without fields there is nothing behind the last comma.
    return b"%b%d%b%b%b%b\n" % (start, step, between, _encode(ts), where if fields else where[:-1], rest[1:])


def tamed(fields: dict[str, Any]) -> dict[str, Any]:
    """The same fields, with a text in the place of every value that JSON can't hold, and a mark of where.

    Any value can fail in a way of its own: no JSON form, lone surrogates, a loop, a number beyond 64 bits.
    """
    replaced: list[str] = []
    tame = {_text(key): _tame(value, _text(key), replaced, MAX_DEPTH) for key, value in fields.items()}
    marks = tame.get(MARKS) or {}
    tame[MARKS] = {**marks, "unencodable": [*marks.get("unencodable", ()), *replaced]}
    return tame


def _tame(value: Any, path: str, replaced: list[str], depth: int) -> Any:
    if depth and isinstance(value, dict):
        return {_text(key): _tame(item, f"{path}.{_text(key)}", replaced, depth - 1) for key, item in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_tame(item, f"{path}.{index}", replaced, depth - 1) for index, item in enumerate(value)]
    try:
        _encode(value)
        return value
    except Exception:
        replaced.append(path)
        return _text(value)


def _text(value: object) -> str:
    """Some text for any object, encodable and short."""
    try:
        text = value if isinstance(value, str) else repr(value)[:MAX_REPR]
    except Exception:
        text = f"<{type(value).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()
