"""Recording a chat session: by hand, or from the chunks of an AI SDK stream.

    with dashcam.record_session("chat-42", agent="support", model="anthropic:claude-sonnet-4-5") as chat:
        chat.user("Where is order 7?")
        call = chat.tool_call("lookup", {"order": 7})
        chat.tool_result(call, {"state": "shipped"})
        chat.assistant("It is on its way.", usage={"input": 900, "output": 12})

Every row, event and span goes to the journal as it happens. Trouble of ours never reaches the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from dashcam.contracts.chat import COMPACTION, Usage
from dashcam.dialects.chunks import chunk_of
from dashcam.dialects.usage import usage_from
from dashcam.errors import SettingsError
from dashcam.record import wire
from dashcam.record.attach import attachment, reference
from dashcam.record.guard import fails_open
from dashcam.record.messages import Native
from dashcam.record.options import (
    ModelName,
    Rule,
    fault_of_request,
    rule_of,
    text_of,
)
from dashcam.record.reply import Reply
from dashcam.record.session import Handed, Session
from dashcam.sdk import emit
from dashcam.sdk.ids import new_id, now_ms


class SessionRecorder(Session):
    """Records one session: `with dashcam.record_session("chat-42", agent="support") as chat:`.

    Without a session id, that of the current trace is used, or one is minted. Safe to use from several threads;
    what is told after `close()` begins another run of the same session.
    """

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
            self._end_turn()
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
        fault = fault_of_request(request)
        if fault and emit.recorder().settings.strict:
            raise SettingsError(fault)
        with self.lock:
            self._set(model=model, system_prompt=system_prompt, tools=tools, settings=settings)
            answer = self._open_answer()
            if fault:  # the answer is worth keeping all the same
                request = None
                answer.remark(fault)
            if answer.has_spoken:
                answer.end_step()
            step = answer.step(self._handed(request), is_timed=text is None)
            step.facts |= {"model": self.model_of(step.request) if model is None else self.model, **facts}
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
            if answer.knows(call_id):  # its outcome came first: that stays
                answer.feed({"type": "tool-input-available", "toolCallId": call_id, "toolName": tool, "input": input})
            else:
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
        with self._noting_how_it_ends():
            for chunk in stream:
                self.chunk(chunk)
                yield chunk

    async def _watch_async(self, stream: Any) -> Any:
        with self._noting_how_it_ends():
            async for chunk in stream:
                self.chunk(chunk)
                yield chunk

    @contextmanager
    def _noting_how_it_ends(self) -> Iterator[None]:
        """A stream that breaks is the turn's error; one that nobody reads on was aborted."""
        try:
            yield
        except Exception as error:
            self.end_turn("error", error)
            raise
        except BaseException:  # the reader has gone, or was cancelled
            self.end_turn("abort")
            raise

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
            step.facts |= {"model": self.model_of(step.request), **facts}

    @fails_open
    def end_step(self, **facts: Any) -> None:
        """The model has answered: `usage`, `stop_reason` and what else is known of the call."""
        with self.lock:
            if self._answer:
                self._answer.end_step(**facts)
                if facts.get("error"):
                    self._answer.finish("error", {"type": "error", "message": str(facts["error"])})
                elif not self._answer.is_pending:
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
            if self._answer:
                self._answer.settle()
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
            at = len(self.conversation)
            message_id = self._messages.add("assistant", [{"type": COMPACTION, "data": data}], told, at)
            self.conversation.fold(summary, tail)
            if usage is not None:
                self.calls.tell(None, model=self.model, usage=counts, message_id=message_id, stop_reason="stop")
            fields = {"summarized_message_count": tail if summarized is None else summarized}
            span.end({**fields, "input_tokens": counts.context, "output_tokens": counts.output})
            return message_id

    @fails_open
    def rewind(self, message_id: str) -> int:
        """Back to just before this user message: it and all after it are hidden, never deleted; return how many."""
        with self.lock:
            self._end_turn("abort" if self._answer and self._answer.is_open else None)
            if message_id not in self._messages.rows:
                raise SettingsError(
                    f"No message {message_id!r:.60} was recorded here. Rewind to an id that user() gave."
                )
            self.conversation.cut(self._messages.rows[message_id].at)
            return self._messages.hide_from(message_id)

    @fails_open
    def end_turn(self, stop_reason: str = "stop", error: BaseException | None = None) -> None:
        """The turn is over: by default because the model had no more to say."""
        self._end_turn(stop_reason, error)

    def abort(self, reason: str = "abort") -> None:
        """The user stopped the turn: what there is stays as it is."""
        self.end_turn(reason)

    @fails_open
    def archive(self) -> None:
        """Leave the session out of lists, unless they ask for archived ones; nothing is deleted."""
        with self.lock:
            self._archived_at = now_ms()
            self._write_session()

    def __enter__(self) -> SessionRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(error)


record_session = SessionRecorder  # a verb for what one does with it
