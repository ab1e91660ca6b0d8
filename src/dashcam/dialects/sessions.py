"""An exported session, line by line: what each line holds, and back again.

`session`, `message` and `part` are the rows of the tables, column by column. The lines that follow them
(`system_prompt`, `tool_catalog`, `content`, `model_call`, `event`) add what the model was sent and what else
was recorded; who knows only the first three can skip them.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.contracts.content import EMPTY_CONTEXT, Link, LinkedContext, apply_link, digest_of, prefix_digests
from dashcam.contracts.event import MARK_NAMES, Event
from dashcam.contracts.identity import MAX_TIME, fault_of_id, fault_of_record
from dashcam.dialects.rows import Content, Hex, SystemPrompt, ToolCatalog, body_fields

MAX_INTEGER = 2**63 - 1  # what a store's integer holds

_IDS = frozenset(("id", "session_id", "message_id", "trace_id", "operation"))
_HEX = re.compile("[0-9a-f]{64}")


class Call(msgspec.Struct, frozen=True):
    """A model call, and how its context comes out of that of the call told before."""

    call: ModelCall
    context: LinkedContext | None = None


Item = ChatSession | ChatMessage | ChatPart | SystemPrompt | ToolCatalog | Content | Call | Event


class _Line(msgspec.Struct):
    type: str
    data: msgspec.Raw


class _Body(msgspec.Struct):
    digest: Hex
    body: str = ""
    base64: str | None = None  # where the bytes are no text


class _Link(msgspec.Struct):
    middle: list[Hex]
    parent: Hex | None = None
    head: Annotated[int, Meta(ge=0)] = 0
    tail: Annotated[int, Meta(ge=0)] = 0
    appended: Annotated[int, Meta(ge=0)] = 0


class _Call(ModelCall, frozen=True, kw_only=True):
    context: _Link | None = None


class _Answer(msgspec.Struct):
    """A message with its parts, as the JSON format nests them."""

    message: msgspec.Raw
    parts: list[msgspec.Raw] = []


class _Document(msgspec.Struct):
    session: msgspec.Raw
    messages: list[msgspec.Raw]


def line_of(item: Item) -> bytes:
    """The line that holds `item`, without its end."""
    kind, data = _told(item)
    return msgspec.json.encode({"type": kind, "data": data})


def item_of(line: bytes) -> Item:
    """What a line holds; raises ValueError with the reason where it is none of ours."""
    try:
        told = msgspec.json.decode(line, type=_Line)
        if told.type not in _READ:
            raise ValueError(f"no line has the type {told.type!r:.60}")
        return _item(told.type, told.data)
    except RecursionError:
        raise ValueError("nested too deep") from None


def document_items(document: bytes) -> Iterator[tuple[str, Item | ValueError]]:
    """The rows of one document of the JSON format, each with its place; what is none comes as the error."""
    try:
        told = msgspec.json.decode(document, type=_Document)
    except (ValueError, RecursionError) as error:
        yield "session", ValueError(str(error))
        return
    yield "session", _attempt("session", told.session)
    for number, raw in enumerate(told.messages, 1):
        place = f"message {number}"
        try:
            answer = msgspec.json.decode(raw, type=_Answer)
        except (ValueError, RecursionError) as error:
            yield place, ValueError(str(error))
            continue
        yield place, _attempt("message", answer.message)
        for index, part in enumerate(answer.parts, 1):
            yield f"{place}, part {index}", _attempt("part", part)


class ContextChain:
    """Follows the links of the calls of one file, each to the context of the call before it.

    Keeps the hashes of the last list, so that a call which only appends costs what it appends.
    """

    def __init__(self, known: Callable[[bytes], list[bytes] | None]) -> None:
        self._known = known  # the list of a context that an earlier file brought
        self._messages: list[bytes] = []
        self._prefixes = [EMPTY_CONTEXT]

    def follow(self, context: LinkedContext) -> None:
        """Go on to this context; raises ValueError where it doesn't come out as its digest says."""
        parent, change = context.parent, context.link
        before = self._messages if parent else []
        if parent and parent != self._prefixes[-1]:
            found = self._known(parent)
            if found is None:
                raise ValueError(f"its context goes on from {parent.hex()}, which isn't there")
            before = found
        messages = apply_link(before, change)
        same = change.head if before is self._messages else 0  # of what was hashed already
        prefixes = self._prefixes[:same] + prefix_digests(messages[same:], self._prefixes[same])
        if prefixes[-1] != context.digest:
            raise ValueError("its context doesn't match its digest")
        self._messages, self._prefixes = messages, prefixes


