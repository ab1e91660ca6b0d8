"""Contexts: what each model call was sent, as a small difference to the context before it.

Every function works inside the transaction that the caller holds.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dashcam.contracts.content import (
    EMPTY_CONTEXT,
    Link,
    LinkedContext,
    apply_link,
    context_digest,
    link,
    prefix_digests,
)
from dashcam.errors import ContentNotFound, StoreError
from dashcam.store.base import Context
from dashcam.store.sqlite.contents import CHUNK, damaged, file_of, marks

WIDTH = 32  # bytes a digest
WHOLE_BEYOND = 64  # a list is written whole once the links since the last whole one hold this many
_FIRST_LOOK = 16  # prefixes; the last call's context is nearly always among the longest few

_COLUMNS = "digest, length, parent, head, tail, appended, middle, since"
# Blobs whatever they are: one bit of damage makes a text of one, and that may not be decodable.
_ROW = (
    "SELECT rowid, CAST(digest AS BLOB), length, CAST(parent AS BLOB), head, tail, appended,"
    " CAST(middle AS BLOB), since FROM contexts WHERE rowid = ?"
)
# A link counts for one at least in `since`, so the rule for whole lists also bounds how many rows a
# reader meets; a row that leads further is damaged, and a circle of parents ends here too.
_CHAIN = f"""
WITH RECURSIVE chain (depth, bound, head, tail, appended, middle, parent) AS (
  SELECT 0, max({WHOLE_BEYOND}, length), head, tail, appended, middle, parent FROM contexts WHERE digest = ?
  UNION ALL
  SELECT depth + 1, bound, c.head, c.tail, c.appended, c.middle, c.parent
  FROM chain JOIN contexts AS c ON c.digest = chain.parent WHERE depth < bound
)
SELECT head, tail, appended, CAST(middle AS BLOB), parent IS NULL FROM chain ORDER BY depth DESC
"""

_LAST_LINK = "SELECT CAST(parent AS BLOB), head, tail, CAST(middle AS BLOB) FROM contexts WHERE digest = ?"


class Row(NamedTuple):
    """One row of `contexts`."""

    id: int
    digest: bytes
    length: int
    parent: bytes | None
    head: int
    tail: int
    appended: int
    middle: bytes
    since: int


class Hook(NamedTuple):
    """A link, the parent that it goes to, and the `since` of the row that it makes."""

    parent: bytes
    change: Link
    since: int


class Edit(NamedTuple):
    """What a link did to a list in place, and so how to take it back."""

    head: int
    removed: list[bytes]
    inserted: int
    appended: int

    def undo(self, messages: list[bytes]) -> None:
        del messages[len(messages) - self.appended :]
        messages[self.head : self.head + self.inserted] = self.removed


def put_context(connection: sqlite3.Connection, messages: Sequence[bytes], parent: bytes | None = None) -> bytes:
    """Keep one context; return its digest. For call after call use a ContextWriter."""
    return ContextWriter(connection).put(messages, parent)


def context(connection: sqlite3.Connection, digest: bytes) -> list[bytes]:
    """The message digests of a context, in order. What it returns hashes to `digest`, or it raises."""
    rows = connection.execute(_CHAIN, (digest,)).fetchall()
    if not rows:
        raise ContentNotFound(digest.hex(), file_of(connection))
    messages: list[bytes] = []
    for head, tail, appended, middle, _ in rows:
        edit(messages, head, tail, appended, middle)
    if not rows[0][-1] or context_digest(messages) != digest:
        raise damaged(connection, f"Context {digest.hex()}")
    return messages


class ContextReader:
    """Reads contexts. Remembers the last few lists, so that call after call costs only what is new of each."""

    def __init__(self, connection: sqlite3.Connection, remember: int = 4) -> None:
        self._connection = connection
        self._remember = remember
        self._lists: OrderedDict[bytes, list[bytes]] = OrderedDict()

    def read(self, digest: bytes) -> list[bytes]:
        """As `context`. The list is the caller's own."""
        messages = self._lists.get(digest) or self._next(digest) or context(self._connection, digest)
        self._lists[digest] = messages
        self._lists.move_to_end(digest)
        if len(self._lists) > self._remember:
            self._lists.popitem(last=False)
        return messages.copy()

    def _next(self, digest: bytes) -> list[bytes] | None:
        """The list, where it only appends to a remembered one: then hashing goes on from there, too."""
        row = self._connection.execute(_LAST_LINK, (digest,)).fetchone()
        known = self._lists.get(row[0]) if row and row[0] is not None else None
        if known is None:
            return None
        parent, head, tail, middle = row
        new = split(middle)
        if tail or head != len(known) or prefix_digests(new, parent)[-1] != digest:
            return None
        return known + new


