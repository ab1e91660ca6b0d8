"""Large values of a span or a log record, kept once as contents, and put back to the letter.

A history that an agent repeats with every call is taken apart into its messages, so that a call costs what is new
in it. A `place` is a path of field numbers and indexes as the protobuf messages have them; a form that would not
give the very same value back is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from dashcam.contracts.content import context_digest, digest_of, slices_of
from dashcam.contracts.span import Ref
from dashcam.dialects.requests import CUT, put_together, take_apart
from dashcam.errors import ContentNotFound

LIMIT = 2048  # bytes: smaller values stay where they are
_WORTH = 32  # bytes: a list of smaller pieces, a vector say, would cost more in pieces than as a whole

_ATTRIBUTES = {Span: 9, LogRecord: 6}
_EVENTS, _EVENT_ATTRIBUTES, _BODY = 11, 3, 5
# OpenInference and OpenLLMetry spread a list over attributes: `llm.input_messages.0.message.role`, and so on.
_SPREAD = re.compile(
    r"((?:llm\.(?:input_messages|output_messages|tools|prompts)|gen_ai\.(?:prompt|completion))\.)([0-9]+)\."
)

Bodies = Callable[[Iterable[bytes]], Mapping[bytes, bytes]]
Contexts = Callable[[bytes], Sequence[bytes]]


class Taken(NamedTuple):
    """What was taken out of a message: where it belongs, the contents, and their lists as digests."""

    refs: tuple[Ref, ...]
    contents: list[bytes]
    contexts: list[tuple[bytes, ...]]


class _Form(NamedTuple):
    """How a value is kept: one content, a list of them, or a list with a text around it."""

    name: str
    whole: bytes | None = None
    pieces: Sequence[bytes] | None = None


def take_out(message: Span | LogRecord) -> Taken:
    """Take what is large out of `message`, which is changed."""
    refs: list[Ref] = []
    contents: list[bytes] = []
    contexts: list[tuple[bytes, ...]] = []

    def keep(place: tuple[int, ...], form: _Form) -> None:
        whole = context = None
        if form.whole is not None:
            whole = digest_of(form.whole).hex()
            contents.append(form.whole)
        if form.pieces is not None:
            digests = tuple(map(digest_of, form.pieces))
            context = context_digest(digests).hex()
            contents.extend(form.pieces)
            contexts.append(digests)
        refs.append(Ref(place=place, form=form.name, content=whole, context=context))

    for place, holder, slot in _holders(message):
        if holder.HasField(slot) and (value := getattr(holder, slot)).ByteSize() > LIMIT:
            keep(place, _form_of(value))
            holder.ClearField(slot)
    for place, groups in _take_runs(message):
        keep(place, _Form("spread", pieces=groups))
    return Taken(tuple(refs), contents, contexts)


def put_back(message: Span | LogRecord, refs: Iterable[Ref], bodies: Bodies, context: Contexts) -> None:
    """Put back what `refs` stand for; raises ContentNotFound where a content is gone."""
    lists = {ref.context: context(bytes.fromhex(ref.context)) for ref in refs if ref.context is not None}
    wholes = [bytes.fromhex(ref.content) for ref in refs if ref.content is not None]
    wanted = dict.fromkeys((*wholes, *(digest for digests in lists.values() for digest in digests)))
    found = bodies(wanted) if wanted else {}
    for digest in wanted:
        if digest not in found:
            raise ContentNotFound(digest.hex(), "this store, though a span was recorded with it")

    def form_of(ref: Ref) -> _Form:
        whole = None if ref.content is None else found[bytes.fromhex(ref.content)]
        pieces = None if ref.context is None else [found[digest] for digest in lists[ref.context]]
        return _Form(ref.form, whole, pieces)

    spread = [ref for ref in refs if ref.form == "spread"]
    if spread:
        _spread_again(message, [(ref.place[-1], form_of(ref).pieces or ()) for ref in spread])
    for ref in refs:
        if ref.form != "spread":
            _value_at(message, ref.place).CopyFrom(_value_of(form_of(ref)))


# Where


def _holders(message: Span | LogRecord) -> Iterator[tuple[tuple[int, ...], Any, str]]:
    """Everything that has a value which may be large: its place, and the name that the value has there."""
    field = _ATTRIBUTES[type(message)]
    for index, attribute in enumerate(message.attributes):
        if not _SPREAD.match(attribute.key):  # with a large value it is part of a run, which goes as a whole
            yield (field, index), attribute, "value"
    if isinstance(message, LogRecord):
        yield (_BODY,), message, "body"
        return
    for number, event in enumerate(message.events):
        for index, attribute in enumerate(event.attributes):
            yield (_EVENTS, number, _EVENT_ATTRIBUTES, index), attribute, "value"


def _value_at(message: Any, place: tuple[int, ...]) -> Any:
    if place == (_BODY,):
        return message.body
    if len(place) == 2:
        return message.attributes[place[1]].value
    return message.events[place[1]].attributes[place[3]].value


# Forms


def _form_of(value: AnyValue) -> _Form:
    """The form that shares most with other spans and still gives back the very same value."""
    raw = value.SerializeToString()
    return next(form for form in _candidates(value, raw) if _value_of(form).SerializeToString() == raw)


def _candidates(value: AnyValue, raw: bytes) -> Iterator[_Form]:
    if value.HasField("string_value"):
        text = value.string_value.encode()
        if text[:1] == b"[" and (slices := _worthy(slices_of(text))):
            yield _Form("list", pieces=slices)
        if text[:1] == b"{" and (request := _request(text)):
            yield request
        yield _Form("text", whole=text)
    if value.HasField("array_value"):
        items = [item.SerializeToString() for item in value.array_value.values]
        if _worthy(items):
            yield _Form("array", pieces=items)
    yield _Form("value", whole=raw)


def _request(text: bytes) -> _Form | None:
    """A request to a model: its messages, and the text around them."""
    try:
        envelope, messages, *_ = take_apart(text)
    except (ValueError, RecursionError):
        return None
    slices = slices_of(messages) if messages else None
    if slices and len(slices) == 1 and slices[0][:1] == b"[":  # LangChain sends a list of conversations: of one
        envelope, slices = put_together(envelope, b"[" + CUT + b"]"), slices_of(slices[0])
    return _Form("request", envelope, slices) if _worthy(slices) else None


def _worthy(pieces: list[bytes] | None) -> list[bytes] | None:
    return pieces if pieces and sum(map(len, pieces)) >= _WORTH * len(pieces) else None


def _value_of(form: _Form) -> AnyValue:
    whole, pieces = form.whole or b"", form.pieces or ()
    match form.name:
        case "list":
            return AnyValue(string_value=(b"[" + b",".join(pieces) + b"]").decode())
        case "request":
            return AnyValue(string_value=put_together(whole, b"[" + b",".join(pieces) + b"]").decode())
        case "text":
            return AnyValue(string_value=whole.decode())
        case "array":
            return AnyValue(array_value=ArrayValue(values=map(AnyValue.FromString, pieces)))
    value: AnyValue = AnyValue.FromString(whole)
    return value


# Lists that are spread over attributes


def _take_runs(message: Span | LogRecord) -> list[tuple[tuple[int, ...], list[bytes]]]:
    """Take runs of neighbours that belong to one list out of the attributes: where each began, its members' groups."""
    field = _ATTRIBUTES[type(message)]
    runs: list[tuple[tuple[int, ...], list[bytes]]] = []
    left: list[KeyValue] = []
    for start, members in _neighbours(message.attributes):
        if members and members[0][0] and sum(each.ByteSize() for _, each in members) > LIMIT:
            runs.append(((field, start), [group.SerializeToString() for group in _groups(members)]))
        else:
            left += [attribute for _, attribute in members]
    if runs:
        _replace(message, left)
    return runs


