"""A session while it is recorded: its rows, its turns, the answer in the making, and what that asks for."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dashcam.contracts.chat import SESSION, Model, Usage
from dashcam.record import prices
from dashcam.record.answer import Answer
from dashcam.record.calls import Calls, Request
from dashcam.record.conversation import Conversation
from dashcam.record.guard import fails_open
from dashcam.record.lines import Lines, OpenSpan
from dashcam.record.messages import MessageRows, Native
from dashcam.record.options import (
    ModelName,
    Rule,
    message_of,
    model_of,
    rules_of,
    settings_of,
    text_of,
    trace_for,
)
from dashcam.record.parts import scrubbed
from dashcam.record.saving import SaveOn, Saving
from dashcam.record.tools_run import ToolsRun
from dashcam.sdk.ids import new_id, now_ms
from dashcam.sdk.trace import Trace

Handed = Mapping[str, Any] | str | bytes | Request


class Session:
    """What a recorder works with. `SessionRecorder` tells it what happens."""

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
        history: Iterable[Mapping[str, Any]] = (),
        save_on: SaveOn = "chunk",
        buffer_chars: int = 65_536,
        buffer_seconds: float = 2.0,
    ) -> None:
        """`history`: the UIMessages before this one, where another recorder has told them.

        `save_on`: write each chunk as it lands, or a step or a turn at a time, unless more than `buffer_chars`
        wait, or longer than `buffer_seconds`.
        """
        minted, self._created_at = new_id(SESSION)
        self.trace = trace or trace_for(session_id, minted, kind)
        self.id = self.trace.session_id
        self.agent, self.model = agent, model_of(model)
        self.system_prompt = None if system_prompt is None else text_of(system_prompt)
        self.tools = tools
        self.settings: dict[str, Any] = settings_of(settings)
        rules = rules_of(permissions)
        self.saving = Saving(on=save_on, buffer_chars=buffer_chars, buffer_seconds=buffer_seconds)
        self._parents = {"parent_id": parent_id, "parent_message_id": parent_message_id}
        self._workspace = None if workspace_root is None else str(workspace_root)
        self._metadata = settings_of(metadata, "metadata")
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
        self._turns = self.conversation.recall(history)
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

    def _end_turn(self, stop_reason: str | None = None, error: BaseException | None = None) -> None:
        """End the turn, if there is one. Without a reason it is complete, unless it was cut off."""
        with self.lock:
            answer, self._answer = self._answer, None
            turn, self._turn = self._turn, None
            failure = None if error is None else {"type": type(error).__qualname__, "message": message_of(error)}
            if answer:
                if answer.is_open and not (stop_reason or failure) and (cut_off := answer.cut_off):
                    failure = {"type": "unfinished", "message": cut_off}
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

    @fails_open
    def close(self, error: BaseException | None = None) -> None:
        """End the turn and the run. The session itself may go on later, in this process or another."""
        with self.lock:
            if self._is_closed:
                return
            self._end_turn("error" if error else None, error)
            self._is_closed = True
            self._write_session()
            named = {"model_id": self.model.model_id, "provider_id": self.model.provider_id, "turns": self._turns}
            self._run.end({"agent": self.agent, **named})
            self.lines.close()

    # What the answer in the making asks for

    def request(self) -> Request | None:
        """The request that follows from the conversation; None where requests are handed over."""
        return self.conversation.request(self.system_prompt, self.tools, self.settings)

    def model_of(self, request: Request | None) -> Model:
        """The model that a request asks: it may name another than the session does."""
        if request is None or request.model is None or request.model == self.model.model_id:
            return self.model
        return Model(provider_id=self.model.provider_id, model_id=request.model)

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
            "metadata": {**self._metadata, "kind": self.trace.kind},
            "created_at": self._created_at,
            "updated_at": now_ms(),
            "archived_at": self._archived_at,
            **self._parents,
        }
        told = {name: value for name, value in row.items() if value is not None}
        self.lines.row("chat.session", scrubbed(msgspec.to_builtins(told)))

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
            self.system_prompt = text_of(system_prompt)
        if tools is not None:
            self.tools = tools
        if settings is not None:
            self.settings = settings_of(settings)
        if model is not None and model_of(model) != self.model:
            self.model = model_of(model)
            self._write_session()
        if self._answer:
            self._answer.metadata["model"] = {**msgspec.to_builtins(self.model), **scrubbed(self.settings)}
