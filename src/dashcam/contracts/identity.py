"""Who a record belongs to: the tuple that makes it joinable, and the rules for it.

One place, used by the SDK where a record is built, by the collector where foreign records
come in, and mirrored by the CHECKs of the store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dashcam.errors import UnjoinableRecord

# What opens every line, in this order; the fields of the event follow.
IDENTITY = ("session_id", "trace_id", "step", "kind", "operation", "ts")
# Our remarks on a record (malformed, redacted, unencodable) go under one key of their own.
MARKS = "_dashcam"
RESERVED = frozenset((*IDENTITY, "span_id", "parent_span_id", MARKS))

MAX_ID = 256
MAX_STEP = 2**62  # far within what a store's integer holds
MAX_TIME = 253_402_300_800_000_000  # microseconds: the year 10,000; what lies beyond, or before 1970, is no time

_KIND = re.compile(r"user|system:\S+")
_OTEL_TRACE = re.compile(r"(?!0{32})[0-9a-f]{32}")
_OTEL_SPAN = re.compile(r"(?!0{16})[0-9a-f]{16}")


def fault_of_id(value: object, name: str) -> str | None:
    """Say what keeps `value` from being an id, or None. Ids are opaque; only the unusable is refused."""
    if value is None:
        return f"{name} is missing"
    if not isinstance(value, str):
        return f"{name} is {type(value).__name__}, not text"
    if not value or value.isspace():
        return f"{name} is empty"
    if len(value) > MAX_ID:
        return f"{name} has {len(value)} characters, more than {MAX_ID}"
    if "\0" in value or not _is_unicode(value):
        return f"{name} holds characters that can't be stored"
    return None


def fault_of_step(value: object) -> str | None:
    if value is None:
        return "step is missing"
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_STEP:
        return f"step is {value!r:.40}, not a whole number from 0"
    return None


def fault_of_kind(value: object) -> str | None:
    if fault_of_id(value, "kind") is None and isinstance(value, str) and _KIND.fullmatch(value):
        return None
    return f"kind is {value!r:.60}, not 'user' or 'system:<source>'"


def fault_of_record(record: Mapping[str, Any]) -> str | None:
    """Say why `record` can't be joined, or None: the whole tuple, one reason."""
    return (
        fault_of_id(record.get("session_id"), "session_id")
        or fault_of_id(record.get("trace_id"), "trace_id")
        or fault_of_step(record.get("step"))
        or fault_of_kind(kind_of(record))
    )


def kind_of(record: Mapping[str, Any]) -> Any:
    """The record's kind. Some frozen shapes use `kind` for something else and carry `trace_kind`."""
    kind = record.get("kind", "user")
    return record["trace_kind"] if "trace_kind" in record and fault_of_kind(kind) else kind


def require_identity(session_id: object, trace_id: object, step: object, kind: object) -> None:
    """Raise UnjoinableRecord unless these make a whole tuple."""
    fault = (
        fault_of_id(session_id, "session_id")
        or fault_of_id(trace_id, "trace_id")
        or fault_of_step(step)
        or fault_of_kind(kind)
    )
    if fault:
        raise UnjoinableRecord(
            f"{fault}: such a record would join to nothing. Start from dashcam.new_trace(session_id=...)."
        )


def is_otel_trace_id(value: str) -> bool:
    return _OTEL_TRACE.fullmatch(value) is not None


def is_otel_span_id(value: str) -> bool:
    return _OTEL_SPAN.fullmatch(value) is not None


@lru_cache(maxsize=4096)
def otel_trace_id(trace_id: str) -> str:
    """The 32 hex digits under which this trace leaves as OTLP: itself, or derived where it is opaque."""
    if is_otel_trace_id(trace_id):
        return trace_id
    return hashlib.sha256(b"dashcam.trace.v1\0" + trace_id.encode()).hexdigest()[:32]


@lru_cache(maxsize=4096)
def root_span_id(trace_id: str) -> str:
    """The span that a trace's records belong to until a span is opened.

    It is the low half of the trace id (as in Zipkin), so that no line needs to carry it.
    """
    low = otel_trace_id(trace_id)[16:]
    return low if is_otel_span_id(low) else "0000000000000001"


def _is_unicode(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
