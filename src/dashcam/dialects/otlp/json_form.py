"""OTLP's JSON form into protobuf messages, and back.

Tolerant where senders differ: names in camelCase or snake_case, whole numbers as numbers or texts, enums as numbers
or names, ids in hex or base64, members that we don't know. A wrong shape is refused with the place where it stands.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn, TypeVar

import msgspec
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from dashcam.errors import UnreadableInput

_MAX_DEPTH = 90  # messages in messages: protobuf itself reads a hundred
_IDS = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}  # bytes; in hex, unlike other bytes
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_URL_SAFE = str.maketrans("-_", "+/")

M = TypeVar("M")
Put = Callable[[Any, Any, int], None]  # a message, what its member is in JSON, how deep the message stands


class _Wrong(Exception):
    """A member of the wrong shape; the path grows on the way out, from its end."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.path: list[str | int] = []


def read_json(body: bytes, kind: type[M]) -> M:
    """The message that `body` tells in JSON; raises UnreadableInput where it doesn't."""
    message = kind()
    try:
        _fill(message, _decoded(body), 1)
    except _Wrong as wrong:
        where = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in reversed(wrong.path))
        raise UnreadableInput(
            f"{where.lstrip('.') or 'The body'} {wrong}. Send OTLP/JSON as the OpenTelemetry protocol has it."
        ) from None
    return message


def to_json(message: Any) -> dict[str, Any]:
    """A message as OTLP/JSON: ids in hex, 64-bit numbers as texts."""
    told = {}
    for field, value in message.ListFields():
        write = _writer(field)
        told[field.json_name] = [write(item) for item in value] if hasattr(value, "append") else write(value)
    return told


def span_json(message: Span) -> dict[str, Any]:
    return to_json(message)


# Reading


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(body)  # takes lone surrogates and NaN, which some write
    except (ValueError, RecursionError) as error:
        what = "is nested too deep" if isinstance(error, RecursionError) else f"is not JSON: {error}"
        raise _Wrong(what) from None


def _fill(message: Any, members: Any, depth: int) -> None:
    if type(members) is not dict:
        raise _Wrong(f"is {_named(members)}, not an object")
    if depth > _MAX_DEPTH:
        raise _Wrong("is nested too deep")
    known = _known(message.__class__)
    for name, value in members.items():
        put = known.get(name)
        if put is None or value is None:
            continue
        try:
            put(message, value, depth)
        except _Wrong as wrong:
            wrong.path.append(name)
            raise


@cache
def _known(kind: Any) -> dict[str, Put]:
    """How each member of a message is read, under both of its names."""
    empty = kind()
    known = {}
    for field in kind.DESCRIPTOR.fields:
        is_list = hasattr(getattr(empty, field.name), "append")
        known[field.name] = known[field.json_name] = _put_list(field) if is_list else _put_one(field)
    return known


def _put_one(field: Any) -> Put:
    name = field.name
    if field.type == field.TYPE_MESSAGE:

        def put_message(message: Any, value: Any, depth: int) -> None:
            inner = getattr(message, name)
            inner.SetInParent()
            _fill(inner, value, depth + 1)

        return put_message
    read = _reader(field)

    def put_plain(message: Any, value: Any, depth: int) -> None:
        try:
            setattr(message, name, read(value))
        except ValueError as error:
            _refuse(value, error)

    return put_plain


def _put_list(field: Any) -> Put:
    name = field.name
    is_message = field.type == field.TYPE_MESSAGE
    read = None if is_message else _reader(field)

    def put_list(message: Any, value: Any, depth: int) -> None:
        if type(value) is not list:
            raise _Wrong(f"is {_named(value)}, not a list")
        items = getattr(message, name)
        at = 0
        try:
            for at, item in enumerate(value):  # noqa: B007 (the place, where one is wrong)
                if read is None:
                    _fill(items.add(), item, depth + 1)
                else:
                    items.append(read(item))
        except _Wrong as wrong:
            wrong.path.append(at)
            raise
        except ValueError as error:
            _refuse(value[at], error, at)

    return put_list


def _refuse(value: Any, error: ValueError, *at: int) -> NoReturn:
    """Say that a plain value is wrong. Numbers out of range are found by protobuf, whose words are its own."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    wrong = _Wrong("is out of range" if is_number and not isinstance(error, _Shape) else f"is {_named(value)}, {error}")
    wrong.path.extend(at)
    raise wrong from None


class _Shape(ValueError):
    """Says what a value should have been."""


def _reader(field: Any) -> Callable[[Any], Any]:
    match field.type:
        case field.TYPE_STRING:
            return _text
        case field.TYPE_BYTES:
            size = _IDS.get(field.name)
            return _bytes if size is None else lambda value: _id(value, size)
        case field.TYPE_BOOL:
            return _bool
        case field.TYPE_DOUBLE | field.TYPE_FLOAT:
            return _double
        case field.TYPE_ENUM:
            numbers = {value.name: value.number for value in field.enum_type.values}
            return lambda value: numbers[value] if type(value) is str and value in numbers else _whole(value)
        case _:
            return _whole


def _text(value: Any) -> str:
    if type(value) is not str:
        raise _Shape("not a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode()
    return value


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise _Shape("not true or false")
    return value


def _whole(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is str and value.isascii() and value.removeprefix("-").isdigit() and len(value) <= 20:
        return int(value)
    if type(value) is float and value.is_integer():
        return int(value)
    raise _Shape("not a whole number of its size")


def _double(value: Any) -> float:
    if type(value) is str and value in _SPECIAL:
        return _SPECIAL[value]
    if type(value) in (int, float) or type(value) is str:
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise _Shape("not a number")


def _bytes(value: Any) -> bytes:
    if type(value) is str:
        try:
            return b64decode(
                value.translate(_URL_SAFE).rstrip("=") + "=" * (-len(value.rstrip("=")) % 4), validate=True
            )
        except ValueError:
            pass
    raise _Shape("not base64")


def _id(value: Any, size: int) -> bytes:
    if type(value) is str and len(value) == 2 * size:
        try:
            return bytes.fromhex(value)
        except ValueError:
            pass
    try:
        return _bytes(value)
    except _Shape:
        raise _Shape(f"not {2 * size} hex digits") from None


def _named(value: Any) -> str:
    """A JSON value by its kind; what somebody sent is not repeated in a message, where it might be a secret."""
    kinds: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else kinds.get(type(value), "a number")


# Writing


@cache
def _writer(field: Any) -> Callable[[Any], Any]:
    match field.type:
        case field.TYPE_MESSAGE:
            return to_json
        case field.TYPE_BYTES:
            return bytes.hex if field.name in _IDS else lambda value: b64encode(value).decode()
        case field.TYPE_DOUBLE | field.TYPE_FLOAT:
            return _double_json
        case field.TYPE_INT64 | field.TYPE_UINT64 | field.TYPE_FIXED64 | field.TYPE_SFIXED64 | field.TYPE_SINT64:
            return str
        case _:
            return lambda value: value


def _double_json(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
