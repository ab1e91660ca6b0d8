"""The embedded store: the protocol of `store/base.py` on one SQLite file."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.contracts.event import Event, Orphan
from dashcam.contracts.score import Score
from dashcam.contracts.span import LogRecord, Span
from dashcam.errors import RecordRefused, StoreError, UnreadableInput
from dashcam.store.base import (
    Ack,
    Batch,
    Changes,
    EventFilter,
    Figure,
    Lag,
    Piece,
    Projection,
    Prompt,
    Retained,
    Retention,
    SearchHit,
    SessionFilter,
    SessionSummary,
    Source,
    TraceFilter,
    TraceLog,
    TraceSummary,
    Unprojected,
)
from dashcam.store.sqlite import backlog, chat_read, contents, projected_read, read, search, spans, traces
from dashcam.store.sqlite.audit import verify
from dashcam.store.sqlite.backlog import Backlog
from dashcam.store.sqlite.chat import ChatWriter
from dashcam.store.sqlite.connection import Turns, WriterLock, open_reader, open_writer
from dashcam.store.sqlite.contexts import ContextReader, ContextWriter
from dashcam.store.sqlite.guard import guarded
from dashcam.store.sqlite.log import LogWriter
from dashcam.store.sqlite.projections import forget, replace, still_in_log
from dashcam.store.sqlite.retain import retain


@guarded
class SqliteReader:
    """Reads a store that somebody else may be writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = self._open()
        self._read_contexts = ContextReader(self._connection)

    def _open(self) -> sqlite3.Connection:
        return open_reader(self.path)

    def changes(self, after: str = "", *, limit: int = 1000) -> Changes:
        return read.changes(self._connection, after, limit)

    def events(self, wanted: EventFilter) -> Iterator[Event]:
        return read.events(self._connection, wanted)

    def traces(self, session_id: str) -> list[TraceSummary]:
        return traces.traces(self._connection, session_id)

    def trace_list(self, wanted: TraceFilter) -> list[TraceSummary]:
        return traces.trace_list(self._connection, wanted)

    def trace(self, trace_id: str) -> TraceSummary:
        return traces.trace(self._connection, trace_id, str(self.path))

    def sessions(self, wanted: SessionFilter) -> list[SessionSummary]:
        return chat_read.sessions(self._connection, wanted)

    def session_kinds(self, wanted: SessionFilter) -> dict[str, int]:
        return chat_read.session_kinds(self._connection, wanted)

    def chat_session(self, session_id: str) -> ChatSession:
        return chat_read.chat_session(self._connection, session_id, str(self.path))

    def chat_messages(self, session_id: str) -> Iterator[ChatMessage]:
        return chat_read.chat_messages(self._connection, session_id)

    def chat_parts(self, session_id: str, message_id: str | None = None) -> Iterator[ChatPart]:
        return chat_read.chat_parts(self._connection, session_id, message_id)

    def search(self, words: str, *, session_id: str | None = None, limit: int = 50) -> list[SearchHit]:
        return search.search(self._connection, words, session_id, limit)

    def spans(self, trace_id: str) -> list[Span]:
        return spans.spans(self._connection, trace_id)

    def logs(self, trace_id: str) -> list[LogRecord]:
        return spans.logs(self._connection, trace_id)

    def scores(self, *, session_id: str | None = None, trace_id: str | None = None) -> list[Score]:
        return projected_read.scores(self._connection, session_id, trace_id)

    def prompts(self, *, limit: int = 100, after: str = "") -> list[Prompt]:
        return projected_read.prompts(self._connection, limit, after)

    def spans_and_logs(self) -> int:
        return projected_read.spans_and_logs(self._connection)

    def session_by(self) -> dict[str, int]:
        return projected_read.session_by(self._connection)

    def told_before(self, session_id: str, before: tuple[int, str]) -> dict[bytes, int]:
        return projected_read.told_before(self._connection, session_id, before)

    def traces_ending(self, digest: bytes) -> list[Piece]:
        return projected_read.traces_ending(self._connection, digest)

    def calls_answered_by(self, response_ids: Sequence[str]) -> list[ModelCall]:
        return read.calls_answered_by(self._connection, response_ids)

    def is_recorded(self, session_id: str) -> bool:
        return projected_read.is_recorded(self._connection, session_id)

    def lag(self) -> Lag:
        return backlog.lag(self._connection)

    def trace_logs(self, trace_ids: Sequence[str]) -> dict[str, TraceLog]:
        return read.trace_logs(self._connection, trace_ids)

    def orphans(self, *, limit: int = 100) -> Iterator[Orphan]:
        return read.orphans(self._connection, limit)

    def model_calls(
        self, trace_id: str | None = None, *, session_id: str | None = None, message_id: str | None = None
    ) -> list[ModelCall]:
        return read.model_calls(self._connection, trace_id, session_id, message_id)

    def sources(self) -> list[Source]:
        return read.sources(self._connection)

    def bodies(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        return contents.bodies(self._connection, digests)

    def system_prompt(self, digest: str) -> str:
        return contents.system_prompt(self._connection, digest)

    def tool_catalog(self, digest: str) -> str:
        return contents.tool_catalog(self._connection, digest)

    def context(self, digest: bytes) -> list[bytes]:
        return self._read_contexts.read(digest)

    def figures(self, name: str, *, since: str = "", until: str = "9999") -> list[Figure]:
        return read.figures(self._connection, name, since, until)

    def shared_steps(self) -> int:
        return read.shared_steps(self._connection)

    def verify(self) -> Iterator[str]:
        """Every finding as of one moment. On a connection of its own: this one stays free for others meanwhile."""
        with closing(open_reader(self.path)) as connection:
            yield from verify(connection)

    def backup(self, target: Path) -> None:
        """A copy as of now, while the store is read and written on. An existing file is refused."""
        try:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            raise UnreadableInput(f"{target} exists already. Choose another name: a backup never overwrites.") from None
        except OSError as error:
            raise UnreadableInput(f"{target} can't be written: {error.strerror}. Choose another place.") from error
        with closing(open_reader(self.path)) as connection, closing(sqlite3.connect(target)) as copy:
            try:
                connection.backup(copy)  # in one go: page by page it would begin again whenever somebody writes
                copy.execute("PRAGMA journal_mode = DELETE")  # a backup is one file
            except sqlite3.Error as error:
                raise StoreError(f"{target} could not be written: {error}. It is not complete; remove it.") from error

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()


@guarded
class SqliteStore(SqliteReader):
    """Writes a store. Holds its lock from opening to closing, so there is never a second one.

    With a lock that another process holds (BorrowedLock) it writes projections beside that one, and appends nothing.
    """

    def __init__(self, path: Path, *, lock: WriterLock | None = None) -> None:
        self._lock = lock or WriterLock(path.parent).__enter__()
        self._turns = Turns(path.parent, shared=not self._lock.is_ours)
        try:
            super().__init__(path)
            try:
                self._log = LogWriter(self._connection)
            except BaseException:
                self._connection.close()
                raise
            self._contexts = ContextWriter(self._connection)
            self._chat = ChatWriter(self._connection)
            self._backlog = Backlog(self._connection)
        except BaseException:
            self._turns.close()
            self._lock.release()
            raise

    def _open(self) -> sqlite3.Connection:
        connection = open_writer(self.path)
        if not self._lock.is_ours:
            # What is derived can be derived again: no commit of it holds up the log for the sake of the disk.
            connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing. COMMIT returns when it is on the disk."""
        self._turns.take()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._undone_on_error():
                yield
                self._connection.execute("COMMIT")
        finally:
            self._turns.give()

    @contextmanager
    def _undone_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._log.forget()
            self._contexts = ContextWriter(self._connection)
            if _is_of_a_record(error):
                raise RecordRefused(f"{self.path} can't hold this: {error}. Nothing of this batch was kept.") from error
            if isinstance(error, sqlite3.Error):
                raise StoreError(
                    f"{self.path} could not be written: {error}. Nothing of this batch was kept."
                ) from error
            raise

    def append(self, batch: Batch) -> Ack:
        """Write the batch in one transaction; a repeated batch adds nothing."""
        if not self._lock.is_ours:
            raise StoreError(f"{self.path} is open for projecting only. Append where its lock is held.")
        with self._transaction():
            contents.put_contents(self._connection, batch.contents)
            now = time.time_ns() // 1_000_000
            for prompt in batch.system_prompts:
                contents.put_system_prompt(self._connection, prompt, now)
            for catalog in batch.tool_catalogs:
                contents.put_tool_catalog(self._connection, catalog, now)
            for each in batch.contexts:
                self._contexts.take(each)
            new = self._log.put_events(batch.events)
            new += self._log.put_spans(batch.spans)
            new += self._log.put_logs(batch.logs)
            new += self._log.put_orphans(batch.orphans)
            self._chat.put(batch.chat)
            self._log.put_sources(batch.sources)
            self._log.save_seq()
        return Ack(self._log.seq, new)

    def unprojected(self, *, limit: int = 100) -> Unprojected:
        return self._backlog.page(limit)

    def replace(self, projections: Mapping[str, Projection], *, cursor: str) -> None:
        """Replace all that was derived from these traces, and remember how far the log is projected."""
        if not projections and not self._backlog.is_beyond(cursor):
            return
        with self._transaction():
            self._backlog.settle(projections, cursor)
            replace(self._connection, still_in_log(self._connection, projections))
        self._backlog.note(projections, cursor)

    def forget_projections(self) -> None:
        with self._transaction():
            forget(self._connection)
        self._backlog = Backlog(self._connection)

    def retain(self, policy: Retention) -> Retained:
        """Remove what the policy lets go of, a chunk a transaction: sound wherever it is interrupted."""
        try:
            return retain(self._connection, self._transaction, policy)
        finally:
            self._log.forget()  # a scope that it remembers may be gone

    def close(self) -> None:
        super().close()
        self._turns.close()
        self._lock.release()


def _is_of_a_record(error: BaseException) -> bool:
    """Whether a record is at fault and not the disk: the same batch would fail everywhere."""
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
        return "bind" in str(error)
    return isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | OverflowError | UnicodeEncodeError)
