"""Printing: one JSON document, or text in which nothing that was recorded can act on the terminal."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

PATIENCE = 0.5  # seconds that need no explanation

# Control characters, and those that turn the direction of what is shown around.
_ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# The same of those that JSON takes as they are, in UTF-8.
_ACTIVE_IN_JSON = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
_NUMERIC = frozenset(("records", "orphans", "rate", "traces"))

out = Console(highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def inert(text: object) -> str:
    """Text that shows its control characters instead of obeying them."""
    return _ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def brief(value: Any, width: int | None = 60) -> str:
    """A value in one line, cut to `width` unless that is None."""
    text = value if isinstance(value, str) else f"{value:.4g}" if isinstance(value, float) else _json(value)
    text = inert(text)
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(ms: float) -> str:
    """A time span as people say it."""
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"


def clock(iso: str) -> str:
    """A moment as people write it, in their own zone."""
    return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def print_json(document: Any) -> None:
    """The one document that `--json` puts on stdout."""
    write_json(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def write_json(piece: bytes) -> None:
    """A piece of JSON on stdout; on a terminal the same JSON, with escapes for what would act on it."""
    sys.stdout.buffer.write(inert_json(piece) if sys.stdout.isatty() else piece)


def inert_json(piece: bytes) -> bytes:
    """The same JSON: such characters can stand only inside its strings, where an escape says the same."""
    return _ACTIVE_IN_JSON.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), piece)


def print_columns(rows: list[tuple[Text, ...]], right: Iterable[int] = ()) -> None:
    """Rows in columns: wrapped within the last one on a terminal, a line each where something else reads."""
    right = set(right)
    if out.is_terminal:
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1))
        last = len(rows[0]) - 1 if rows else -1
        for index in range(last + 1):
            # What stands first is mostly an id, of no use when it is cut; of others a cut is marked.
            whole = max(row[0].cell_len for row in rows) if index == 0 and last else None
            overflow: Literal["fold", "ellipsis"] = "fold" if index == last else "ellipsis"
            justify: Literal["left", "right"] = "right" if index in right else "left"
            table.add_column(justify=justify, overflow=overflow, no_wrap=index < last, min_width=whole)
        for row in rows:
            table.add_row(*row)
        out.print(table)
        return
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.copy() for cell in row]
        for index, cell in enumerate(cells):
            cell.align("right" if index in right else "left", widths[index])
        out.print(Text("  ").join(cells).plain.rstrip(), soft_wrap=True)


def print_table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """A table with a head; columns that hold numbers stand right."""
    head = tuple(Text(column, "bold") for column in columns)
    right = [index for index, column in enumerate(columns) if column in _NUMERIC]
    print_columns([head, *(tuple(Text(inert(value)) for value in row) for row in rows)], right)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for what takes long; nothing for what doesn't, and nothing where nobody watches."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
    task = bar.add_task(what, total=None)
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if time.monotonic() - began > PATIENCE:
            bar.start()

    try:
        yield show
    finally:
        bar.stop()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
