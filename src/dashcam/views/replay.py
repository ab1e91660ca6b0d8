"""Running a turn again: what that takes, whether it was recorded, and which recorded tool call answers a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import FINAL_STATES, Model, object_of
from dashcam.errors import ContentNotFound
from dashcam.record.wire import WIRE as TOLD
from dashcam.store.base import Reader
from dashcam.views import turns
from dashcam.views.context import holds_prompt, messages_of
from dashcam.views.parts import ToolPart, part_of
from dashcam.views.turns import Turn

Outcome = Literal["hit", "miss", "diverged"]

_OUTPUT = "output."  # the paths of what was taken out of an answer, which nobody was sent
_NO_PROMPT = "no system prompt was told to the recorder: the model is asked without one"
_NO_TOOLS = "no tool catalog was told to the recorder: the model is asked without tools"
_NO_HISTORY = "the messages of earlier turns were not told to the recorder that made this call"
_SYSTEM_ROLES = ("system", "developer")
_INSTRUCTIONS = "instructions"  # of Pydantic AI: what of the system prompt doesn't stand in the messages


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be another than it was. Names of settings may have dots: `extra_body.effort`."""

    model: str | None = None
    system_prompt: str | None = None
    settings: Mapping[str, Any] = {}

    @property
    def given(self) -> frozenset[str]:
        """The settings that are told, by their first name."""
        return frozenset(name.partition(".")[0] for name in self.settings)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model answered to one request, as bytes; or why it didn't."""

    output: bytes | None = None
    error: str | None = None


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that the first request of a turn is made of."""

    model: Model
    system_prompt: str | None  # all of it
    instructions: str | None  # what of it goes beside the messages
    tool_catalog: str | None
    messages: list[bytes]
    settings: dict[str, Any]
    wire: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that may be run again. `inputs` is None where something is `missing`."""

    session_id: str
    turn: Turn
    missing: list[str]
    redacted: list[str]  # where, in what the model was sent
    inexact: list[str] = []  # what else the model is not asked just as it was
    inputs: Inputs | None = None
    answers: list[Answer] = []

    @property
    def eligible(self) -> bool:
        return not self.missing


def load(store: Reader, session_id: str, number: int, changes: Overrides | None = None) -> Plan:
    """What one turn takes to be run again; raises NotFound where the session has no such turn."""
    _, turn = turns.at(store, session_id, number)
    return _plan(store, session_id, turn, changes or Overrides(), _said(store, session_id))


def load_all(store: Reader, session_id: str) -> Iterator[Plan]:
    """The same for every turn of a session."""
    loaded = turns.load(store, session_id)
    said = _said(store, session_id)
    return (_plan(store, session_id, turn, Overrides(), said) for turn in loaded)


def _plan(store: Reader, session_id: str, turn: Turn, changes: Overrides, said: Sequence[_Said]) -> Plan:
    missing = [] if turn.user and turn.user[0].parts else ["the parts of the user's message"]
    redacted = [path for path in _redacted(turn.calls) if path != "system" or changes.system_prompt is None]
    plan = Plan(session_id=session_id, turn=turn, missing=missing, redacted=redacted)
    if not turn.calls:
        missing.append("the request to the model: no model call was recorded for this turn")
        return plan
    call = turn.calls[0]
    model = _model(turn, call)
    if not model.model_id and not changes.model:
        missing.append("the name of the model")
    prompt = None if changes.system_prompt is not None else _prompt(store, call, missing)
    catalog = _catalog(store, turn, call, missing)
    messages = _messages(store, call, missing)
    if missing:
        return plan
    inputs = Inputs(
        model=model,
        system_prompt=prompt,
        instructions=None,
        tool_catalog=catalog,
        messages=messages,
        settings=object_of(call.settings),
        wire=call.wire or "as-given",
    )
    inexact = list(_not_told(call, changes, messages, said))
    inputs = _changed(inputs, changes, _told_prompt(store, call))
    answers = [_answer(store, each) for each in turn.calls]
    return msgspec.structs.replace(plan, inexact=inexact, inputs=inputs, answers=answers)


def _model(turn: Turn, call: ModelCall) -> Model:
    """The model by the name that the host asked for: the call may have that of a dated version, as it answered."""
    name = "" if call.model == "unknown" else call.model
    told = turn.model
    if told and told.model_id and name.startswith(told.model_id):
        return msgspec.structs.replace(told, provider_id=told.provider_id or call.provider or "")
    return Model(provider_id=call.provider or "", model_id=name)


