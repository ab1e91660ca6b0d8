"""Items of exported sessions on their way into a store: checked, counted, appended a chunk at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isclose
from typing import Any, NamedTuple

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ROLLUPS, ChatMessage, ChatPart, ChatSession
from dashcam.contracts.content import digest_of
from dashcam.contracts.event import Event
from dashcam.dialects.sessions import Call, ContextChain, Item
from dashcam.errors import ContentNotFound, RecordRefused, SessionNotFound
from dashcam.record.batches import batch_of, event_of, size_of
from dashcam.store.base import Batch, EventFilter, Store

CHUNK, CHUNK_BYTES = 1_000, 8 << 20  # items and about how many bytes a transaction
TOLD = 20  # problems that are named one by one; the others are counted

CALLS = ("model_call", "model_request")  # the events that rows of model_calls are derived from


class Imported(msgspec.Struct):
    """What an import brought in that was not there, and what it could not take."""

    sessions: int = 0
    messages: int = 0
    parts: int = 0
    events: int = 0
    contents: int = 0  # messages as sent, system prompts and tool catalogs
    changed: int = 0  # rows that were there in an older state
    bad: int = 0
    problems: list[str] = []
    warnings: list[str] = []

    def complain(self, place: str, reason: object) -> None:
        self.bad += 1
        if len(self.problems) < TOLD:
            self.problems.append(f"{place}: {reason}")


class _Waiting(NamedTuple):
    place: str
    item: Item
    counted: str  # the count that it adds to, "" for none


class _Known:
    """The rows of one session that are in the store or on their way: each with when it was last changed."""

    def __init__(self, store: Store, session_id: str) -> None:
        self.session: ChatSession | None = None
        self.rows: dict[str, int] = {}
        self.messages: set[str] = set()
        try:
            self.session = store.chat_session(session_id)
        except SessionNotFound:
            return
        for message in store.chat_messages(session_id):
            self.rows[message.id] = message.updated_at
            self.messages.add(message.id)
        self.rows.update((part.id, part.updated_at) for part in store.chat_parts(session_id))


class Intake:
    """Takes items in the order of a file. `strict` holds everything back until all of it is known to be good."""

    def __init__(self, store: Store, *, strict: bool = False) -> None:
        self._store, self._strict = store, strict
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        self._known: dict[str, _Known] = {}
        self._sessions: dict[str, ChatSession] = {}  # as the files tell them
        self._chain = ContextChain(self._context)
        self._calls: dict[tuple[str, str, int], tuple[str, ModelCall]] = {}
        self._called: set[tuple[str, str, int]] = set()  # the calls that events tell of
        self.imported = Imported()

    def take(self, item: Item, place: str) -> None:
        """Take one item; what can't be joined to the rest is told and left out."""
        try:
            counted = self._admit(item, place)
        except ValueError as error:
            self.imported.complain(place, error)
            return
        if counted is None:
            return
        self._waiting.append(_Waiting(place, item, counted))
        self._bytes += size_of(item)
        if not self._strict and (len(self._waiting) >= CHUNK or self._bytes >= CHUNK_BYTES):
            self.flush()

    def finish(self) -> Imported:
        """Write what is left, and compare the sums that the files tell with those of the messages."""
        for place, event in self._missing_events():
            self._waiting.append(_Waiting(place, event, "events"))
        if not (self._strict and self.imported.bad):
            self.flush()
            self._compare_sums()
        return self.imported

    def flush(self) -> None:
        """Append what waits; where the store refuses it, find out which of it, and append the rest."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        try:
            self._append(waiting)
        except RecordRefused as error:
            if self._strict:
                self.imported.complain(waiting[0].place, error)
                return
            for one in waiting:
                try:
                    self._append([one])
                except RecordRefused as refused:
                    self.imported.complain(one.place, refused)

    def _append(self, waiting: Sequence[_Waiting]) -> None:
        items = [each.item for each in waiting]
        batch = batch_of(items)
        contents = self._new_contents(batch)
        new = self._store.append(batch).new
        for each in waiting:
            if each.counted and each.counted != "events":
                setattr(self.imported, each.counted, getattr(self.imported, each.counted) + 1)
        self.imported.events += min(new, len(batch.events))
        self.imported.contents += contents

    def _admit(self, item: Item, place: str) -> str | None:
        """Which count an item adds to; None where there is nothing to write. Raises ValueError where it can't be."""
        match item:
            case ChatSession():
                self._sessions[item.id] = item
                known = self._session(item.id)
                counted = _counted_session(known.session, item)
                known.session = item if counted else known.session
                return counted
            case ChatMessage():
                known = self._session(item.session_id)
                if known.session is None:
                    raise ValueError(f"message {item.id} is of session {item.session_id!r:.80}, which isn't there")
                known.messages.add(item.id)
                return self._row(known, item, "messages")
            case ChatPart():
                known = self._session(item.session_id)
                if item.message_id not in known.messages:
                    raise ValueError(f"part {item.id} is of message {item.message_id!r:.80}, which isn't there")
                return self._row(known, item, "parts")
            case Call(call, context):
                if context is not None:
                    self._chain.follow(context)
                self._calls[_key(call)] = (place, call)
                return None if context is None else ""
            case Event():
                if item.operation in CALLS:
                    self._called.add(_key(item))
                return "events"
            case _:
                return ""

    def _row(self, known: _Known, row: ChatMessage | ChatPart, noun: str) -> str | None:
        before = known.rows.get(row.id)
        known.rows[row.id] = max(before or 0, row.updated_at)
        return _counted(before, row.updated_at, noun)

    def _session(self, session_id: str) -> _Known:
        if session_id not in self._known:
            self._known[session_id] = _Known(self._store, session_id)
        return self._known[session_id]

    def _context(self, digest: bytes) -> list[bytes] | None:
        try:
            return self._store.context(digest)
        except ContentNotFound:
            return None

    def _new_contents(self, batch: Batch) -> int:
        digests = {digest_of(body) for body in batch.contents}
        return (
            len(digests - self._store.bodies(digests).keys())
            + sum(map(self._is_new_prompt, set(batch.system_prompts)))
            + sum(map(self._is_new_catalog, set(batch.tool_catalogs)))
        )

    def _is_new_prompt(self, body: str) -> bool:
        return _is_missing(self._store.system_prompt, body)

    def _is_new_catalog(self, body: str) -> bool:
        return _is_missing(self._store.tool_catalog, body)

    def _missing_events(self) -> Iterable[tuple[str, Event]]:
        """An event for each call that has none: model calls are derived from events, and would be lost."""
        missing = {key: told for key, told in self._calls.items() if key not in self._called}
        for trace_id in {trace_id for _, trace_id, _ in missing}:
            for operation in CALLS:
                for event in self._store.events(EventFilter(trace_id=trace_id, operation=operation)):
                    missing.pop(_key(event), None)
        return [(place, event_of(call)) for place, call in missing.values()]

    def _compare_sums(self) -> None:
        """The store adds up by itself. Where a file says otherwise, somebody changed the one or the other."""
        for session_id, told in self._sessions.items():
            try:
                kept = self._store.chat_session(session_id)
            except SessionNotFound:
                continue  # refused, and told
            for name in (*ROLLUPS, "total_tokens", "cost_usd"):
                said, found = getattr(told, name), getattr(kept, name)
                same = said == found or (said and found and isclose(said, found, rel_tol=1e-9))
                if not same and len(self.imported.warnings) < TOLD:
                    self.imported.warnings.append(
                        f"session {session_id}: the file says {name} {said}, its messages here add up to {found}"
                    )


def _counted(before: int | None, updated_at: int, noun: str) -> str | None:
    """A row that isn't there is new; an older one is changed; what is as old or newer stands."""
    if before is None:
        return noun
    return "changed" if updated_at > before else None


def _counted_session(before: ChatSession | None, told: ChatSession) -> str | None:
    """The same for a session, which grows younger with its messages: so what it says decides, without the sums."""
    if before is None:
        return "sessions"
    sums = {name: getattr(told, name) for name in (*ROLLUPS, "total_tokens", "cost_usd")}
    older = told.updated_at < before.updated_at
    return None if older or msgspec.structs.replace(before, **sums) == told else "changed"


def _key(told: ModelCall | Event) -> tuple[str, str, int]:
    return told.session_id, told.trace_id, told.step


def _is_missing(read: Any, body: str) -> bool:
    try:
        read(digest_of(body.encode()).hex())
    except ContentNotFound:
        return True
    return False
