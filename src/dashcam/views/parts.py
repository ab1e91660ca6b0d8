"""The parts of a message, as a person reads them: what each kind of part says, out of its JSON.

Everything in a part was said by a model, a tool or a client: what has another type than it should is shown as
what it is, and nothing here fails on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dashcam.contracts.chat import COMPACTION, ChatPart, tool_name_of


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a tool call was let through, and which rule decided."""

    action: str
    tool_id: str | None = None
    pattern: str | None = None
    source: str | None = None  # manifest, session or project
    rule: Any = None
    rules: list[Any] = []  # all that were in force


class PartView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What every part has. Times are milliseconds."""

    id: str
    message_id: str
    created_at: int
    updated_at: int


class TextPart(PartView, frozen=True, kw_only=True, tag="text"):
    text: str
    streaming: bool = False  # whether it never ended


class ReasoningPart(PartView, frozen=True, kw_only=True, tag="reasoning"):
    text: str
    streaming: bool = False


class ToolPart(PartView, frozen=True, kw_only=True, tag="tool"):
    """One tool call in its last observed state."""

    tool: str
    tool_call_id: str | None = None
    state: str | None = None
    input: Any = None
    output: Any = None
    error: str | None = None
    decision: Decision | None = None  # None: none was recorded

    @property
    def failed(self) -> bool:
        return self.state in ("output-error", "output-denied")


class FilePart(PartView, frozen=True, kw_only=True, tag="file"):
    media_type: str | None = None
    filename: str | None = None
    url: str = ""


class SourcePart(PartView, frozen=True, kw_only=True, tag="source"):
    title: str | None = None
    url: str | None = None


class DataPart(PartView, frozen=True, kw_only=True, tag="data"):
    name: str
    data: Any = None


class StepStart(PartView, frozen=True, kw_only=True, tag="step-start"):
    """Where another model call of the same message begins."""


class CompactionPart(PartView, frozen=True, kw_only=True, tag="compaction"):
    """From here on the summary stands for what came before it, but for the tail."""

    summary: str = ""
    tail_start_id: str | None = None
    auto: bool = False
    summary_tokens: int | None = None


class OtherPart(PartView, frozen=True, kw_only=True, tag="other"):
    """A part of a type that nobody knows yet."""

    type: str
    data: Any = None


Part = TextPart | ReasoningPart | ToolPart | FilePart | SourcePart | DataPart | StepStart | CompactionPart | OtherPart


def part_of(row: ChatPart, decisions: Mapping[str, Decision]) -> Part:
    """A row as what it is; `decisions` are by tool call."""
    data = row.data()
    told: dict[str, Any] = {
        "id": row.id,
        "message_id": row.message_id,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }
    if not data and row.data_json.strip() != "{}":
        return OtherPart(**told, type=row.type, data=row.data_json)  # not JSON: shown as it stands
    if row.type in ("text", "reasoning"):
        kind = TextPart if row.type == "text" else ReasoningPart
        return kind(**told, text=_text(data.get("text")) or "", streaming=data.get("state") == "streaming")
    if (tool := tool_name_of(row.type, data)) is not None:
        return _tool(row, tool, data, told, decisions)
    if row.type == "file":
        media, name = _text(data.get("mediaType")), _text(data.get("filename"))
        return FilePart(**told, media_type=media, filename=name, url=_text(data.get("url")) or "")
    if row.type in ("source-url", "source-document"):
        title = _text(data.get("title")) or _text(data.get("filename"))
        return SourcePart(**told, title=title, url=_text(data.get("url")))
    if row.type == "step-start":
        return StepStart(**told)
    if row.type == COMPACTION:
        return _compaction(data, told)
    if row.type.startswith("data-"):
        return DataPart(**told, name=row.type.removeprefix("data-"), data=data.get("data"))
    return OtherPart(**told, type=row.type, data=data)


def decision_of(fields: Mapping[str, Any]) -> Decision | None:
    """The decision that a `permission.evaluate` span tells of, if it does."""
    action = _text(fields.get("action"))
    if not action:
        return None
    rules = fields.get("rules")
    return Decision(
        action=action,
        tool_id=_text(fields.get("tool_id")),
        pattern=_text(fields.get("pattern")),
        source=_text(fields.get("source")),
        rule=fields.get("rule"),
        rules=rules if isinstance(rules, list) else [],
    )


def _tool(
    row: ChatPart, tool: str, data: dict[str, Any], told: dict[str, Any], decisions: Mapping[str, Decision]
) -> ToolPart:
    call_id = row.tool_call_id or _text(data.get("toolCallId"))
    return ToolPart(
        **told,
        tool=tool,
        tool_call_id=call_id,
        state=row.tool_state or _text(data.get("state")),
        input=data.get("input", data.get("rawInput")),  # as far as it got, where it isn't JSON yet
        output=data.get("output"),
        error=_error(data),
        decision=decisions.get(call_id or ""),
    )


def _error(data: dict[str, Any]) -> str | None:
    """Why a call failed or was denied."""
    if text := _text(data.get("errorText")):
        return text
    approval = data.get("approval")
    return _text(approval.get("reason")) if isinstance(approval, dict) and approval.get("approved") is False else None


def _compaction(data: dict[str, Any], told: dict[str, Any]) -> CompactionPart:
    inner = data.get("data")
    inner = inner if isinstance(inner, dict) else data
    tokens = inner.get("summary_tokens")
    return CompactionPart(
        **told,
        summary=_text(inner.get("summary")) or "",
        tail_start_id=_text(inner.get("tail_start_id")),
        auto=inner.get("auto") is True,
        summary_tokens=tokens if isinstance(tokens, int) and not isinstance(tokens, bool) else None,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
