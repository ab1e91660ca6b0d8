"""Objects in builtins, one level at a time, so that a walk can look into them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Set
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec

PLAIN = frozenset((int, float, bool, type(None)))
HARMLESS = (date, time, timedelta, Decimal, UUID)  # a form of their own, in which no secret fits
BYTES = (bytes, bytearray, memoryview)


def unfolded(value: Any) -> tuple[Any, bool]:
    """An object in builtins, one level deep, and whether that is a form of it.

    Where it isn't, it is what the object says of itself, and says no more than what stood there.
    """
    kind = type(value)
    try:
        if isinstance(value, os.PathLike):
            return os.fspath(value), True
        if isinstance(value, tuple) and not hasattr(kind, "_fields"):
            return tuple(value), True
        if isinstance(value, Mapping):
            return dict(value), True
        if isinstance(value, (deque, Set)):
            return list(value), True
        if isinstance(value, msgspec.Raw):
            return msgspec.json.decode(value), True
        if callable(getattr(kind, "model_dump", None)):
            return value.model_dump(), True
        shown = _shown(value)
        if shown is not None:
            return shown, True
        return repr(value), isinstance(value, BaseException)  # which is told by its text anywhere
    except Exception:
        return f"<{kind.__name__} that can't be shown>", False


def _shown(value: Any) -> dict[str, Any] | None:
    """The fields of a Struct, a dataclass, an attrs class or a named tuple."""
    kind = type(value)
    start: dict[str, Any] = {}
    if isinstance(value, msgspec.Struct):
        names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
        config = kind.__struct_config__
        if config.tag is not None:
            start = {config.tag_field or "type": config.tag}
    elif isinstance(value, tuple):
        names = {name: name for name in kind._fields}
    elif hasattr(kind, "__dataclass_fields__"):
        names = {name: name for name in kind.__dataclass_fields__}
    elif hasattr(kind, "__attrs_attrs__"):
        names = {field.name: field.name for field in kind.__attrs_attrs__}
    else:
        return None
    values = {shown: getattr(value, name, msgspec.UNSET) for shown, name in names.items()}
    return start | {shown: item for shown, item in values.items() if item is not msgspec.UNSET}


def as_key(key: Any) -> Any:
    """A key that JSON can have, or that holds no text."""
    if isinstance(key, Enum):
        return as_key(key.value)
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    if key is None or isinstance(key, (int, float, *HARMLESS)):
        return key
    return str(unfolded(key)[0])
