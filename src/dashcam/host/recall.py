"""One recorded tool call made again, with the same input and no model: does its error reproduce?"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from dashcam.errors import NotFound
from dashcam.host.replay import recording
from dashcam.host.runs import KIND, Run, append
from dashcam.host.tools import Ran, Tools
from dashcam.host.turn import TOOL_SECONDS, recorded_outcome
from dashcam.sdk.redaction.sieve import REDACTED
from dashcam.sdk.settings import Settings
from dashcam.sdk.trace import Trace, new_trace, use_trace
from dashcam.store.base import Reader
from dashcam.views import replay
from dashcam.views.parts import ToolPart


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded tool call and the same call now."""

    session_id: str
    tool: str
    tool_call_id: str
    input: Any
    state: str | None  # as recorded
    exact: bool  # nothing was taken out of its input
    old: Ran | None  # None: it had no outcome
    new: Ran
    equal: bool


def run(
    settings: Settings, store: Reader, session_id: str, call_id: str, tools: Tools, timeout: float = TOOL_SECONDS
) -> Recalled:
    """Call the tool again; raises NotFound where there is no such call, or no such tool among `tools`."""
    call = _find(store, session_id, call_id)
    if call.tool not in tools:
        named = ", ".join(tools.names)
        raise NotFound(f"{call.tool!r:.80} is not among the tools that --tools names: {named}. Name one that has it.")
    began = time.monotonic()
    trace = new_trace(session_id, kind=KIND)
    with recording(settings), use_trace(trace):
        new = tools.run(call.tool, call.input, timeout)
    duration_ms = (time.monotonic() - began) * 1000
    told = recorded_outcome(call)
    old = None if told is None else Ran(output=told[1]) if told[0] == "output" else Ran(error=str(told[1]))
    report = Recalled(
        session_id=session_id,
        tool=call.tool,
        tool_call_id=call_id,
        input=call.input,
        state=call.state,
        exact=REDACTED.encode() not in replay.key_of(call.tool, call.input),
        old=old,
        new=new,
        equal=old is not None and _same(old, new),
    )
    append(settings, _original(store, call, session_id, trace), _run_of(report, duration_ms))
    return report


def _find(store: Reader, session_id: str, call_id: str) -> ToolPart:
    store.chat_session(session_id)
    found = None
    for part in replay.tool_parts(store, session_id):
        found = part if part.tool_call_id == call_id else found
    if found is None:
        raise NotFound(
            f"Session {session_id!r} has no tool call {call_id!r:.80}. See them with: dashcam show {session_id} --json"
        )
    if found.state == "input-streaming":
        raise NotFound(f"The tool call {call_id!r:.80} has no input: it was broken off. Choose one that was made.")
    return found


def _same(old: Ran, new: Ran) -> bool:
    if old.error is None or new.error is None:
        return old.error == new.error and replay.key_of("", old.output) == replay.key_of("", new.output)
    return old.error in (new.error, new.error.partition(": ")[2])  # hosts tell errors with their type, or without


def _original(store: Reader, call: ToolPart, session_id: str, otherwise: Trace) -> Trace:
    """The trace and step of the message that made the call."""
    for message in store.chat_messages(session_id):
        if message.id == call.message_id:
            told = message.metadata()
            trace_id, step = told.get("trace_id"), told.get("step")
            if isinstance(trace_id, str) and isinstance(step, int):
                return Trace(session_id, trace_id, step)
    return otherwise


def _run_of(report: Recalled, duration_ms: float) -> Run:
    return Run(
        tool_call_id=report.tool_call_id,
        exact=report.exact,
        equal=report.equal,
        duration_ms=duration_ms,
    )
