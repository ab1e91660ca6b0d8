"""`dashcam keys`: who may send to a server and read from it."""

from __future__ import annotations

import re
import time
from typing import Annotated

import msgspec
import typer

from dashcam.cli.common import Data, Json, Project, settings_of
from dashcam.cli.output import err, inert, out, print_json, print_table
from dashcam.cli.transcript import moment
from dashcam.errors import KeyNotFound, SettingsError
from dashcam.store.control import FILE, RIGHTS, Control, Key

_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}

keys = typer.Typer(name="keys", help="Make, list and revoke the keys of a server.", no_args_is_help=True)


@keys.command()
def create(
    rights: Annotated[
        list[str] | None,
        typer.Option("--right", metavar="RIGHT", help=f"{', '.join(RIGHTS)}; repeatable [default: ingest]."),
    ] = None,
    name: Annotated[str, typer.Option(metavar="TEXT", help="What it is for.")] = "",
    expires: Annotated[
        str | None, typer.Option(metavar="AGE", help="When it ends: in 30d, 12h, 2w [default: never].")
    ] = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Make a key for a project, and print it this once.

    Only its hash is kept. A running server takes it at once.
    """
    settings = settings_of(data, project)
    ends = None if expires is None else _after(expires)
    with Control(settings.data) as control:
        key, text = control.create(settings.project, rights or ["ingest"], name=name, expires_at=ends)
    if as_json:
        print_json({"key": text, **_document(key)})
        return
    out.print(text, soft_wrap=True)
    until = "" if key.expires_at is None else f", until {moment(key.expires_at)}"
    err.print(f"\nShown this once. {key.id}: {', '.join(key.rights)} in the project {key.project}{until}. To use it:\n")
    for line in _uses(key):
        err.print(f"  {line}")


@keys.command("list")
def list_keys(
    data: Data = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this project [default: all].")] = None,
    as_json: Json = False,
) -> None:
    """List the keys, also those that were revoked or have expired."""
    settings = settings_of(data, project)
    found: list[Key] = []
    if (settings.data / FILE).exists():
        with Control(settings.data) as control:
            found = control.listed(project)
    if as_json:
        print_json([_document(key) for key in found])
    elif found:
        head = ("id", "begins", "project", "rights", "state", "made", "last used", "ends", "name")
        print_table(head, [_row(key) for key in found])
    else:
        out.print("No keys. Make one with: dashcam keys create")


@keys.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `dashcam keys list` shows it.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Take back a key. A running server refuses it within a second."""
    settings = settings_of(data, None)
    if not (settings.data / FILE).exists():
        raise KeyNotFound(key_id, str(settings.data / FILE))
    with Control(settings.data) as control:
        key = control.revoke(key_id)
    if as_json:
        print_json(_document(key))
    else:
        out.print(inert(f"{key.id} ({key.prefix}…) opens nothing any more."))


def _document(key: Key) -> dict[str, object]:
    return {**msgspec.structs.asdict(key), "state": key.state}


def _row(key: Key) -> tuple[str, ...]:
    made, used, ends = ("-" if ms is None else moment(ms) for ms in (key.created_at, key.last_used_at, key.expires_at))
    return key.id, f"{key.prefix}…", key.project, ",".join(key.rights), key.state, made, used, ends, key.name


def _uses(key: Key) -> list[str]:
    """Where the key goes. It stands on stdout alone, so that `$(dashcam keys create)` leaves it in no log."""
    sending = [
        'OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20KEY"',
        f"LANGFUSE_PUBLIC_KEY={key.id} LANGFUSE_SECRET_KEY=KEY",
        "LOGFIRE_TOKEN=KEY",
        "DASHCAM_API_KEY=KEY",
    ]
    reading = ['curl -H "Authorization: Bearer KEY" http://SERVER/api/sessions']
    return (sending if "ingest" in key.granted else []) + (reading if "read" in key.granted else [])


def _after(text: str) -> int:
    """The moment so long from now, in milliseconds."""
    found = re.fullmatch(r"([0-9]{1,5})\s*([mhdw])", text.strip().lower())
    if not found:
        raise SettingsError(f"{text!r:.40} can't be read. Write it like --expires 30d.")
    return int((time.time() + int(found[1]) * _SECONDS[found[2]]) * 1000)
