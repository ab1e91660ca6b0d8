"""Chunks of an AI SDK stream into the parts of one assistant message, as the SDK itself puts them together.

Two differences, both so that nothing is lost: while a tool's input streams, the part holds its text as `rawInput`
instead of a guess at what it will be; and what the SDK would refuse is kept and reported as `Odd`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dashcam.contracts.chat import FINAL_STATES
from dashcam.record.part import (
    ABSENT,
    Began,
    Change,
    Changed,
    Ended,
    Failed,
    Grew,
    Odd,
    Part,
    StepBegan,
    StepEnded,
    Told,
)

INVALID = "data-invalid"  # the type of a part that holds what is no chunk
_KEPT = 4_000  # characters of it
_BRIEF = 80
_MOST_OBJECTS = 1_000  # of metadata that are merged

_CALLED, _RESULT = "callProviderMetadata", "resultProviderMetadata"  # a chunk's providerMetadata, by its state

Chunk = Mapping[str, Any]


class Assembler:
    """The parts of one assistant message so far."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.metadata: dict[str, Any] = {}
        self.message_id: str | None = None
        self._texts: dict[tuple[str, str], Part] = {}  # of this step, by kind and id
        self._tools: dict[str, Part] = {}
        self._approvals: dict[str, Part] = {}
        self._named: dict[tuple[str, str], Part] = {}  # data parts that have an id
        self._in_step = False

    def feed(self, chunk: Chunk) -> list[Change]:
        """Take one chunk; return what it changed. Never raises, whatever the chunk is."""
        kind = chunk.get("type") if isinstance(chunk, Mapping) else None
        if not isinstance(kind, str) or not kind:
            return self._keep_invalid("no chunk: not an object with a type", chunk)
        if kind.startswith("data-"):
            return self._data_part(chunk, kind)
        if kind not in _TAKE:
            return [*self._add(dict(chunk)), Odd(f"unknown chunk type {_brief(kind)}, kept as a part")]
        take, needed = _TAKE[kind]
        for name in needed:
            if not isinstance(chunk.get(name), str):
                return self._keep_invalid(f"{kind} whose {name} is no text", chunk)
        return take(self, chunk)

    def part(self, data: dict[str, Any]) -> list[Change]:
        """Take a whole part of a UIMessage; it replaces the one with the same toolCallId, if there is one."""
        kind = data.get("type") if isinstance(data, Mapping) else None
        if not isinstance(kind, str) or not kind:
            return self._keep_invalid("no part: not an object with a type", data)
        if kind == "step-start":
            return self._start_step(data)
        if kind.startswith("data-"):
            return self._data_part(data, kind)
        if not kind.startswith("tool-") and kind != "dynamic-tool":
            return self._add(dict(data))
        call_id = data.get("toolCallId")
        if not isinstance(call_id, str):
            return [*self._add(dict(data), is_tool=True), Odd(f"{_brief(kind)} part whose toolCallId is no text")]
        if (part := self._tools.get(call_id)) is None:
            return self._add_tool(call_id, dict(data))
        part.replace(dict(data))
        return [Changed(part)]

    # Text and reasoning

    def _start_text(self, chunk: Chunk) -> list[Change]:
        kind, text_id = chunk["type"].removesuffix("-start"), chunk["id"]
        before = self._texts.get((kind, text_id))
        changes = self._begin_text(kind, text_id, "", chunk)
        if before is not None and before.get("state") == "streaming":
            changes.append(Odd(f"{kind} {_brief(text_id)} began again before it ended"))
        return changes

    def _begin_text(self, kind: str, text_id: str, text: str, chunk: Chunk) -> list[Change]:
        data: dict[str, Any] = {"type": kind, "text": text, "state": "streaming"}
        if kind == "reasoning":
            data["id"] = text_id
        changes = self._add(data)
        part = self._texts[kind, text_id] = self.parts[-1]
        part.put(**_metadata_of(chunk))
        return changes

    def _grow_text(self, chunk: Chunk) -> list[Change]:
        kind, text_id, text = chunk["type"].removesuffix("-delta"), chunk["id"], chunk["delta"]
        part = self._texts.get((kind, text_id))
        if part is None:
            odd = Odd(f"{kind} {_brief(text_id)} goes on without having begun in this step")
            return [*self._begin_text(kind, text_id, text, chunk), odd]
        changes, told = _grown(part, text), _metadata_of(chunk)
        if told and not _same(told["providerMetadata"], part.get("providerMetadata")):
            part.put(**told)
            changes = [Changed(part)]
        if part.get("state") != "streaming":
            changes.append(Odd(f"{kind} {_brief(text_id)} goes on after its end"))
        return changes

    def _end_text(self, chunk: Chunk) -> list[Change]:
        kind, text_id = chunk["type"].removesuffix("-end"), chunk["id"]
        part, told = self._texts.get((kind, text_id)), _metadata_of(chunk)
        if part is None:
            odd = Odd(f"{kind} {_brief(text_id)} ended without having begun in this step")
            if not told:
                return [odd]
            began = self._begin_text(kind, text_id, "", chunk)
            self.parts[-1].put(state="done")
            return [*began, odd]
        twice = [] if part.get("state") == "streaming" else [Odd(f"{kind} {_brief(text_id)} ended twice")]
        part.put(state="done", **told)
        return [Changed(part), *twice]

    # Tools

    def _start_input(self, chunk: Chunk) -> list[Change]:
        if chunk["toolCallId"] not in self._tools:
            return self._add_tool(chunk["toolCallId"], _tool_data(chunk, "input-streaming"))
        part = self._tools[chunk["toolCallId"]]
        part.put(**_call_fields(chunk))
        return [Changed(part), *_other_name(part, chunk), _odd_call(chunk, "began again")]

    def _grow_input(self, chunk: Chunk) -> list[Change]:
        call_id, text = chunk["toolCallId"], chunk["inputTextDelta"]
        part = self._tools.get(call_id)
        if part is None:
            data = _tool_data({"toolCallId": call_id, "dynamic": True}, "input-streaming") | {"rawInput": text}
            return [*self._add_tool(call_id, data), _odd_call(chunk, "goes on without having begun")]
        if not isinstance(part.get("rawInput", ""), str):
            return self._keep_invalid("input goes on where there is no text to go on with", chunk)
        changes = _grown(part, text)
        if part.tool_state != "input-streaming":
            changes.append(_odd_call(chunk, "goes on after its input was complete"))
        return changes

    def _complete_input(self, chunk: Chunk) -> list[Change]:
        part, given = self._tools.get(chunk["toolCallId"]), chunk.get("input", ABSENT)
        if part is None:
            return self._add_tool(chunk["toolCallId"], _tool_data(chunk, "input-available", input=given))
        part.put(**({} if given is ABSENT else {"input": given, "rawInput": ABSENT}), **_call_fields(chunk))
        changes: list[Change] = [Changed(part), *_other_name(part, chunk)]
        if part.tool_state in FINAL_STATES:
            return [*changes, _odd_call(chunk, "got its input after its outcome")]
        part.put(state="input-available")
        return changes

    def _refuse_input(self, chunk: Chunk) -> list[Change]:
        part = self._tools.get(chunk["toolCallId"])
        is_dynamic = bool(chunk.get("dynamic")) if part is None else part.type == "dynamic-tool"
        into, other = ("input", "rawInput") if is_dynamic else ("rawInput", "input")
        outcome = {into: chunk["input"], other: ABSENT} if "input" in chunk else {}
        outcome["errorText"] = chunk.get("errorText", ABSENT)
        if part is None:
            return self._add_tool(chunk["toolCallId"], _tool_data(chunk, "output-error", _RESULT, **outcome))
        changes = [Changed(part), *_other_name(part, chunk), *_settled_before(part, chunk)]
        outcome |= {"output": ABSENT, "preliminary": ABSENT, **_call_fields(chunk, _RESULT)}
        part.put(state="output-error", **outcome)
        return changes

    def _settle(self, chunk: Chunk) -> list[Change]:
        """An outcome: output, error or denial."""
        state = chunk["type"].removeprefix("tool-")
        part, changes = self._called(chunk, state)
        fields = {"state": state}
        if state != "output-denied":
            fields |= {name: chunk.get(name, ABSENT) for name in ("output", "errorText", "preliminary")}
        part.put(**fields, **_told(chunk, providerExecuted="providerExecuted", providerMetadata=_RESULT))
        if state == "output-error" and not isinstance(chunk.get("errorText"), str):
            changes.append(_odd_call(chunk, "failed with an error that is no text"))
        return changes

    def _ask_approval(self, chunk: Chunk) -> list[Change]:
        part, changes = self._called(chunk, "approval-requested")
        more = _told(chunk, approvalDescriptor="descriptor", signature="signature")
        part.put(state="approval-requested", approval={"id": chunk["approvalId"], **more})
        self._approvals[chunk["approvalId"]] = part
        return changes

    def _answer_approval(self, chunk: Chunk) -> list[Change]:
        asked = self._approvals.get(chunk["approvalId"])
        if asked is None and not isinstance(chunk.get("toolCallId"), str):
            return self._keep_invalid("an answer to an approval that nobody asked for", chunk)
        known = {} if asked is None else {"toolCallId": asked.tool_call_id}
        part, changes = self._called({**chunk, **known}, "approval-responded")
        before = part.get("approval")
        approval = {**(before if isinstance(before, dict) else {}), "id": chunk["approvalId"]}
        part.put(state="approval-responded", approval=approval | _told(chunk, approved="approved", reason="reason"))
        return changes

    def _called(self, chunk: Chunk, state: str) -> tuple[Part, list[Change]]:
        """The tool call that a chunk speaks of, begun here if nobody has."""
        call_id = chunk["toolCallId"]
        if (part := self._tools.get(call_id)) is not None:
            return part, [Changed(part), *_settled_before(part, chunk)]
        changes = self._add_tool(call_id, _tool_data({"toolCallId": call_id, "dynamic": True}, state))
        return self._tools[call_id], [*changes, _odd_call(chunk, "was never begun")]

    # The rest

    def _data_part(self, chunk: Chunk, kind: str) -> list[Change]:
        if chunk.get("transient"):
            return []
        name = chunk.get("id")
        if not isinstance(name, str):
            return self._add(dict(chunk))
        if (part := self._named.get((kind, name))) is not None:
            part.put(data=chunk.get("data"))
            return [Changed(part)]
        changes = self._add(dict(chunk))
        self._named[kind, name] = self.parts[-1]
        return changes

    def _start_step(self, chunk: Chunk) -> list[Change]:
        self._in_step = True
        return [*self._add({**chunk, "type": "step-start"}), StepBegan()]

    def _finish_step(self, chunk: Chunk) -> list[Change]:
        usage = chunk.get("usage")
        ended = StepEnded(dict(usage) if isinstance(usage, Mapping) else None, _words(chunk.get("finishReason")))
        began, self._in_step = self._in_step, False
        self._texts.clear()  # the next step may use the same ids
        return [ended, *([] if began else [Odd("a step ended that never began")])]

    def _start(self, chunk: Chunk) -> list[Change]:
        if isinstance(chunk.get("messageId"), str):
            self.message_id = chunk["messageId"]
        return self._tell(chunk)

    def _finish(self, chunk: Chunk) -> list[Change]:
        return [*self._tell(chunk), Ended(_words(chunk.get("finishReason")), aborted=False)]

    def _abort(self, chunk: Chunk) -> list[Change]:
        return [Ended(_words(chunk.get("reason")), aborted=True)]

    def _fail(self, chunk: Chunk) -> list[Change]:
        return [Failed(_words(chunk.get("errorText")) or "an error without a text")]

    def _tell(self, chunk: Chunk) -> list[Change]:
        told = chunk.get("messageMetadata")
        if told is None:
            return []
        if not isinstance(told, Mapping):
            return self._keep_invalid("message metadata that is no object", chunk)
        self.metadata = _merged(self.metadata, told)
        return [Told(self.metadata)]

    def _add_tool(self, call_id: str, data: dict[str, Any]) -> list[Change]:
        changes = self._add(data, is_tool=True)
        self._tools[call_id] = self.parts[-1]
        return changes

    def _add(self, data: dict[str, Any], *, is_tool: bool = False) -> list[Change]:
        self.parts.append(Part(len(self.parts), data, is_tool=is_tool))
        return [Began(self.parts[-1])]

    def _keep_invalid(self, why: str, value: object) -> list[Change]:
        return [*self._add({"type": INVALID, "data": {"why": why, "value": _brief(value, _KEPT)}}), Odd(why)]


