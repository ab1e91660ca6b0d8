"""Journals into the store: incrementally, exactly once, also while they are being written.

A line is identified by its segment and byte offset. Rows and the offset up to which a segment was
read commit in one transaction, so a crash at any moment repeats nothing and loses nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from dashcam.contracts.chat import ChatRow
from dashcam.contracts.content import LinkedContext
from dashcam.contracts.event import Event, Orphan
from dashcam.dialects.lines import parse_line
from dashcam.dialects.rows import ROWS, Content, Row, SystemPrompt, ToolCatalog, row_of
from dashcam.errors import RecordRefused
from dashcam.sdk.journal import is_finished, order_of
from dashcam.store.base import Batch, Source, Store

BLOCK = 1 << 20  # bytes read at a time
MAX_LINE = 256 << 20  # what is longer is no record; its beginning goes to quarantine
KEPT_OF_LONG = 64 << 10
SWITCH_SECONDS = 0.0005
BATCH = 10_000  # records a transaction

# What becomes of bytes behind the last line end: more may come; the writer died in the middle of a
# line; or the file just has no line end at its end, as files of other programs often don't.
Ending = Literal["wait", "torn", "take"]
Progress = Callable[[int, int], None]  # bytes done, bytes in all


class Collected(msgspec.Struct):
    """What a collection brought in."""

    events: int = 0
    rows: int = 0  # of chats, and of what models were sent
    orphans: int = 0
    torn: int = 0
    bytes: int = 0
    unreadable: list[str] = []  # segments or files that could not be read, and why


class Pile:
    """Records on their way into the store, appended when they are many enough.

    While one batch is being written the next is parsed: SQLite works without the GIL. At most one batch is
    under way, so memory stays bounded and order is kept. Use it in a `with`, which ends with all of it written.
    """

    def __init__(self, store: Store, progress: Callable[[int], None]) -> None:
        self._store, self._progress = store, progress
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="dashcam-collect")
        self._under_way: Future[tuple[int, int, int]] | None = None
        self.collected = Collected()
        self._events: list[Event] = []
        self._rows: list[tuple[Event, Row]] = []
        self._orphans: list[Orphan] = []
        self._sources: dict[str, Source] = {}

    def __enter__(self) -> Pile:
        # Beside busy Python code each statement waits for the GIL; at Python's 5 ms that is most of the time.
        # This is our own process: inside a host's nothing is collected.
        self._interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, *ended: object) -> None:
        try:
            if kind is None:
                self.flush()
                self._wait()
        finally:
            self._writer.shutdown()
            sys.setswitchinterval(self._interval)

    def add(self, records: Sequence[Event | Orphan], source: Source, size: int) -> None:
        """Take the records of `size` bytes, and the point in their source that is reached with them."""
        self.collected.bytes += size
        events = [record for record in records if type(record) is Event and record.operation not in ROWS]
        self._events += events
        if len(events) < len(records):
            self._sort_out(record for record in records if type(record) is not Event or record.operation in ROWS)
        self._sources[source.segment] = source
        if len(self._events) + len(self._rows) + len(self._orphans) >= BATCH:
            self.flush()

    def _sort_out(self, records: Iterable[Event | Orphan]) -> None:
        """What isn't simply an event: rows, and what belongs in quarantine."""
        for record in records:
            if isinstance(record, Orphan):
                self._orphans.append(record)
            elif (row := _row_of(record)) is not None:
                self._rows.append((record, row))
            else:
                self._events.append(record)

    def flush(self) -> None:
        """Hand over what is there; it is written when the next batch is, or at the end."""
        if not self._sources:
            return
        self._wait()
        waiting = (self._events, self._rows, self._orphans, list(self._sources.values()))
        self._under_way = self._writer.submit(self._append, *waiting)
        self.collected.torn += sum(orphan.reason.startswith("torn") for orphan in self._orphans)
        self._progress(self.collected.bytes)
        self._events, self._rows, self._orphans, self._sources = [], [], [], {}

    def _wait(self) -> None:
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            events, rows, orphans = under_way.result()
            self.collected.events += events
            self.collected.rows += rows
            self.collected.orphans += orphans

    def _append(
        self,
        events: list[Event],
        rows: list[tuple[Event, Row]],
        orphans: list[Orphan],
        sources: list[Source],
    ) -> tuple[int, int, int]:
        """Append what waited; where the store refuses one of the records, that one goes to quarantine, alone."""
        try:
            self._store.append(batch_of(rows, events=events, orphans=orphans, sources=sources))
            return len(events), len(rows), len(orphans)
        except RecordRefused:
            kept = self._append_singly(((event, Batch(events=[event])) for event in events), orphans)
            kept_rows = self._append_singly(((line, batch_of([(line, row)])) for line, row in rows), orphans)
            self._store.append(Batch(orphans=orphans, sources=sources))
            return kept, kept_rows, len(orphans)

    def _append_singly(self, batches: Iterable[tuple[Event, Batch]], orphans: list[Orphan]) -> int:
        """Append one record at a time, those that are refused to `orphans`; return how many were not."""
        kept = 0
        for line, batch in batches:
            try:
                self._store.append(batch)
                kept += 1
            except RecordRefused as error:
                orphans.append(_refused(line, error))
        return kept


