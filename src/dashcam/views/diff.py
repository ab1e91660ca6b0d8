"""Two sessions beside each other, turn by turn: where they part, and what differs in each turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import Any

import msgspec
from msgspec.structs import replace

from dashcam.contracts.chat import USAGE
from dashcam.contracts.content import shapes_of
from dashcam.errors import NotFound
from dashcam.store.base import Reader
from dashcam.views import turns
from dashcam.views.changes import CatalogChange, catalog_change
from dashcam.views.context import text_of
from dashcam.views.divergence import Calls, FirstMessage, first_message
from dashcam.views.parts import Part, ReasoningPart, StepStart, TextPart, ToolPart
from dashcam.views.turns import Message, Turn
from dashcam.views.words import Matching, Piece, text_diff, unified

NUMBERS = frozenset(("tokens", "cost"))  # differ between runs that say the same
_SETUP = ("agent", "model", "settings", "system_prompt", "tool_catalog", "permissions")
_OUTCOME = ("stop_reason", "error")
_OF_ONE_RUN = frozenset(("id", "message_id", "created_at", "updated_at", "tail_start_id", "decision"))


class Sides(msgspec.Struct, frozen=True):
    """A fact that differs, as each of the two has it."""

    a: Any = None
    b: Any = None


class Delta(msgspec.Struct, frozen=True):
    """A number of both; None where it is unknown."""

    a: float | None = None
    b: float | None = None
    delta: float | None = None


class PromptDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Two system prompts apart. `diff` is told once: not where it is the same as in the turn before."""

    a: str | None = None  # digests
    b: str | None = None
    diff: str | None = None


class CatalogDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Two tool catalogs apart. `change` is told once, like the diff of prompts."""

    a: str | None = None
    b: str | None = None
    change: CatalogChange | None = None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call without what is of one run alone."""

    tool: str
    state: str | None = None
    input: Any = None
    output: Any = None
    error: str | None = None
    decision: str | None = None  # what the permission rules said


class ToolDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that differs, or that one side alone made."""

    changed: list[str]
    a: ToolCall | None = None
    b: ToolCall | None = None


class TurnDiff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn of both.

    Rules: `changed` names all that differs but the time it took, which always does; `repeated` those of them that
    differ just as in the turn before. Each name but `missing` and `context` is a field as well (`cost` is
    `cost_usd`); `user` and `output` are told whenever anything that was said or done differs.
    """

    turn: int
    changed: list[str]
    repeated: list[str] = []
    missing_in: str | None = None  # a or b
    user: list[Piece] | None = None
    output: list[Piece] | None = None
    reasoning: list[Piece] | None = None
    tools: list[ToolDiff] = []
    parts: Sides | None = None  # files, sources, data, notices, compactions; all of them where these are the same
    hidden: Sides | None = None  # by a rewind
    agent: Sides | None = None
    model: Sides | None = None
    settings: dict[str, Sides] = {}
    system_prompt: PromptDiff | None = None
    tool_catalog: CatalogDiff | None = None
    permissions: Sides | None = None
    stop_reason: Sides | None = None
    error: Sides | None = None
    tokens: dict[str, Delta] = {}
    cost_usd: Delta | None = None
    duration_ms: Delta | None = None

    @property
    def differs(self) -> bool:
        """Whether anything differs that was sent, said or done: tokens and cost don't count."""
        return any(name not in NUMBERS for name in self.changed)

    @property
    def is_new(self) -> bool:
        """Whether it differs in another way than the turn before."""
        return any(name not in NUMBERS and name not in self.repeated for name in self.changed)


class SessionDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Two sessions. `diverged_at`: the first turn that differs in what was sent, said or done; None where none does."""

    a: str
    b: str
    diverged_at: int | None = None
    message: FirstMessage | None = None  # the first that differs in what the models were sent
    turns: list[TurnDiff]


def load(
    store: Reader, a: str, b: str, *, turn: int | None = None, until: int | None = None, full: bool = False
) -> SessionDiff:
    """Compare two sessions; raises SessionNotFound where one of them isn't there.

    `turn`: tell of this one alone. `until`: as if both ended with this one. `full`: tell what was said in turns
    that are the same, too.
    """
    comparison = _Comparison(store, full)
    both = islice(zip_longest(turns.load(store, a), turns.load(store, b)), until)
    found = [comparison.turn(number, one, other) for number, (one, other) in enumerate(both, 1)]
    if turn is not None and turn > len(found):
        raise NotFound(f"Neither {a!r} nor {b!r} has a turn {turn}: there are {len(found)}. Choose one of those.")
    whole = comparison.told(a, b, found)
    return whole if turn is None else replace(whole, turns=whole.turns[turn - 1 : turn])


def load_pair(store: Reader, a: str, number_a: int, b: str, number_b: int) -> SessionDiff:
    """Compare one turn of each: `number_a` of `a` and `number_b` of `b`, told under the number of the first.

    For a branch that counts otherwise than its parent; whether a rewind has hidden one of them makes no difference.
    Raises NotFound where one of them isn't there.
    """
    comparison = _Comparison(store, full=False)
    one, other = (replace(turns.at(store, *each)[1], hidden_at=None) for each in ((a, number_a), (b, number_b)))
    return comparison.told(a, b, [comparison.turn(number_a, one, other)])


class _Comparison:
    """Compares turn after turn, and remembers how the setup differed in the one before."""

    def __init__(self, store: Reader, full: bool) -> None:
        self._store = store
        self._full = full
        self._setup: dict[str, Sides] = {}
        self._calls_end = False
        self.calls: list[Calls] = []  # up to the first that can show how what was said differs
        self.parted_at: int | None = None  # the first turn in which something else was said or done

    def told(self, a: str, b: str, found: list[TurnDiff]) -> SessionDiff:
        """All turns together, now that it is known where what the models were sent differs first."""
        message = first_message(self._store, self.calls)
        if message and (self.parted_at is None or message.turn < self.parted_at):
            # Nothing that was said or done explains it: something else was put before the model.
            place = message.turn - found[0].turn
            found[place] = replace(found[place], changed=[*found[place].changed, "context"])
        diverged_at = next((each.turn for each in found if each.differs), None)
        return SessionDiff(a=a, b=b, diverged_at=diverged_at, message=message, turns=found)

    def turn(self, number: int, a: Turn | None, b: Turn | None) -> TurnDiff:
        if a is None or b is None:
            self._part(number)
            return self._one(number, a, b)
        self._note_calls(number, a, b)
        return self._both(number, a, b)

    def _one(self, number: int, a: Turn | None, b: Turn | None) -> TurnDiff:
        before, self._setup = self._setup, {"missing": Sides(a is None, b is None)}
        return TurnDiff(
            turn=number,
            changed=["missing"],
            repeated=["missing"] if before == self._setup else [],
            missing_in="a" if a is None else "b",
            **self._said(a, b) | _numbers(a, b),
        )

    def _both(self, number: int, a: Turn, b: Turn) -> TurnDiff:
        changed = _changed_words(a, b)
        if changed:
            self._part(number)
        setup, outcome, numbers = _facts(a, b, _SETUP), _facts(a, b, _OUTCOME), _numbers(a, b)
        repeated = [name for name, sides in setup.items() if self._setup.get(name) == sides]
        told: dict[str, Any] = self._said(a, b) if changed or setup.keys() - repeated or self._full else {}
        if "parts" in changed:
            rest = Sides(_rest(a), _rest(b))
            told["parts"] = rest if _differ(rest.a, rest.b) else Sides(_in_order(a), _in_order(b))
        if "hidden" in changed:
            told["hidden"] = Sides(a.hidden_at is not None, b.hidden_at is not None)
        told |= {**outcome, **self._told_setup(setup, repeated), **numbers}
        changed += [*setup, *outcome, *_changed_numbers(numbers)]
        self._setup = setup
        return TurnDiff(turn=number, changed=changed, repeated=repeated, **told)

    def _said(self, a: Turn | None, b: Turn | None) -> dict[str, Any]:
        reasoning = (_reasoning(a), _reasoning(b))
        return {
            "user": text_diff(a.user_text if a else "", b.user_text if b else ""),
            "output": text_diff(a.assistant_text if a else "", b.assistant_text if b else ""),
            "reasoning": text_diff(*reasoning) if reasoning[0] != reasoning[1] else None,
            "tools": list(tool_diffs(_tool_calls(a), _tool_calls(b))),
        }

    def _told_setup(self, setup: dict[str, Sides], repeated: list[str]) -> dict[str, Any]:
        told: dict[str, Any] = dict(setup)
        if sides := setup.get("settings"):
            told["settings"] = {
                name: Sides(sides.a.get(name), sides.b.get(name))
                for name in sorted(sides.a.keys() | sides.b.keys())
                if _differ(sides.a.get(name), sides.b.get(name))
            }
        if sides := setup.get("system_prompt"):
            diff = None if "system_prompt" in repeated else unified(*self._texts(self._store.system_prompt, sides))
            told["system_prompt"] = PromptDiff(a=sides.a, b=sides.b, diff=diff)
        if sides := setup.get("tool_catalog"):
            change = None
            if "tool_catalog" not in repeated:
                change = catalog_change(*self._texts(self._store.tool_catalog, sides))
            told["tool_catalog"] = CatalogDiff(a=sides.a, b=sides.b, change=change)
        return told

    def _texts(self, read: Callable[[str], str], digests: Sides) -> tuple[str, str]:
        return text_of(read, digests.a), text_of(read, digests.b)

    def _note_calls(self, number: int, a: Turn, b: Turn) -> None:
        """A different answer is seen in the context of the call after it; further ones tell nothing new."""
        if not self._calls_end:
            self.calls.append((number, a.calls, b.calls))
            self._calls_end = self.parted_at is not None and bool(a.calls and b.calls)

    def _part(self, number: int) -> None:
        self.parted_at = number if self.parted_at is None else self.parted_at


def tool_diffs(a: Sequence[ToolCall], b: Sequence[ToolCall]) -> Iterator[ToolDiff]:
    """The tool calls that differ. Those with one input are matched first, between them those of one tool, then by order."""
    for one, other in _aligned(a, b, [_tool_and_input, _tool]):
        if one is None or other is None:
            yield ToolDiff(changed=["missing"], a=one, b=other)
            continue
        changed = [name for name in ToolCall.__struct_fields__ if _differ(getattr(one, name), getattr(other, name))]
        if None in (one.decision, other.decision) and "decision" in changed:
            changed.remove("decision")  # nobody was asked in one of them: a replay, say, runs no tool
        if changed:
            yield ToolDiff(changed=changed, a=one, b=other)


def _aligned(
    a: Sequence[ToolCall], b: Sequence[ToolCall], keys: list[Callable[[ToolCall], str]]
) -> Iterator[tuple[ToolCall | None, ToolCall | None]]:
    if not keys or not a or not b:
        yield from zip_longest(a, b)
        return
    i = j = 0
    for at, other, size in Matching().blocks([keys[0](call) for call in a], [keys[0](call) for call in b]):
        yield from _aligned(a[i:at], b[j:other], keys[1:])
        i, j = at + size, other + size
        yield from zip(a[at:i], b[other:j], strict=True)


def _tool_and_input(call: ToolCall) -> str:
    return f"{call.tool} {_canonical(call.input).decode()}"


def _tool(call: ToolCall) -> str:
    return call.tool


def _tool_calls(turn: Turn | None) -> list[ToolCall]:
    return [_tool_call(part) for part in turn.tool_calls] if turn else []


def _tool_call(part: ToolPart) -> ToolCall:
    return ToolCall(
        tool=part.tool,
        state=part.state,
        input=part.input,
        output=part.output,
        error=part.error,
        decision=part.decision.action if part.decision else None,
    )


def _changed_words(a: Turn, b: Turn) -> list[str]:
    """What differs in what was said and done, by shape: the ids of tool calls don't count."""
    changed = ["hidden"] if (a.hidden_at is None) != (b.hidden_at is None) else []
    if _shapes(a.messages) == _shapes(b.messages):
        return [*changed, *(["tools"] if _decided_otherwise(a, b) else [])]
    kinds = {
        "user": _shapes(a.user) != _shapes(b.user),
        "output": a.assistant_text != b.assistant_text,
        "reasoning": _reasoning(a) != _reasoning(b),
        "tools": any(True for _ in tool_diffs(_tool_calls(a), _tool_calls(b))),
        "parts": _differ(_rest(a), _rest(b)),
    }
    # What is left is the order of things, or how a text was cut into parts.
    return [*changed, *([name for name, differs in kinds.items() if differs] or ["parts"])]


