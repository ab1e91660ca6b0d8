"""The tools of a trace: which run belongs to which call, and how both are told, once among all traces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

from dashcam.record.trace_steps import Step
from dashcam.record.trace_threads import arguments_form, mended

_HALF = 16  # bytes of a digest
_NEAR = 32  # runs of a tool, the next in time, among which a call without an id looks for its own


class Tools:
    """The runs of tools that no call has claimed yet."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._by_call: dict[str, list[Step]] = {}
        self._by_name: dict[str | None, list[Step]] = {}
        self.left: dict[str, Step] = {}
        for step in steps:
            self.left[step.key] = step
            if step.reading.call_id:
                self._by_call.setdefault(step.reading.call_id, []).append(step)
            if step.scope is None:
                self._by_name.setdefault(step.reading.tool, []).append(step)

    def claim(self, called: dict[str, Any], *, by_id_alone: bool = False) -> Step | None:
        """The run of a call: by its id; else of the same name, rather with the same arguments, the first in time."""
        call_id = called.get("toolCallId")
        for step in self._by_call.get(call_id, ()) if call_id else ():
            if self.left.pop(step.key, None):
                return step
        if by_id_alone:
            return None
        named = self._by_name.get(called.get("toolName"), [])
        candidates = (step for step in named if step.key in self.left and not (call_id and step.reading.call_id))
        alike = list(islice(candidates, _NEAR))
        if len(alike) > 1:
            wanted = arguments_form(called.get("input"))
            alike = [step for step in alike if arguments_form(step.reading.arguments) == wanted] or alike
        if not alike:
            return None
        named.remove(alike[0])
        return self.left.pop(alike[0].key)


def tool_part(called: dict[str, Any], step: Step | None, result: dict[str, Any] | None, unnamed: str) -> dict[str, Any]:
    """A tool call and its outcome: what the tool's own step says, else what the next call was sent."""
    reading = step.reading if step else None
    name = mended(called.get("toolName") or (reading.tool if reading else None)) or "unknown"
    call_id = mended(called.get("toolCallId") or (reading.call_id if reading else None)) or unnamed
    value = called.get("input")
    part: dict[str, Any] = {"type": f"tool-{name}", "toolCallId": call_id, "state": "input-available"}
    part["input"] = reading.arguments if value is None and reading else value
    output = result.get("output") if result else None
    if reading and reading.result is not None:
        output = reading.result
    failed = (reading.error if reading else None) or (result and result.get("error"))
    if failed:
        told = reading.error if reading and reading.error else output
        return {**part, "state": "output-error", "errorText": told if isinstance(told, str) else arguments_form(told)}
    if result is not None or (step is not None and not step.running):
        return {**part, "state": "output-available", "output": output}
    return part


def tool_digest(called: dict[str, Any], what: str = "tool") -> bytes:
    """By what a tool's outcome is known in another trace: its id; where none is told, what was asked."""
    call_id, name = called.get("toolCallId"), mended(called.get("toolName"))
    key = mended(call_id) if call_id else f"\0{name}\0{arguments_form(called.get('input'))}"
    return sha256(f"{what}\0{key}".encode()).digest()


def open_call(tool: bytes, trace_id: str) -> bytes:
    """What a trace tells that leaves a tool's call open: which call, and which trace."""
    return tool[:_HALF] + trace_id.encode()


def left_open(tools: set[bytes], told: Iterable[bytes]) -> set[str]:
    """The traces that left calls of these tools open, as others tell their outcomes."""
    wanted = {tool[:_HALF] for tool in tools}
    known = [digest for digest in told if digest[:_HALF] in wanted and digest not in tools]
    return {digest[_HALF:].decode("utf-8", "replace") for digest in known}
