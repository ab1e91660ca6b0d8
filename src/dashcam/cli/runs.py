"""`dashcam trace`, `session`, `sessions` and `orphans`: what happened, and what can't be joined."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from dashcam.cli.common import Data, File, Json, Project, reader_of, records_of, settings_of
from dashcam.cli.output import brief, err, inert, out, print_json
from dashcam.contracts.event import iso_of
from dashcam.views import joinability, timeline
from dashcam.views.timeline import Step, Timeline, clock_of


def trace(
    trace_id: Annotated[str, typer.Argument(help="The trace, by its own id or the one it left under as OTLP.")],
    file: File = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Print a trace: its records in step order."""
    if file:
        found = timeline.of_records(records_of(file), trace_id, str(file))
    else:
        with reader_of(settings_of(data, project)) as store:
            found = timeline.load(store, trace_id)
    print_json(found.records) if as_json else show(found)


def session(
    session_id: Annotated[str, typer.Argument(help="The session.")],
    file: File = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Print a session: all its traces, the oldest first."""
    if file:
        found = timeline.session_of_records(records_of(file), session_id, str(file))
    else:
        with reader_of(settings_of(data, project)) as store:
            found = timeline.load_session(store, session_id, str(store.path))
    if as_json:
        print_json([_as_json(each) for each in found])
        return
    out.print(Text.assemble("session ", (inert(session_id), "bold"), f" · {_count(len(found), 'trace')}\n"))
    for each in found:
        show(each)


def sessions(
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 50,
    before: Annotated[str, typer.Option(help="Go on after this session of the page before.")] = "",
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """List sessions, the most recently active first."""
    with reader_of(settings_of(data, project)) as store:
        found = store.sessions(limit=limit, before=before)
    if as_json:
        print_json(
            [{**msgspec.structs.asdict(s), "first_ts": iso_of(s.first_ts), "last_ts": iso_of(s.last_ts)} for s in found]
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("session", "traces", "records", "last active"):
        table.add_column(column, justify="right" if column in ("traces", "records") else "left", overflow="fold")
    for each in found:
        table.add_row(inert(each.session_id), str(each.traces), str(each.events), clock_of(iso_of(each.last_ts)))
    out.print(table)
    if len(found) == limit:
        err.print(f"More with: --before {found[-1].session_id!r}")


def orphans(file: File = None, data: Data = None, project: Project = None, as_json: Json = False) -> None:
    """Print what can't be joined, by source.

    The rate, the reasons, and which question each kind of orphan leaves unanswered.
    """
    if file:
        report = joinability.report_of(records_of(file), str(file))
    else:
        with reader_of(settings_of(data, project)) as store:
            report = joinability.load(store)
    if as_json:
        print_json(report)
        return
    out.print(
        Text.assemble(
            "orphan rate ",
            (f"{report.rate:.2f} %", "bold red" if report.orphans else "bold green"),
            f" · {report.orphans} of {_count(report.records, 'record')} can't be joined",
        )
    )
    _show_table(
        "by source",
        ("source", "records", "orphans", "rate"),
        [(source.source, source.records, source.orphans, f"{source.rate:.2f} %") for source in report.sources],
    )
    if report.kinds:
        _show_table(
            "what that costs",
            ("operation", "orphans", "and so there is"),
            [(kind.operation, kind.orphans, kind.question) for kind in report.kinds],
        )
        _show_table("why", ("reason", "records"), list(report.reasons.items()))


def show(found: Timeline) -> None:
    """A timeline for the terminal."""
    facts = [found.kind, _count(len(found.steps), "step"), duration(found.duration_ms)]
    if found.tokens is not None:
        facts.append(f"{found.tokens:,} tokens")
    if found.cost_usd is not None:
        facts.append(f"${found.cost_usd:.4f}")
    if found.started_at:
        facts.insert(0, clock_of(found.started_at))
    title = Text.assemble("trace ", (inert(found.trace_id), "bold cyan"), inert(f"  {' · '.join(facts)}"))
    if found.failed:
        title.append(f" · {found.failed} failed", "bold red")
    if found.shared_steps:
        title.append(f" · {_count(found.shared_steps, 'record')} at a step that another has too", "yellow")
    out.print(title)
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1))
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(justify="right", style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for step in found.steps:
        table.add_row(*_row(step))
    out.print(table)
    out.print()


def _row(step: Step) -> tuple[str, str, Text, Text]:
    name = step.fields.get("name") if step.operation in ("span_started", "span_ended") else None
    shown = f"{'▸' if step.operation == 'span_started' else '◂'} {name}" if name else step.operation
    operation = Text("  " * step.depth + inert(shown), "bold red" if step.failed else "bold" if not name else "magenta")
    rest = {key: value for key, value in step.fields.items() if not (name and key in ("name", "status"))}
    details = Text("  ").join(Text.assemble((inert(key) + "=", "dim"), brief(value)) for key, value in rest.items())
    for mark in step.marks:
        details.append(f"  [{inert(mark)}]", "yellow")
    at = "" if step.at_ms is None else f"+{duration(step.at_ms)}"
    return ("?" if step.step is None else str(step.step), at, operation, details)


def duration(ms: float) -> str:
    """A time span as people say it."""
    if ms < 1:
        return f"{ms * 1000:.0f} µs"
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms / 60_000:.1f} min"


def _as_json(found: Timeline) -> dict[str, Any]:
    told = msgspec.structs.asdict(found)
    del told["steps"]
    return told


def _show_table(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    out.print(f"\n{title}", style="bold")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(
            column, justify="right" if column in ("records", "orphans", "rate") else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(inert(value) for value in row))
    out.print(table)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


COMMANDS = (trace, session, sessions, orphans)
