"""Values as OTLP's JSON writes them: typed attributes, times in nanoseconds as text, ids in hex."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from dashcam.exports.selection import json_text

_INT64 = 2**63


def attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is known of these, each with its type; None is left out."""
    return [{"key": key, "value": _typed(value)} for key, value in values.items() if key and value is not None]


def ns_of(ts: int) -> int:
    return ts * 1000


def ns_of_iso(fields: Mapping[str, Any], otherwise: int) -> int:
    """When a span that only its end tells of began: as it says, if it says so."""
    try:
        began = datetime.fromisoformat(str(fields.get("started_at"))).timestamp()
    except (ValueError, OverflowError):
        return otherwise
    return min(max(0, round(began * 1e6) * 1000), otherwise)


def derived_span_id(*of: object) -> str:
    """Sixteen hex digits for what has an id of another kind, the same each time."""
    return sha256("\0".join(map(str, of)).encode()).hexdigest()[:16]


def _typed(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int() if -_INT64 <= value < _INT64:
            return {"intValue": str(value)}
        case float() if math.isfinite(value):
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case list() if all(isinstance(each, str) for each in value):
            return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
        case _:
            return {"stringValue": json_text(value)}
