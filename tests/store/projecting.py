"""A projector for the store's tests: traces that ask questions, and tell those that no earlier trace has told.

As a program: projects the store that it is given until its input ends, in a process that doesn't hold the lock.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from records import NOW, span

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatMessage, ChatPart
from dashcam.contracts.span import Span
from dashcam.store.base import Piece, Projection, ToldTurn
from dashcam.store.sqlite.connection import BorrowedLock
from dashcam.store.sqlite.store import SqliteStore

AT = NOW // 1000  # milliseconds


def ask(text: str) -> bytes:
    return sha256(text.encode()).digest()[:16]


def projection(
    trace_id: str, start: int, *questions: str, session_id: str = "s", history: int = 0, ids: str = "",
    calls: Sequence[ModelCall] = (), **given: Any,
) -> Projection:  # fmt: skip
    """A trace that began `start` milliseconds after AT and asks these, the first `history` of them as history."""
    piece = {"trace_id": trace_id, "session_id": session_id, "session_by": "attribute", "spans": 1}
    piece |= {"first_at": AT + start, "last_at": AT + start + 5}
    messages, parts = [], []
    for number, text in enumerate(questions):
        told = {"session_id": session_id, "created_at": AT + start + number, "updated_at": AT + start + number}
        message_id = f"msg.{ids or trace_id}.{number}"
        messages.append(ChatMessage(id=message_id, role="user", **told))  # type: ignore[arg-type]
        data = msgspec.json.encode({"type": "text", "text": text}).decode()
        part = ChatPart(id=f"prt{message_id}", message_id=message_id, index=0, type="text", data_json=data, **told)  # type: ignore[arg-type]
        parts.append(part)
    times = Counter(map(ask, questions))
    before = Counter(map(ask, questions[:history]))
    turns = [
        ToldTurn(session_id=session_id, digest=digest, times=count, history=before[digest])
        for digest, count in times.items()
    ]
    return Projection(
        pieces=[Piece(**{**piece, **given})], messages=messages, parts=parts, turns=turns, model_calls=calls
    )


def question(trace_id: str, start: int, session_id: str, questions: Sequence[str], span_id: str = "p") -> list[Span]:
    """A trace of two spans that can arrive apart: the first alone knows when it began, the second what was asked."""
    at = (AT + start) * 1_000_000
    body = msgspec.json.encode([session_id, list(questions)])
    root = span(trace_id=trace_id, span_id=f"r{span_id}", start_ns=at, end_ns=at + 1, name="run")
    return [root, span(trace_id=trace_id, span_id=span_id, start_ns=at + 5_000_000, end_ns=at + 9_000_000, body=body)]


def project(store: SqliteStore, trace_id: str) -> Projection:
    spans = store.spans(trace_id)
    start = spans[0].start_ns // 1_000_000 - AT if spans else 0
    told = next((each.body for each in spans if each.body), b"")
    if not told:
        session_id, questions = f"trace:{trace_id}", []
    else:
        session_id, questions = msgspec.json.decode(told)
    left = Counter(store.told_before(session_id, (AT + start, trace_id)))
    history = []
    for text in questions[:-1]:
        if left[ask(text)]:
            left[ask(text)] -= 1
        else:
            history.append(text)
    by = "attribute" if told else "none"
    return projection(
        trace_id, start, *history, *questions[-1:], session_id=session_id, history=len(history), session_by=by,
        spans=len(spans),
    )  # fmt: skip


def project_all(store: SqliteStore, limit: int = 3) -> None:
    while True:
        page = store.unprojected(limit=limit)
        store.replace({trace_id: project(store, trace_id) for trace_id in page.trace_ids}, cursor=page.cursor)
        if not page.trace_ids:
            return


def main(path: Path) -> None:
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    with SqliteStore(path, lock=BorrowedLock()) as store:
        while not ended.is_set():
            project_all(store)
            time.sleep(0.01)
        project_all(store)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
