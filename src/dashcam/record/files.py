"""Other programs' files into the store: renamed, truncated or rotated under us, still exactly once.

A file is known again by what it holds, not by its name: by digests of its beginning and of what
precedes the point up to which it was read. So a renamed file goes on where it stood, the copy that
`copytruncate` makes does too, and a file that was truncated or replaced starts anew.
"""

from __future__ import annotations

import hashlib
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from dashcam.contracts.event import Event, Orphan
from dashcam.errors import UnreadableInput
from dashcam.record.collect import KEPT_OF_LONG, Collected, Pile, Progress, orphan_of, read_records
from dashcam.store.base import Source, Store

SAMPLE = 1024  # bytes at either end that a file is known by


class _Check(msgspec.Struct, frozen=True):
    """What a source held: digests of its first bytes, and of the last before its offset."""

    size: int
    head: str
    tail: str


def collect_files(store: Store, paths: Sequence[Path], progress: Progress | None = None) -> Collected:
    """Bring in what these JSONL files hold beyond what was collected of them before."""
    paths, unreadable = _readable_ones(paths)
    total = sum(path.stat().st_size for path in paths)
    known = [source for source in store.sources() if source.path]
    with Pile(store, lambda done: progress(done, total) if progress else None) as pile:
        for path, source in match(paths, known):
            reached = source
            with path.open("rb") as file:
                for records, reached, size in read_records(file, source, "take"):
                    pile.add(records, _remember(reached, path), size)
            if reached.offset:
                pile.add((), _remember(reached, path), 0)  # it may have moved without having grown
        pile.collected.unreadable += unreadable
    return pile.collected


def read_file(path: Path) -> Iterator[Event | Orphan]:
    """What a JSONL file holds, as it would be collected; a last line that was cut off is an orphan, too."""
    path = _readable(path)
    with path.open("rb") as file:
        reached = Source(segment=str(path))
        for records, reached, _ in read_records(file, reached, "take"):  # noqa: B007, B020 - on from where it got
            yield from records
        file.seek(reached.offset)
        if (rest := file.read(KEPT_OF_LONG)).strip():
            yield orphan_of(reached, "torn: the line has no end", rest, time.time_ns() // 1000)


def match(paths: Sequence[Path], sources: Sequence[Source]) -> Iterator[tuple[Path, Source]]:
    """Each file with the source that it goes on from, or with a new one."""
    free = {source.segment: source for source in sources}
    unmatched = []
    for path in paths:  # first those that are where they were, so that a copy can't take their place
        found = next((s for s in free.values() if s.inode == inode_of(path) and holds(path, s)), None)
        if found:
            yield path, free.pop(found.segment)
        else:
            unmatched.append(path)
    for path in unmatched:
        moved = [s for s in free.values() if holds(path, s) and not _still_there(s)]
        found = max(moved, key=lambda source: source.offset, default=None)
        yield path, free.pop(found.segment) if found else _new_source(path, sources)


def holds(path: Path, source: Source) -> bool:
    """Whether the file still holds what was read of this source."""
    if not source.check or path.stat().st_size < source.offset:
        return False
    return check_of(path, source.offset) == msgspec.json.decode(source.check, type=_Check)


def check_of(path: Path, offset: int) -> _Check:
    size = min(SAMPLE, offset)
    with path.open("rb") as file:
        head = file.read(size)
        file.seek(offset - size)
        tail = file.read(size)
    return _Check(size, hashlib.sha256(head).hexdigest(), hashlib.sha256(tail).hexdigest())


def inode_of(path: Path) -> str:
    found = path.stat()
    return f"{found.st_dev}:{found.st_ino}"


def _still_there(source: Source) -> bool:
    """Whether a source's own file is where it was: then another one like it is another file."""
    path = Path(source.path or "")
    try:
        return inode_of(path) == source.inode and holds(path, source)
    except OSError:
        return False


def _remember(source: Source, path: Path) -> Source:
    check = msgspec.json.encode(check_of(path, source.offset)).decode()
    return msgspec.structs.replace(source, path=str(path), inode=inode_of(path), check=check)


def _new_source(path: Path, sources: Sequence[Source]) -> Source:
    """A name that no earlier file at this path has, so that offsets never collide."""
    taken = {source.segment for source in sources}
    count = 0
    while (segment := f"file:{path}#{count}") in taken:
        count += 1
    return Source(segment=segment)


def _readable_ones(paths: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Each file once, whatever links lead to it; and why others can't be read. None at all is an error."""
    found: dict[str, Path] = {}
    unreadable: list[UnreadableInput] = []
    for path in paths:
        try:
            real = _readable(path)
            found.setdefault(inode_of(real), real)
        except UnreadableInput as error:
            unreadable.append(error)
    if unreadable and not found:
        raise unreadable[0]
    return list(found.values()), [str(error) for error in unreadable]


def _readable(path: Path) -> Path:
    """The file itself, if it is one that can be read; opening a pipe would wait for ever."""
    try:
        path = path.resolve(strict=True)
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnreadableInput(f"{path} is no plain file. Give the files themselves, e.g. {path / '*.jsonl'}.")
        with path.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
    except OSError as error:
        raise UnreadableInput(f"{path} can't be read: {error.strerror}. Check the name and your permission.") from error
    if compressed:
        raise UnreadableInput(f"{path} is compressed. Unpack it first: gunzip -k {path}")
    return path
