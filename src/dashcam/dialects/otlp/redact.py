"""Secrets out of spans and log records, before anything reaches a disk.

What the Redactor says counts. Most requests and spans hold no secret: they pass a quick look (`calm.py`) and never
come here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from dashcam.dialects.otlp.decode import value_of
from dashcam.sdk.redaction import Redactor
from dashcam.sdk.redaction.walk import LABELLED, LABELS

_INT64 = 2**63
_SPAN_TEXTS, _LOG_TEXTS, _STATUS_TEXTS = ("name", "trace_state"), ("event_name", "severity_text"), ("message",)
_SCOPE_TEXTS = ("name", "version")


def redact(message: Span | LogRecord | Resource | InstrumentationScope, redactor: Redactor) -> bool:
    """Take every secret out of `message`, which is changed; say whether there was one."""
    found = _redact_attributes(message, redactor)
    if isinstance(message, Span):
        found |= _redact_texts(message, _SPAN_TEXTS, redactor)
        if message.HasField("status"):
            found |= _redact_texts(message.status, _STATUS_TEXTS, redactor)
        for event in message.events:
            found |= _redact_texts(event, ("name",), redactor) | _redact_attributes(event, redactor)
        for link in message.links:
            found |= _redact_texts(link, ("trace_state",), redactor) | _redact_attributes(link, redactor)
    elif isinstance(message, InstrumentationScope):
        found |= _redact_texts(message, _SCOPE_TEXTS, redactor)
    elif isinstance(message, LogRecord):
        found |= _redact_texts(message, _LOG_TEXTS, redactor)
        if message.HasField("body"):
            found |= _redact_body(message, redactor)
    return found


def _redact_texts(
    message: Span | Span.Event | Span.Link | Status | LogRecord | InstrumentationScope,
    names: Iterable[str],
    redactor: Redactor,
) -> bool:
    found = False
    for name in names:
        text = getattr(message, name)
        if not text:
            continue
        clean = redactor.text(text)
        if clean is not text:
            setattr(message, name, clean)
            found = True
    return found


def _redact_body(record: LogRecord, redactor: Redactor) -> bool:
    given = _plain(record.body, redactor)
    clean = redactor.apply({"body": given}).fields
    if clean.get("body") is given:
        return False
    record.body.CopyFrom(_any_value(clean.get("body", clean)))
    return True


def _redact_attributes(
    message: Span | Span.Event | Span.Link | LogRecord | Resource | InstrumentationScope, redactor: Redactor
) -> bool:
    attributes = message.attributes
    if not attributes:
        return False
    given = _fields(attributes, redactor)
    clean = _applied(given, redactor)
    if len(clean) != len(given):  # the host's own function, or a redaction that failed
        del attributes[:]
        attributes.extend(KeyValue(key=_text(key), value=_any_value(value)) for key, value in clean.items())
        return True
    found = False
    for attribute, before, after in zip(attributes, given.items(), clean.items(), strict=True):
        if after[0] != before[0]:
            attribute.key = _text(after[0])
            found = True
        if after[1] is not before[1]:
            attribute.value.CopyFrom(_any_value(after[1]))
            found = True
    return found


# The walk


def _applied(fields: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    if redactor.asks_host:
        return redactor.apply(fields).fields
    # One level down, where a name always labels the value beside it; the quick way through flat fields doesn't look.
    clean = redactor.apply({"": fields}).fields
    inner: dict[str, Any] = clean.get("", clean)
    return inner


def _fields(attributes: Iterable[KeyValue], redactor: Redactor) -> dict[str, Any]:
    """The attributes as a dict, in their order, with every value of a name that comes twice: `token`, `token_2`."""
    pairs = [(attribute.key, _plain(attribute.value, redactor)) for attribute in attributes]
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    # A number at the end makes no other name for the Redactor, but a label then is none: what it may label is secret.
    labels = [value for key, value in pairs if key in LABELS and isinstance(value, str)]
    is_labelled = any(redactor.judge(label) for label in labels)
    fields, numbers = {}, dict[str, int]()
    for key, value in pairs:
        name = stem = f"{key}_secret" if is_labelled and key in LABELLED else key
        while name in fields:
            numbers[stem] = numbers.get(stem, 1) + 1
            name = f"{stem}_{numbers[stem]}"
        fields[name] = value
    return fields


def _plain(value: AnyValue, redactor: Redactor) -> Any:
    """A value in builtins of which nothing is dropped."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item, redactor) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _fields(value.kvlist_value.values, redactor)
    return value_of(value)


def _any_value(value: Any) -> AnyValue:
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case int() if -_INT64 <= value < _INT64:
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case list() | tuple():
            made = AnyValue()
            made.array_value.values.extend(map(_any_value, value))
            made.array_value.SetInParent()
            return made
        case dict():
            made = AnyValue()
            made.kvlist_value.values.extend(KeyValue(key=_text(k), value=_any_value(v)) for k, v in value.items())
            made.kvlist_value.SetInParent()
            return made
    return AnyValue(string_value=_text(value))


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()