def _prompt(store: Reader, call: ModelCall, missing: list[str]) -> str | None:
    if call.system_prompt_digest is None:
        return None
    try:
        return store.system_prompt(call.system_prompt_digest)
    except ContentNotFound:
        missing.append(f"the system prompt {call.system_prompt_digest}: its text is not in the store")
        return None


def _catalog(store: Reader, turn: Turn, call: ModelCall, missing: list[str]) -> str | None:
    if call.tool_catalog_digest is None:
        if turn.tool_calls and call.wire != TOLD:
            missing.append("the tool catalog: tools were called, and which there were was not recorded")
        return None
    try:
        return store.tool_catalog(call.tool_catalog_digest)
    except ContentNotFound:
        missing.append(f"the tool catalog {call.tool_catalog_digest}: its text is not in the store")
        return None


def _messages(store: Reader, call: ModelCall, missing: list[str]) -> list[bytes]:
    digests = messages_of(store, call)
    if not digests:
        missing.append("the messages that the model was sent")
        return []
    bodies = store.bodies(dict.fromkeys(digests))
    if lost := sum(digest not in bodies for digest in digests):
        missing.append(f"{lost} of the {len(digests)} messages that the model was sent: they are not in the store")
    return [bodies.get(digest, b"") for digest in digests]


def _answer(store: Reader, call: ModelCall) -> Answer:
    try:
        digest = bytes.fromhex(call.output_digest or "")
    except ValueError:
        digest = b""
    return Answer(output=store.bodies([digest]).get(digest) if digest else None, error=call.error)


def _redacted(calls: Iterable[ModelCall]) -> list[str]:
    """Where something was taken out of what the model was sent in this turn, tool outcomes included."""
    paths: dict[str, None] = {}
    for call in calls:
        if not call.redacted:
            continue
        try:
            found = msgspec.json.decode(call.redacted_paths, type=list[str])
        except (ValueError, RecursionError):
            found = []
        paths |= dict.fromkeys(path for path in found or ["an unknown place"] if not path.startswith(_OUTPUT))
    return list(paths)


# Requests that the recorder put together from what it was told


class _Sent(msgspec.Struct):
    """Of a message that the model was sent only who says it."""

    role: str = ""


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    """Of a message of the chat only what tells whether the model was to be sent it."""

    id: str
    is_asked: bool
    is_summary: bool
    created_at: int
    hidden_at: Any


def _said(store: Reader, session_id: str) -> list[_Said]:
    return [
        _Said(
            id=message.id,
            is_asked=message.role == "user",
            is_summary=told.get("trigger") == "compaction",
            created_at=message.created_at,
            hidden_at=told.get("hidden_at"),
        )
        for message in store.chat_messages(session_id)
        for told in (message.metadata(),)
    ]


def _not_told(call: ModelCall, changes: Overrides, messages: Sequence[bytes], said: Sequence[_Said]) -> Iterator[str]:
    """What such a request may lack. One that was handed over lacks nothing."""
    if call.wire != TOLD:
        return
    if call.system_prompt_digest is None and changes.system_prompt is None:
        yield _NO_PROMPT
    if call.tool_catalog_digest is None:
        yield _NO_TOOLS
    if sum(map(_is_asked, messages)) < _asked_before(call, said):
        yield _NO_HISTORY


def _is_asked(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=_Sent).role == "user"
    except (ValueError, RecursionError):
        return False


def _asked_before(call: ModelCall, said: Sequence[_Said]) -> int:
    """How many messages of the user there were when the model was asked; 0 where a summary stands for some of them."""
    place = next((place for place, each in enumerate(said) if each.id == call.message_id), 0)
    if any(each.is_summary for each in said[:place]):
        return 0
    return sum(each.is_asked and not _was_hidden(each, said[place]) for each in said[:place])


def _was_hidden(message: _Said, answer: _Said) -> bool:
    """Whether a rewind had hidden it by then. One that came later hid the answer, too."""
    hidden_at = message.hidden_at
    return hidden_at is not None and not (isinstance(hidden_at, int) and hidden_at > answer.created_at)


# Changes


def _told_prompt(store: Reader, call: ModelCall) -> str:
    try:
        return store.system_prompt(call.system_prompt_digest) if call.system_prompt_digest else ""
    except ContentNotFound:
        return ""


