"""Opening a project's store with everything that its journals hold."""

from __future__ import annotations

import os
from pathlib import Path

from dashcam.errors import StoreError
from dashcam.record.collect import Collected, Progress, collect_journals
from dashcam.record.projector import project_all
from dashcam.record.spanned import SpannedReader
from dashcam.sdk.journal import make_private_folder
from dashcam.sdk.settings import Settings
from dashcam.store.sqlite.connection import WriterLock
from dashcam.store.sqlite.store import SqliteStore

COLLECTING = "collecting"
PATIENCE = 10.0  # seconds


def open_store(settings: Settings) -> SqliteStore:
    """The store for writing; raises StoreBusy while somebody else has it."""
    try:
        make_private_folder(settings.folder)
    except OSError as error:
        raise StoreError(
            f"{settings.folder} can't be made: {error.strerror}. Choose another folder with --data or DASHCAM_DATA."
        ) from error
    return SqliteStore(settings.store)


def collect(store: SqliteStore, settings: Settings, progress: Progress | None = None) -> Collected:
    """Bring in the journals and derive what follows from them."""
    collected = collect_journals(store, settings.journals, progress)
    project_all(store)
    return collected


def open_current(settings: Settings, progress: Progress | None = None) -> SpannedReader:
    """The store for reading, with new journal bytes collected first.

    Where another process holds the store it is that one's part to collect; then this only reads.
    """
    if not settings.folder.is_dir():
        raise StoreError(
            f"Nothing has been recorded in {settings.folder}. Record something, or name another folder with --data "
            "or DASHCAM_DATA."
        )
    if not _collect_if_free(settings, progress):
        try:
            return SpannedReader(settings.store)  # waits while the other process is just making it
        except StoreError:
            if not _collect_if_free(settings, progress):  # it ended without having made it
                raise
    return SpannedReader(settings.store)


def _collect_if_free(settings: Settings, progress: Progress | None) -> bool:
    """Collect, if nobody else holds the store and we may write it; whether that was so."""
    lock = WriterLock(settings.folder, COLLECTING)
    try:
        # Another command that collects is soon done; a server that holds the store isn't, and collects itself.
        if not (_may_write(settings.folder) and lock.acquire_after(COLLECTING, PATIENCE)):
            return False
    except StoreError:
        return False  # somebody else's store can be read all the same
    with SqliteStore(settings.store, lock=lock) as store:
        collect(store, settings, progress)
    return True


def _may_write(folder: Path) -> bool:
    """A store that belongs to somebody else, or on a read-only disk, can still be read."""
    return os.access(folder, os.W_OK)
