"""What waits on disk to be sent: the segments, how far each has got, and who is at it.

Beside the journals, in `ship/`, each segment has two small files for each destination: `.offset` says
up to where the server has acknowledged it, `.lock` is held by the one process that sends it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from dashcam.sdk.journal import is_finished, make_private_folder, order_of
from dashcam.sdk.locks import locked, no_fork, opened
from dashcam.sdk.settings import Settings

CHUNK = 64 * 1024

# The name travels as an HTTP header and is half of a record's identity.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.jsonl")


class Segment(NamedTuple):
    """A segment as it was when somebody looked."""

    path: Path
    size: int
    modified: float

    @property
    def own(self) -> bool:
        """Whether this process writes it, by the process id in its name.

        Another container on the same folder may have our id; then the lock decides who sends.
        """
        return self.path.name.split("-")[1:2] == [str(os.getpid())]

    @property
    def finished(self) -> bool:
        """Whether nobody writes it any more. Asked while no fork can happen: asking takes a lock."""
        with no_fork, suppress(OSError):
            return is_finished(self.path)
        return False  # gone, or not for us to read


class Progress(msgspec.Struct, frozen=True):
    """What a `.offset` file holds."""

    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    refused: Annotated[int, msgspec.Meta(ge=0)] = 0


class Claim:
    """A segment that nobody else sends meanwhile: where it stands, and what comes next."""

    def __init__(self, segment: Segment, fd: int, state: Path) -> None:
        self.name = segment.path.name
        self._fd, self._state = fd, state
        self.finished = segment.finished  # asked before the size, which is then the last
        # What is written from now on is left to the next pass, so that a pass comes to an end.
        self.end = os.fstat(fd).st_size
        progress = _read_progress(state)
        self.refused = progress.refused
        # Where the file is damaged everything is sent again, which does no harm.
        self.offset = progress.offset if self.starts_line(progress.offset) else 0

    @property
    def torn(self) -> bool:
        """Whether what is left is a line whose writer died over it."""
        return self.finished and self.offset < self.end and not self.slice(1)

    def starts_line(self, offset: int) -> bool:
        return offset == 0 or (offset <= self.end and os.pread(self._fd, 1, offset - 1) == b"\n")

    def slice(self, limit: int) -> bytes:
        """Whole lines from the offset on: up to `limit` bytes, or one line alone that is longer."""
        start = os.pread(self._fd, min(limit, self.end - self.offset), self.offset)
        return start[: start.rfind(b"\n") + 1] or self._one_line(self.offset + len(start))

    def _one_line(self, at: int) -> bytes:
        """The line at the offset, whose end lies beyond `at`; empty where it has no end (yet)."""
        while at < self.end and (chunk := os.pread(self._fd, min(CHUNK, self.end - at), at)):
            if found := chunk.find(b"\n") + 1:
                return os.pread(self._fd, at + found - self.offset, self.offset)
            at += len(chunk)
        return b""

    def move_to(self, offset: int, refused: int = 0) -> None:
        """Note that everything before `offset` is settled. Raises OSError where that can't be written."""
        self.refused += refused
        # No fsync: should a power cut take this file, the slices are sent again, which does no harm.
        fresh = self._state.with_suffix(".new")
        with opened(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            os.write(fd, msgspec.json.encode(Progress(offset, self.refused)))
        fresh.replace(self._state)
        self.offset = offset


class Backlog:
    """The segments of one project on their way to one destination."""

    def __init__(self, settings: Settings, destination: str) -> None:
        self.journals = settings.journals
        self.folder = settings.folder / "ship"
        self._destination = destination
        # What had nothing more to send: for good, or at this size. A pass looks at none of it again,
        # so that a folder of thousands of old segments costs next to nothing.
        self._done: set[str] = set()
        self._settled: dict[str, int] = {}

    def waiting(self) -> list[Segment]:
        """What may have something to send, this process's own first: that is what somebody watches.

        A live segment of another process is left to that process.
        """
        fresh = (s for s in self._segments(self._done) if s.size != self._settled.get(s.path.name, 0))
        return sorted((s for s in fresh if s.own or s.finished), key=lambda s: (not s.own, order_of(s.path.name)))

    def _segments(self, but: Container[str] = ()) -> Iterator[Segment]:
        with suppress(FileNotFoundError), os.scandir(self.journals) as entries:
            for entry in entries:
                if entry.name in but:
                    continue
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        found = entry.stat()
                        yield Segment(Path(entry.path), found.st_size, found.st_mtime)

    @contextmanager
    def claim(self, segment: Segment) -> Iterator[Claim | None]:
        """The segment for us alone, or None while another process sends it."""
        make_private_folder(self.folder)
        with opened(segment.path, os.O_RDONLY) as fd, locked(self._file(segment, "lock")) as ours:
            yield Claim(segment, fd, self._file(segment, "offset")) if ours else None

    def settle(self, claim: Claim) -> None:
        """Don't look at it again until it has grown, which a finished one doesn't."""
        if claim.finished:
            self._done.add(claim.name)
        self._settled[claim.name] = claim.end

    def missing(self, segment: Segment) -> int:
        """How many of its bytes the server hasn't acknowledged."""
        return max(segment.size - _read_progress(self._file(segment, "offset")).offset, 0)

    def behind(self) -> int:
        return sum(self.missing(segment) for segment in self.waiting())

    def prune(self, before: float) -> int:
        """Remove the finished segments, last written `before`, that the server has to the last byte."""
        old = [s for s in self._segments() if s.size and s.modified <= before and s.finished]
        return sum(self._remove(segment) for segment in old if not self.missing(segment))

    def _remove(self, segment: Segment) -> bool:
        with suppress(FileNotFoundError), self.claim(segment) as claim:
            if claim is None or claim.offset != claim.end or claim.refused:
                return False
            segment.path.unlink()
            # Nobody needs these without the segment, not even who waits for the lock.
            for suffix in ("offset", "lock"):
                self._file(segment, suffix).unlink(missing_ok=True)
            return True
        return False

    def _file(self, segment: Segment, suffix: str) -> Path:
        return self.folder / f"{segment.path.name}.{self._destination}.{suffix}"


def _read_progress(path: Path) -> Progress:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Progress)
    except (FileNotFoundError, msgspec.DecodeError):
        return Progress()
