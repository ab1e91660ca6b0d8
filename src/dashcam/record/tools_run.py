"""Tools while they run: the events and spans of each call, and what the permission rules said about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dashcam.record.lines import Lines, OpenSpan
from dashcam.record.options import Rule, rule_of


class ToolsRun:
    """Tells of tool calls, with the rules that are in force."""

    def __init__(self, lines: Lines, rules: list[dict[str, Any]]) -> None:
        self._lines = lines
        self.rules = rules

    def begin(self, tool: str, call_id: str, turn: OpenSpan, message_id: str) -> OpenSpan:
        """A call is about to run, or to be asked about."""
        fields: dict[str, Any] = {"tool": tool, "tool_call_id": call_id, "message_id": message_id}
        if self.rules:
            fields["permissions"] = self.rules
        self._lines.event("tool_call", fields)
        return self._lines.span("tool.call", {"tool_id": tool, "tool_call_id": call_id}, turn)

    def end(self, tool: str, call_id: str, span: OpenSpan, part: Mapping[str, Any]) -> None:
        """A call has its outcome, which its part holds."""
        state, output = str(part["state"]), part.get("output")
        fields: dict[str, Any] = {"tool": tool, "tool_call_id": call_id, "latency_ms": span.elapsed_ms}
        failure = {"output-error": part.get("errorText") or "failed", "output-denied": "denied"}.get(state)
        if failure is None:
            self._lines.event("tool_call_completed", fields)
        else:
            self._lines.event("tool_call_failed", {**fields, "error": str(failure), "error_type": state})
        truncated = isinstance(output, Mapping) and output.get("truncated") is True
        told = {"tool_id": tool, "tool_call_id": call_id, "truncated": truncated}
        span.end(told, None if failure is None else {"type": state, "message": str(failure)})

    def decide(
        self, call_id: str, tool: str, action: str, rule: Rule | None, reason: str | None, turn: OpenSpan | None
    ) -> None:
        """The rules were asked about a call: which one decided, and all that were in force."""
        decided = None if rule is None else rule_of(rule)
        span = self._lines.span("permission.evaluate", {"tool_id": tool, "tool_call_id": call_id}, turn)
        told: dict[str, Any] = {
            "tool_id": tool,
            "tool_call_id": call_id,
            "pattern": decided.pattern if decided else "*",
            "action": action,
            "source": decided.source if decided else "session",
            "rule": None if decided is None else msgspec.to_builtins(decided),
            "rules": self.rules,
        }
        span.end({**told, **({"reason": reason} if reason else {})})
