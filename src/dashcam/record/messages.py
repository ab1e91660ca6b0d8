"""The rows of a session and its messages: written when they are new and when they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dashcam.contracts.chat import MESSAGE, derived_id
from dashcam.record.lines import Lines
from dashcam.record.part import Part
from dashcam.record.parts import PartWriter, scrubbed
from dashcam.record.saving import Saving
from dashcam.sdk.ids import new_id, now_ms


class Native(NamedTuple):
    """How the host's own records know a message. Its id follows from it: whoever tells the message again, in
    whichever process, tells the same one.
    """

    key: str
    at: int  # milliseconds

    @property
    def answer(self) -> Native:
        """What answers it."""
        return Native(f"{self.key} answer", self.at + 1)

    def id_in(self, session_id: str) -> tuple[str, int]:
        return derived_id(MESSAGE, self.at, session_id, self.key), self.at


class MessageRow(msgspec.Struct):
    """What a message's row holds, and how long the conversation was before it."""

    role: str
    metadata: dict[str, Any]
    created_at: int
    at: int


class MessageRows:
    """Writes the message rows of one session, and remembers them: a rewind changes old ones.

    `is_past`: what is told is old, and whoever told it at its time knew more.
    """

    def __init__(self, lines: Lines, *, is_past: bool = False) -> None:
        self._lines, self._is_past = lines, is_past
        self.rows: dict[str, MessageRow] = {}

    def put(self, message_id: str, role: str, metadata: dict[str, Any], created_at: int, at: int) -> None:
        known = self.rows.get(message_id)
        if known is None:
            known = self.rows[message_id] = MessageRow(role, metadata, created_at, at)
        elif known.metadata == metadata:
            return
        known.metadata = metadata
        self._write(message_id, known)

    def add(
        self,
        role: str,
        parts: Sequence[Mapping[str, Any]],
        metadata: Mapping[str, Any] | None,
        at: int,
        native: Native | None = None,
    ) -> str:
        """A whole message with its parts; return its id."""
        trace = self._lines.trace
        message_id, created = native.id_in(trace.session_id) if native else new_id(MESSAGE)
        told = {**scrubbed(dict(metadata or {})), "trace_id": trace.trace_id, "step": trace.step}
        self.put(message_id, role, told, created, at)
        writer = PartWriter(self._lines, message_id, Saving(), created if native else None, is_past=self._is_past)
        for index, each in enumerate(parts):
            is_tool = str(each.get("type")).startswith(("tool-", "dynamic-tool"))
            writer.put(Part(index, dict(each), is_tool=is_tool))
        return message_id

    def hide_from(self, message_id: str) -> int:
        """Hide this message and all after it; return how many were not hidden before."""
        ids = list(self.rows)
        shown = [each for each in ids[ids.index(message_id) :] if "hidden_at" not in self.rows[each].metadata]
        now = now_ms()
        for each in shown:
            row = self.rows[each]
            self.put(each, row.role, {**row.metadata, "hidden_at": now}, row.created_at, row.at)
        return len(shown)

    def _write(self, message_id: str, row: MessageRow) -> None:
        fields = {"message_id": message_id, "role": row.role, "metadata": scrubbed(row.metadata)}
        updated = row.created_at if self._is_past else now_ms()
        self._lines.row("chat.message", {**fields, "created_at": row.created_at, "updated_at": updated})