def known_prefix(connection: sqlite3.Connection, messages: Sequence[bytes]) -> tuple[bytes, int] | None:
    """The longest known context that `messages` begin with: its digest and length.

    The empty one isn't counted: everything begins with it.
    """
    found = _longest_known(connection, prefix_digests(messages)[1:])
    return found and (found[0], found[1] + 1)


class ContextWriter:
    """Keeps contexts. Remembers the last few lists, so that a session's next call needs no reading.

    What it remembers is only ever list by digest, which no rollback makes wrong.
    """

    def __init__(self, connection: sqlite3.Connection, remember: int = 8) -> None:
        self._connection = connection
        self._remember = remember
        self._lists: OrderedDict[bytes, bytes] = OrderedDict()

    def put(self, messages: Sequence[bytes], parent: bytes | None = None) -> bytes:
        """Keep the list `messages`; return its digest. A repeated one adds nothing.

        `parent` is a hint: any context that this one resembles, usually that of the session's previous
        call. The link goes there or to the longest known prefix, whichever is shorter.
        """
        joined = b"".join(messages)
        if len(joined) != WIDTH * len(messages):
            raise ValueError(f"a message digest has {WIDTH} bytes")
        start, hashed = self._remembered_prefix(joined)
        prefixes = prefix_digests(messages[hashed:], start)
        digest = prefixes[-1]
        self._lists[digest] = joined
        self._lists.move_to_end(digest)
        if len(self._lists) > self._remember:
            self._lists.popitem(last=False)
        found = _longest_known(self._connection, prefixes)
        if found is None and hashed:  # what was remembered was rolled back, or swept away
            hashed, prefixes = 0, prefix_digests(messages)
            found = _longest_known(self._connection, prefixes)
        if found is None or found[0] != digest:
            before = found and (found[0], hashed + found[1], found[2])
            self._insert(digest, list(messages), parent, before)
        return digest

    def take(self, told: Context | LinkedContext) -> bytes:
        """Keep a context, however it is told; return its digest."""
        return self.put_linked(told) if isinstance(told, LinkedContext) else self.put(told.messages, told.parent)

    def put_linked(self, told: LinkedContext) -> bytes:
        """Keep a context that is told as a difference; one that doesn't come out as it says is an IntegrityError."""
        try:
            digest = self.put(apply_link(self._list(told.parent), told.link), told.parent)
        except (ContentNotFound, StoreError, ValueError) as error:
            raise sqlite3.IntegrityError(f"context {told.digest.hex()} can't be put together: {error}") from error
        if digest != told.digest:
            raise sqlite3.IntegrityError(f"context {told.digest.hex()} comes out as {digest.hex()}")
        return digest

    def _list(self, digest: bytes | None) -> list[bytes]:
        if digest is None or digest == EMPTY_CONTEXT:
            return []
        joined = self._lists.get(digest)
        return context(self._connection, digest) if joined is None else split(joined)

    def _insert(
        self, digest: bytes, messages: list[bytes], hint: bytes | None, before: tuple[bytes, int, int] | None
    ) -> None:
        """Write the shortest link: to the known prefix `before`, to the hint, else to a remembered list."""
        hooks: list[Hook | None] = []
        if before:
            parent, length, since = before
            hooks.append(hook(parent, since, Link(length, 0, tuple(messages[length:]))))
        if hint and not (before and hint == before[0]):
            hooks.append(self._hook(hint, messages))
        best = shortest(messages, hooks)
        if best is None:  # a branch off a long chain, or an earlier call that arrives late
            best = shortest(messages, [self._hook(known, messages) for known in self._lists])
        insert = f"INSERT INTO contexts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        self._connection.execute(insert, (digest, len(messages), *columns_of(messages, best)))

    def _remembered_prefix(self, joined: bytes) -> tuple[bytes, int]:
        """The longest remembered list that `joined` begins with; hashing goes on from there."""
        digest, length = EMPTY_CONTEXT, 0
        for known, its in self._lists.items():
            if len(its) > length and joined.startswith(its):
                digest, length = known, len(its)
        return digest, length // WIDTH

    def _hook(self, parent: bytes, messages: list[bytes]) -> Hook | None:
        row = self._connection.execute("SELECT since FROM contexts WHERE digest = ?", (parent,)).fetchone()
        if row is None:
            return None
        joined = self._lists.get(parent)
        try:
            known = context(self._connection, parent) if joined is None else split(joined)
        except StoreError:  # old damage, which verify reports, is no reason to lose what is new
            return None
        return hook(parent, row[0], link(known, messages))


