"""SQLite: a store of its own that holds these sessions and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dashcam.errors import StoreError
from dashcam.exports.selection import Selection
from dashcam.record.intake import Intake
from dashcam.record.projector import project_all
from dashcam.store.base import Reader
from dashcam.store.sqlite.store import SqliteStore


def make(store: Reader, session_ids: Sequence[str], folder: Path) -> Path:
    """Make the store in `folder`, which is to go away with what else is in it; return its one file."""
    target = folder / "export.db"
    with SqliteStore(folder / "sessions.db") as copy:
        intake = Intake(copy)
        for item in Selection(store, session_ids).items():
            intake.take(item, "in the store")
        imported = intake.finish()
        if imported.bad:
            raise StoreError(f"Not all could be exported: {imported.problems[0]}. Check the store with: dashcam verify")
        project_all(copy)
        copy.backup(target)
    return target
