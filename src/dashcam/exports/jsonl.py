"""JSONL: a line a row, in the canonical order. The one format that holds everything, and comes back whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dashcam.dialects.sessions import line_of
from dashcam.exports.selection import Selection
from dashcam.store.base import Reader


def write(store: Reader, session_ids: Sequence[str], *, bare: bool = False) -> Iterator[bytes]:
    """The file, line by line; `bare` leaves only session, message and part."""
    for item in Selection(store, session_ids).items(bare=bare):
        yield line_of(item) + b"\n"
