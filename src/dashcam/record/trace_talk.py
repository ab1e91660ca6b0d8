"""What the steps of one session in a trace come to: calls, conversations, turns, and tools in their places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from dashcam.record.trace_calls import cost_of_call
from dashcam.record.trace_steps import Step, told_once, tools_once
from dashcam.record.trace_threads import Call, Numbers, digest_of_conversation, form_of, threads_of
from dashcam.record.trace_tools import Tools
from dashcam.record.trace_turns import Entry, Outcomes, Thread, Turn


class Talk:
    """The turns that a session has in a trace; `chunks` are these in order, each with the history before it."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.claimed: dict[int, Step] = {}  # runs of tools, by the identity of the part that calls them
        self.outcomes: Outcomes = {}
        self.chunks: list[list[Turn]] = []
        self.main: list[Call] = []
        self._numbers = Numbers()
        calls, said = _calls_of(steps)
        asides = [call for call in calls if call.step.is_aside and call.step.scope is None]
        spoken = [call for call in calls if not call.step.is_aside or call.step.scope is not None]
        said = [call for call in said if not call.step.is_aside]
        tools = tools_once(steps)
        outer = [call for call in (*spoken, *said) if call.step.scope is None]
        if not outer and spoken:  # all of it happens inside a tool, whose caller is elsewhere
            around = {call.step.scope.key for call in spoken if call.step.scope}
            tools = [tool for tool in tools if tool.key not in around]
            outer = [*spoken, *said]
            for call in outer:
                call.step.scope = None
        inner = [call for call in spoken if call.step.scope is not None]
        self.counted = [call for call in (*outer, *inner, *asides) if call.counts]
        for call in self.counted:
            call.cost = cost_of_call(call)
        self._cut(outer)
        self._place_tools(Tools(tools))
        self._place_inner(inner)

    @property
    def starts(self) -> bytes | None:
        """A hash over what the first call was sent, up to the last answer in it."""
        first = next((call for call in self.main if call.heard and not call.is_said), None)
        heard = first.heard if first else ()
        end = max((place for place, said in enumerate(heard, 1) if said.role == "assistant"), default=0)
        return digest_of_conversation(heard[:end], self._numbers) if end else None

    @property
    def ends(self) -> bytes | None:
        """A hash over what the last call was sent and gave."""
        last = next((call for call in reversed(self.main) if call.heard and not call.is_said), None)
        return digest_of_conversation((*last.heard, *last.output), self._numbers) if last and last.output else None

    def _cut(self, outer: list[Call]) -> None:
        """The conversations into turns, and those of all in the order of time."""
        heard = [call for call in outer if call.heard and not call.is_said]
        threads = sorted(threads_of(heard, self._numbers), key=lambda calls: min(call.step.order for call in calls))
        self.main = threads[0] if threads else []
        bare = [call for call in outer if not call.heard and not call.is_said]
        bare += _not_heard([call for call in outer if call.is_said], heard)
        self.main = _merged(self.main, sorted(bare, key=lambda call: call.step.order))
        placed: list[tuple[int, int, int, list[Turn]]] = []
        for number, calls in enumerate([self.main, *threads[1:]]):
            thread = Thread(self.outcomes)
            for call in calls:
                thread.take(call)
            thread.let_agents_end()
            latest = 0
            for place, chunk in enumerate(_chunks(thread.turns)):
                latest = max(latest, chunk[-1].at.order)
                placed.append((latest, number, place, chunk))
        self.chunks = [chunk for *_, chunk in sorted(placed, key=lambda placed: placed[:3])]

    def _place_tools(self, tools: Tools) -> None:
        """Runs of tools to the calls that asked for them; the others to what went on when they began."""
        for chunk in self.chunks:
            past = [part for turn in chunk[:-1] for entry in turn.answer for part in entry.calls]
            unanswered = {id(part) for part in chunk[-1].unanswered}
            for part in past:
                self._claim(part, tools, by_id_alone=id(part) not in unanswered)
            for part in (part for entry in chunk[-1].answer for part in entry.calls):
                self._claim(part, tools)
        left = [step for step in tools.left.values() if step.scope is None]
        if not left:
            return
        entries = [(entry.call.step.order, entry) for turn in self.turns for entry in turn.answer if entry.call]
        entries.sort(key=lambda placed: placed[0])
        if not entries:
            alone = Turn(left[0], 0)
            alone.answer.append(Entry(None))
            self.chunks.append([alone])
            entries = [(-1, alone.answer[0])]
        place = 0
        for step in left:
            while place + 1 < len(entries) and entries[place + 1][0] < step.order:
                place += 1
            entries[place][1].tools.append(step)

    def _claim(self, part: dict[str, object], tools: Tools, *, by_id_alone: bool = False) -> None:
        if step := tools.claim(part, by_id_alone=by_id_alone):
            self.claimed[id(part)] = step

    def _place_inner(self, inner: list[Call]) -> None:
        """Calls of an agent below a tool belong to the turn in which the tool was called."""
        if not inner:
            return
        turn_of: dict[str, Turn] = {}
        turns = self.turns
        for turn in turns:
            for entry in turn.answer:
                called = [self.claimed[id(part)].key for part in entry.calls if id(part) in self.claimed]
                turn_of.update(dict.fromkeys([*called, *(step.key for step in entry.tools)], turn))
        for call in inner:
            found = turn_of.get(call.step.scope.key) if call.step.scope else None
            if found is None:
                found = next((turn for turn in reversed(turns) if turn.at.order < call.step.order), turns[0])
            found.besides.append(call)

    @property
    def turns(self) -> list[Turn]:
        """Without those of a history."""
        return [chunk[-1] for chunk in self.chunks]


