"""What is exported: sessions out of a store, and their rows in the order of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.contracts.content import LinkedContext, link
from dashcam.dialects.rows import Content, SystemPrompt, ToolCatalog
from dashcam.dialects.sessions import Call, Item
from dashcam.errors import ContentNotFound, NotFound, SessionNotFound
from dashcam.store.base import EventFilter, Reader

CHUNK = 100  # contents read at a time

_DIGEST = re.compile("[0-9a-f]{64}")


def check_sessions(store: Reader, session_ids: Sequence[str], where: str, *, chat: bool) -> None:
    """Raise before anything is written, where a session isn't there or has no chat though one is needed."""
    for session_id in session_ids:
        if chat_session(store, session_id) is not None:
            continue
        if not store.traces(session_id):
            raise SessionNotFound(session_id, where)
        if chat:
            raise NotFound(
                f"Session {session_id!r} has events and no chat messages. Export it with --format jsonl, otlp or sqlite."
            )


def chat_session(store: Reader, session_id: str) -> ChatSession | None:
    """The session's row; None where only events were recorded."""
    try:
        return store.chat_session(session_id)
    except SessionNotFound:
        return None


def rows_of(store: Reader, session_id: str) -> Iterator[ChatSession | ChatMessage | ChatPart]:
    """The session, then each message followed by its parts: the canonical order, hidden messages included."""
    session = chat_session(store, session_id)
    if session is None:
        return
    yield session
    for message in store.chat_messages(session_id):
        yield message
        yield from store.chat_parts(session_id, message.id)


class Selection:
    """All that one file holds. What several sessions share is in it once."""

    def __init__(self, store: Reader, session_ids: Sequence[str]) -> None:
        self._store = store
        self._session_ids = tuple(dict.fromkeys(session_ids))
        self._told: set[bytes] = set()
        self._last: tuple[bytes, list[bytes]] | None = None  # the context of the call before

    def items(self, *, bare: bool = False) -> Iterator[Item]:
        """Session by session: its rows; then, unless `bare`, what its calls were sent, its calls, its events."""
        for session_id in self._session_ids:
            named: dict[tuple[str, str], None] = {}  # in the order of the messages
            for row in rows_of(self._store, session_id):
                yield row
                if isinstance(row, ChatMessage) and not bare:
                    named.update(dict.fromkeys(_named_by(row)))
            if bare:
                continue
            for kind, digest in named:
                yield from self._text(kind, digest)
            for call in self._store.model_calls(session_id=session_id):
                yield from self._call(call)
            yield from self._store.events(EventFilter(session_id=session_id))

    def _call(self, call: ModelCall) -> Iterator[Item]:
        yield from self._text("system_prompt_digest", call.system_prompt_digest)
        yield from self._text("tool_catalog_digest", call.tool_catalog_digest)
        context = self._context(call.context_digest)
        yield from self._contents(context.link.middle if context else ())
        for digest in (call.envelope_digest, call.output_digest):
            if digest and _DIGEST.fullmatch(digest):
                yield from self._contents((bytes.fromhex(digest),))
        yield Call(call, context)

    def _context(self, hexed: str | None) -> LinkedContext | None:
        """The call's context as a link to the one told before, so that a long session stays a short file."""
        if not hexed or not _DIGEST.fullmatch(hexed):
            return None
        digest = bytes.fromhex(hexed)
        try:
            messages = self._store.context(digest)
        except ContentNotFound:
            return None
        parent, before = self._last or (None, [])
        self._last = (digest, messages)
        return LinkedContext(digest, parent, link(before, messages))

    def _contents(self, digests: Sequence[bytes]) -> Iterator[Content]:
        new = [digest for digest in dict.fromkeys(digests) if digest not in self._told]
        for start in range(0, len(new), CHUNK):
            chunk = new[start : start + CHUNK]
            found = self._store.bodies(chunk)
            yield from (Content(found[digest]) for digest in chunk if digest in found)
        self._told.update(new)

    def _text(self, kind: str, digest: str | None) -> Iterator[SystemPrompt | ToolCatalog]:
        """The prompt or catalog with this digest, if it is there and was not told yet."""
        key = f"{kind} {digest}".encode()
        if digest is None or key in self._told:
            return
        self._told.add(key)
        try:
            if kind == "system_prompt_digest":
                yield SystemPrompt(self._store.system_prompt(digest))
            else:
                yield ToolCatalog(self._store.tool_catalog(digest))
        except ContentNotFound:
            pass  # named, but never recorded


def json_text(value: object) -> str:
    """JSON of what was JSON once; what some parser made of it that can't go back is told by its type."""
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, TypeError, OverflowError, RecursionError):
        return f"({type(value).__name__} that can't be written)"


def _named_by(message: ChatMessage) -> list[tuple[str, str]]:
    """The prompt and the catalog that a message names: they may have no model call that does."""
    metadata = message.metadata()
    kinds = ("system_prompt_digest", "tool_catalog_digest")
    return [(kind, metadata[kind]) for kind in kinds if isinstance(metadata.get(kind), str)]
