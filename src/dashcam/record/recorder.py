"""Recording a chat session: by hand, or from the chunks of an AI SDK stream.

    with dashcam.record_session("chat-42", agent="support", model="anthropic:claude-sonnet-4-5") as chat:
        chat.user("Where is order 7?")
        call = chat.tool_call("lookup", {"order": 7})
        chat.tool_result(call, {"state": "shipped"})
        chat.assistant("It is on its way.", usage={"input": 900, "output": 12})

Every row, event and span goes to the journal as it happens. Trouble of ours never reaches the host.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from dashcam.contracts.chat import COMPACTION, SESSION, Usage
from dashcam.dialects.chunks import chunk_of
from dashcam.dialects.usage import usage_from
from dashcam.errors import SettingsError
from dashcam.record import prices, wire
from dashcam.record.answer import Answer
from dashcam.record.attach import attachment, reference
from dashcam.record.calls import Calls, Request
from dashcam.record.conversation import Conversation
from dashcam.record.guard import fails_open
from dashcam.record.lines import Lines, OpenSpan
from dashcam.record.messages import MessageRows, Native
from dashcam.record.options import (
    ModelName,
    Rule,
    check_request,
    message_of,
    model_of,
    rule_of,
    rules_of,
    settings_of,
    text_of,
    trace_for,
)
from dashcam.record.parts import scrubbed
from dashcam.record.reply import Reply
from dashcam.record.saving import Saving
from dashcam.record.tools_run import ToolsRun
from dashcam.sdk.ids import new_id, now_ms
from dashcam.sdk.trace import Trace

Handed = Mapping[str, Any] | str | bytes | Request


class SessionRecorder:
    """Records one session: `with dashcam.record_session("chat-42", agent="support") as chat:`.

    Without a session id, that of the current trace is used, or one is minted. Safe to use from several threads;
    what is told after `close()` begins another run of the same session.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        agent: str = "agent",
        model: ModelName | None = None,
        system_prompt: str | None = None,
        tools: Sequence[Any] | str | None = None,
        settings: Mapping[str, Any] | None = None,
        permissions: Sequence[Rule] = (),
        workspace_root: str | Path | None = None,
        metadata: Mapping[str, Any] | None = None,
        parent_id: str | None = None,
        parent_message_id: str | None = None,
        kind: str = "user",
        trace: Trace | None = None,
        saving: Saving | None = None,
    ) -> None:
        minted, self._created_at = new_id(SESSION)
        self.trace = trace or trace_for(session_id, minted, kind)
        self.id = self.trace.session_id
        self.agent, self.model = agent, model_of(model)
        self.system_prompt, self.tools = system_prompt, tools
        self.settings: dict[str, Any] = settings_of(settings)
        rules = rules_of(permissions)
        self.saving = saving or Saving()
        self._parents = {"parent_id": parent_id, "parent_message_id": parent_message_id}
        self._workspace = None if workspace_root is None else str(workspace_root)
        self._metadata = dict(metadata or {})
        self._turn: OpenSpan | None = None
        self._answer: Answer | None = None
        self._native: Native | None = None  # of the message that waits for its answer
        self._turns = 0
        self._archived_at: int | None = None
        self._is_closed = False
        self.lines = Lines(self.trace)
        self.calls = Calls(self.lines)
        self.conversation = Conversation(self.calls)
        self.tools_run = ToolsRun(self.lines, rules)
        self._messages = MessageRows(self.lines)
        self._run = self._begin()

    @property
    def lock(self) -> threading.RLock:
        return self.lines.lock

    @fails_open
    def _begin(self) -> OpenSpan:
        prices.warm()
        self._write_session()
        named = {"model_id": self.model.model_id, "provider_id": self.model.provider_id}
        run = self.lines.span("session.run", {"agent": self.agent, **named})
        self.lines.inside(run)
        return run

    # What the host tells

    @fails_open
    def user(
        self,
        text: str | None = None,
        *,
        parts: Iterable[Mapping[str, Any]] = (),
        attachments: Iterable[Any] = (),
        references: Iterable[str | Path] = (),
        metadata: Mapping[str, Any] | None = None,
        native: Native | None = None,
    ) -> str:
        """A user's message, stored before it reaches the model; return its id.

        `attachments` are paths, or (name, bytes) or (name, bytes, media type): their bytes are kept.
        `references` are paths of which path, size and digest are kept. `parts` are AI SDK parts as they are.
        `native` is how the host's own records know the message, if another process may tell it again.
        """
        data: list[dict[str, Any]] = [] if text is None else [{"type": "text", "text": text_of(text)}]
        data += [dict(part) for part in parts]
        data += [*map(attachment, attachments), *map(reference, references)]
        with self.lock:
            self.end_turn()
            self._turns += 1
            self._turn = self._begin_turn()
            message_id = self._messages.add("user", data, metadata, len(self.conversation), native)
            self._native = native
            self.lines.event("request_received", {"channel": "chat", "message_id": message_id})
            self.conversation.say(wire.user_message(data))
            return message_id

    @fails_open
    def system(self, text: str) -> str:
        """A message from the host itself, e.g. a notice; not the system prompt, which belongs to the model call."""
        with self.lock:
            at = len(self.conversation)
            self.conversation.say({"role": "system", "content": text})
            return self._messages.add("system", [{"type": "text", "text": text}], None, at)

    @fails_open
    def assistant(
        self,
        text: str | None = None,
        *,
        reasoning: str | None = None,
        request: Handed | None = None,
        system_prompt: str | None = None,
        tools: Any = None,
        settings: Mapping[str, Any] | None = None,
        model: ModelName | None = None,
        stop_reason: str | None = None,
        **facts: Any,
    ) -> Reply:
        """What the model says: whole, or piece by piece on the Reply that this returns.

        One call is one request to the model. `request` is that request as it was sent, if you have it
        (messages, tools, system, settings). `facts`: usage, cost_usd, first_token_ms, latency_ms,
        response_id, error.
        """
        check_request(request)
        with self.lock:
            self._set(model=model, system_prompt=system_prompt, tools=tools, settings=settings)
            answer = self._open_answer()
            if answer.has_spoken:
                answer.end_step()
            step = answer.step(self._handed(request), is_timed=text is None)
            step.facts |= {"model": self.model, **facts}
            step.is_told = text is not None
            if reasoning is not None:
                answer.put({"type": "reasoning", "text": reasoning, "state": "done"})
            if text is not None:
                answer.put({"type": "text", "text": text_of(text), "state": "done"})
                if stop_reason:
                    answer.finish(stop_reason)
                elif not answer.is_pending:
                    answer.rest()
            return Reply(self)

    @fails_open
    def tool_call(
        self,
        tool: str,
        input: Any = None,
        *,
        tool_call_id: str | None = None,
        state: str = "input-available",
        permission: Rule | None = None,
    ) -> str:
        """The model calls a tool; return the call's id. `permission` is the rule that let it."""
        rule = None if permission is None else rule_of(permission)  # before anything is written
        with self.lock:
            call_id = tool_call_id or f"call_{new_id('')[0]}"
            answer = self._open_answer()
            answer.step()
            answer.reopen()
            answer.put({"type": f"tool-{tool}", "toolCallId": call_id, "state": state, "input": input})
            if rule is not None:
                self.decide(call_id, tool, rule.action, rule=rule)
            return call_id

    @fails_open
    def tool_result(
        self,
        tool_call_id: str,
        output: Any = None,
        *,
        error: str | None = None,
        denied: str | bool = False,
        preliminary: bool = False,
    ) -> None:
        """What became of a tool call: its output, its `error`, or that it was `denied` (and why)."""
        with self.lock:
            answer = self._open_answer()
            if not preliminary:
                answer.end_step()
            outcome: dict[str, Any] = {"type": "tool-output-available", "toolCallId": tool_call_id, "output": output}
            if preliminary:
                outcome["preliminary"] = True
            if error is not None:
                outcome = {"type": "tool-output-error", "toolCallId": tool_call_id, "errorText": error}
            elif denied:
                outcome = {"type": "tool-output-denied", "toolCallId": tool_call_id}
                if isinstance(denied, str):
                    answer.feed(
                        {
                            "type": "tool-approval-response",
                            "approvalId": f"deny-{tool_call_id}",
                            "toolCallId": tool_call_id,
                            "approved": False,
                            "reason": denied,
                        }
                    )
            answer.feed(outcome)

    @fails_open
    def chunk(self, chunk: Any) -> None:
        """One chunk of an AI SDK v6 stream: an object, its JSON, or its SSE line."""
        with self.lock:
            decoded = chunk_of(chunk)
            if decoded is not None:
                self._open_answer().feed(decoded)

    def watch(self, stream: Any) -> Any:
        """The same stream, recorded as it passes: `for chunk in chat.watch(stream)`, or `async for`."""
        return self._watch_async(stream) if hasattr(stream, "__aiter__") else self._watch(stream)

    def _watch(self, stream: Iterable[Any]) -> Any:
        for chunk in stream:
            self.chunk(chunk)
            yield chunk

    async def _watch_async(self, stream: Any) -> Any:
        async for chunk in stream:
            self.chunk(chunk)
            yield chunk

    @fails_open
    def begin_step(self, request: Handed | None = None, *, is_streamed: bool = True, **facts: Any) -> None:
        """The model is about to be asked: with this request, or with the conversation as it was recorded.

        `is_streamed`: the answer comes bit by bit, so that its first bit can be timed.
        """
        with self.lock:
            answer = self._open_answer()
            answer.end_step()
            step = answer.step(self._handed(request), is_timed=True)
            step.is_streamed = is_streamed
            step.facts |= {"model": self.model, **facts}

    @fails_open
    def end_step(self, **facts: Any) -> None:
        """The model has answered: `usage`, `stop_reason` and what else is known of the call."""
        with self.lock:
            if self._answer:
                self._answer.end_step(**facts)
                if not self._answer.is_pending:
                    self._answer.rest(facts.get("stop_reason"))

    @fails_open
    def rest(self, stop_reason: str = "stop") -> None:
        """The answer is complete as it stands, though it may go on: a tool call in it is the answer itself, say."""
        with self.lock:
            if self._answer:
                self._answer.rest(stop_reason)

    @fails_open
    def decide(
        self,
        tool_call_id: str,
        tool: str,
        action: str,
        *,
        rule: Rule | None = None,
        reason: str | None = None,
    ) -> None:
        """A permission was evaluated for a tool call: the action, the rule that decided, and all rules in force."""
        with self.lock:
            self.tools_run.decide(tool_call_id, tool, action, rule, reason, self._turn)

    @fails_open
    def compaction(
        self,
        summary: str,
        *,
        tail_start_id: str | None = None,
        auto: bool = True,
        summarized: int | None = None,
        usage: Any = None,
    ) -> str:
        """The conversation so far is folded into a summary. The log stays complete; return the message's id."""
        with self.lock:
            counts = usage_from(usage) or Usage()
            known = self._messages.rows.get(tail_start_id or "")
            tail = len(self.conversation) if known is None else known.at
            span = self.lines.span("compaction.run", {}, self._turn)
            data = {"summary": summary, "tail_start_id": tail_start_id, "auto": auto, "summary_tokens": counts.output}
            told: dict[str, Any] = {"stop_reason": "stop", "trigger": "compaction"}
            if usage is not None:
                told["usage"] = msgspec.to_builtins(counts)
                cost = self.price(counts)
                told |= {} if cost is None else {"cost_usd": cost}
            message_id = self._messages.add("assistant", [{"type": COMPACTION, "data": data}], told, tail)
            self.conversation.fold(summary, tail)
            fields = {"summarized_message_count": tail if summarized is None else summarized}
            span.end({**fields, "input_tokens": counts.context, "output_tokens": counts.output})
            return message_id

    @fails_open
    def rewind(self, message_id: str) -> int:
        """Back to just before this user message: it and all after it are hidden, never deleted; return how many."""
        with self.lock:
            self.end_turn("abort")
            if message_id not in self._messages.rows:
                raise SettingsError(
                    f"No message {message_id!r:.60} was recorded here. Rewind to an id that user() gave."
                )
            self.conversation.cut(self._messages.rows[message_id].at)
            return self._messages.hide_from(message_id)

    @fails_open
    def end_turn(self, stop_reason: str | None = None, error: BaseException | None = None) -> None:
        """The turn is over; without a reason, because the model had no more to say."""
        with self.lock:
            answer, self._answer = self._answer, None
            turn, self._turn = self._turn, None
            failure = None if error is None else {"type": type(error).__qualname__, "message": message_of(error)}
            if answer:
                if answer.is_pending and not (stop_reason or failure):
                    failure = {"type": "unfinished", "message": "The turn ended before its tool calls did."}
                if answer.is_open or stop_reason or failure:
                    answer.finish(stop_reason or ("error" if failure else "stop"), failure)
                answer.close()
            if turn:
                reason = answer.metadata.get("stop_reason") if answer else stop_reason or "no answer"
                told = {"turn_index": self._turns, "stop_reason": reason, "tokens": answer.usage if answer else {}}
                if answer:
                    said = {"stop_reason": str(reason), "latency_ms": turn.elapsed_ms, "message_id": answer.id}
                    self.lines.event("reply_ready", said)
                turn.end(told, failure or (answer.metadata.get("error") if answer else None))
                self.lines.inside(self._run)

    def abort(self, reason: str = "abort") -> None:
        """The user stopped the turn: what there is stays as it is."""
        self.end_turn(reason)

    @fails_open
    def archive(self) -> None:
        """Leave the session out of lists, unless they ask for archived ones; nothing is deleted."""
        with self.lock:
            self._archived_at = now_ms()
            self._write_session()

    @fails_open
    def close(self, error: BaseException | None = None) -> None:
        """End the turn and the run. The session itself may go on later, in this process or another."""
        with self.lock:
            if self._is_closed:
                return
            self.end_turn("error" if error else None, error)
            self._is_closed = True
            self._write_session()
            named = {"model_id": self.model.model_id, "provider_id": self.model.provider_id, "turns": self._turns}
            self._run.end({"agent": self.agent, **named})
            self.lines.close()

    def __enter__(self) -> SessionRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(error)

    # What the answer in the making asks for

    def request(self) -> Request | None:
        """The request that follows from the conversation; None where requests are handed over."""
        return self.conversation.request(self.system_prompt, self.tools, self.settings)

    def price(self, usage: Usage) -> float | None:
        return prices.cost_of(self.model.provider_id or None, self.model.model_id, usage)

    def write_answer(self, answer: Answer, metadata: dict[str, Any]) -> None:
        self._messages.put(answer.id, "assistant", metadata, answer.created_at, len(self.conversation))

    # Rows

    def _write_session(self) -> None:
        row = {
            "agent": self.agent,
            "workspace_root": self._workspace,
            "model": self.model,
            "permissions": self.tools_run.rules,
            "metadata": {**scrubbed(self._metadata), "kind": self.trace.kind},
            "created_at": self._created_at,
            "updated_at": now_ms(),
            "archived_at": self._archived_at,
            **self._parents,
        }
        self.lines.row("chat.session", {name: value for name, value in row.items() if value is not None})

    def _begin_turn(self) -> OpenSpan:
        if self._is_closed:  # it goes on after all
            self._is_closed = False
            self.lines.open()
            self._run = self._begin()
        turn = self.lines.span("session.turn", {"turn_index": self._turns}, self._run)
        self.lines.inside(turn)
        return turn

    def _open_answer(self) -> Answer:
        if self._answer is None:
            if self._turn is None:
                self._turns += 1
                self._turn = self._begin_turn()
            native, self._native = self._native, None  # a turn that goes on after its end has another answer
            self._answer = Answer(self, self._turn, self._answer_metadata(), native.answer if native else None)
        return self._answer

    def _answer_metadata(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "model": {**msgspec.to_builtins(self.model), **scrubbed(self.settings)},
            "agent": self.agent,
            "trace_id": self.trace.trace_id,
            "step": self.lines.trace.step,
        }
        if self.tools_run.rules:
            told["permissions"] = self.tools_run.rules
        return told

    def _handed(self, request: Handed | None) -> Request | None:
        return None if request is None else self.conversation.hand_over(request)

    def _set(self, *, model: Any, system_prompt: Any, tools: Any, settings: Any) -> None:
        """From here on, as told; a model that was switched is the session's latest."""
        if system_prompt is not None:
            self.system_prompt = system_prompt
        if tools is not None:
            self.tools = tools
        if settings is not None:
            self.settings = settings_of(settings)
        if model is not None and model_of(model) != self.model:
            self.model = model_of(model)
            self._write_session()
        if self._answer:
            self._answer.metadata["model"] = {**msgspec.to_builtins(self.model), **scrubbed(self.settings)}


record_session = SessionRecorder  # a verb for what one does with it