_Take = Callable[[Assembler, Chunk], list[Change]]
# How each type is taken, and which of its fields have to be text.
_TAKE: dict[str, tuple[_Take, tuple[str, ...]]] = {
    **{f"{kind}-start": (Assembler._start_text, ("id",)) for kind in ("text", "reasoning")},
    **{f"{kind}-delta": (Assembler._grow_text, ("id", "delta")) for kind in ("text", "reasoning")},
    **{f"{kind}-end": (Assembler._end_text, ("id",)) for kind in ("text", "reasoning")},
    "tool-input-start": (Assembler._start_input, ("toolCallId", "toolName")),
    "tool-input-delta": (Assembler._grow_input, ("toolCallId", "inputTextDelta")),
    "tool-input-available": (Assembler._complete_input, ("toolCallId", "toolName")),
    "tool-input-error": (Assembler._refuse_input, ("toolCallId", "toolName")),
    **{f"tool-output-{outcome}": (Assembler._settle, ("toolCallId",)) for outcome in ("available", "error", "denied")},
    "tool-approval-request": (Assembler._ask_approval, ("toolCallId", "approvalId")),
    "tool-approval-response": (Assembler._answer_approval, ("approvalId",)),
    **dict.fromkeys(
        ("file", "source-url", "source-document"), (lambda assembler, chunk: assembler._add(dict(chunk)), ())
    ),
    "start": (Assembler._start, ()),
    "message-metadata": (Assembler._tell, ()),
    "start-step": (Assembler._start_step, ()),
    "finish-step": (Assembler._finish_step, ()),
    "finish": (Assembler._finish, ()),
    "abort": (Assembler._abort, ()),
    "error": (Assembler._fail, ()),
    "done": (lambda _assembler, _chunk: [], ()),  # what stands for the stream's [DONE] in Pydantic AI
}


