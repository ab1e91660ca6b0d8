"""The parts of a message as rows: written when they begin, change and end, and what they grow by in between."""

from __future__ import annotations

import time
from typing import Any

from dashcam.contracts.chat import PART, derived_id
from dashcam.record.flow import Flow
from dashcam.record.lines import Lines, place
from dashcam.record.part import Part
from dashcam.record.saving import FLUSHER, GRACE, HELD_SHARE, SHARE, SLACK, SOON, Saving
from dashcam.sdk import emit
from dashcam.sdk.ids import new_id, now_ms

GROWING = frozenset(("streaming", "input-streaming"))


class _Kept:
    """What is known of one part: its id, and what of it was written."""

    def __init__(self, part_id: str, created_at: int) -> None:
        self.id, self.created_at = part_id, created_at
        self.flow: Flow | None = None  # while its text grows
        self.dirty = True  # as a whole, not only by what it grew
        self.whole_at = -1  # how much had been given when it was last written as a whole
        self.place = place()
        self.began = time.monotonic()


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
        self._due_at = 0.0  # when what waits is due

    def put(self, part: Part) -> None:
        """A part that begins, or whose state or content has changed."""
        kept = self._kept.get(part.index)
        is_new = kept is None
        if kept is None:
            kept = self._kept[part.index] = _Kept(*self._new_id(part.index))
        kept.dirty = True
        if part.get("state") in GROWING:
            self._flow_of(kept, part)
        else:
            kept.flow = None
        self._waiting[part.index] = part
        # One that changes while it grows is written again when it has grown by a tenth, or is complete.
        if self._saving.on != "chunk":
            self._flush_if_full(0)
        elif is_new or kept.flow is None or kept.flow.given > kept.whole_at * 1.1 + SLACK:
            self.flush()
        else:
            FLUSHER.soon(self)

    def grow(self, part: Part, text: str) -> None:
        """A part whose text goes on."""
        kept = self._kept.get(part.index)
        if kept is None or part.get("state") not in GROWING:
            # It had ended, or never begun: it is told as a whole when the step ends, with all that may follow.
            self._kept.setdefault(part.index, _Kept(*self._new_id(part.index))).dirty = True
            self._waiting[part.index] = part
            return
        flow = self._flow_of(kept, part, text)
        self._waiting[part.index] = part
        share = HELD_SHARE if flow.is_held else SHARE
        was_quick = flow.spent < GRACE + (time.monotonic() - kept.began) / 20  # else only the clock says when
        if self._saving.on != "chunk":
            self._flush_if_full(len(text))
        elif (was_quick and flow.waiting * share >= flow.given) or time.monotonic() > self._due_at:
            self.flush()
        else:
            FLUSHER.soon(self)

    def flush(self, *, is_final: bool = True) -> None:
        """Write all that waits; before the step ends, not what went on after its end."""
        with self._lines.lock:
            began = time.monotonic()
            for index, part in list(self._waiting.items()):
                kept = self._kept[index]
                if is_final or kept.flow is not None or part.get("state") not in _ENDED or kept.whole_at < 0:
                    self._write(part, kept)
                    del self._waiting[index]
            self._buffered = 0
            self._saved_at = time.monotonic()
            # Looking for secrets takes time; never more than a small share of the host's.
            self._due_at = self._saved_at + max(SOON, 20 * (self._saved_at - began))

    def flush_if_due(self) -> bool:
        """For the thread that saves what a pause leaves waiting; whether something still waits."""
        with self._lines.lock:
            due_at = self._due_at if self._saving.on == "chunk" else self._saved_at + self._saving.buffer_seconds
            if self._waiting and time.monotonic() >= due_at:
                self.flush(is_final=False)
            return any(self._kept[index].flow is not None for index in self._waiting)

    def _flush_if_full(self, more: int) -> None:
        self._buffered += more
        if self._buffered > self._saving.buffer_chars:
            self.flush(is_final=False)
        else:
            FLUSHER.soon(self)

    def _flow_of(self, kept: _Kept, part: Part, text: str | None = None) -> Flow:
        """The part's growing text, with all that was given of it. Where a host's function redacts, it says nothing:
        that has to see the whole.
        """
        redactor = emit.recorder().redactor
        if kept.flow is None:
            kept.flow = Flow(_SILENT if redactor.asks_host else redactor)
        if text is None:
            text = part.data.get(part.path, "")[kept.flow.given :]
        kept.flow.add(text)
        return kept.flow

    def _new_id(self, index: int) -> tuple[str, int]:
        if self._native_at is None:
            return new_id(PART)
        part_id = derived_id(PART, self._native_at, self._message_id, str(index))
        return part_id, self._native_at if self._is_past else now_ms()

    def _write(self, part: Part, kept: _Kept) -> None:
        flow = kept.flow
        if kept.dirty or kept.place != place():
            kept.dirty, kept.place, kept.whole_at = False, place(), flow.given if flow else 0
            data = dict(part.data)
            if flow:  # what grows is told bit by bit, so that its end can wait: here what was told of it
                data[part.path] = scrubbed(data.get(part.path, ""))[: flow.length]
            self._lines.row("chat.part", self._row(part, kept, data))
        if flow and (taken := flow.take()):
            at, text = taken
            delta = {"part_id": kept.id, "path": part.path, "at": at, "text": text, "updated_at": now_ms()}
            self._lines.row("chat.delta", delta)

    def _row(self, part: Part, kept: _Kept, data: dict[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {
            "part_id": kept.id,
            "message_id": self._message_id,
            "index": part.index,
            "type": scrubbed(part.type),
            "data": scrubbed(data),
            "created_at": kept.created_at,
            "updated_at": kept.created_at if self._is_past else now_ms(),
        }
        if part.tool_call_id is not None:
            row |= {"tool_call_id": scrubbed(part.tool_call_id), "tool_state": scrubbed(part.tool_state)}
        return row


class _Silent:
    """Suspects everything, so that nothing is told before its end."""

    def suspects(self, text: str) -> bool:
        return bool(text)

    def scrub(self, text: str) -> str:
        return ""


_SILENT = _Silent()
_ENDED = frozenset(("done",))


def scrubbed(value: Any) -> Any:
    """A JSON value without secrets."""
    fields, _, _ = emit.recorder().redactor.apply({"value": value})
    return fields.get("value", fields)
