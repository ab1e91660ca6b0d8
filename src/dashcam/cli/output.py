"""Printing: one JSON document, or text in which nothing that was recorded can act on the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

# Control characters, and those that turn the direction of what is shown around.
_ACTIVE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

out = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def inert(text: object) -> str:
    """Text that shows its control characters instead of obeying them."""
    return _ACTIVE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def brief(value: Any, width: int = 60) -> str:
    """A value in one short line."""
    text = value if isinstance(value, str) else f"{value:.4g}" if isinstance(value, float) else _json(value)
    text = inert(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def print_json(document: Any) -> None:
    """The one document that `--json` puts on stdout."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    sys.stdout.buffer.flush()


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for what takes long; nothing where nobody watches."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
