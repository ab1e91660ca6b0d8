"""Where two sessions part: the first message in what their models were sent that isn't the same.

Messages are compared by shape, so that random ids of tool calls don't count. A session's last context holds most of
the earlier ones as its beginnings, and their digests fall out of one pass over it: few contexts have to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.content import prefix_digests, shape_digests
from dashcam.store.base import Reader
from dashcam.views.context import messages_of

CHUNK = 200  # bodies in memory at a time

Calls = tuple[int, list[ModelCall], list[ModelCall]]  # a turn's number, and its calls in both sessions


class FirstMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The first message that differs: in which call of which turn, and its place in the context.

    Turns and calls count from 1, places from 0. None: that context had ended before.
    """

    turn: int
    call: int
    index: int
    a: Any = None
    b: Any = None


class _Context(msgspec.Struct, frozen=True):
    """What one call was sent: the first `length` of `messages`, a list that other calls share."""

    messages: list[bytes]
    length: int


class _Step(msgspec.Struct, frozen=True):
    """One call of both sessions: what their contexts hold from `start` on, before which nothing is new."""

    turn: int
    call: int
    start: int
    a: list[bytes]
    b: list[bytes]


def first_message(store: Reader, turns: Sequence[Calls]) -> FirstMessage | None:
    """The first message in which the contexts of these turns differ; None where they don't, or weren't recorded."""
    steps = list(_steps(store, turns))
    shapes = [_shapes(store, (digest for step in steps for digest in side(step))) for side in (_of_a, _of_b)]
    for step in steps:
        for place, (one, other) in enumerate(zip_longest(step.a, step.b), step.start):
            if one is None or other is None or shapes[0][one] != shapes[1][other]:
                bodies = store.bodies([digest for digest in (one, other) if digest])
                a, b = (None if digest is None else _read(bodies.get(digest)) for digest in (one, other))
                return FirstMessage(turn=step.turn, call=step.call, index=place, a=a, b=b)
    return None


def _steps(store: Reader, turns: Sequence[Calls]) -> Iterator[_Step]:
    contexts_a = _contexts(store, (call for _, calls, _ in turns for call in calls))
    contexts_b = _contexts(store, (call for _, _, calls in turns for call in calls))
    before_a = before_b = _Context([], 0)
    for number, calls_a, calls_b in turns:
        for place, (one, other) in enumerate(zip(calls_a, calls_b, strict=False), 1):
            a, b = contexts_a.get(one.context_digest or ""), contexts_b.get(other.context_digest or "")
            if a is None or b is None or one.context_digest == other.context_digest:
                continue  # to the byte the same, or unknown
            start = min(_kept(before_a, a), _kept(before_b, b))
            yield _Step(number, place, start, a.messages[start : a.length], b.messages[start : b.length])
            before_a, before_b = a, b


def _contexts(store: Reader, calls: Iterable[ModelCall]) -> dict[str, _Context]:
    """The contexts of a session's calls, by digest."""
    known: dict[bytes, _Context] = {}
    wanted: dict[str, _Context] = {}
    for call in reversed(list(calls)):
        if call.context_digest is None or call.context_digest in wanted:
            continue
        found = known.get(_bytes(call.context_digest))
        if found is None:
            messages = messages_of(store, call)
            if messages is None:
                continue
            for length, digest in enumerate(prefix_digests(messages)):
                known.setdefault(digest, _Context(messages, length))
            found = _Context(messages, len(messages))
        wanted[call.context_digest] = found
    return wanted


def _kept(before: _Context, now: _Context) -> int:
    """How many messages the two begin with in common."""
    shorter = min(before.length, now.length)
    if before.messages is now.messages:
        return shorter
    both = zip(before.messages[:shorter], now.messages[:shorter], strict=True)
    return next((place for place, (old, new) in enumerate(both) if old != new), shorter)


def _shapes(store: Reader, digests: Iterable[bytes]) -> dict[bytes, bytes]:
    """The shape of each message, by digest. Ids are numbered over the session: a message means the same all along."""
    unique = list(dict.fromkeys(digests))
    return dict(zip(unique, shape_digests(_bodies(store, unique)), strict=True))


def _bodies(store: Reader, digests: list[bytes]) -> Iterator[bytes]:
    for start in range(0, len(digests), CHUNK):
        chunk = digests[start : start + CHUNK]
        found = store.bodies(chunk)
        yield from (found.get(digest, b"missing " + digest) for digest in chunk)


def _read(body: bytes | None) -> Any:
    """A message for people: as JSON where it is, else as text."""
    if body is None:
        return "(no longer in the store)"
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "backslashreplace")


def _bytes(digest: str) -> bytes:
    try:
        return bytes.fromhex(digest)
    except ValueError:
        return b""


def _of_a(step: _Step) -> list[bytes]:
    return step.a


def _of_b(step: _Step) -> list[bytes]:
    return step.b
