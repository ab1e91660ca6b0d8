"""A turn as it is run again: ask the model, answer its tool calls, until it has no more to say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec
from pydantic_ai import direct
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model

from dashcam.contracts import chat as contracts
from dashcam.host import written
from dashcam.host.models import BrokenOff, Played, parameters_from, settings_from
from dashcam.host.tools import Tools
from dashcam.host.written import Outcome
from dashcam.record.calls import Request, Sent
from dashcam.record.options import message_of
from dashcam.record.pydantic_messages import answer_chunks, jsonable, stop_reason_of
from dashcam.record.recorder import SessionRecorder
from dashcam.sdk.trace import use_trace
from dashcam.views import replay
from dashcam.views.parts import ToolPart
from dashcam.views.replay import Inputs, Match, Matcher, Overrides

MAX_STEPS = 50
TOOL_SECONDS = 60.0

Tell = Callable[[str, Any], None]

MAX_CALLS = 1_000  # of one answer


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn is run again. Without `tools` none is run, whatever the model calls."""

    changes: Overrides = Overrides()
    model: Any = None  # a Pydantic AI model, instead of one by name
    tools: Tools | None = None
    tool_timeout: float = TOOL_SECONDS
    max_steps: int = MAX_STEPS
    tell: Tell | None = None  # of each request and each piece of an answer