def _calls_of(steps: Sequence[Step]) -> tuple[list[Call], list[Call]]:
    """Model calls, and what was said outside of them. Where nobody tells a question, that of an agent stands for it."""
    once = told_once(steps)
    models = [Call(step) for step in once if step.kind == "model"]
    said = [Call(step) for step in once if step.kind == "said"]
    spoken = [call for call in models if not call.step.is_aside]
    if any(call.heard for call in (*spoken, *said)):
        return models, said
    is_answered = any(call.output for call in (*spoken, *said))
    for step in _outermost(step for step in steps if step.kind == "agent" and step.tells_messages):
        call = Call(step, counts=not spoken)
        if is_answered:
            call.output = None
        models.append(call)
    return models, said


def _outermost(steps: Iterable[Step]) -> list[Step]:
    among = list(steps)
    keys = {step.key for step in among}
    found = []
    for step in among:
        above = step.above
        while above is not None and above.key not in keys:
            above = above.above
        if above is None:
            found.append(step)
    return found


def _not_heard(said: list[Call], calls: list[Call]) -> list[Call]:
    """Words that no call was sent or gave: those that one was are told with it."""
    if not said or not calls:
        return said
    heard = {text for call in calls for one in (*call.heard, *(call.output or ())) if (text := form_of(one)[1])}
    everything = "\0".join(heard)
    return [call for call in said if not all(_text_of(call, one) in everything for one in (True, False))]


def _text_of(call: Call, is_question: bool) -> str:
    return "".join(form_of(said)[1] for said in (call.heard if is_question else call.output or ()))


def _merged(calls: list[Call], bare: list[Call]) -> list[Call]:
    """Calls in the order of their contexts, and among them, by time, what has no context."""
    if not calls or not bare:
        return calls or bare
    earliest = list(accumulate((call.step.order for call in reversed(calls)), min))[::-1]  # of it and those after it
    merged, place = [], 0
    for call, first in zip(calls, earliest, strict=True):
        while place < len(bare) and bare[place].step.order < first:
            merged.append(bare[place])
            place += 1
        merged.append(call)
    return merged + bare[place:]


def _chunks(turns: list[Turn]) -> list[list[Turn]]:
    chunks: list[list[Turn]] = [[]]
    for turn in turns:
        chunks[-1].append(turn)
        if not turn.is_history:
            chunks.append([])
    return chunks[:-1]
