"""Removing journal segments whose every line is in the store."""

from __future__ import annotations

from pathlib import Path

from dashcam.sdk.journal import is_finished
from dashcam.store.base import Reader


def prune_journals(store: Reader, folder: Path) -> int:
    """Remove the finished segments that were collected to their last byte; return how many.

    The store remembers them by name, so that a copy that turns up again adds nothing.
    """
    removed = 0
    for source in store.sources():
        path = folder / source.segment
        ours = source.path is None and path.parent == folder and path.is_file()
        if ours and is_finished(path) and path.stat().st_size == source.offset:
            path.unlink()
            removed += 1
    return removed
