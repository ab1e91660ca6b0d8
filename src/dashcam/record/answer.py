"""An assistant's message in the making: its parts, its steps, its usage, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from dashcam.contracts.chat import MESSAGE, USAGE, Model, Usage, tool_name_of
from dashcam.dialects.usage import usage_from
from dashcam.record import wire
from dashcam.record.assemble import Assembler
from dashcam.record.calls import Request
from dashcam.record.lines import OpenSpan
from dashcam.record.messages import Native
from dashcam.record.part import Began, Change, Changed, Ended, Failed, Grew, Odd, Part, StepBegan, StepEnded, Told
from dashcam.record.parts import GROWING, PartWriter, scrubbed
from dashcam.sdk import mint
from dashcam.sdk.ids import new_id

if TYPE_CHECKING:
    from dashcam.record.session import Session

_OUTCOMES = {"output-available": "tool_call_completed", "output-error": "tool_call_failed"}
TOLD_SECONDS = 0.2
MAX_ODD = 20  # remarks on a message; what is odd comes in thousands


class Step:
    """One request to a model, and what it has answered so far."""

    def __init__(self, request: Request | None, is_timed: bool) -> None:
        self.request = request
        self.is_streamed = True
        self.is_timed = is_timed  # whether it began when the model was asked; what is told afterwards has no clock
        self.began_ns = mint.source().monotonic_ns()
        self.first_ms: float | None = None
        self.parts: list[Part] = []
        self.facts: dict[str, Any] = {}  # what the caller said of it: usage, stop_reason, response_id …
        self.said: dict[str, Any] = {}
        self.latency_ms: float | None = None
        self.is_told = False  # whether the text was given as a whole, so that another begins another step

    def elapsed_ms(self) -> float:
        return (mint.source().monotonic_ns() - self.began_ns) / 1e6


class Answer:
    """Follows one assistant message from its first chunk to its end."""

    def __init__(
        self, session: Session, turn: OpenSpan, metadata: Mapping[str, Any], native: Native | None = None
    ) -> None:
        self._session, self._turn = session, turn
        self.id, self.created_at = native.id_in(session.id) if native else new_id(MESSAGE)
        self.metadata: dict[str, Any] = dict(metadata)
        self.parts: list[Part] = []
        self._assembler = Assembler()
        self._writer = PartWriter(session.lines, self.id, session.saving, self.created_at if native else None)
        self._called: set[str] = set()
        self._tools: dict[str, OpenSpan] = {}  # those under way
        self._outcomes: list[Part] = []  # since the last step: what the next request brings along
        self._step: Step | None = None
        self._late: Step | None = None  # one that has ended, and whose usage may come with the next chunk
        self._told_steps = 0
        self._usage: Usage | None = None  # the sum over the steps
        self._total: Usage | None = None  # what the stream tells of the whole
        self._told_usage: Any = None
        self._told_at = 0.0
        self._costs: list[float | None] = []  # of the steps that cost something; None: nobody knows what
        self._odd: list[str] = []
        self.save()

    # What comes in

    def feed(self, chunk: Any) -> None:
        """One chunk of an AI SDK stream."""
        for change in self._assembler.feed(chunk):
            self._apply(change)

    def put(self, data: dict[str, Any]) -> Part | None:
        """A whole part, as a UIMessage has it; for a tool call that is known, its next state."""
        part = None
        for change in self._assembler.part(data):
            self._apply(change)
            if isinstance(change, Began | Changed):
                part = change.part
        return part

    def step(self, request: Request | None = None, *, is_timed: bool = False) -> Step:
        """The step that is under way; a new one where none is."""
        if self._step is None:
            self._tell_outcomes()
            self._step = step = Step(request or self._session.request(), is_timed)
            for ended in ("stop_reason", "error"):  # it goes on: a failed request was made again, say
                self.metadata.pop(ended, None)
            if step.request:
                model = self._session.model_of(step.request)
                self.metadata |= {**_digests(step.request), "model": _model_told(model, step.request)}
                if is_timed:
                    step.facts["request_step"] = self._session.calls.ask(step.request, model, self.id)
            self.save()
        return self._step

    def knows(self, tool_call_id: str) -> bool:
        return any(part.tool_call_id == tool_call_id for part in self.parts)

    def remark(self, what: str) -> None:
        """Note what was strange."""
        if len(self._odd) < MAX_ODD:
            self._odd.append(what)

    @property
    def has_spoken(self) -> bool:
        """Whether the step under way was told as a whole: then another text is another step."""
        return self._step is not None and self._step.is_told

    @property
    def is_pending(self) -> bool:
        """Whether a tool call has no outcome yet."""
        return bool(self._tools)

    @property
    def cut_off(self) -> str | None:
        """Why it is not complete, if nobody says that it is."""
        if self._tools:
            return "The turn ended before its tool calls did."
        if any(part.get("state") in GROWING for part in self.parts):
            return "The stream ended before the answer did."
        if self._step is not None and self._step.is_timed and not self._step.parts:
            return "The model was asked, and no answer was told."
        return None

    @property
    def is_open(self) -> bool:
        return "stop_reason" not in self.metadata

    # Changes

    def _apply(self, change: Change) -> None:
        match change:
            case Grew(part=part, text=text):
                self._note(part)
                self._writer.grow(part, text)
            case Began(part=part):
                self.parts.append(part)
                self._note(part)
                self._writer.put(part)
                self._follow(part)
            case Changed(part=part):
                self._writer.put(part)
                self._follow(part)
            case StepBegan():
                self.end_step()
                self.step(is_timed=True)
            case StepEnded(usage=usage, finish_reason=reason):
                self._close_step(usage=usage, stop_reason=reason)
                if self._late and usage:
                    self._tell_late()
            case Told(metadata=metadata):
                self._told(metadata)
            case Failed(error=error):
                self.finish("error", error={"type": "error", "message": error})
            case Ended(reason=reason, aborted=aborted):
                self.finish("abort" if aborted else reason or "stop")
            case Odd(what=what):
                self.remark(what)

    def _note(self, part: Part) -> None:
        """The part belongs to the step under way; its first one ends the wait for the model."""
        if part.type == "step-start" or (part.tool_state or "").startswith("output"):
            return
        if self._step and not self._step.is_timed and self._outcomes and part not in self._step.parts:
            self.end_step()  # nobody says where steps end: what follows the outcome of a tool is another
        step = self.step()
        if step.first_ms is None and step.is_timed and step.is_streamed:
            step.first_ms = step.elapsed_ms()
        if not any(known is part for known in reversed(step.parts)):
            step.parts.append(part)

    def _follow(self, part: Part) -> None:
        """Tell of a tool call when it is about to run, and of what became of it."""
        call_id, state = part.tool_call_id, part.tool_state
        if call_id is None or state in (None, "input-streaming"):
            return
        tool = tool_name_of(part.type, part.data) or part.type
        if call_id not in self._called:
            self._called.add(call_id)
            self._tools[call_id] = self._session.tools_run.begin(tool, call_id, self._turn, self.id)
        if not wire.has_outcome(part.data):
            return
        span = self._tools.pop(call_id, None)
        if span:
            self._outcomes.append(part)
            self._session.tools_run.end(tool, call_id, span, part.data)

    def _told(self, metadata: Mapping[str, Any]) -> None:
        """What a stream says about its message. A usage belongs to the step that has just ended, a total to the whole."""
        told = dict(metadata)
        usage, total = told.pop("usage", None), told.pop("totalUsage", None)
        if usage is not self._told_usage:
            self._told_usage = usage
            if self._late:
                self._late.facts["usage"] = usage
                self._tell_late()
            elif self._usage is None:
                total = total or usage
        self._total = usage_from(total) or self._total
        if told:
            self.metadata["message_metadata"] = told
        if time.monotonic() - self._told_at > TOLD_SECONDS:  # with every chunk it would be written again and again
            self._told_at = time.monotonic()
            self.save()

    # Ends

    def end_step(self, **facts: Any) -> None:
        """Close the step under way: one row of model_calls."""
        self._close_step(**facts)
        self._tell_late()

    def _close_step(self, **facts: Any) -> None:
        """The model has answered. What it said is known; its usage may come later."""
        self._tell_late()
        step, self._step = self._step, None
        if step is None:
            return
        step.facts |= {name: value for name, value in facts.items() if value is not None}
        step.latency_ms = step.elapsed_ms() if step.is_timed else None
        step.said = wire.assistant_message(part.data for part in step.parts)
        if step.said["content"]:
            self._session.conversation.say(step.said)
        self._writer.flush()
        self._late = step

    def _tell_late(self) -> None:
        """Tell of the step that has ended."""
        step, self._late = self._late, None
        if step is None:
            return
        told = dict(step.facts)
        model: Model = told.pop("model", None) or self._session.model_of(step.request)
        usage = usage_from(told.pop("usage", None))
        output = told.pop("output", None)
        cost = self._session.calls.tell(
            step.request,
            model=model,
            output=step.said if output is None and step.said["content"] else output,
            usage=usage,
            message_id=self.id,
            **{"first_token_ms": step.first_ms, "latency_ms": step.latency_ms, **told},
        )
        self._told_steps += 1
        if usage:
            self._usage = usage if self._usage is None else self._usage + usage
        if usage or cost is not None:
            self._costs.append(cost)
        self.save()

    def settle(self) -> None:
        """All that was said and answered so far goes into the conversation."""
        self.end_step()
        self._tell_outcomes()

    def finish(self, stop_reason: str, error: dict[str, str] | None = None) -> None:
        """The message is complete, as far as it goes: text where it stopped, tool calls in their last state."""
        failed = {"error": error["message"]} if error else {}
        late = self._step is None and self._late
        if late:
            late.facts.setdefault("stop_reason", stop_reason)
            if self._told_steps == 0 and self._total:  # the only step: the whole is its own
                late.facts.setdefault("usage", self._total)
        self.end_step(stop_reason=stop_reason, **failed)
        self._writer.flush()
        self._tell_outcomes()
        self.metadata["stop_reason"] = stop_reason
        if error:
            self.metadata["error"] = scrubbed(error)
        self.save()

    def rest(self, stop_reason: str | None = None) -> None:
        """Complete unless it goes on: a step that was told as a whole may still get its tool calls."""
        self.metadata["stop_reason"] = stop_reason or "stop"
        self.save()

    def close(self) -> None:
        """Nothing more will come: tool calls that have no outcome end here, as they are."""
        self.end_step(stop_reason=self.metadata.get("stop_reason"))
        cut_off = self.metadata.get("stop_reason") in ("abort", "error")
        error = {"type": "unfinished", "message": "The turn ended before the tool did."} if cut_off else None
        for span in self._tools.values():
            span.end({"unfinished": True}, error)
        self._tools.clear()

    def reopen(self) -> None:
        """It goes on after all: a tool is called, or the model asked again."""
        if self.metadata.pop("stop_reason", None) is not None:
            self.save()

    def save(self) -> None:
        """Write the message's row."""
        self._session.write_answer(self, self._row_metadata())

    def _row_metadata(self) -> dict[str, Any]:
        told = dict(self.metadata)
        usage, costs = self._usage, self._costs
        if self._total and (usage is None or self._total.total > usage.total):
            usage, costs = self._total, [self._session.price(self._total)]  # not every step has told its own
        if usage:
            told["usage"] = {name: getattr(usage, name) for name in USAGE}
        known = [cost for cost in costs if cost is not None]
        if known and len(known) == len(costs):  # what is known of a part would be too low for the whole
            told["cost_usd"] = sum(known)
        if self._odd:
            told["odd"] = self._odd
        return told

    @property
    def usage(self) -> dict[str, int]:
        counts: dict[str, int] = self._row_metadata().get("usage") or {}
        return {**counts, "total": sum(counts.values())} if counts else {}

    def _tell_outcomes(self) -> None:
        """What tools answered goes into the conversation before the model is asked again."""
        if self._outcomes:
            self._session.conversation.say(wire.tool_message(part.data for part in self._outcomes))
            self._outcomes = []


def _model_told(model: Model, request: Request) -> dict[str, Any]:
    """The model with the settings that it was asked with; what is long or nested stands in the call alone."""
    plain = {name: value for name, value in request.settings.items() if isinstance(value, int | float | str)}
    return {**msgspec.to_builtins(model), **{name: value for name, value in plain.items() if len(str(value)) <= 100}}


def _digests(request: Request) -> dict[str, str]:
    named = {"system_prompt_digest": request.prompt, "tool_catalog_digest": request.catalog}
    return {name: digest for name, digest in named.items() if digest}
