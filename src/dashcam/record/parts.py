"""The parts of a message as rows: written when they begin, change and end, and what they grow by in between."""

from __future__ import annotations

import time
from typing import Any

from dashcam.contracts.chat import PART, derived_id
from dashcam.record.assemble import Part
from dashcam.record.flow import Flow
from dashcam.record.lines import Lines, place
from dashcam.record.saving import FLUSHER, SHARE, SOON, Saving
from dashcam.sdk import emit
from dashcam.sdk.ids import new_id, now_ms

_GROWING = frozenset(("streaming", "input-streaming"))


class _Kept:
    """What is known of one part: its id, and what of it was written."""

    def __init__(self, part_id: str, created_at: int) -> None:
        self.id, self.created_at = part_id, created_at
        self.flows: dict[str, Flow] = {}
        self.dirty = True  # as a whole, not only by what it grew
        self.place = place()


class PartWriter:
    """Writes the parts of one message, no sooner than the host wishes."""

    def __init__(
        self, lines: Lines, message_id: str, saving: Saving, native_at: int | None = None, *, is_past: bool = False
    ) -> None:
        """`native_at`: the message has an id that follows from what it is; then so have its parts."""
        self._lines, self._message_id, self._saving = lines, message_id, saving
        self._native_at, self._is_past = native_at, is_past
        self._kept: dict[int, _Kept] = {}
        self._waiting: dict[int, Part] = {}
        self._buffered = 0
        self._saved_at = time.monotonic()

    def put(self, part: Part) -> None:
        """A part that begins, or whose state has changed."""
        kept = self._kept.get(part.index)
        if kept is None:
            kept = self._kept[part.index] = _Kept(*self._new_id(part.index))
        kept.dirty = True
        if part.get("state") not in _GROWING:
            kept.flows.clear()
        self._waiting[part.index] = part
        if self._saving.on == "chunk":
            self.flush()
        else:
            self._flush_if_full(0)

    def grow(self, part: Part, path: str, piece: str) -> None:
        """A part whose text goes on."""
        kept = self._kept.get(part.index)
        if kept is None:
            self.put(part)
            return
        redactor = emit.recorder().redactor
        if redactor.asks_host:
            return  # it is written when it ends, and the host's function has seen all of it
        flow = kept.flows.get(path)
        if flow is None:
            flow = kept.flows[path] = Flow(redactor)
        flow.add(piece)
        self._waiting[part.index] = part
        if self._saving.on != "chunk":
            self._flush_if_full(len(piece))
        elif flow.waiting * SHARE >= flow.length or time.monotonic() - self._saved_at > SOON:
            self.flush()
        else:
            FLUSHER.soon(self)

    def _new_id(self, index: int) -> tuple[str, int]:
        if self._native_at is None:
            return new_id(PART)
        part_id = derived_id(PART, self._native_at, self._message_id, str(index))
        return part_id, self._native_at if self._is_past else now_ms()

    def flush(self) -> None:
        """Write all that waits."""
        with self._lines.lock:
            for index, part in self._waiting.items():
                self._write(part, self._kept[index])
            self._waiting.clear()
            self._buffered = 0
            self._saved_at = time.monotonic()

    def _flush_if_full(self, more: int) -> None:
        self._buffered += more
        late = time.monotonic() - self._saved_at > self._saving.buffer_seconds
        if self._buffered > self._saving.buffer_chars or late:
            self.flush()

    def _write(self, part: Part, kept: _Kept) -> None:
        if kept.dirty or kept.place != place():
            kept.dirty, kept.place = False, place()
            # What is still growing is told bit by bit, so that its end can wait (flow.py): here what was told.
            told = {path: scrubbed(part.data.get(path, ""))[: flow.length] for path, flow in kept.flows.items()}
            self._lines.row("chat.part", self._row(part, kept, {**part.data, **told}))
        for path, flow in kept.flows.items():
            if taken := flow.take():
                at, text = taken
                delta = {"part_id": kept.id, "path": path, "at": at, "text": text, "updated_at": now_ms()}
                self._lines.row("chat.delta", delta)

    def _row(self, part: Part, kept: _Kept, data: dict[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {
            "part_id": kept.id,
            "message_id": self._message_id,
            "index": part.index,
            "type": part.type,
            "data": scrubbed(data),
            "created_at": kept.created_at,
            "updated_at": kept.created_at if self._is_past else now_ms(),
        }
        if part.tool_call_id is not None:
            row |= {"tool_call_id": part.tool_call_id, "tool_state": part.tool_state}
        return row


def scrubbed(value: Any) -> Any:
    """A JSON value without secrets."""
    fields, _, _ = emit.recorder().redactor.apply({"value": value})
    return fields.get("value", fields)
