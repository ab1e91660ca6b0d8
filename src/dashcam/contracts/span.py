"""Spans and log records, as OpenTelemetry knows them."""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec
from msgspec import Meta

Id = Annotated[str, Meta(min_length=1)]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span of a trace, as it arrived.

    Rules: `(trace_id, span_id)` identifies it; of two bodies the greatest `rank` stands, whatever
    the order of arrival. `body` is the JSON object of all that has no column of its own.
    """

    trace_id: Id
    span_id: Id
    parent_span_id: str | None = None
    name: str = ""
    start_ns: int
    end_ns: int
    status: str = "unset"
    body: str = "{}"
    seq: int = 0

    @property
    def digest(self) -> str:
        """SHA-256 over everything that the sender said."""
        said = (self.parent_span_id, self.name, self.start_ns, self.end_ns, self.status, self.body)
        return hashlib.sha256(msgspec.json.encode(said)).hexdigest()

    @property
    def rank(self) -> tuple[int, str]:
        """A later end wins; between equal ends the greater digest, so that every order agrees."""
        return (self.end_ns, self.digest)


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One OpenTelemetry log record; the digest of resource and record identifies it."""

    trace_id: Id
    span_id: str | None = None
    ts: int  # microseconds since 1970, UTC
    severity: str = ""
    resource: str = "{}"
    body: str = "{}"
    seq: int = 0

    @property
    def digest(self) -> str:
        said = (self.trace_id, self.span_id, self.ts, self.severity, self.resource, self.body)
        return hashlib.sha256(msgspec.json.encode(said)).hexdigest()