def hook(parent: bytes, since: int, change: Link) -> Hook:
    """A link to `parent`, given the `since` of that."""
    return Hook(parent, change, since + max(1, len(change.middle)))


def shortest(messages: Sequence[bytes], hooks: Iterable[Hook | None]) -> Hook | None:
    """The one that holds least, of those that are better than writing the list whole."""
    length = len(messages)
    paying = [one for one in hooks if one and len(one.change.middle) < length and one.since < max(WHOLE_BEYOND, length)]
    return min(paying, key=lambda one: len(one.change.middle), default=None)


def columns_of(messages: Sequence[bytes], to: Hook | None) -> tuple[bytes | None, int, int, int, bytes, int]:
    """parent, head, tail, appended, middle, since; without a hook the list is written whole."""
    if to is None:
        return None, 0, 0, 0, b"".join(messages), 0
    change = to.change
    return to.parent, change.head, change.tail, change.appended, b"".join(change.middle), to.since


def edit(messages: list[bytes], head: int, tail: int, appended: int, middle: bytes) -> Edit:
    """Apply a link in place: appending to a long list costs only what is appended."""
    digests = split(middle)
    head = min(max(head, 0), len(messages))
    kept = max(len(messages) - max(tail, 0), head)
    cut = max(len(digests) - max(appended, 0), 0)
    change = Edit(head, messages[head:kept], cut, len(digests) - cut)
    messages[head:kept] = digests[:cut]
    messages += digests[cut:]
    return change


def split(joined: bytes) -> list[bytes]:
    return [joined[at : at + WIDTH] for at in range(0, len(joined), WIDTH)]


class Walk:
    """Visits contexts, parents first, with one list edited forward and back on the way.

    So all lists of a tree are seen at the cost of what its rows hold, not of what the lists hold.
    During a visit `messages` is the list of that context, `path` leads to it from its whole list,
    and the first `same` messages are those of the visit before.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.messages: list[bytes] = []
        self.path: list[tuple[Row, Edit]] = []
        self.same = 0

    def below(self, roots: Iterable[int]) -> Iterator[Row]:
        """Every context from these rows down. The caller may change the row it was just given."""
        for root in roots:
            todo = [(root, 0)]
            while todo:
                row_id, depth = todo.pop()
                row = self._step(row_id, depth)
                yield row
                children = self._connection.execute(
                    "SELECT rowid FROM contexts WHERE parent = ? ORDER BY rowid DESC", (row.digest,)
                )
                todo.extend([(child, depth + 1) for (child,) in children])

    def list_at(self, depth: int) -> list[bytes]:
        """The list of the context at this depth of the path."""
        messages = self.messages.copy()
        for _, change in reversed(self.path[depth + 1 :]):
            change.undo(messages)
        return messages

    def _step(self, row_id: int, depth: int) -> Row:
        row = Row(*self._connection.execute(_ROW, (row_id,)).fetchone())
        self.same = len(self.messages)
        while len(self.path) > depth:
            _, undone = self.path.pop()
            undone.undo(self.messages)
            self.same = min(self.same, undone.head)
        change = edit(self.messages, row.head, row.tail, row.appended, row.middle)
        self.same = min(self.same, change.head)
        self.path.append((row, change))
        return row


def _longest_known(connection: sqlite3.Connection, prefixes: Sequence[bytes]) -> tuple[bytes, int, int] | None:
    """Of these digests the last that is a known context: itself, its place among them, its `since`."""
    end, width = len(prefixes), _FIRST_LOOK
    while end > 0:
        chunk = list(prefixes[max(0, end - width) : end])
        query = f"SELECT digest, since FROM contexts WHERE digest IN ({marks(chunk)})"
        since = dict(connection.execute(query, chunk).fetchall())
        for place in range(len(chunk) - 1, -1, -1):
            if chunk[place] in since:
                return chunk[place], max(0, end - width) + place, since[chunk[place]]
        end, width = end - width, min(width * 4, CHUNK)
    return None