def batch_of(rows: Iterable[tuple[Event, Row]], **more: Any) -> Batch:
    """The rows of journal lines as a batch, with whatever else is to be written with them."""
    sorted_out: dict[type, list[Any]] = {Content: [], SystemPrompt: [], ToolCatalog: [], LinkedContext: []}
    chat: list[ChatRow] = []
    for _, row in rows:
        sorted_out.get(type(row), chat).append(row)
    return Batch(
        contents=[row.body for row in sorted_out[Content]],
        system_prompts=[row.body for row in sorted_out[SystemPrompt]],
        tool_catalogs=[row.body for row in sorted_out[ToolCatalog]],
        contexts=sorted_out[LinkedContext],
        chat=chat,
        **more,
    )


def _row_of(line: Event) -> Row | None:
    """The row that a line holds. Another program may use the name for events of its own: those stay events."""
    try:
        return row_of(line)
    except (ValueError, RecursionError):
        return None


def collect_journals(store: Store, folder: Path, progress: Progress | None = None) -> Collected:
    """Bring in whatever the segments in `folder` hold beyond what was collected before."""
    known = {source.segment: source for source in store.sources()}
    waiting = []
    total = 0
    for entry in sorted(os.scandir(folder), key=lambda entry: order_of(entry.name)) if folder.is_dir() else ():
        if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
            source = known.get(entry.name) or Source(segment=entry.name)
            behind = entry.stat().st_size - source.offset
            if behind > 0:
                waiting.append((Path(entry.path), source))
                total += behind
    with Pile(store, lambda done: progress(done, total) if progress else None) as pile:
        for path, source in waiting:
            try:
                # Asked before reading: what a finished segment holds now is all that it will ever hold.
                ending: Ending = "torn" if is_finished(path) else "wait"
                with path.open("rb") as file:
                    for records, reached, size in read_records(file, source, ending):
                        pile.add(records, reached, size)
            except OSError as error:  # gone meanwhile, or not for us to read: the others are
                pile.collected.unreadable.append(f"{path.name}: {error.strerror}")
    return pile.collected


def read_records(file: BinaryIO, source: Source, ending: Ending) -> Iterator[tuple[list[Event | Orphan], Source, int]]:
    """The records from where `source` stands, a block at a time, with where it stands then and the block's size."""
    file.seek(source.offset)
    now = time.time_ns() // 1000
    for block, whole in blocks(file):
        records = parse_block(block, source.segment, source.offset, now) if whole else _rest(block, source, ending, now)
        if records is None:
            return  # it stays for the next time
        source = msgspec.structs.replace(source, offset=source.offset + len(block))
        yield records, source, len(block)


def blocks(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Whole lines, about a block at a time; last, what follows the last line end, if anything does.

    Up to where the file ends now: a writer that is faster than we are would keep us here for ever.
    """
    rest: list[bytes] = []  # the pieces of a line longer than a block
    held = 0
    left = os.fstat(file.fileno()).st_size - file.tell()
    while left > 0 and (read := file.read(min(BLOCK, left))):
        left -= len(read)
        end = read.rfind(b"\n") + 1
        if end:
            yield b"".join((*rest, read[:end])), True
            rest, held = [read[end:]], len(read) - end
        else:
            rest.append(read)
            held += len(read)
            if held > MAX_LINE:
                yield b"".join(rest), False
                rest, held = [], 0
    if held:
        yield b"".join(rest), False


def parse_block(block: bytes, segment: str, start: int, now: int) -> list[Event | Orphan]:
    """The records of a block of whole lines, each with its own offset."""
    records: list[Event | Orphan] = []
    offset = start
    for line in block.split(b"\n"):
        if line and not line.isspace():
            records.append(parse_line(line, segment, offset, now))
        offset += len(line) + 1
    return records


def _rest(rest: bytes, source: Source, ending: Ending, now: int) -> list[Event | Orphan] | None:
    """What to make of bytes without a line end: None to wait for more."""
    if len(rest) > MAX_LINE:
        reason = f"a line of more than {MAX_LINE} bytes; only its beginning is kept"
        return [orphan_of(source, reason, rest[:KEPT_OF_LONG], now)]
    if ending == "torn":
        return [orphan_of(source, "torn: the writer ended in the middle of this line", rest, now)]
    if ending == "take" and rest.rstrip().endswith(b"}"):
        record = parse_line(rest, source.segment, source.offset, now)
        return None if isinstance(record, Orphan) and record.reason.startswith("not JSON") else [record]
    return None


def _refused(event: Event, error: RecordRefused) -> Orphan:
    body = msgspec.json.encode(event.as_record())
    return Orphan(
        segment=event.segment, offset=event.offset, reason=f"refused by the store: {error.__cause__}", body=body,
        operation=event.operation, ts=time.time_ns() // 1000,
    )  # fmt: skip


def orphan_of(source: Source, reason: str, body: bytes, now: int) -> Orphan:
    return Orphan(segment=source.segment, offset=source.offset, reason=reason, body=body, ts=now)
