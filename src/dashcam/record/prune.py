"""Removing journal segments whose every line is in the store."""

from __future__ import annotations

from pathlib import Path

from dashcam.sdk.journal import is_finished
from dashcam.store.base import Reader


def prune_journals(store: Reader, folder: Path, before: float | None = None) -> int:
    """Remove the finished segments that were collected to their last byte, if last written `before`; return how many.

    The store remembers them by name, so that a copy that turns up again adds nothing.
    """
    removed = 0
    for source in store.sources():
        path = folder / source.segment
        if source.path is not None or path.parent != folder or not path.is_file():
            continue
        found = path.stat()
        old = before is None or found.st_mtime < before
        if old and found.st_size == source.offset and is_finished(path):
            path.unlink()
            removed += 1
    return removed
