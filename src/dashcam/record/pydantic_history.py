"""Telling a recorder what is new in the messages of a request: what was just said, and history it never saw."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from dashcam.dialects.usage import usage_from
from dashcam.record.assemble import Assembler
from dashcam.record.messages import MessageRows, Native
from dashcam.record.pydantic_messages import HISTORY, RETRY, Item, answer_chunks, outcome_of, user_parts
from dashcam.record.pydantic_sessions import Lane
from dashcam.record.recorder import SessionRecorder

_OUTCOMES = {"output": "tool-output-available", "error": "tool-output-error", "denied": "tool-output-denied"}


def tell_news(lane: Lane, lanes: Sequence[Lane], news: Sequence[Item], retries: set[datetime]) -> None:
    """Record them in their order; what became of a tool call goes to the recorder that told of the call."""
    answers = [number for number, item in enumerate(news) if item.message.kind == "response"]
    live = answers[-1] + 1 if answers else 0
    if answers:
        _tell_past(lane.chat, news[:live], news[live:])
    goes_on = any(_kind(item) == "said" for item in news[live:])
    for kind, group in groupby(news[live:], key=_kind):
        if kind == "said":
            _tell_said(lane, list(group), retries)
        else:
            reachable = [lane, *(each for each in lanes if not each.is_busy)]  # its own first: models repeat ids
            for item in group:
                _tell_outcome(reachable, item.part, goes_on)


def _tell_outcome(lanes: Sequence[Lane], part: Any, goes_on: bool) -> None:
    holder = next((lane for lane in lanes if lane.awaits(part.tool_call_id)), None)
    if holder is None:
        return  # told with the past that it belongs to, or its turn is over
    holder.settle(part.tool_call_id)
    # Of a run that was cut off: its calls stay as they were, and who speaks next ends its turn.
    if not (goes_on and getattr(part, "outcome", None) == "interrupted"):
        holder.chat.tool_result(part.tool_call_id, **outcome_of(part))


def _kind(item: Item) -> str:
    part = item.part
    is_return = part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and part.tool_name is not None)
    return "returned" if is_return else "said"


def _tell_said(lane: Lane, items: list[Item], retries: set[datetime]) -> None:
    """One message of the user's, or what stands in its place: a summary, or the words of a check that failed."""
    for item in [item for item in items if item.part.part_kind == "compaction"]:
        lane.chat.compaction(item.part.content or "")
    spoken = [item for item in items if item.part.part_kind != "compaction"]
    for is_retry, group in groupby(spoken, key=lambda item: _is_retry(item, retries)):
        told = list(group)
        parts = [part for item in told for part in user_parts(item.part)]
        lane.chat.user(parts=parts, metadata={"trigger": RETRY} if is_retry else None, native=_native(told))
        lane.settle()  # the turn before is over


def _is_retry(item: Item, retries: set[datetime]) -> bool:
    return item.part.part_kind != "user-prompt" or item.part.timestamp in retries


def _tell_past(chat: SessionRecorder, past: Sequence[Item], live: Sequence[Item]) -> None:
    """Turns that were over before anybody recorded: rows alone, since no model is asked and no tool runs now.

    What became of their tool calls is told here, even where it came just now. Another process may have recorded
    them at their time: the ids are the same, and what it told stands.
    """
    rows = MessageRows(chat.lines, is_past=True)
    asked: Native | None = None
    returns = {item.part.tool_call_id: item.part for item in [*past, *live] if _kind(item) == "returned"}
    speaking = [item for item in past if _kind(item) == "said"]
    for role, group in groupby(speaking, key=lambda item: "assistant" if item.message.kind == "response" else "user"):
        items = list(group)
        if role == "user":
            parts = [part for item in items for part in user_parts(item.part)]
            asked = _native(items)
            rows.add("user", parts, {"trigger": HISTORY}, 0, asked)
            continue
        messages = list({id(item.message): item.message for item in items}.values())
        called = {part.tool_call_id for message in messages for part in message.parts if hasattr(part, "tool_call_id")}
        outcomes = [returns[each] for each in called if each in returns]
        native = asked.answer if asked else _native(items)
        rows.add("assistant", _answer(messages, outcomes), _metadata(chat, messages), 0, native)


def _native(items: Sequence[Item]) -> Native:
    """What was said, and when, is what it is known by."""
    first = items[0]
    at = getattr(first.part, "timestamp", None) or first.message.timestamp
    return Native(b"".join(item.exact for item in items).hex(), round(at.timestamp() * 1000))


def _answer(messages: Sequence[Any], outcomes: Sequence[Any]) -> list[dict[str, Any]]:
    assembler = Assembler()
    for number, message in enumerate(messages):
        for chunk in answer_chunks(message.parts, f"{number}."):
            assembler.feed(chunk)
    for part in outcomes:
        ((name, value),) = outcome_of(part).items()
        field = {} if name == "denied" else {"errorText" if name == "error" else "output": value}
        assembler.feed({"type": _OUTCOMES[name], "toolCallId": part.tool_call_id, **field})
    return [part.data for part in assembler.parts]


def _metadata(chat: SessionRecorder, messages: Sequence[Any]) -> dict[str, Any]:
    last = messages[-1]
    told: dict[str, Any] = {"stop_reason": "stop", "trigger": HISTORY, "agent": chat.agent}
    if last.model_name:
        told["model"] = {"provider_id": last.provider_name or "", "model_id": last.model_name}
    usages = [usage for each in messages if each.usage.has_values() and (usage := usage_from(each.usage))]
    if usages:
        told["usage"] = sum(usages[1:], usages[0])
    return told
