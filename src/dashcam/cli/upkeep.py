"""`dashcam collect`, `ship`, `rebuild`, `verify`, `backup` and `retain`: looking after a store."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from dashcam.cli.common import Data, Json, Project, reader_of, settings_of
from dashcam.cli.output import count, err, inert, out, print_json, progress
from dashcam.errors import SettingsError, StoreError, UnreadableInput
from dashcam.record import refresh
from dashcam.record.collect import Collected
from dashcam.record.files import collect_files
from dashcam.record.projector import project_all
from dashcam.record.prune import prune_journals
from dashcam.store.base import Retention
from dashcam.store.sqlite.store import SqliteReader

MIN_SIZE = 1 << 18
_SIZE = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SPAN = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def collect(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="JSONL files of other programs; none: the journals."),
    ] = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Bring journals, or other JSONL files, into the store.

    Incremental: what was collected before is not added again, also after a file was renamed or rotated.
    """
    settings = settings_of(data, project)
    with refresh.open_store(settings) as store, progress("Collecting") as show:
        if files:
            found = collect_files(store, files, show)
            project_all(store)
        else:
            found = refresh.collect(store, settings, show)
    _tell(found, as_json)


def ship(
    prune: Annotated[
        str | None, typer.Option(metavar="AGE", help="Then delete journals that the server has, if older, e.g. 7d.")
    ] = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Send the journals to the server at $DASHCAM_URL now.

    Exits with 1 if not everything could be sent; it stays in the journals, and nothing is lost.
    """
    from dashcam.sdk.ship import prune_shipped, ship_once

    settings = settings_of(data, project)
    older = None if prune is None else _parse(prune, _SPAN, "--prune 7d")
    sent = ship_once(settings)
    if older is not None:
        sent["pruned"] = prune_shipped(settings, older)
    if as_json:
        print_json(sent)
    else:
        out.print(inert(f"{sent['shipped_bytes']:,} bytes sent to {settings.url}, {sent['behind_bytes']:,} wait."))
        for problem in filter(None, (sent["last_error"],)):
            err.print(inert(problem))
    raise typer.Exit(1 if sent["behind_bytes"] or sent["refused"] else 0)


def rebuild(data: Data = None, project: Project = None, as_json: Json = False) -> None:
    """Recompute the derived tables from the log.

    model_calls and the rollups. Changes nothing that was recorded: reads are the same before and after.
    """
    settings = settings_of(data, project)
    with refresh.open_store(settings) as store, progress("Rebuilding") as show:
        refresh.collect(store, settings, show)
        store.forget_projections()
        traces = project_all(store)
    if as_json:
        print_json({"traces": traces})
    else:
        out.print(f"Recomputed the model calls of {count(traces, 'trace')}, and the daily rollups.")


def verify(data: Data = None, project: Project = None, as_json: Json = False) -> None:
    """Check the store, every hash and reference.

    Prints what it finds, and exits with 1 if that is anything.
    """
    settings = settings_of(data, project)
    try:
        store = reader_of(settings)
    except StoreError:
        if not settings.store.exists():
            raise
        store = SqliteReader(settings.store)  # too damaged to collect into, perhaps not to be looked at
    with store:
        findings = list(store.verify())
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            err.print(inert(finding))
        out.print("The store is sound." if not findings else f"{len(findings)} findings, printed above.")
    raise typer.Exit(1 if findings else 0)


def backup(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Copy the store to a file while it is in use."""
    settings = settings_of(data, project)
    with refresh.open_current(settings) as store:  # what is new comes along, unless another process collects it
        store.backup(target)
    size = target.stat().st_size
    print_json({"path": str(target), "bytes": size}) if as_json else out.print(inert(f"{target}: {size:,} bytes"))


def retain(
    older: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Delete what is older: 30d, 12h, 90m, 2w.")
    ] = None,
    size: Annotated[
        str | None, typer.Option("--max-size", metavar="SIZE", help="Delete the oldest until the store fits: 500m, 2g.")
    ] = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Delete old records. This can't be undone.

    Then what nothing refers to any more, and journals that were collected and are as old (unless this project
    ships them); the space goes back to the disk.
    """
    if older is None and size is None:
        raise SettingsError("Say what may go: --older-than 30d, --max-size 2g, or both.")
    settings = settings_of(data, project)
    before = None if older is None else time.time() - _parse(older, _SPAN, "--older-than 30d")
    max_bytes = None if size is None else int(_parse(size, _SIZE, "--max-size 2g"))
    if max_bytes is not None and max_bytes < MIN_SIZE:
        raise SettingsError(
            f"--max-size {size} would leave nothing: an empty store has about {MIN_SIZE >> 10} KiB. Give more."
        )
    with refresh.open_store(settings) as store:
        refresh.collect(store, settings)
        gone = store.retain(Retention(before=None if before is None else int(before * 1e6), max_bytes=max_bytes))
        # Journals that are shipped go when the server has them: dashcam ship --prune 7d.
        ships = settings.url is not None or (settings.folder / "ship").exists()
        segments = 0 if ships else prune_journals(store, settings.journals, before)
    told = {**msgspec.structs.asdict(gone), "segments": segments}
    if as_json:
        print_json(told)
    else:
        removed = [count(number, name.removesuffix("s")) for name, number in told.items() if name != "bytes" and number]
        out.print(f"{', '.join(removed) or 'nothing'} removed; {gone.bytes:,} bytes left")


def _parse(text: str, units: dict[str, int], example: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z])b?", text.strip().lower())
    if not found or found[2] not in units:
        raise SettingsError(f"{text!r:.40} can't be read. Write it like {example}.")
    return float(found[1]) * units[found[2]]


def _tell(found: Collected, as_json: bool) -> None:
    if as_json:
        print_json(found)
        raise typer.Exit(UnreadableInput.exit_code if found.unreadable else 0)
    out.print(f"{count(found.events, 'event')} from {count(found.bytes, 'byte')}; {found.orphans:,} in quarantine")
    for reason in found.unreadable:
        err.print(inert(reason))
    if found.torn:
        err.print(f"{count(found.torn, 'line')} torn when the writer died: in quarantine, too")
    raise typer.Exit(UnreadableInput.exit_code if found.unreadable else 0)


COMMANDS = (collect, ship, rebuild, verify, backup, retain)
