"""`dashcam doctor`: is everything in order here, and if not, what to mend."""

from __future__ import annotations

import typer
from rich.table import Table
from rich.text import Text

from dashcam.cli.common import Data, Json, Project, reader_of, settings_of
from dashcam.cli.output import inert, out, print_json
from dashcam.errors import DashcamError
from dashcam.views.health import Finding, check_journals, check_machine, check_shipping, check_store

_LOOK = {"ok": ("✓", "green"), "note": ("·", "cyan"), "warn": ("!", "yellow"), "fail": ("✗", "bold red")}


def doctor(data: Data = None, project: Project = None, as_json: Json = False) -> None:
    """Check this installation and say what to mend.

    Folder, disk, journals, store, joinability. Exits with 1 if something fails.
    """
    settings = settings_of(data, project)
    findings = list(check_machine(settings))
    if settings.folder.is_dir():
        try:
            with reader_of(settings) as store:
                findings += [*check_journals(store, settings), *check_shipping(settings), *check_store(store)]
        except DashcamError as error:
            findings.append(Finding(check="store", state="fail", found=str(error)))
    if as_json:
        print_json(findings)
    else:
        _show(findings)
    raise typer.Exit(1 if any(finding.state == "fail" for finding in findings) else 0)


def _show(findings: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in findings:
        sign, colour = _LOOK[finding.state]
        found = Text(inert(finding.found))
        if finding.mend:
            found.append(f"\n→ {inert(finding.mend)}", "dim")
        table.add_row(Text(sign, colour), Text(finding.check, "bold"), found)
    out.print(table)


COMMANDS = (doctor,)
