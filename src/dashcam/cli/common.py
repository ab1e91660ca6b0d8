"""What the commands share: their options, and how they open what they read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from dashcam.cli.output import err, inert, progress
from dashcam.contracts.event import Event, Orphan
from dashcam.record.files import read_file
from dashcam.record.refresh import open_current
from dashcam.sdk.settings import Settings, settings_from
from dashcam.store.sqlite.store import SqliteReader

TOLD = 3  # lines that can't be read, told one by one

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="Data folder [default: $DASHCAM_DATA, else the user's data folder]."),
]
Project = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help="Project [default: $DASHCAM_PROJECT, else 'default'].")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
File = Annotated[
    list[Path] | None,
    typer.Option("--file", metavar="FILE", help="Read this JSONL file instead of the store; repeatable."),
]


def settings_of(data: Path | None, project: str | None) -> Settings:
    return settings_from(os.environ, data=data, project=project)


def reader_of(settings: Settings) -> SqliteReader:
    """The store with everything that its journals hold, showing progress while it collects."""
    with progress("Collecting journals") as show:
        return open_current(settings, show)


def records_in(paths: list[Path]) -> tuple[list[Event], list[Orphan], str]:
    """What JSONL files hold, as the collector would take it; and their names. What isn't JSON is told."""
    events: list[Event] = []
    orphans: list[Orphan] = []
    for path in paths:
        for record in read_file(path):
            events.append(record) if isinstance(record, Event) else orphans.append(record)
    broken = [orphan for orphan in orphans if orphan.reason.startswith(("not ", "torn"))]
    for orphan in broken[:TOLD]:
        err.print(inert(f"{orphan.segment}, byte {orphan.offset}: {orphan.reason}; counted as an orphan"))
    if len(broken) > TOLD:
        err.print(f"… and {len(broken) - TOLD} more like these")
    return events, orphans, ", ".join(map(str, paths))
