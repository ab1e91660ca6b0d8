"""The model calls of a trace as conversations: which call goes on from which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from dashcam.dialects.otlp.reading import Said
from dashcam.record.trace_steps import Step
from dashcam.sdk.encode import tamed

_dump = msgspec.json.Encoder().encode
_encode = msgspec.json.Encoder(order="sorted").encode


class Call:
    """A model call, or a message that was said outside of any, in its conversation."""

    __slots__ = ("children", "cost", "counts", "heard", "is_said", "output", "parent", "step", "system")

    def __init__(self, step: Step, *, counts: bool = True) -> None:
        reading = step.reading
        self.step = step
        self.is_said = step.kind == "said"
        self.counts = counts and not self.is_said  # whether it is a row of model_calls
        self.system = reading.system or _system_of(reading.input or ())
        self.heard: tuple[Said, ...] = tuple(said for said in reading.input or () if said.role != "system")
        self.output: tuple[Said, ...] | None = reading.output
        if self.is_said:
            told = (*self.heard, *(self.output or ()))
            self.heard = tuple(said for said in told if said.role == "user")
            self.output = tuple(said for said in told if said.role == "assistant") or None
        self.cost: float | None = None
        self.parent: Call | None = None
        self.children: list[Call] = []

    @property
    def gap(self) -> tuple[Said, ...]:
        """What it was sent beyond what its parent was."""
        return self.heard[len(self.parent.heard) :] if self.parent else self.heard


Form = tuple[str, str, tuple[tuple[str, str, str], ...], tuple[str, ...]]


class Numbers:
    """A number for each message, equal where they say the same, and one for each list of them."""

    def __init__(self) -> None:
        self._forms: dict[bytes, Form] = {}
        self._by_raw: dict[bytes, int] = {}
        self._by_form: dict[Form, int] = {}
        self._nodes: dict[tuple[int, int], int] = {}

    def form_of(self, said: Said) -> Form:
        """As `form_of`, but a message that is repeated is looked at once."""
        form = self._forms.get(said.raw)
        if form is None:
            form = form_of(said)
            if said.raw:
                self._forms[said.raw] = form
        return form

    def path(self, messages: Iterable[Said]) -> list[int]:
        """The numbers of every beginning of a list, the shortest first."""
        found, at = [], -1
        for said in messages:
            at = self._nodes.setdefault((at, self._number(said)), len(self._nodes))
            found.append(at)
        return found

    def _number(self, said: Said) -> int:
        number = self._by_raw.get(said.raw)
        if number is None:
            number = self._by_form.setdefault(self.form_of(said), len(self._by_form))
            if said.raw:
                self._by_raw[said.raw] = number
        return number


def threads_of(calls: Sequence[Call], numbers: Numbers) -> list[list[Call]]:
    """Calls that were sent messages, by conversation; in each a call stands after those that it goes on from.

    That one was sent more is a surer sign of order than any clock.
    """
    at_node: dict[int, list[Call]] = {}
    paths: list[list[int]] = []
    for call in calls:
        path = numbers.path(call.heard)
        same = at_node.setdefault(path[-1], [])
        if same and not _is_asked_again(call, same[-1]):
            call.parent = same[-1]
        same.append(call)
        paths.append(path)
    roots: list[Call] = []
    for call, path in zip(calls, paths, strict=True):
        if call.parent is None:
            length = next((end for end in range(len(path) - 1, 0, -1) if path[end - 1] in at_node), 0)
            call.parent = _who_gave(at_node[path[length - 1]], call.heard[length]) if length else None
        (call.parent.children if call.parent else roots).append(call)
    return [_in_order(root) for root in roots]


def digest_of_conversation(messages: Iterable[Said], numbers: Numbers) -> bytes | None:
    """A hash over who said what and which tools were called with what; None where that tells nobody apart.

    Messages of one speaker in a row are one: senders cut them differently. Results of tools are left out, which
    some shorten when they repeat them; so is what was said before and with calls whose ids tell them apart, which
    some don't repeat.
    """
    runs: list[tuple[str, list[str], list[Any]]] = []
    for said in messages:
        role, text, called, _ = numbers.form_of(said)
        if role in ("system", "tool"):
            continue
        if not runs or runs[-1][0] != role:
            runs.append((role, [], []))
        if any(call_id for _, _, call_id in called):
            runs[-1][1].clear()
        else:
            runs[-1][1].append(text)
        runs[-1][2].extend(called)
    told = [(role, "".join(texts).strip(), called) for role, texts, called in runs]
    if not any(role == "user" and text for role, text, _ in told) or not (told[-1][1] or told[-1][2]):
        return None
    return sha256(_encode(told)).digest()


def form_of(said: Said) -> Form:
    """What a message says, however it is written: role, text, tool calls, and the ids of what was answered."""
    texts: list[str] = []
    called: list[tuple[str, str, str]] = []
    answered: list[str] = []
    role = "tool" if is_only_results(said) else said.role
    for part in said.parts:
        kind = part.get("type")
        if kind == "text":
            texts.append(mended(part.get("text")))
        elif kind == "file":
            texts.append(mended(part.get("url")))
        elif kind == "tool-call":
            call_id, name = mended(part.get("toolCallId")), mended(part.get("toolName"))
            called.append((name, arguments_form(part.get("input")), call_id))
        elif kind == "tool-result":
            answered.append(mended(part.get("toolCallId")))
    return role, "".join(texts).strip(), tuple(called), tuple(answered)


def is_only_results(said: Said) -> bool:
    """Some send the results of tools as the user's words."""
    return said.role == "tool" or (
        said.role == "user" and bool(said.parts) and all(part.get("type") == "tool-result" for part in said.parts)
    )


def arguments_form(value: object) -> str:
    """Arguments as they are compared: some tell them as an object, some as its JSON."""
    try:
        if isinstance(value, str):
            value = msgspec.json.decode(value)
        return _encode(value).decode()
    except (ValueError, TypeError, RecursionError, OverflowError):
        return mended(value)


def mended(value: object) -> str:
    """Some text that can be encoded."""
    text = value if isinstance(value, str) else "" if value is None else repr(value)[:1000]
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def json_text(value: dict[str, Any]) -> str:
    try:
        return _dump(value).decode()
    except Exception:  # a value can fail in a way of its own
        return _dump(tamed(value)).decode()


def digest_of_text(text: str) -> str:
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _system_of(messages: Iterable[Said]) -> str | None:
    texts: list[str] = []
    for said in messages:
        if said.role != "system":
            break
        texts += [mended(part.get("text")) for part in said.parts if part.get("type") == "text"]
    return "\n\n".join(texts) or None


def _is_asked_again(call: Call, before: Call) -> bool:
    """Whether the same was sent again on purpose.

    Not where the first failed, nor where somebody with other instructions has only had a look: to choose who answers,
    or to guard it.
    """
    if not before.output or call.system == before.system:
        return bool(before.output)
    return any(part.get("type") == "tool-call" for said in before.output for part in said.parts)


def _who_gave(calls: list[Call], answer: Said) -> Call:
    """Of calls that were sent the same the one that gave this answer; where that can't be told the last."""
    if len(calls) > 1:
        form = form_of(answer)
        for call in calls:
            if any(form_of(said) == form for said in call.output or ()):
                return call
    return calls[-1]


def _in_order(root: Call) -> list[Call]:
    found: list[Call] = []
    waiting = [root]
    while waiting:
        call = waiting.pop()
        found.append(call)
        if call.children:
            waiting += sorted(call.children, key=_same_first, reverse=True)
    return found


def _same_first(call: Call) -> tuple[bool, int]:
    return (bool(call.gap), call.step.order)
