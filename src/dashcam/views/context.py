"""What the model saw at each call of a session, beside the call before it; and the exact request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import object_of
from dashcam.dialects.requests import put_together
from dashcam.errors import ContentNotFound
from dashcam.record.prices import prices_of
from dashcam.record.wire import WIRE
from dashcam.store.base import Reader
from dashcam.views import turns
from dashcam.views.changes import (
    CACHE_SECONDS,
    Cache,
    CatalogChange,
    Change,
    Fill,
    PromptChange,
    Sent,
    cache_of,
    catalog_change,
    change_of,
    fill_of,
    prompt_change,
)
from dashcam.views.turns import Turn

_SYSTEM_WORDS = (b"system", b"developer", b"instructions")  # without one of them there is no need to decode


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """One model call of a turn, seen beside the call before it. None: unknown, or there is none before."""

    call: ModelCall
    fill: Fill | None = None
    messages: int | None = None
    change: Change | None = None
    prompt: PromptChange | None = None
    catalog: CatalogChange | None = None
    cache: Cache | None = None


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn beside what came before it: its model calls, and what was new in prompt and catalog."""

    turn: Turn
    calls: list[CallView] = []
    prompt: PromptChange | None = None
    catalog: CatalogChange | None = None


def load(store: Reader, session_id: str) -> Iterator[TurnView]:
    """Every turn of a session, the first one first, in the memory of one turn and one context."""
    watcher = Watcher(store)
    return (watcher.look(turn) for turn in turns.load(store, session_id))


def load_turn(store: Reader, session_id: str, number: int) -> TurnView:
    """One turn, beside the answered one before it."""
    before, turn = turns.at(store, session_id, number)
    watcher = Watcher(store)
    if before:
        watcher.look(before)
    return watcher.look(turn)


class Watcher:
    """Sees the calls of a session go by, and remembers the newest one alone."""

    def __init__(self, store: Reader, *, cache_seconds: float = CACHE_SECONDS) -> None:
        self._store = store
        self._cache_seconds = cache_seconds
        self._before: Sent | None = None
        self._among: tuple[tuple[tuple[bytes, ...], str | None] | None, bool] = (None, False)
        self._prompt: tuple[str | None, str] = (None, "")
        self._catalog: tuple[str | None, str] = (None, "")

    def look(self, turn: Turn) -> TurnView:
        calls = [self._call(call) for call in turn.calls]
        if calls or not turn.assistant:
            prompt = next((view.prompt for view in calls if view.prompt), None)
            catalog = next((view.catalog for view in calls if view.catalog), None)
        else:  # only the rows are known, which name the two by their digests
            prompt = self._read_prompt(turn.system_prompt_digest)[1]
            catalog = self._read_catalog(turn.tool_catalog_digest)[1]
        return TurnView(turn=turn, calls=calls, prompt=prompt, catalog=catalog)

    def _call(self, call: ModelCall) -> CallView:
        prices = prices_of(call.provider, call.model)
        window = prices.context_window if prices else None
        prompt, new_prompt = self._read_prompt(call.system_prompt_digest)
        catalog, new_catalog = self._read_catalog(call.tool_catalog_digest)
        sent = self._sent(call, prompt, catalog)
        if sent is None:
            tokens = _context_tokens(call)
            fill = None if tokens is None else fill_of(tokens, 0, window)
            return CallView(call=call, fill=fill, prompt=new_prompt, catalog=new_catalog)
        before, self._before = self._before, sent
        change = change_of(before.messages, sent.messages) if before else None
        return CallView(
            call=call,
            fill=fill_of(sent.tokens, sent.size, window),
            messages=len(sent.messages),
            change=change,
            prompt=new_prompt,
            catalog=new_catalog,
            cache=cache_of(before, sent, prices, self._cache_seconds, change) if before else None,
        )

    def _sent(self, call: ModelCall, prompt: str, catalog: str) -> Sent | None:
        digests = messages_of(self._store, call)
        if digests is None:
            return None
        sizes, total = self._sizes_of(digests)
        among = bool(prompt) and self._holds_prompt(digests[:1], call.system_prompt_digest, prompt)
        return Sent(
            ts=call.ts,
            model=f"{call.provider}:{call.model}",
            catalog_digest=call.tool_catalog_digest,
            prompt_digest=None if among else call.system_prompt_digest,
            catalog_size=len(catalog.encode()),
            prompt_size=0 if among else len(prompt.encode()),
            messages=digests,
            sizes=sizes,
            messages_size=total,
            tokens=_context_tokens(call),
            cache_read=call.cache_read,
        )

    def _sizes_of(self, digests: list[bytes]) -> tuple[list[int], int]:
        """The size of each message, and of all. Of those that went before they are known."""
        before = self._before
        known = len(before.messages) if before and digests[: len(before.messages)] == before.messages else 0
        new = digests[known:]
        found = {digest: len(body) for digest, body in self._store.bodies(dict.fromkeys(new)).items()}
        sizes = [found.get(digest, 0) for digest in new]
        if not (before and known):
            return sizes, sum(sizes)
        return before.sizes + sizes, before.messages_size + sum(sizes)

    def _holds_prompt(self, first: list[bytes], digest: str | None, prompt: str) -> bool:
        """Whether the first message holds the prompt; neighbours share both."""
        asked = (tuple(first), digest)
        if self._among[0] != asked:
            self._among = asked, holds_prompt(self._store.bodies(first).values(), prompt)
        return self._among[1]

    def _read_prompt(self, digest: str | None) -> tuple[str, PromptChange | None]:
        known, before = self._prompt
        if digest == known:
            return before, None
        self._prompt = (digest, text_of(self._store.system_prompt, digest))
        return self._prompt[1], prompt_change(before, self._prompt[1]) if known is not None else None

    def _read_catalog(self, digest: str | None) -> tuple[str, CatalogChange | None]:
        known, before = self._catalog
        if digest == known:
            return before, None
        self._catalog = (digest, text_of(self._store.tool_catalog, digest))
        return self._catalog[1], catalog_change(before, self._catalog[1]) if known is not None else None


