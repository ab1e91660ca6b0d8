"""Telling a recorder what is new in the messages of a request: what was just said, and history it never saw."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from dashcam.dialects.usage import usage_from
from dashcam.record.assemble import Assembler
from dashcam.record.messages import MessageRows
from dashcam.record.pydantic_messages import HISTORY, RETRY, Item, answer_chunks, outcome_of, user_parts
from dashcam.record.recorder import SessionRecorder

_OUTCOMES = {"output": "tool-output-available", "error": "tool-output-error", "denied": "tool-output-denied"}


def tell_news(chat: SessionRecorder, news: Sequence[Item], retries: set[datetime]) -> set[str]:
    """Record them in their order; return the tool calls that have their outcome now."""
    answers = [number for number, item in enumerate(news) if item.message.kind == "response"]
    live = answers[-1] + 1 if answers else 0
    told = _tell_past(chat, news[:live], news[live:]) if answers else set()
    settled = set()
    goes_on = any(_kind(item) == "said" for item in news[live:])
    for kind, group in groupby(news[live:], key=_kind):
        if kind == "said":
            _tell_said(chat, list(group), retries)
            continue
        for item in group:
            settled.add(item.part.tool_call_id)
            # A run that was cut off: its calls stay as they were, and who speaks next ends its turn.
            is_cut_off = goes_on and getattr(item.part, "outcome", None) == "interrupted"
            if item.part.tool_call_id not in told and not is_cut_off:
                chat.tool_result(item.part.tool_call_id, **outcome_of(item.part))
    return settled


def _kind(item: Item) -> str:
    part = item.part
    is_return = part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and part.tool_name is not None)
    return "returned" if is_return else "said"


def _tell_said(chat: SessionRecorder, items: list[Item], retries: set[datetime]) -> None:
    """One message of the user's, or what stands in its place: a summary, or the words of a check that failed."""
    for item in [item for item in items if item.part.part_kind == "compaction"]:
        chat.compaction(item.part.content or "")
    spoken = [item for item in items if item.part.part_kind != "compaction"]
    for is_retry, group in groupby(spoken, key=lambda item: _is_retry(item, retries)):
        parts = [part for item in group for part in user_parts(item.part)]
        chat.user(parts=parts, metadata={"trigger": RETRY} if is_retry else None)


def _is_retry(item: Item, retries: set[datetime]) -> bool:
    return item.part.part_kind != "user-prompt" or item.part.timestamp in retries


def _tell_past(chat: SessionRecorder, past: Sequence[Item], live: Sequence[Item]) -> set[str]:
    """Turns that were over before anybody recorded: rows alone, since no model is asked and no tool runs now.

    Return the tool calls in them, which have their outcome from here or from what came just now.
    """
    rows = MessageRows(chat.lines)
    returns = {item.part.tool_call_id: item.part for item in [*past, *live] if _kind(item) == "returned"}
    calls: set[str] = set()
    speaking = [item for item in past if _kind(item) == "said"]
    for role, group in groupby(speaking, key=lambda item: "assistant" if item.message.kind == "response" else "user"):
        items = list(group)
        if role == "user":
            parts = [part for item in items for part in user_parts(item.part)]
            rows.add("user", parts, {"trigger": HISTORY}, 0)
            continue
        messages = list({id(item.message): item.message for item in items}.values())
        called = {part.tool_call_id for message in messages for part in message.parts if hasattr(part, "tool_call_id")}
        calls |= called
        outcomes = [returns[each] for each in called if each in returns]
        rows.add("assistant", _answer(messages, outcomes), _metadata(chat, messages), 0)
    return calls


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