_Member = tuple["re.Match[str] | None", KeyValue]


def _neighbours(attributes: Iterable[KeyValue]) -> Iterator[tuple[int, list[_Member]]]:
    """The attributes in stretches that share the name of a list, or have none, and where each stretch begins."""
    start, stretch, shared = 0, list[_Member](), ""
    for index, attribute in enumerate(attributes):
        found = _SPREAD.match(attribute.key)
        name = found[1] if found else ""
        if name != shared and stretch:
            yield start, stretch
            start, stretch = index, []
        shared = name
        stretch.append((found, attribute))
    yield start, stretch


def _groups(members: Iterable[_Member]) -> list[KeyValueList]:
    """One list of attributes for each member of the spread list, as they stand."""
    groups: list[KeyValueList] = []
    last = None
    for found, attribute in members:
        number = found[2] if found else None
        if number != last or not groups:
            groups.append(KeyValueList())
        groups[-1].values.append(attribute)
        last = number
    return groups


def _spread_again(message: Span | LogRecord, runs: Iterable[tuple[int, Sequence[bytes]]]) -> None:
    rest = iter(list(message.attributes))
    whole: list[KeyValue] = []
    for start, groups in sorted(runs, key=lambda run: run[0]):
        whole += (attribute for _, attribute in zip(range(start - len(whole)), rest, strict=False))
        for group in groups:
            whole += KeyValueList.FromString(group).values
    _replace(message, [*whole, *rest])


def _replace(message: Span | LogRecord, attributes: list[KeyValue]) -> None:
    del message.attributes[:]
    message.attributes.extend(attributes)
