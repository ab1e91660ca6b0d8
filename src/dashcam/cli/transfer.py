"""`dashcam export` and `import`: sessions as files, and files as sessions again."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated

import typer

from dashcam.cli.common import Data, Json, Project, reader_of, settings_of
from dashcam.cli.output import count, err, inert, inert_json, out, print_json, progress
from dashcam.cli.transcript import readable
from dashcam.errors import SettingsError, UnreadableInput
from dashcam.exports import jsonl, sqlite
from dashcam.exports.formats import NEED_CHAT, WRITERS
from dashcam.exports.selection import check_sessions
from dashcam.exports.target import folder_beside, whole_file
from dashcam.record import refresh
from dashcam.record.imports import import_files
from dashcam.record.intake import Imported
from dashcam.store.base import Reader
from dashcam.store.sqlite.store import SqliteReader

STEP = 1 << 20  # bytes between two looks at the clock


class Format(StrEnum):
    jsonl = "jsonl"
    json = "json"
    csv = "csv"
    acp = "acp"
    otlp = "otlp"
    sqlite = "sqlite"


class Source(StrEnum):
    jsonl = "jsonl"
    json = "json"


def export(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION_ID", help="The sessions, one or more.")],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="The format. jsonl and sqlite hold all that was recorded, otlp the spans that were received.",
        ),
    ] = Format.jsonl,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write to this file instead of stdout.")
    ] = None,
    bare: Annotated[bool, typer.Option("--bare", help="jsonl: only sessions, messages and parts.")] = False,
    to: Annotated[
        str | None, typer.Option("--to", metavar="URL", help="otlp: send to this OTLP/HTTP endpoint instead.")
    ] = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Write sessions to a file that other tools read.

    A file is there whole or not at all. --json tells what was written, so it needs -o or --to.
    """
    _check_options(form, output, bare, to, as_json)
    address = None if to is None else _endpoint_of(to)
    wanted = tuple(dict.fromkeys(sessions))
    with reader_of(settings_of(data, project)) as store:
        check_sessions(store, wanted, str(store.path), chat=bare or form in NEED_CHAT)
        if address is not None:
            _send(store, wanted, address, as_json)
        elif form is Format.sqlite:
            _export_store(store, wanted, output)
        else:
            chunks = jsonl.write(store, wanted, bare=True) if bare else WRITERS[form](store, wanted)
            is_shown = output is None and sys.stdout.isatty()
            show = _inert_rows if form is Format.csv else inert_json
            _write_all(map(show, chunks) if is_shown else chunks, output)
    if output is not None:
        size = output.stat().st_size
        told = {"path": str(output), "format": form, "sessions": len(wanted), "bytes": size}
        print_json(told) if as_json else out.print(inert(f"{output}: {size:,} bytes"))


def take(
    form: Annotated[Source, typer.Argument(metavar="jsonl|json", help="The format of the files.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="The files; - is stdin.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="If anything is bad, import nothing. Holds all of it in memory.")
    ] = False,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Bring exported sessions into the store.

    What is there already adds nothing. What can't be read is named with its line, and the exit code is 5.
    """
    with refresh.open_store(settings_of(data, project)) as store, progress("Importing") as show:
        imported = import_files(store, form.value, files, strict=strict, progress=show)
    for told in imported.warnings:
        err.print(inert(told))
    for told in imported.problems:
        err.print(inert(told))
    if imported.bad > len(imported.problems):
        err.print(f"… and {imported.bad - len(imported.problems):,} more like these")
    print_json(imported) if as_json else _tell_imported(imported, strict)
    raise typer.Exit(UnreadableInput.exit_code if imported.bad else 0)


take.__name__ = "import"  # a word that Python keeps for itself


def _inert_rows(piece: bytes) -> bytes:
    """CSV for a terminal: what acts on it is shown instead. In a file or a pipe it is as it was."""
    return readable(piece.decode()).encode()


def _check_options(form: Format, output: Path | None, bare: bool, to: str | None, as_json: bool) -> None:
    if bare and form is not Format.jsonl:
        raise SettingsError("--bare is for --format jsonl; the other formats have nothing to leave out.")
    if to is not None and (form is not Format.otlp or output is not None):
        raise SettingsError("--to sends spans: use it with --format otlp, and without -o.")
    if as_json and output is None and to is None:
        raise SettingsError("--json tells what was written where. Say where with -o FILE; for JSON use --format json.")
    if form is Format.sqlite and output is None and sys.stdout.isatty():
        raise SettingsError("A store can't be shown on a terminal. Say where it goes with -o FILE.")
    if form is Format.sqlite and output is not None and output.exists():
        raise SettingsError(f"{output} exists already. Choose another name: a store is never overwritten.")


def _export_store(store: SqliteReader, wanted: Sequence[str], output: Path | None) -> None:
    if output is not None:
        with folder_beside(output) as folder:
            sqlite.make(store, wanted, folder).rename(output)
        return
    with tempfile.TemporaryDirectory() as name, sqlite.make(store, wanted, Path(name)).open("rb") as file:
        _write_all(iter(lambda: file.read(STEP), b""), None)


def _write_all(chunks: Iterable[bytes], output: Path | None) -> None:
    if output is None:
        _write_to(sys.stdout.buffer, chunks)
        return
    with whole_file(output) as file:
        _write_to(file, chunks)


def _write_to(file: IO[bytes], chunks: Iterable[bytes]) -> None:
    done = shown = 0
    with progress("Exporting") as show:
        for chunk in chunks:
            file.write(chunk)
            done += len(chunk)
            if done - shown >= STEP:
                shown = done
                show(done, done)  # how much it will be is not known
    file.flush()


def _endpoint_of(to: str) -> str:
    from dashcam.exports.post import endpoint_of  # with its parts of the standard library, which no other command needs

    return endpoint_of(to)


def _send(store: Reader, wanted: Sequence[str], to: str, as_json: bool) -> None:
    from dashcam.exports.post import send

    spans = send(store, wanted, to)
    print_json({"to": to, "spans": spans}) if as_json else out.print(inert(f"{count(spans, 'span')} sent to {to}"))


def _tell_imported(imported: Imported, strict: bool) -> None:
    nouns = ("session", "message", "part", "event", "content")
    new = [count(getattr(imported, f"{noun}s"), noun) for noun in nouns]
    changed = f"; {count(imported.changed, 'row')} changed" if imported.changed else ""
    out.print(f"{', '.join(new)} new{changed}")
    if imported.bad and strict:
        err.print("Nothing was imported, because of --strict.")


COMMANDS = (export, take)