def _grown(part: Part, text: str) -> list[Change]:
    return [Grew(part, part.path, part.append(text), text)] if text else []


def _tool_data(chunk: Chunk, state: str, metadata: str = _CALLED, **fields: Any) -> dict[str, Any]:
    name = chunk.get("toolName", "unknown")
    data = {"type": "dynamic-tool", "toolName": name} if chunk.get("dynamic") else {"type": f"tool-{name}"}
    data |= {"toolCallId": chunk["toolCallId"], "state": state, **_call_fields(chunk, metadata)}
    return data | {key: value for key, value in fields.items() if value is not ABSENT}


def _call_fields(chunk: Chunk, metadata: str = _CALLED) -> dict[str, Any]:
    """What a chunk says of a call beside its input."""
    same = {name: name for name in ("title", "toolMetadata", "providerExecuted")}
    return _told(chunk, **same, providerMetadata=metadata)


def _told(chunk: Chunk, **names: str) -> dict[str, Any]:
    """The fields of a chunk that say anything, under the part's names."""
    return {into: chunk[name] for name, into in names.items() if chunk.get(name) is not None}


def _metadata_of(chunk: Chunk) -> dict[str, Any]:
    return _told(chunk, providerMetadata="providerMetadata")


def _other_name(part: Part, chunk: Chunk) -> list[Change]:
    """A dynamic tool takes the name that it is told; any other has its own in its type."""
    name = chunk["toolName"]
    if part.type == "dynamic-tool":
        part.put(toolName=name)
    elif part.type != f"tool-{name}":
        return [_odd_call(chunk, f"is also called {_brief(name)}")]
    return []


