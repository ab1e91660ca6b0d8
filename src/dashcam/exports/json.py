"""JSON: the canonical document, a session with its messages and their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from dashcam.exports.selection import chat_session
from dashcam.store.base import Reader

_encode = msgspec.json.Encoder().encode


def write(store: Reader, session_ids: Sequence[str]) -> Iterator[bytes]:
    """The document; of several sessions an array of documents. A message a line, so that it can be searched."""
    several = len(session_ids) > 1
    if several:
        yield b"["
    for number, session_id in enumerate(session_ids):
        yield b",\n" if number else b""
        yield from _document(store, session_id)
    yield b"]\n" if several else b"\n"


def _document(store: Reader, session_id: str) -> Iterator[bytes]:
    yield b'{"session":%b,"messages":[' % _encode(chat_session(store, session_id))
    for number, message in enumerate(store.chat_messages(session_id)):
        yield b'%b\n{"message":%b,"parts":[' % (b"," if number else b"", _encode(message))
        for index, part in enumerate(store.chat_parts(session_id, message.id)):
            yield (b"," if index else b"") + _encode(part)
        yield b"]}"
    yield b"]}"
