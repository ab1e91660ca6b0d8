"""`dashcam collect`, `ship`, `rebuild`, `verify`, `backup` and `retain`: looking after a store."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from dashcam.cli.common import Data, Json, Project, settings_of
from dashcam.cli.output import err, inert, out, print_json, progress
from dashcam.errors import SettingsError
from dashcam.record import refresh
from dashcam.record.collect import Collected
from dashcam.record.files import collect_files
from dashcam.record.projector import project_all
from dashcam.record.prune import prune_journals
from dashcam.store.base import Retention

_SIZE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SPAN = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def collect(
    files: Annotated[
        list[Path] | None, typer.Argument(help="JSONL files of other programs; none: the journals.")
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
        str | None, typer.Option(help="Then remove segments that the server has, if older, e.g. 7d.")
    ] = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Send the journals to the server at $DASHCAM_URL now."""
    from dashcam.sdk.ship import prune_shipped, ship_once

    settings = settings_of(data, project)
    sent = ship_once(settings)
    if prune is not None:
        sent["pruned"] = prune_shipped(settings, _parse(prune, _SPAN, "--prune 7d"))
    if as_json:
        print_json(sent)
    else:
        for name, value in sent.items():
            out.print(inert(f"{name}: {value}"))


def rebuild(data: Data = None, project: Project = None, as_json: Json = False) -> None:
    """Derive everything again from the log.

    Reads are the same before and after.
    """
    settings = settings_of(data, project)
    with refresh.open_store(settings) as store, progress("Rebuilding") as show:
        refresh.collect(store, settings, show)
        store.forget_projections()
        traces = project_all(store)
    print_json({"traces": traces}) if as_json else out.print(f"Rebuilt what is derived from {traces} traces.")


def verify(data: Data = None, project: Project = None, as_json: Json = False) -> None:
    """Check the store, every hash and reference.

    Prints what it finds, and exits with 1 if that is anything.
    """
    from dashcam.cli.common import reader_of

    with reader_of(settings_of(data, project)) as store:
        findings = list(store.verify())
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            err.print(inert(finding))
        out.print("The store is sound." if not findings else f"{len(findings)} findings, printed above.")
    raise typer.Exit(1 if findings else 0)


def backup(
    target: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Copy the store to a file while it is in use."""
    settings = settings_of(data, project)
    with refresh.open_store(settings) as store:
        refresh.collect(store, settings)
        store.backup(target)
    size = target.stat().st_size
    print_json({"path": str(target), "bytes": size}) if as_json else out.print(inert(f"{target}: {size:,} bytes"))


def retain(
    older: Annotated[str | None, typer.Option("--older-than", help="Remove what is older, e.g. 30d, 12h.")] = None,
    size: Annotated[str | None, typer.Option("--max-size", help="Remove the oldest until it fits, e.g. 2g.")] = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Remove what is old, or too much.

    Then what nothing refers to any more, and journals that were collected; the space goes back to the disk.
    """
    if older is None and size is None:
        raise SettingsError("Say what may go: --older-than 30d, --max-size 2g, or both.")
    settings = settings_of(data, project)
    seconds = None if older is None else _parse(older, _SPAN, "--older-than 30d")
    policy = Retention(
        before=None if seconds is None else int((time.time() - seconds) * 1e6),
        max_bytes=None if size is None else int(_parse(size, _SIZE, "--max-size 2g")),
    )
    with refresh.open_store(settings) as store:
        refresh.collect(store, settings)
        gone = store.retain(policy)
        # Journals that are shipped go when the server has them: dashcam ship --prune 7d.
        ships = settings.url is not None or (settings.folder / "ship").exists()
        segments = 0 if ships else prune_journals(store, settings.journals)
    told = {**msgspec.structs.asdict(gone), "segments": segments}
    if as_json:
        print_json(told)
    else:
        out.print(", ".join(f"{count:,} {name}" for name, count in told.items() if name != "bytes") + " removed")
        out.print(f"{gone.bytes:,} bytes left")


def _parse(text: str, units: dict[str, int], example: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]?)b?", text.strip().lower())
    if not found or found[2] not in units:
        raise SettingsError(f"{text!r:.40} can't be read. Write it like {example}.")
    return float(found[1]) * units[found[2]]


def _tell(found: Collected, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    out.print(f"{found.events:,} events from {found.bytes:,} bytes; {found.orphans:,} in quarantine")
    if found.torn:
        err.print(f"{found.torn:,} lines were torn when their writer died; they are in quarantine too.")


COMMANDS = (collect, ship, rebuild, verify, backup, retain)
