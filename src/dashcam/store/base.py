"""The store's protocol: what every engine can do, in nouns of ours. No SQL, no row numbers.

Three layers: the log (events, spans, log records, as they arrived), contents (immutable, by digest)
and projections (derived from the log of one trace, replaced as a whole). Only the first two are
acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatRow, ChatSession, Usage
from dashcam.contracts.content import LinkedContext
from dashcam.contracts.event import Event, Orphan
from dashcam.contracts.score import Score
from dashcam.contracts.span import LogRecord, Span


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """How far one segment or file has been collected, and how to know it again."""

    segment: str
    offset: int = 0
    path: str | None = None
    inode: str | None = None
    check: str | None = None  # digests of its beginning and of what precedes `offset`


class Context(msgspec.Struct, frozen=True):
    """What a model was sent: content digests in order, and the context that it goes on from."""

    messages: tuple[bytes, ...]
    parent: bytes | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What is appended in one transaction: all of it, or nothing."""

    events: Sequence[Event] = ()
    spans: Sequence[Span] = ()
    logs: Sequence[LogRecord] = ()
    orphans: Sequence[Orphan] = ()
    contents: Sequence[bytes] = ()
    system_prompts: Sequence[str] = ()
    tool_catalogs: Sequence[str] = ()
    contexts: Sequence[Context | LinkedContext] = ()  # in the order of the calls: one may link to the one before
    chat: Sequence[ChatRow] = ()  # in the order in which they were written: a later row stands in for an earlier one
    sources: Sequence[Source] = ()


class Ack(msgspec.Struct, frozen=True):
    """The batch is durable: the newest `seq`, and how many log rows were new."""

    seq: int
    new: int


Record = Event | Span | LogRecord | Orphan


class Changes(msgspec.Struct, frozen=True):
    """Log rows in the order of their arrival, and the cursor to go on from."""

    records: list[Record]
    cursor: str


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What one trace of spans adds to one session: a row of `projected_traces`. Times are milliseconds.

    `starts` and `ends` are hashes over a conversation: of what the trace's first call was sent up to its last answer,
    and of what its last call was sent and gave. Where one trace ends as another starts, that one goes on from it.
    """

    trace_id: str
    session_id: str
    session_by: str  # attribute, trace (an earlier span of the trace has one), context, or none
    kind: str = "user"
    name: str = ""  # of the trace's root span
    agent: str = ""
    provider: str | None = None
    model: str | None = None
    metadata_json: str = "{}"
    first_at: int
    last_at: int
    spans: int = 0
    errors: int = 0
    starts: bytes | None = None
    ends: bytes | None = None


class ToldTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that a trace tells, by what the user said in it; `times` over, where the same was said again.

    `history` counts those of them that the trace tells only because no earlier trace of the session does.
    """

    session_id: str
    digest: bytes
    times: int
    history: int = 0


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is derived from the log of one trace."""

    model_calls: Sequence[ModelCall] = ()
    pieces: Sequence[Piece] = ()
    messages: Sequence[ChatMessage] = ()
    parts: Sequence[ChatPart] = ()
    turns: Sequence[ToldTurn] = ()
    scores: Sequence[Score] = ()
    system_prompts: Sequence[str] = ()
    tool_catalogs: Sequence[str] = ()


class Unprojected(msgspec.Struct, frozen=True):
    """Traces whose log grew since they were last projected, the cursor once they have been, and until they have."""

    trace_ids: list[str]
    cursor: str
    since: str = "0"


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """How far what is derived is behind the log: the newest `seq`, and the newest that is projected."""

    seq: int
    projected: int


class TraceLog(msgspec.Struct):
    """The log of one trace, as far as something is derived from it."""

    calls: list[Event] = []  # events that tell of model calls, in the order of their steps
    spans: list[Span] = []
    logs: list[LogRecord] = []


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events: what is None does not narrow."""

    session_id: str | None = None
    trace_id: str | None = None
    operation: str | None = None
    kind: str | None = None
    limit: int | None = None


class TraceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One trace at a glance."""

    trace_id: str
    session_id: str
    kind: str
    events: int
    shared_steps: int  # records beyond the first at their step
    malformed: int
    first_ts: int
    last_ts: int
    spans: int = 0
    errors: int = 0  # of spans
    name: str = ""  # of its root span
    session_by: str | None = None  # how the session of its spans was found; None where it has events alone


class TraceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which traces: what is None does not narrow. Times are milliseconds, of when a trace began."""

    session_id: str | None = None
    since: int | None = None
    until: int | None = None
    has_error: bool | None = None  # whether one of its spans failed
    limit: int = 100
    after: str = ""  # the last id of the page before


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A system prompt, and where it is used. Times are milliseconds."""

    digest: str
    size: int
    first_at: int
    last_at: int | None = None
    calls: int = 0
    sessions: int = 0
    beginning: str = ""


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions: what is None does not narrow. Times are milliseconds."""

    session_id: str | None = None
    kind: str | None = "user"  # `user`, `system` (whichever source), or `system:<source>`
    agent: str | None = None
    model: str | None = None  # a part of `provider:model`
    since: int | None = None
    until: int | None = None
    status: str | None = None  # busy, idle or error
    text: str | None = None  # words that one of its parts holds
    has_error: bool | None = None
    min_cost: float | None = None
    parent: str | None = None
    archived: bool = False  # whether archived ones are listed, too
    limit: int = 100
    after: str = ""  # the last id of the page before


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One session at a glance, whatever is known of it: chat rows, events, or both. Times are milliseconds."""

    session_id: str
    kind: str
    agent: str | None = None  # None: only events, no chat
    provider: str | None = None
    model: str | None = None
    status: str = "idle"
    title: str = ""  # how its first user message begins
    turns: int = 0
    messages: int = 0
    errors: int = 0  # turns and tool calls that failed
    usage: Usage = Usage()
    cost_usd: float | None = None
    parent_id: str | None = None
    archived: bool = False
    traces: int = 0
    events: int = 0
    first_at: int
    last_at: int


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A part that holds the words that were looked for, and the words around them.

    In `snippet` those that were looked for stand between the characters 2 and 3.
    """

    session_id: str
    message_id: str
    part_id: str
    type: str
    created_at: int
    snippet: str

    def plainly(self) -> SearchHit:
        """The same without the two characters."""
        return msgspec.structs.replace(self, snippet=self.snippet.replace("\x02", "").replace("\x03", ""))


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a figure: what it is about, and its numbers."""

    by: str
    events: int
    orphans: int
    malformed: int
    redacted: int


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What may go: what is older than `before` (microseconds), and the oldest beyond `max_bytes`."""

    before: int | None = None
    max_bytes: int | None = None


class Retained(msgspec.Struct, frozen=True, kw_only=True):
    """What went, and what is left."""

    events: int = 0
    spans: int = 0
    logs: int = 0
    orphans: int = 0
    chat_sessions: int = 0
    contents: int = 0
    contexts: int = 0
    bytes: int = 0


class Reader(Protocol):
    """Reading. Lists come in a fixed order, so that two engines answer alike."""

    def changes(self, after: str = "", *, limit: int = 1000) -> Changes: ...
    def events(self, wanted: EventFilter) -> Iterator[Event]: ...
    def traces(self, session_id: str) -> list[TraceSummary]: ...
    def trace_list(self, wanted: TraceFilter) -> list[TraceSummary]: ...
    def trace(self, trace_id: str) -> TraceSummary: ...
    def sessions(self, wanted: SessionFilter) -> list[SessionSummary]: ...
    def session_kinds(self, wanted: SessionFilter) -> dict[str, int]: ...
    def chat_session(self, session_id: str) -> ChatSession: ...
    def chat_messages(self, session_id: str) -> Iterator[ChatMessage]: ...
    def chat_parts(self, session_id: str, message_id: str | None = None) -> Iterator[ChatPart]: ...
    def search(self, words: str, *, session_id: str | None = None, limit: int = 50) -> list[SearchHit]: ...
    def spans(self, trace_id: str) -> list[Span]: ...
    def logs(self, trace_id: str) -> list[LogRecord]: ...
    def trace_logs(self, trace_ids: Sequence[str]) -> dict[str, TraceLog]: ...
    def scores(self, *, session_id: str | None = None, trace_id: str | None = None) -> list[Score]: ...
    def prompts(self, *, limit: int = 100, after: str = "") -> list[Prompt]: ...
    def session_by(self) -> dict[str, int]: ...
    def spans_and_logs(self) -> int: ...
    def told_before(self, session_id: str, before: tuple[int, str]) -> dict[bytes, int]: ...
    def traces_ending(self, digest: bytes) -> list[Piece]: ...
    def calls_answered_by(self, response_ids: Sequence[str]) -> list[ModelCall]: ...
    def is_recorded(self, session_id: str) -> bool: ...
    def lag(self) -> Lag: ...
    def orphans(self, *, limit: int = 100) -> Iterator[Orphan]: ...
    def model_calls(
        self, trace_id: str | None = None, *, session_id: str | None = None, message_id: str | None = None
    ) -> list[ModelCall]: ...
    def sources(self) -> list[Source]: ...
    def bodies(self, digests: Iterable[bytes]) -> dict[bytes, bytes]: ...
    def system_prompt(self, digest: str) -> str: ...
    def tool_catalog(self, digest: str) -> str: ...
    def context(self, digest: bytes) -> list[bytes]: ...
    def figures(self, name: str, *, since: str = "", until: str = "9999") -> list[Figure]: ...
    def shared_steps(self) -> int: ...
    def verify(self) -> Iterator[str]: ...
    def backup(self, target: Path) -> None: ...
    def close(self) -> None: ...


class Store(Reader, Protocol):
    """Writing, by the one process that holds the store."""

    def append(self, batch: Batch) -> Ack: ...
    def unprojected(self, *, limit: int = 100) -> Unprojected: ...
    def replace(self, projections: Mapping[str, Projection], *, cursor: str) -> None: ...
    def forget_projections(self) -> None: ...
    def retain(self, policy: Retention) -> Retained: ...
