"""An event: one operation of an agent, as it stands in the log."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dashcam.contracts.identity import MAX_TIME

MALFORMED, REDACTED, UNENCODABLE = 1, 2, 4
MARK_NAMES = {"malformed": MALFORMED, "redacted": REDACTED, "unencodable": UNENCODABLE}

Id = Annotated[str, Meta(min_length=1)]

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Event(msgspec.Struct, frozen=True, gc=False):  # gc: millions of them, and none holds a container
    """One record of the journal, written once and never edited.

    Rules: `(segment, offset)` identifies it; `step` orders it within its trace and may repeat;
    `fields` is the JSON object of all that is not identity, as it was written.
    """

    segment: Id
    offset: int
    session_id: Id
    trace_id: Id
    step: int
    kind: Id
    operation: Id
    ts: int  # microseconds since 1970, UTC
    fields: str = "{}"
    marks: int = 0
    seq: int = 0  # given by the store

    def as_record(self) -> dict[str, object]:
        """The line as a dict, in the order of the line."""
        return {
            "session_id": self.session_id,
            "trace_id": self.trace_id,
            "step": self.step,
            "kind": self.kind,
            "operation": self.operation,
            "ts": iso_of(self.ts),
            **self.data(),
        }

    def data(self) -> dict[str, Any]:
        """The fields as a dict. What other programs wrote may hold numbers that only some parsers take."""
        try:
            return _decode(self.fields)
        except (ValueError, RecursionError):
            try:
                return dict(json.loads(self.fields, parse_constant=str, parse_int=_whole))
            except (ValueError, RecursionError):
                return {"unreadable": self.fields}


class Orphan(msgspec.Struct, frozen=True, kw_only=True):
    """A record from elsewhere that can't be joined, kept whole with the reason."""

    segment: Id
    offset: int
    reason: Id
    body: bytes
    operation: str = ""
    ts: int
    seq: int = 0


def _whole(digits: str) -> int | str:
    """A whole number; one with thousands of digits, on which Python itself gives up, stays text."""
    return int(digits) if len(digits) < 4_000 else digits


def iso_of(ts: int) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=min(max(ts, 0), MAX_TIME - 1))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