def _told(item: Item) -> tuple[str, Any]:
    match item:
        case ChatSession():
            return "session", item
        case ChatMessage():
            return "message", item
        case ChatPart():
            return "part", item
        case SystemPrompt(body):
            return "system_prompt", {"digest": digest_of(body.encode()).hex(), "body": body}
        case ToolCatalog(body):
            return "tool_catalog", {"digest": digest_of(body.encode()).hex(), "body": body}
        case Content(body):
            return "content", {"digest": digest_of(body).hex(), **body_fields(body)}
        case Call(call, context):
            return "model_call", {**msgspec.structs.asdict(call), "context": _link_fields(context)}
        case Event():
            told = msgspec.structs.asdict(item)
            del told["seq"]  # the place in one store, and no other's
            return "event", told


def _link_fields(context: LinkedContext | None) -> dict[str, Any] | None:
    if context is None:
        return None
    told = {"parent": context.parent and context.parent.hex(), **msgspec.structs.asdict(context.link)}
    return {**told, "middle": [digest.hex() for digest in context.link.middle]}


def _item(kind: str, data: msgspec.Raw) -> Item:
    shape, build = _READ[kind]
    found: Any = msgspec.json.decode(data, type=shape)
    if fault := _fault_of(found):
        raise ValueError(fault)
    return build(found)


def _attempt(kind: str, data: msgspec.Raw) -> Item | ValueError:
    try:
        return _item(kind, data)
    except (ValueError, RecursionError) as error:
        return ValueError(str(error))


def _fault_of(row: msgspec.Struct) -> str | None:
    """What keeps a row out of any store: an unusable id, a number beyond 64 bits."""
    for name in row.__struct_fields__:
        value = getattr(row, name)
        if name in _IDS and value is not None and (fault := fault_of_id(value, name)):
            return fault
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            return f"{name} is {value!r:.30}…, more than a store can hold"
    return None


def _body(line: _Body) -> bytes:
    body = line.body.encode() if line.base64 is None else b64decode(line.base64, validate=True)
    if digest_of(body).hex() != line.digest:
        raise ValueError("the digest doesn't match the body")
    return body


def _call(line: _Call) -> Call:
    call = ModelCall(**{name: getattr(line, name) for name in ModelCall.__struct_fields__})
    if fault := fault_of_record(msgspec.structs.asdict(call)) or _fault_of_time(call.ts):
        raise ValueError(fault)
    if line.context is None:
        return Call(call)
    if not _HEX.fullmatch(call.context_digest or ""):
        raise ValueError("context_digest is missing or no digest, but a context is told")
    told = line.context
    change = Link(told.head, told.tail, tuple(map(bytes.fromhex, told.middle)), told.appended)
    parent = None if told.parent is None else bytes.fromhex(told.parent)
    return Call(call, LinkedContext(bytes.fromhex(call.context_digest or ""), parent, change))


def _event(event: Event) -> Event:
    if fault := fault_of_record(msgspec.structs.asdict(event)) or _fault_of_time(event.ts):
        raise ValueError(fault)
    if event.offset < 0 or not 0 <= event.marks < 2 * max(MARK_NAMES.values()):
        raise ValueError(f"offset is {event.offset}, marks are {event.marks}: no such event")
    msgspec.json.decode(event.fields, type=dict[str, msgspec.Raw])
    return msgspec.structs.replace(event, seq=0)


def _fault_of_time(ts: int) -> str | None:
    return None if 0 <= ts < MAX_TIME else f"ts is {ts}, not microseconds since 1970"


def _as_is(row: Any) -> Any:
    return row


_READ: dict[str, tuple[type, Callable[[Any], Item]]] = {
    "session": (ChatSession, _as_is),
    "message": (ChatMessage, _as_is),
    "part": (ChatPart, _as_is),
    "system_prompt": (_Body, lambda line: SystemPrompt(_body(line).decode())),
    "tool_catalog": (_Body, lambda line: ToolCatalog(_body(line).decode())),
    "content": (_Body, lambda line: Content(_body(line))),
    "model_call": (_Call, _call),
    "event": (Event, _event),
}