class CallReport(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call of the new run, beside the recording."""

    tool: str
    tool_call_id: str
    input: Any
    outcome: replay.Outcome
    answered_by: Literal["recording", "tool"] | None = None
    recorded_id: str | None = None  # the recorded call whose outcome it got
    output: Any = None
    error: str | None = None


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a recorded turn ended, and after how many answers: played back, it goes no further."""

    steps: int
    stop_reason: str | None = None
    error: str | None = None


class TurnRun:
    """The turn as it is run again, one request after the other."""

    def __init__(
        self,
        inputs: Inputs,
        messages: Sequence[ModelMessage],
        options: Options,
        model: Model,
        chat: SessionRecorder,
        matcher: Matcher,
        ending: Ending | None = None,
    ) -> None:
        self._inputs, self._options, self._model, self._chat = inputs, options, model, chat
        self._matcher, self._ending = matcher, ending
        self._style = written.style_of(inputs)
        self._messages = list(messages)
        self._bodies: list[Sent] = [chat.calls.message(body) for body in inputs.messages]
        self._settings, _ = settings_from(inputs.settings, options.changes.given)
        self._parameters, _ = parameters_from(inputs.tool_catalog, inputs.settings)
        if inputs.instructions:
            self._parameters.instruction_parts = [InstructionPart(inputs.instructions)]
        self._told = 0
        self.calls: list[CallReport] = []
        self.steps = 0
        self.stopped: str | None = None
        self.failed = False

    async def turn(self) -> None:
        """Ask until the model has no more to say, or nobody can answer what it calls."""
        try:
            reason = await self._until_the_end()
        except BrokenOff as broken:
            self._fail(broken)
            self._chat.end_step(error=str(broken))
            self._end("error")
        except Exception as error:  # of the model or its provider, or something odd in what they said
            self._fail(error)
            self._chat.end_turn("error", error)
        else:
            self._end(reason)

    def _fail(self, error: Exception) -> None:
        self.stopped, self.failed = f"the model failed: {message_of(error) or type(error).__name__}", True

    def _end(self, reason: str) -> None:
        """End for this reason; what was played back to its end, as the original did."""
        ending = self._ending
        if ending and self._is_over:
            reason = ending.stop_reason or reason
            if ending.error:
                self.stopped = self.stopped if self.failed else f"the turn failed, as it had then: {ending.error}"
                self._chat.chunk({"type": "error", "errorText": ending.error})
        self._chat.end_turn(reason)

    @property
    def _is_over(self) -> bool:
        """Whether all that was recorded has been played back."""
        return self._ending is not None and self.steps >= self._ending.steps

    async def _until_the_end(self) -> str:
        """Run it; return why the turn is to end."""
        outputs = {tool.name for tool in self._parameters.output_tools}
        while self.steps < self._options.max_steps:
            if self._is_over:
                return "abort"
            response = await self._ask()
            called = [part for part in response.parts if isinstance(part, ToolCallPart)]
            calls = [part for part in called if part.tool_name not in outputs]
            if len(calls) > MAX_CALLS:
                self.stopped = f"{len(calls)} tool calls in one answer; more than {MAX_CALLS} are never run"
                return "abort"
            if not calls:
                # A call of an output tool is the answer itself: nobody settles it.
                return "stop" if called else stop_reason_of(response)
            answers = [answer for call in calls if (answer := self._answer(call))]
            if len(answers) < len(calls):
                return "abort"
            self._go_on(response, answers)
        self.stopped = f"{self.steps} requests to the model, and no end; allow more with --max-steps"
        return "abort"

    async def _ask(self) -> ModelResponse:
        self.steps += 1
        self._chat.begin_step(self._request())
        given: dict[str, Any] = {"model_settings": self._settings, "model_request_parameters": self._parameters}
        try:
            if self._options.tell is None:
                response = await direct.model_request(self._model, self._messages, **given)
            else:
                response = await self._stream(self._options.tell, given)
        except BrokenOff as broken:
            self._say(broken.said, is_cut=broken.is_cut)
            raise
        self._say(response.parts)
        said = written.said(self._style, response)
        self._chat.end_step(stop_reason=stop_reason_of(response), output=said, **self._spent(response))
        return response

    def _say(self, parts: Iterable[ModelResponsePart], *, is_cut: bool = False) -> None:
        """Record an answer; one that was cut lacks the end of its last part."""
        chunks = list(answer_chunks(parts, f"{self.steps}-"))
        for chunk in chunks[:-1] if is_cut else chunks:
            self._chat.chunk(chunk)

    def _spent(self, response: ModelResponse) -> dict[str, Any]:
        """Who answered, and for how much; nothing is known of what was only played."""
        if isinstance(self._model, Played):
            return {}
        cost = getattr(response.usage, "cost", None)
        return {
            "model": contracts.Model(
                provider_id=response.provider_name or self._model.system,
                model_id=response.model_name or self._model.model_name,
            ),
            "usage": response.usage if response.usage.has_values() else None,
            "cost_usd": None if cost is None else float(cost),
            "response_id": response.provider_response_id,
        }

    async def _stream(self, tell: Tell, given: dict[str, Any]) -> ModelResponse:
        """The same, told piece by piece."""
        tell(f"request {self.steps}", self._told_request())
        async with direct.model_request_stream(self._model, self._messages, **given) as stream:
            async for event in stream:
                if event.event_kind in ("part_start", "part_delta"):
                    tell(event.event_kind, _without_nulls(jsonable(event)))
            return stream.get()

    def _told_request(self) -> dict[str, Any]:
        """What is sent; of later requests only what the one before didn't have."""
        told = {"new_messages": _without_nulls(jsonable(self._messages[self._told :])), "known_messages": self._told}
        if not self._told:
            told |= {"instructions": self._inputs.instructions, "settings": dict(self._settings)}
            told["tools"] = [tool.name for tool in (*self._parameters.function_tools, *self._parameters.output_tools)]
        self._told = len(self._messages)
        return told

    def _request(self) -> Request:
        """The request to be made, recorded in the form that the session has."""
        catalog = self._inputs.tool_catalog
        return self._chat.calls.request(
            self._bodies,
            prompt=self._inputs.system_prompt,
            tools=None if catalog is None else catalog.encode(),
            settings=self._inputs.settings,
            wire=self._inputs.wire,
            prompt_is_sent=self._inputs.instructions is not None,
        )

    def _go_on(self, response: ModelResponse, answers: list[Outcome]) -> None:
        self._messages += [response, ModelRequest([returned for _, returned in answers])]
        new = [written.said(self._style, response), *written.answered(self._style, answers)]
        self._bodies += [self._chat.calls.message(message) for message in new]

    # Tools

    def _answer(self, call: ToolCallPart) -> Outcome | None:
        """The outcome of a tool call, as a part of the chat and as the model gets it; None where there is none."""
        given = written.input_of(call)
        match = self._matcher.match(call.tool_name, given)
        told = recorded_outcome(match.recorded)
        by: Literal["recording", "tool"] = "recording" if told else "tool"
        told = told or self._run_tool(call.tool_name, given)
        report: dict[str, Any] = {"tool": call.tool_name, "tool_call_id": call.tool_call_id, "input": given}
        report |= {"outcome": match.outcome, "recorded_id": match.recorded.tool_call_id if match.recorded else None}
        if told is None:
            self.calls.append(CallReport(**report))
            self.stopped = self.stopped or self._why_unanswered(call.tool_name, match)
            return None
        kind, value = told
        named = {"output": value} if kind == "output" else {"error": str(value)}
        self.calls.append(CallReport(**report, answered_by=by, **named))
        self._chat.tool_result(call.tool_call_id, **{kind: value})
        return _part(call, kind, value), _returned(call, kind, value)

    def _run_tool(self, tool: str, given: Any) -> tuple[str, Any] | None:
        tools = self._options.tools
        if tools is None or tool not in tools:
            return None
        with use_trace(self._chat.lines.trace):
            ran = tools.run(tool, given, self._options.tool_timeout)
        return ("output", ran.output) if ran.error is None else ("error", ran.error)

    def _why_unanswered(self, tool: str, match: Match) -> str:
        what = "not recorded" if match.outcome == "miss" else "not recorded with this input"
        if self._options.tools is None:
            return f"tool {tool} {what}; run it with --run-tools --tools module:name"
        return f"tool {tool} {what}, and not among those named: {', '.join(self._options.tools.names)}"


def recorded_outcome(call: ToolPart | None) -> tuple[str, Any] | None:
    """What became of a recorded call, by the name under which `tool_result` takes it; None where nobody told."""
    if call is None or not replay.has_outcome(call):
        return None
    if call.state == "output-denied":
        return "denied", call.error or "The tool call was denied."
    return ("error", call.error or "failed") if call.state == "output-error" else ("output", call.output)


def _part(call: ToolCallPart, kind: str, value: Any) -> dict[str, Any]:
    """A call with its outcome, as a part of the chat."""
    outcome: dict[str, Any] = {"state": "output-available", "output": value}
    if kind == "error":
        outcome = {"state": "output-error", "errorText": value}
    elif kind == "denied":
        outcome = {"state": "output-denied", "approval": {"approved": False, "reason": value}}
    return {**written.part_of_call(call), **outcome}


def _returned(call: ToolCallPart, kind: str, value: Any) -> ToolReturnPart:
    outcomes: dict[str, Literal["success", "failed", "denied"]] = {"error": "failed", "denied": "denied"}
    return ToolReturnPart(call.tool_name, value, call.tool_call_id, outcome=outcomes.get(kind, "success"))


def _without_nulls(value: Any) -> Any:
    """What somebody reads: fields that hold nothing tell nothing."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each not in (None, {}, [])}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