def _decided_otherwise(a: Turn, b: Turn) -> bool:
    """Whether the rules said something else about a call. Where nobody was asked nothing was said: a replay runs no tool."""
    pairs = zip(_tool_calls(a), _tool_calls(b), strict=False)
    return any(one.decision and other.decision and one.decision != other.decision for one, other in pairs)


def _shapes(messages: Iterable[Message]) -> list[bytes]:
    return shapes_of(
        _canonical({"role": message.role, "parts": [_told(part) for part in message.parts if _counts(part)]})
        for message in messages
    )


def _in_order(turn: Turn) -> list[Any]:
    """All that was said and done, as it is compared."""
    return [msgspec.json.decode(shape) for shape in _shapes(turn.messages)]


def _counts(part: Part) -> bool:
    """Whether a part says anything: where a step begins is how a stream is cut, and a replay has no stream."""
    return not isinstance(part, StepStart)


def _told(part: Part) -> dict[str, Any]:
    """A part without what is of one run alone."""
    return {name: value for name, value in msgspec.to_builtins(part).items() if name not in _OF_ONE_RUN}


def _rest(turn: Turn) -> list[dict[str, Any]]:
    """Files, sources, data and all else that is neither the user's nor text, reasoning or a tool call."""
    return [
        {"role": message.role, **_told(part)}
        for message in turn.messages
        if message.role != "user"
        for part in message.parts
        if message.role == "system" or not isinstance(part, TextPart | ReasoningPart | ToolPart | StepStart)
    ]