def request_of(store: Reader, call: ModelCall) -> bytes:
    """The request of a call as it was recorded.

    One that was handed over as sent comes back to the letter. Another is put together: a JSON object, made of bytes and never encoded anew: `model`, then the settings as they stand in the call,
    `system` (left out where the messages hold the system prompt themselves), `tools` (the catalog to the letter)
    and `messages` (`[`, the bodies with `,` between them, `]`). What wasn't recorded is left out; a `model` or
    `system` among the settings is the provider's own form of it, and stands alone.
    """
    digests = messages_of(store, call)
    bodies = [] if digests is None else _bodies(store, digests)
    if call.envelope_digest:
        (envelope,) = _bodies(store, [bytes.fromhex(call.envelope_digest)])
        return put_together(envelope, b"[" + b",".join(bodies) + b"]")
    settings = object_of(call.settings)
    members = [] if "model" in settings else [b'"model":' + msgspec.json.encode(call.model)]
    if settings:
        members.append(call.settings.strip()[1:-1].strip().encode())
    if call.system_prompt_digest and "system" not in settings:
        prompt = store.system_prompt(call.system_prompt_digest)
        apart = call.wire == WIRE or not holds_prompt(bodies, prompt)
        members += [b'"system":' + msgspec.json.encode(prompt)] if apart else []
    if call.tool_catalog_digest:
        members.append(b'"tools":' + store.tool_catalog(call.tool_catalog_digest).encode())
    if digests is not None:
        members.append(b'"messages":[' + b",".join(bodies) + b"]")
    return b"{" + b",".join(members) + b"}"


def messages_of(store: Reader, call: ModelCall) -> list[bytes] | None:
    """The digests of the messages that a call was sent; None where that wasn't recorded."""
    try:
        return None if call.context_digest is None else store.context(bytes.fromhex(call.context_digest))
    except (ContentNotFound, ValueError):
        return None


def holds_prompt(bodies: Iterable[bytes], prompt: str) -> bool:
    """Whether the messages hold this system prompt, or a part of it, themselves.

    By its words: a notice of the host has the same role and is no system prompt.
    """
    told = (_system_texts(body) for body in bodies if any(word in body for word in _SYSTEM_WORDS))
    return any(text and text in prompt for texts in told for text in texts)


def _system_texts(body: bytes) -> Iterator[str]:
    """What a message says for the system: as one of its own, or, in Pydantic AI, within a request."""
    message = object_of(body.decode("utf-8", "replace"))
    if message.get("role") in ("system", "developer"):
        yield from _texts(message.get("content"))
    yield from _texts(message.get("instructions"))
    parts = message.get("parts")
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("part_kind") == "system-prompt":
            yield from _texts(part.get("content"))


def _texts(content: Any) -> Iterator[str]:
    for block in content if isinstance(content, list) else [content]:
        text = block.get("text") if isinstance(block, dict) else block
        if isinstance(text, str):
            yield text


def _bodies(store: Reader, digests: list[bytes]) -> list[bytes]:
    found = store.bodies(dict.fromkeys(digests))
    missing = next((digest for digest in digests if digest not in found), None)
    if missing is not None:
        raise ContentNotFound(missing.hex(), "the store")
    return [found[digest] for digest in digests]


def text_of(read: Callable[[str], str], digest: str | None) -> str:
    """A prompt or catalog; nothing where it isn't known."""
    try:
        return "" if digest is None else read(digest)
    except ContentNotFound:
        return ""


def _context_tokens(call: ModelCall) -> int | None:
    """What was sent, as reported; unknown where the input is."""
    return None if call.input_tokens is None else call.input_tokens + (call.cache_read or 0) + (call.cache_write or 0)
