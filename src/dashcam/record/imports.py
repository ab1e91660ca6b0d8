"""Exported sessions back into a store: what is there already adds nothing, what is bad is named and left out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from dashcam.dialects.sessions import document_items, item_of
from dashcam.errors import UnreadableInput
from dashcam.record.collect import BLOCK, MAX_LINE, Progress
from dashcam.record.intake import Imported, Intake
from dashcam.record.projector import project_all
from dashcam.store.base import Store

Format = Literal["jsonl", "json"]
STDIN = "-"
BOM = b"\xef\xbb\xbf"


def import_files(
    store: Store, form: Format, files: Sequence[str], *, strict: bool = False, progress: Progress | None = None
) -> Imported:
    """Bring in what these files hold. `strict`: all of it, or, if any of it is bad, nothing."""
    intake = Intake(store, strict=strict)
    done, total = 0, sum(_size_of(name) for name in files)
    for name in files:
        with _opened(name) as file:
            for size in (_take_lines if form == "jsonl" else _take_documents)(intake, file, _label(name)):
                done += size
                if progress:
                    progress(done, max(done, total))
    imported = intake.finish()
    project_all(store)
    return imported


def _take_lines(intake: Intake, file: BinaryIO, label: str) -> Iterator[int]:
    """Take a JSONL file; yields how many bytes are done."""
    for number, (line, whole) in enumerate(_lines(file), 1):
        place = f"{label}, line {number}"
        if not whole:
            intake.imported.complain(place, f"longer than {MAX_LINE >> 20} MiB")
        elif line.strip():
            try:
                intake.take(item_of(line.removeprefix(BOM)), place)
            except ValueError as error:
                intake.imported.complain(place, error)
        yield len(line)


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Lines, and whether each is whole: of one that is too long only the beginning."""
    while line := file.readline(MAX_LINE + 1):
        whole = len(line) <= MAX_LINE or line.endswith(b"\n")
        rest = line
        while not whole and rest and not rest.endswith(b"\n"):
            rest = file.readline(BLOCK)
        yield line, whole


def _take_documents(intake: Intake, file: BinaryIO, label: str) -> Iterator[int]:
    """Take a JSON file: one document, or an array of them."""
    body = file.read().removeprefix(BOM)
    try:
        several = body.lstrip().startswith(b"[")
        documents = msgspec.json.decode(body, type=list[msgspec.Raw]) if several else [body]
        msgspec.json.decode(body, type=msgspec.Raw)
    except (ValueError, RecursionError) as error:
        intake.imported.complain(f"{label}, {_place_of(body)}", error)
        documents = []
    for number, document in enumerate(documents, 1):
        for place, item in document_items(bytes(document)):
            where = f"{label}, session {number}, {place}" if place != "session" else f"{label}, session {number}"
            if isinstance(item, ValueError):
                intake.imported.complain(where, item)
            else:
                intake.take(item, where)
    yield len(body)


def _place_of(body: bytes) -> str:
    """The line at which a text stops being JSON."""
    try:
        json.loads(body)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}"
    except (ValueError, RecursionError):
        pass
    return "line 1"


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == STDIN:
        yield sys.stdin.buffer
        return
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed below, where errors of reading are not those of opening
    except OSError as error:
        raise _unreadable(name, error) from error
    with file:
        try:
            yield file
        except IsADirectoryError as error:
            raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError) -> UnreadableInput:
    return UnreadableInput(f"{name} can't be read: {error.strerror}. Check the name and your permission.")


def _size_of(name: str) -> int:
    """The size of a file, and on the way a look at whether it is there: before anything is written."""
    if name == STDIN:
        return 0
    try:
        with Path(name).open("rb") as file:
            return file.seek(0, 2)
    except OSError as error:
        raise _unreadable(name, error) from error


def _label(name: str) -> str:
    return "stdin" if name == STDIN else name
