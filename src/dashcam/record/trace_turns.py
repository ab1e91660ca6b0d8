"""The turns of a trace: who asked what, and what was said and done about it, call by call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashcam.dialects.otlp.reading import Said
from dashcam.record.trace_steps import Step
from dashcam.record.trace_threads import Call

Outcomes = dict[int, dict[str, Any]]  # the result of a tool call's part, by the identity of that part


class Entry:
    """One step of an answer: what a call gave (or what a later call was sent of it), and tools run after it."""

    __slots__ = ("call", "said", "tools")

    def __init__(self, call: Call | None, said: Sequence[Said] = ()) -> None:
        self.call = call
        self.said = said
        self.tools: list[Step] = []

    @property
    def is_whole(self) -> bool:
        """Whether an agent tells it, of all that it did."""
        return self.call is not None and self.call.step.kind == "agent"

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [part for said in self.said for part in said.parts if part.get("type") == "tool-call"]


class Turn:
    """A question and its answer. One of the history is told only where no earlier trace tells it."""

    __slots__ = (
        *("answer", "at", "besides", "is_first", "is_history", "is_opening"),
        *("place", "question", "unanswered"),
    )

    def __init__(self, at: Step, place: int, *, is_history: bool = False) -> None:
        self.at = at  # the step that it begins with
        self.place = place  # among the turns that begin with it
        self.is_history = is_history
        self.is_first = False  # what its call was sent before is history
        self.is_opening = False  # nothing was said before it
        self.question: list[Said] = []
        self.answer: list[Entry] = []
        self.besides: list[Call] = []  # calls whose words are not part of it: those of agents below a tool
        self.unanswered: list[dict[str, Any]] = []  # calls of the history whose results are new here


class Thread:
    """One conversation of a trace, cut into turns."""

    def __init__(self, outcomes: Outcomes) -> None:
        self.turns: list[Turn] = []
        self._outcomes = outcomes
        self._waiting: dict[str, list[dict[str, Any]]] = {}  # calls of tools, by what their results name

    def take(self, call: Call) -> None:
        if call.is_said:
            self._take_said(call)
        elif call.parent is None and call.heard:
            self._take_first(call)
        else:
            self._take_next(call)

    def let_agents_end(self) -> None:
        """What an agent gave as a whole, it gave after all that was done below it."""
        for turn in self.turns:
            turn.answer.sort(key=lambda entry: entry.is_whole)

    def _take_first(self, call: Call) -> None:
        """What follows the last answer in what it was sent is the question; what precedes is history."""
        heard = call.heard
        end = max((place for place, said in enumerate(heard, 1) if said.role == "assistant"), default=0)
        for said in heard[:end]:
            if said.role == "assistant":
                if not self.turns:
                    self._open(call, is_history=True)
                self._answer(self.turns[-1], Entry(None, (said,)))
            elif is_asking(said):
                self._asked(call, is_history=True).question.append(said)
            self._note_results(said)
        answered = len(self._outcomes)
        for said in heard[end:]:
            self._note_results(said)
        new = set(list(self._outcomes)[answered:])
        turn = self._open(call)
        turn.is_first, turn.is_opening = True, not end
        turn.question = [said for said in heard[end:] if is_asking(said)]
        if new and end:
            turn.unanswered = [part for entry in self.turns[-2].answer for part in entry.calls if id(part) in new]
        self._answer(turn, Entry(call, call.output or ()))

    def _take_next(self, call: Call) -> None:
        """It goes on, in the same turn unless somebody said something new."""
        before = call.parent
        echo = True  # an answer that comes first is what its parent gave
        for said in call.gap if before else ():
            echo = echo and said.role == "assistant"
            if said.role == "assistant":
                if not echo:
                    self._answer(self._going_on(call), Entry(None, (said,)))
                elif before and before.output is None:
                    self._tell_of(before, said)
            elif is_asking(said):
                self._asked(call).question.append(said)
            self._note_results(said)
        self._answer(self._going_on(call), Entry(call, call.output or ()))

    def _take_said(self, call: Call) -> None:
        if call.heard:
            self._asked(call).question += call.heard
        if call.output:
            self._answer(self._going_on(call), Entry(call, call.output))

    def _answer(self, turn: Turn, entry: Entry) -> None:
        turn.answer.append(entry)
        self._wait_for(entry)

    def _tell_of(self, call: Call, said: Said) -> None:
        """What a call gave is known only from what a later one was sent."""
        for entry in (entry for turn in reversed(self.turns) for entry in reversed(turn.answer)):
            if entry.call is call:
                entry.said = (*entry.said, said)
                self._wait_for(Entry(None, (said,)))
                return

    def _wait_for(self, entry: Entry) -> None:
        for part in entry.calls:
            self._waiting.setdefault(_result_key(part), []).append(part)
        for said in entry.said:
            self._note_results(said)

    def _note_results(self, said: Said) -> None:
        for part in said.parts:
            if part.get("type") == "tool-result" and (waiting := self._waiting.get(_result_key(part))):
                self._outcomes[id(waiting.pop(0))] = part

    def _asked(self, call: Call, *, is_history: bool = False) -> Turn:
        """The turn that a question belongs to: a new one, once the last is being answered."""
        return self._open(call, is_history=is_history) if not self.turns or self.turns[-1].answer else self.turns[-1]

    def _going_on(self, call: Call) -> Turn:
        return self.turns[-1] if self.turns and not self.turns[-1].is_history else self._open(call)

    def _open(self, call: Call, *, is_history: bool = False) -> Turn:
        last = self.turns[-1] if self.turns else None
        place = last.place + 1 if last and last.at is call.step else 0
        self.turns.append(Turn(call.step, place, is_history=is_history))
        return self.turns[-1]


def is_asking(said: Said) -> bool:
    """Whether a user says something here."""
    return said.role == "user" and any(
        part.get("type") != "tool-result" and (part.get("type") != "text" or part.get("text")) for part in said.parts
    )


def _result_key(part: dict[str, Any]) -> str:
    return str(part.get("toolCallId") or f"\0{part.get('toolName') or ''}")
