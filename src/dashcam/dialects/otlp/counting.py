"""How many messages a request holds, before it is parsed: a few bytes of wire can be hundreds in memory."""

from __future__ import annotations

from dashcam.errors import UnreadableInput

MOST = 100_000  # blocks, scopes and records of one request together

# resource_spans, scope_spans, spans; the same numbers as for logs and metrics.
_LEVELS = (1, 2, 2)


def check_count(body: bytes) -> None:
    """Raise where a request in protobuf holds more than MOST. What is no protobuf is the parser's to say."""
    left = MOST
    todo = [(0, len(body), 0)]
    while todo:
        at, end, level = todo.pop()
        while at < end:
            tag, at = _varint(body, at, end)
            kind = tag & 7
            if kind == 2:
                size, at = _varint(body, at, end)
                if tag >> 3 == _LEVELS[level]:
                    left -= 1
                    if left < 0:
                        raise UnreadableInput(
                            f"This request holds more than {MOST:,} blocks, scopes and records. Send them in several."
                        )
                    if level + 1 < len(_LEVELS):
                        todo.append((at, min(at + size, end), level + 1))
                at += size
            elif kind == 0:
                _, at = _varint(body, at, end)
            elif kind in (1, 5):
                at += 8 if kind == 1 else 4
            else:
                return


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return number, at
