"""Is this installation in order? Each check says what it found and, where something is amiss, the mend."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from dashcam.sdk.backlog import Backlog
from dashcam.sdk.journal import is_finished
from dashcam.sdk.settings import Settings
from dashcam.sdk.wire import Destination
from dashcam.store.base import Reader
from dashcam.views import joinability

LOW_DISK = 1 << 30


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check: `ok`, `note` (worth knowing), `warn` (mend it soon) or `fail` (mend it now)."""

    check: str
    state: Literal["ok", "note", "warn", "fail"]
    found: str
    mend: str = ""


def check_machine(settings: Settings) -> Iterator[Finding]:
    """What can be told without a store."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(check="python", state="ok", found=f"Python {version}, SQLite {sqlite3.sqlite_version}")
    yield from _check_folder(settings.folder)
    yield from _check_disk(settings.folder)


def check_journals(store: Reader, settings: Settings) -> Iterator[Finding]:
    """Whether everything that was recorded has arrived."""
    known = {source.segment: source.offset for source in store.sources()}
    behind = live = segments = 0
    for path in sorted(settings.journals.glob("*.jsonl")):
        if not path.is_file():
            continue
        segments += 1
        live += not is_finished(path)
        behind += max(path.stat().st_size - known.get(path.name, 0), 0)
    found = f"segments: {segments}, being written: {live}, bytes not collected: {behind:,}"
    if behind:
        yield Finding(check="journals", state="note", found=found, mend="Collect them: dashcam collect")
    else:
        yield Finding(check="journals", state="ok", found=found)


def check_shipping(settings: Settings) -> Iterator[Finding]:
    """Whether the server has what it should have."""
    if settings.url is None:
        return
    behind = Backlog(settings, Destination(settings).digest).behind()
    yield Finding(
        check="shipping",
        state="note" if behind else "ok",
        found=f"{behind:,} bytes not yet at {settings.url}",
        mend="Send them, or see why they can't be sent: dashcam ship" if behind else "",
    )


def check_store(store: Reader) -> Iterator[Finding]:
    """Whether what arrived is sound, and can be joined."""
    damage = next(iter(store.verify()), None)
    if damage:
        yield Finding(check="store", state="fail", found=damage, mend="See all of it: dashcam verify")
    else:
        yield Finding(check="store", state="ok", found="every content, chain and reference checks out")
    shared = store.shared_steps()
    yield Finding(
        check="steps",
        state="warn" if shared else "ok",
        found=f"{shared:,} beyond the first record at their step",
        mend="Both are kept. In one process, go on with the trace that log_event returns, or make it current "
        "(use_trace); processes that share a trace count each for itself."
        if shared
        else "",
    )
    report = joinability.load(store)
    yield Finding(
        check="joinability",
        state="warn" if report.orphans else "ok",
        found=f"{report.orphans:,} of {report.records:,} records can't be joined ({report.rate:.2f} %)",
        mend="See where they come from: dashcam orphans" if report.orphans else "",
    )
    yield from _check_marks(store)


def _check_marks(store: Reader) -> Iterator[Finding]:
    figures = store.figures("operation")
    malformed = {figure.by: figure.malformed for figure in figures if figure.malformed}
    names = ", ".join(sorted(malformed, key=lambda name: -malformed[name])[:5])
    yield Finding(
        check="shapes",
        state="warn" if malformed else "ok",
        found=f"malformed records: {sum(malformed.values()):,}" + (f" ({names})" if names else ""),
        mend="Compare with `dashcam events`; DASHCAM_STRICT=1 tells where they are emitted." if malformed else "",
    )
    redacted = sum(figure.redacted for figure in figures)
    yield Finding(check="redaction", state="ok", found=f"records with something taken out: {redacted:,}")


def _check_folder(folder: Path) -> Iterator[Finding]:
    nearest = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        mend = "Choose another folder with --data or DASHCAM_DATA; what is recorded meanwhile is dropped and counted."
        yield Finding(check="folder", state="fail", found=f"{nearest} can't be written", mend=mend)
        return
    if not folder.is_dir():
        yield Finding(
            check="folder",
            state="note",
            found=f"{folder} is not there yet",
            mend="It is made by the first record. Another one: --data or DASHCAM_DATA",
        )
        return
    mode = folder.stat().st_mode & 0o777
    if mode & 0o077:
        yield Finding(
            check="folder",
            state="warn",
            found=f"{folder} is open to others ({mode:o})",
            mend=f"chmod 700 {folder}",
        )
    else:
        yield Finding(check="folder", state="ok", found=f"{folder}, for you alone")


def _check_disk(folder: Path) -> Iterator[Finding]:
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    low = free < LOW_DISK
    yield Finding(
        check="disk",
        state="warn" if low else "ok",
        found=f"{free / (1 << 30):,.1f} GiB free",
        mend="Make room, or let go of old records: dashcam retain --older-than 30d" if low else "",
    )
