"""What the commands share: their options, and how they open what they read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dashcam.errors import UnreadableInput
from dashcam.record.refresh import open_current
from dashcam.sdk.settings import Settings, settings_from
from dashcam.store.sqlite.store import SqliteReader

Data = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder [default: $DASHCAM_DATA or the user's data folder]."),
]
Project = Annotated[str | None, typer.Option("--project", help="Project in it [default: $DASHCAM_PROJECT or default].")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
File = Annotated[
    Path | None, typer.Option("--file", help="Read this JSONL file instead of the store.", show_default=False)
]


def settings_of(data: Path | None, project: str | None) -> Settings:
    return settings_from(os.environ, data=data, project=project)


def reader_of(settings: Settings) -> SqliteReader:
    """The store with everything that its journals hold, showing progress while it collects."""
    from dashcam.cli.output import progress

    with progress("Collecting journals") as show:
        return open_current(settings, show)


def records_of(path: Path) -> list[dict[str, Any]]:
    """The records of a JSONL file. A line that isn't one is told with its number, and stays as an orphan."""
    from dashcam.cli.output import err, inert

    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UnreadableInput(f"{path} can't be read: {error.strerror}. Check the name and your permission.") from error
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                records.append(msgspec.json.decode(line, type=dict[str, Any]))
        except (ValueError, RecursionError) as error:
            err.print(inert(f"{path}, line {number}: not a JSON object ({error}); counted as an orphan"))
            records.append({"unreadable": line.decode(errors="replace")})
    return records