def _changed(inputs: Inputs, changes: Overrides, prompt: str) -> Inputs:
    """The inputs as they are to be now, and what of the system prompt goes beside the messages."""
    settings = with_settings(inputs.settings, changes.settings)
    if changes.system_prompt is not None:
        settings.pop(_INSTRUCTIONS, None)
        settings.pop("system", None)  # the old one in the form of some provider
        return msgspec.structs.replace(
            inputs,
            system_prompt=changes.system_prompt,
            instructions=changes.system_prompt,
            messages=list(_without_prompt(inputs.messages, prompt)),
            settings=settings,
        )
    told = settings.get(_INSTRUCTIONS)
    beside = told if isinstance(told, str) else None if holds_prompt(inputs.messages, prompt) else inputs.system_prompt
    return msgspec.structs.replace(inputs, instructions=beside, settings=settings)


def with_settings(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with some of them set anew; a name with dots leads into objects."""
    changed = dict(settings)
    for name, value in changes.items():
        *path, last = name.split(".")
        into = changed
        for key in path:
            inner = into.get(key)
            into[key] = dict(inner) if isinstance(inner, dict) else {}
            into = into[key]
        into[last] = value
    return changed


def _without_prompt(bodies: Iterable[bytes], prompt: str) -> Iterator[bytes]:
    """The messages without those, and those of their parts, that are the system prompt."""
    for body in bodies:
        message = object_of(body.decode("utf-8", "replace"))
        if message.get("role") in _SYSTEM_ROLES and _is_of(message.get("content"), prompt):
            continue
        parts = message.get("parts")
        kept = [part for part in parts if not _is_prompt(part, prompt)] if isinstance(parts, list) else parts
        if kept != parts:
            if not kept:
                continue
            body = msgspec.json.encode({**message, "parts": kept})
        yield body


def _is_prompt(part: Any, prompt: str) -> bool:
    return isinstance(part, dict) and part.get("part_kind") == "system-prompt" and _is_of(part.get("content"), prompt)


def _is_of(content: Any, prompt: str) -> bool:
    """Whether all of this is told by the system prompt: a notice of the host isn't."""
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return all(isinstance(text, str) and text in prompt for text in texts)


# Tool calls


class Match(msgspec.Struct, frozen=True):
    """How a tool call compares with the recording, and the recorded call whose outcome answers it, if one does."""

    outcome: Outcome
    recorded: ToolPart | None = None


class Matcher:
    """Finds the outcome of each tool call of a new run in the recording.

    A hit is the same call in the same order. A call that comes at another place, more often or with another input
    has diverged; it is answered where just that call stands anywhere in the session. A tool that was never called
    there is a miss.
    """

    def __init__(self, calls: Sequence[ToolPart], elsewhere: Callable[[], Iterable[ToolPart]]) -> None:
        self._calls, self._elsewhere = calls, elsewhere
        self._places: dict[bytes, list[int]] = {}
        for place, call in enumerate(calls):
            self._places.setdefault(key_of(call.tool, call.input), []).append(place)
        self._made: Counter[bytes] = Counter()
        self._last = -1

    def match(self, tool: str, given: Any) -> Match:
        key = key_of(tool, given)
        places = self._places.get(key, [])
        number, self._made[key] = self._made[key], self._made[key] + 1
        if number < len(places) and has_outcome(call := self._calls[places[number]]):
            in_order = places[number] > self._last
            self._last = max(self._last, places[number])
            return Match("hit" if in_order else "diverged", call)
        again = next((self._calls[place] for place in reversed(places) if has_outcome(self._calls[place])), None)
        return Match("diverged", again) if again else self._find(tool, key)

    def _find(self, tool: str, key: bytes) -> Match:
        found, is_known = None, False
        for call in self._elsewhere():
            if call.tool == tool:
                same = key_of(call.tool, call.input) == key
                is_known = is_known or not same
                found = call if same and has_outcome(call) else found
        return Match("diverged", found) if found or is_known else Match("miss")


def tool_parts(store: Reader, session_id: str) -> Iterator[ToolPart]:
    """Every tool call of a session, as they were made."""
    for row in store.chat_parts(session_id):
        part = part_of(row, {})
        if isinstance(part, ToolPart):
            yield part


def has_outcome(call: ToolPart) -> bool:
    return call.state in FINAL_STATES


def key_of(tool: str, given: Any) -> bytes:
    """The same for calls of one tool whose inputs are the same as JSON; no input is an empty one."""
    try:
        return tool.encode() + b" " + msgspec.json.encode({} if given is None else given, order="sorted")
    except (ValueError, RecursionError):
        return repr((tool, given)).encode("utf-8", "backslashreplace")
