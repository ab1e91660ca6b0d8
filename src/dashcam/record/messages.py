"""The rows of a session and its messages: written when they are new and when they change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dashcam.contracts.chat import MESSAGE
from dashcam.record.assemble import Part
from dashcam.record.lines import Lines
from dashcam.record.parts import PartWriter, scrubbed
from dashcam.record.saving import Saving
from dashcam.sdk.ids import new_id, now_ms


class MessageRow(msgspec.Struct):
    """What a message's row holds, and how long the conversation was before it."""

    role: str
    metadata: dict[str, Any]
    created_at: int
    at: int


class MessageRows:
    """Writes the message rows of one session, and remembers them: a rewind changes old ones."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.rows: dict[str, MessageRow] = {}

    def put(self, message_id: str, role: str, metadata: dict[str, Any], created_at: int, at: int) -> None:
        known = self.rows.get(message_id)
        if known is None:
            known = self.rows[message_id] = MessageRow(role, metadata, created_at, at)
        elif known.metadata == metadata:
            return
        known.metadata = metadata
        self._write(message_id, known)

    def add(self, role: str, parts: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any] | None, at: int) -> str:
        """A whole message with its parts; return its id."""
        message_id, created = new_id(MESSAGE)
        trace = self._lines.trace
        told = {**scrubbed(dict(metadata or {})), "trace_id": trace.trace_id, "step": trace.step}
        self.put(message_id, role, told, created, at)
        writer = PartWriter(self._lines, message_id, Saving())
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
        fields = {"message_id": message_id, "role": row.role, "metadata": row.metadata}
        self._lines.row("chat.message", {**fields, "created_at": row.created_at, "updated_at": now_ms()})