def _settled_before(part: Part, chunk: Chunk) -> list[Change]:
    """The oddity of a call that had its outcome already."""
    had_outcome = part.tool_state in FINAL_STATES and part.get("preliminary") is not True
    return [_odd_call(chunk, f"had its outcome already: {part.tool_state}")] if had_outcome else []


def _odd_call(chunk: Chunk, what: str) -> Odd:
    return Odd(f"{chunk['type']}: tool call {_brief(chunk.get('toolCallId'))} {what}")


def _same(one: object, other: object) -> bool:
    try:
        return one == other
    except RecursionError:
        return False


def _words(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else _brief(value)


def _brief(value: object, most: int = _BRIEF) -> str:
    """The beginning of what something looks like."""
    try:
        text = repr(value[:most] if isinstance(value, str | bytes) else value)
    except Exception:  # somebody's own repr, or too deep
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else text[: most - 1] + "…"


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Objects merged into objects, anything else replaced. Not recursive, so that no depth is too deep."""
    merged = dict(base)
    rest: list[tuple[dict[str, Any], Mapping[str, Any]]] = [(merged, more)]
    for _ in range(_MOST_OBJECTS):  # an object that holds itself would never end
        if not rest:
            break
        into, source = rest.pop()
        for key, value in source.items():
            before = into.get(key)
            if isinstance(before, dict) and isinstance(value, Mapping):
                into[key] = inner = dict(before)
                rest.append((inner, value))
            else:
                into[key] = value
    return merged
