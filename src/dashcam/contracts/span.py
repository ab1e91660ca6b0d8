"""Spans and log records, as OpenTelemetry knows them: what it takes to give each back to the letter."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Id = Annotated[str, Meta(min_length=1)]
Status = Literal["unset", "ok", "error"]

_DIGEST = 16  # bytes


class Ref(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that was too large to stay where it was, and by which contents it comes back.

    `place` says where it stood, `form` how it is put together again (`dialects/otlp/offload.py` knows both);
    the digests are those of contents and contexts, in hex.
    """

    place: tuple[int, ...]
    form: str
    content: str | None = None
    context: str | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span of a trace, as it arrived.

    Rules: `(trace_id, span_id)` identifies it; of two bodies the greatest `rank` stands, whatever
    the order of arrival. `body` is the OTLP message Span (protobuf) without what has a field here and without
    the values that `refs` stand for; `scope` is the OTLP message ResourceSpans that it came in, without spans:
    its resource and its instrumentation scope.
    """

    trace_id: Id  # hex
    span_id: Id
    parent_span_id: str | None = None
    name: str = ""
    start_ns: int
    end_ns: int
    status: Status = "unset"
    body: bytes = b""
    scope: bytes = b""
    refs: tuple[Ref, ...] = ()
    redacted: bool = False
    seq: int = 0

    @property
    def digest(self) -> bytes:
        """A hash over everything that the sender said."""
        said = (self.parent_span_id, self.name, self.start_ns, self.end_ns, self.status, self.refs, self.scope)
        return hashlib.sha256(msgspec.msgpack.encode(said) + self.body).digest()[:_DIGEST]

    @property
    def rank(self) -> tuple[int, bytes]:
        """A later end wins; between equal ends the greater digest, so that every order agrees."""
        return (self.end_ns, self.digest)


class LogRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One OpenTelemetry log record; the digest of resource and record identifies it.

    Rules: one without a trace stands in the trace `session:<id>` of the session that it names, and so do those of
    programs whose traces say nothing of their sessions. `body` is the OTLP
    message LogRecord (protobuf) without the values that `refs` stand for; `scope` the ResourceLogs around it.
    """

    trace_id: Id
    span_id: str | None = None
    ts: int  # microseconds since 1970, UTC
    name: str = ""  # of the event that it tells
    severity: str = ""
    body: bytes = b""
    scope: bytes = b""
    refs: tuple[Ref, ...] = ()
    redacted: bool = False
    seq: int = 0

    @property
    def digest(self) -> bytes:
        said = (self.trace_id, self.refs, self.scope)
        return hashlib.sha256(msgspec.msgpack.encode(said) + self.body).digest()[:_DIGEST]
