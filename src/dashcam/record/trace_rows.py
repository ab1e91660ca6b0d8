"""The turns of a trace as rows: messages, their parts, and what of them later traces need not tell again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any

from dashcam.contracts.chat import MESSAGE, PART, USAGE, ChatMessage, ChatPart, derived_id
from dashcam.dialects.otlp.reading import Said
from dashcam.record.trace_calls import failure_of, is_open
from dashcam.record.trace_steps import Step
from dashcam.record.trace_talk import Talk
from dashcam.record.trace_threads import Call, digest_of_text, form_of, json_text, mended
from dashcam.record.trace_tools import open_call, tool_digest, tool_part
from dashcam.record.trace_turns import Entry, Outcomes, Turn
from dashcam.store.base import ToldTurn

_MILLI = 1_000_000  # nanoseconds
EVER = (2**62, "")  # before which everything was told


class Rows:
    """Writes the turns of one session of a trace, in their order."""

    def __init__(self, trace_id: str, session_id: str, agent: str) -> None:
        self.messages: list[ChatMessage] = []
        self.parts: list[ChatPart] = []
        self.message_of: dict[int, str] = {}  # by the order of a call's step
        self.closed: set[bytes] = set()  # calls of tools, perhaps of other traces, whose outcomes are told here
        self._trace_id = trace_id
        self._session_id = session_id
        self._agent = agent
        self._told: dict[bytes, int] = {}  # how often each was told, by earlier traces and here
        self._claimed: dict[int, Step] = {}
        self._outcomes: Outcomes = {}
        self._here: dict[bytes, list[int]] = {}
        self._last = -1  # milliseconds
        self._told_before: Callable[[tuple[int, str]], dict[bytes, int]] = lambda _: {}
        self._everywhere: dict[bytes, int] | None = None

    @property
    def turns(self) -> list[ToldTurn]:
        return [
            ToldTurn(session_id=self._session_id, digest=digest, times=times, history=history)
            for digest, (times, history) in sorted(self._here.items())
        ]

    def write(self, talk: Talk, told: Callable[[tuple[int, str]], dict[bytes, int]], at: int) -> None:
        """Write all turns; `told` says how often each was told by traces before some moment, `at` is when this began."""
        self._told_before = told
        self._told = dict(told((at, self._trace_id)))
        self._claimed, self._outcomes = talk.claimed, talk.outcomes
        for chunk in talk.chunks:
            self._write(chunk)

    def _write(self, turns: Sequence[Turn]) -> None:
        """A turn, and what nobody has told yet of the history before it."""
        seen: dict[bytes, int] = {}
        past = [(turn, *self._untold(turn, seen)) for turn in turns[:-1]]
        rows = sum(bool(asked) + is_new for _, asked, is_new in past)
        at = turns[-1].at.start // _MILLI - rows
        for turn, asked, is_new in past:
            if asked:
                self._ask(turn, asked, at)
            if is_new:
                self._answer(turn, at)
        turn = turns[-1]
        asked = list(turn.question)
        if turn.is_first:  # of what was asked before the last words, an earlier trace may tell
            asked = [said for said in asked[:-1] if self._is_new(_asked_digest(said), seen, 1)] + asked[-1:]
        for said in asked[-1:] if turn.is_first else asked:
            self._tell(_asked_digest(said), 0)
        if turn.is_opening and not turn.question and (said_text := _answer_digest(turn)):
            self._tell(said_text, 0)
        self._take_up(turn, is_needed=bool(past) and not past[-1][2])
        if asked:
            self._ask(turn, asked, turn.at.start // _MILLI)
        if turn.answer or turn.besides:
            self._answer(turn, turn.at.start // _MILLI)

    def _untold(self, turn: Turn, seen: dict[bytes, int]) -> tuple[list[Said], bool]:
        """What of a turn of the history nobody told: of the question, and whether the answer."""
        if not turn.question:
            digest = _answer_digest(turn)
            return [], digest is not None and self._is_new(digest, seen, 1)
        asked = [said for said in turn.question if self._is_new(_asked_digest(said), seen, 1)]
        return asked, bool(turn.answer) and bool(asked) and asked[-1] is turn.question[-1]

    def _is_new(self, digest: bytes, seen: dict[bytes, int], history: int) -> bool:
        seen[digest] = seen.get(digest, 0) + 1
        if self._told.get(digest, 0) >= seen[digest]:
            return False
        self._tell(digest, history)
        return True

    def _tell(self, digest: bytes, history: int) -> None:
        self._told[digest] = self._told.get(digest, 0) + 1
        here = self._here.setdefault(digest, [0, 0])
        here[0] += 1
        here[1] += history

    def _take_up(self, turn: Turn, *, is_needed: bool) -> None:
        """Tools that an earlier trace's answer called, and whose results only this one was sent."""
        parts: list[dict[str, Any]] = []
        for part in turn.unanswered:
            run_here = id(part) in self._claimed
            self.closed.add(tool_digest(part))
            if is_needed and (run_here or not self._told.get(tool_digest(part))):
                parts.append(part)
                self._tell_tool(part, int(not run_here))
        if parts:
            turn.answer.insert(0, Entry(None, (Said(role="assistant", parts=tuple(parts), raw=b""),)))

    def _ask(self, turn: Turn, asked: Iterable[Said], at: int) -> None:
        at = self._next(at)
        key = f"{self._trace_id}\0{turn.at.key}\0{turn.place}\0user"
        message_id = derived_id(MESSAGE, at, "otlp", key)
        self._add(message_id, "user", {**_of_history(turn), "trace_id": self._trace_id}, at, at)
        index = 0
        for part in (part for said in asked for part in said.parts):
            if (told := _plain(part)) is not None:
                self._part(message_id, key, index, told, at, at)
                index += 1

    def _answer(self, turn: Turn, at: int) -> None:
        at = self._next(at)
        key = f"{self._trace_id}\0{turn.at.key}\0{turn.place}\0assistant"
        message_id = derived_id(MESSAGE, at, "otlp", key)
        index, end = 0, at
        for entry in turn.answer:
            call = entry.call
            since, until = at, at
            if call is not None:
                since = max(at, call.step.start // _MILLI)
                until = max(since, call.step.end // _MILLI)
                self.message_of[call.step.order] = message_id
            parts = self._parts_of(entry, turn)
            if parts and index and call is not None:
                self._part(message_id, key, index, {"type": "step-start"}, since, since)
                index += 1
            for part, step in parts:
                began = since if step is None else max(at, step.start // _MILLI)
                ended = until if step is None else max(began, step.end // _MILLI)
                self._part(message_id, key, index, part, began, ended)
                index += 1
                end = max(end, ended)
            end = max(end, until)
        for call in turn.besides:
            self.message_of[call.step.order] = message_id
            end = max(end, call.step.end // _MILLI)
        self._add(message_id, "assistant", self._about(turn), at, end)

    def _parts_of(self, entry: Entry, turn: Turn) -> list[tuple[dict[str, Any], Step | None]]:
        found: list[tuple[dict[str, Any], Step | None]] = []
        is_last = entry is turn.answer[-1] and not turn.is_history
        for place, part in enumerate(part for said in entry.said for part in said.parts):
            if part.get("type") == "tool-call":
                step = self._claimed.get(id(part))
                if turn.is_history and step is None and not self._tells_past(part):
                    continue
                if is_last and step is None and id(part) not in self._outcomes and self._is_left_open(part):
                    continue
                unnamed = f"{turn.at.key}:{turn.place}:{len(found)}:{place}"
                found.append((tool_part(part, step, self._outcomes.get(id(part)), unnamed), step))
                if step and is_last:
                    self._tell_tool(part)
            elif (told := _plain(part)) is not None:
                found.append((told, None))
        run: list[tuple[dict[str, Any], Step | None]] = []
        for step in entry.tools:
            reading = step.reading
            called = {"toolCallId": reading.call_id, "toolName": reading.tool, "input": reading.arguments}
            run.append((tool_part(called, step, None, step.key), step))
            self._tell_tool(called)
        return [*run, *found] if entry.is_whole else [*found, *run]

    def _tells_past(self, called: dict[str, Any]) -> bool:
        """Whether a tool's call of the history is told here: not where the tool has told it in a trace of its own."""
        if not called.get("toolCallId"):
            return True
        digest = tool_digest(called)
        if self._told.get(digest):
            return False
        self._tell(digest, 1)
        return True

    def _is_left_open(self, called: dict[str, Any]) -> bool:
        """Leave a call to the trace that tells its outcome; whether there is one. Then once is enough."""
        if not called.get("toolCallId"):
            return False
        self._tell(open_call(tool_digest(called), self._trace_id), 0)
        if self._everywhere is None:
            self._everywhere = self._told_before(EVER)
        return tool_digest(called, "whole") in self._everywhere

    def _tell_tool(self, called: dict[str, Any], history: int = 0) -> None:
        """So that others know that the outcome was told; and who has only the call, that both were."""
        self.closed.add(tool_digest(called))
        self._tell(tool_digest(called), history)
        if called.get("input") is not None:
            self._tell(tool_digest(called, "whole"), 0)

    def _about(self, turn: Turn) -> dict[str, Any]:
        """The metadata of an answer."""
        about: dict[str, Any] = _of_history(turn)
        calls = [entry.call for entry in turn.answer if entry.call is not None]
        counted = [call for call in (*calls, *turn.besides) if call.counts]
        if any(call.step.reading.usage for call in counted):
            usages = [call.step.reading.usage for call in counted]
            about["usage"] = {name: sum(getattr(usage, name) for usage in usages if usage) for name in USAGE}
        last = next((call for call in (*reversed(calls), *turn.besides) if call.step.reading.model), None)
        if last:
            reading = last.step.reading
            about["model"] = {
                **(reading.settings or {}),
                "provider_id": reading.provider or "",
                "model_id": reading.model,
            }
        if agent := next((call.step.reading.agent for call in calls if call.step.reading.agent), self._agent):
            about["agent"] = agent
        costs = [call.cost for call in counted if call.cost is not None]
        if costs:
            about["cost_usd"] = sum(costs)
        for name, text in (
            ("system_prompt_digest", next((call.system for call in reversed(calls) if call.system), None)),
            (
                "tool_catalog_digest",
                next((c.step.reading.tools for c in reversed(calls) if c.step.reading.tools), None),
            ),
        ):
            if text:
                about[name] = digest_of_text(text)
        about |= _ending(turn, calls)
        about["trace_id"] = self._trace_id
        return about

    def _next(self, at: int) -> int:
        """A moment after all that was written: order is what a reader sees of time."""
        self._last = max(at, self._last + 1, 0)
        return self._last

    def _add(self, message_id: str, role: Any, about: dict[str, Any], at: int, end: int) -> None:
        self.messages.append(
            ChatMessage(
                id=message_id,
                session_id=self._session_id,
                role=role,
                metadata_json=json_text(about),
                created_at=at,
                updated_at=end,
            )
        )

    def _part(self, message_id: str, key: str, index: int, data: dict[str, Any], at: int, end: int) -> None:
        kind = mended(data["type"])
        is_tool = "toolCallId" in data
        self.parts.append(
            ChatPart(
                id=derived_id(PART, at, "otlp", f"{key}\0{index}\0{kind}"),
                message_id=message_id,
                session_id=self._session_id,
                index=index,
                type=kind,
                data_json=json_text(data),
                tool_call_id=data["toolCallId"] if is_tool else None,
                tool_state=data["state"] if is_tool else None,
                created_at=at,
                updated_at=end,
            )
        )


def _plain(part: dict[str, Any]) -> dict[str, Any] | None:
    """A part that is no tool's, as it is shown; None where there is nothing to show."""
    kind = part.get("type")
    if kind in ("text", "reasoning"):
        return {"type": kind, "text": mended(text)} if (text := part.get("text")) else None
    if kind in ("tool-result", "tool-call") or not isinstance(kind, str) or not kind:
        return None
    return part


def _ending(turn: Turn, calls: list[Call]) -> dict[str, Any]:
    """How an answer ended; nothing, while it goes on."""
    running = any(step.running for entry in turn.answer[-1:] for step in entry.tools)
    if running or (calls and is_open(calls[-1].step)):
        return {}
    if calls and (error := failure_of(calls[-1].step)):
        return {"stop_reason": "error", "error": {"type": "error", "message": error}}
    return {"stop_reason": (calls and calls[-1].step.reading.stop_reason) or "stop"}


def _asked_digest(said: Said) -> bytes:
    return sha256(f"user\0{form_of(said)[1]}".encode()).digest()


def _answer_digest(turn: Turn) -> bytes | None:
    text = "".join(form_of(said)[1] for entry in turn.answer for said in entry.said)
    return sha256(f"assistant\0{text}".encode()).digest() if text else None


def _of_history(turn: Turn) -> dict[str, Any]:
    return {"history": True} if turn.is_history else {}