def _reasoning(turn: Turn | None) -> str:
    parts = (part for part in turn.parts if isinstance(part, ReasoningPart)) if turn else ()
    return "\n\n".join(part.text for part in parts)


def _facts(a: Turn, b: Turn, names: Iterable[str]) -> dict[str, Sides]:
    """Those of the facts that differ."""
    both = {name: Sides(_fact(a, name), _fact(b, name)) for name in names}
    return {name: sides for name, sides in both.items() if _differ(sides.a, sides.b)}


def _fact(turn: Turn, name: str) -> Any:
    if name in ("system_prompt", "tool_catalog"):
        return getattr(turn, f"{name}_digest")
    if name == "permissions":  # when a rule was added is of one run alone
        return [
            {key: value for key, value in rule.items() if key != "added_at"} if isinstance(rule, dict) else rule
            for rule in turn.permissions
        ]
    return getattr(turn, name)


def _numbers(a: Turn | None, b: Turn | None) -> dict[str, Any]:
    used = (a.usage if a else None, b.usage if b else None)
    tokens = {name: _delta(*(getattr(usage, name) if usage else None for usage in used)) for name in USAGE}
    return {
        "tokens": tokens if any(used) else {},
        "cost_usd": _delta(a.cost_usd if a else None, b.cost_usd if b else None),
        "duration_ms": _delta(a.duration_ms if a else None, b.duration_ms if b else None),
    }


def _changed_numbers(numbers: dict[str, Any]) -> list[str]:
    tokens = any(each.a != each.b for each in numbers["tokens"].values())
    cost = numbers["cost_usd"]
    return [*(["tokens"] if tokens else []), *(["cost"] if cost and cost.a != cost.b else [])]


def _delta(a: float | None, b: float | None) -> Delta:
    return Delta(a, b, None if a is None or b is None else b - a)


def _differ(a: Any, b: Any) -> bool:
    """Whether two values differ as JSON: 1 and true are equal in Python alone."""
    return a is not b and _canonical(a) != _canonical(b)


def _canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")
