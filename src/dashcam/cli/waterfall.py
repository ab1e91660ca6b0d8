"""`dashcam traces`, and how a trace of spans looks on a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dashcam.cli.common import Data, Json, Project, reader_of, settings_of
from dashcam.cli.listing import print_scores
from dashcam.cli.output import brief, clock, count, duration, err, inert, out, print_columns, print_json
from dashcam.cli.transcript import money
from dashcam.store.base import TraceFilter, TraceSummary
from dashcam.views.when import millis_of

if TYPE_CHECKING:  # they bring protobuf along
    from dashcam.views.waterfall import SpanRow, Waterfall

BAR = 20  # characters

_STYLES = {"model": "bold cyan", "tool": "bold magenta", "agent": "bold", "retrieval": "bold blue"}


def traces(
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID", help="Only this session's.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only begun since then: a date, a time, or 7d or 2h ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only begun before then.")] = None,
    has_error: Annotated[
        bool | None, typer.Option("--has-error/--no-error", help="Only with, or without, spans that failed.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="How many.")] = 50,
    after: Annotated[str, typer.Option(metavar="TRACE_ID", help="Go on after this one, the last of a page.")] = "",
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """List traces, the newest first, with the session that each belongs to and how that was found."""
    wanted = TraceFilter(
        session_id=session, since=millis_of(since), until=millis_of(until), has_error=has_error, limit=limit, after=after
    )  # fmt: skip
    with reader_of(settings_of(data, project)) as store:
        found = store.trace_list(wanted)
    if as_json:
        print_json(found)
        return
    if not found:
        err.print("No traces.")
        return
    head = tuple(Text(name, "bold") for name in ("trace", "begun", "took", "spans", "records", "name", "session", "by"))
    print_columns([head, *map(_line, found)], right=(2, 3, 4))
    if len(found) == limit:
        err.print(inert(f"More with: --after {found[-1].trace_id!r}"))


def show_spans(found: Waterfall, full: bool) -> None:
    """The spans of a trace, each under the one that called it."""
    trace = found.trace
    facts = [
        clock(_iso(trace.first_ts)),
        count(len(found.spans), "span"),
        duration((trace.last_ts - trace.first_ts) / 1000),
    ]
    if found.logs:
        facts.append(count(found.logs, "log record"))
    title = Text.assemble("trace ", (inert(trace.trace_id), "bold cyan"), f"  {' · '.join(facts)}")
    if trace.errors:
        title.append(f" · {count(trace.errors, 'span')} failed", "bold red")
    out.print(title, soft_wrap=not out.is_terminal)
    whole = max((row.at_ms + (row.duration_ms or 0) for row in found.spans), default=0) or 1
    print_columns([_span(row, whole, None if full else 80) for row in found.spans], right=(0, 1))
    print_scores(found.scores)
    out.print()


def _line(trace: TraceSummary) -> tuple[Text, ...]:
    return (
        Text(inert(trace.trace_id), "bold cyan"),
        Text(clock(_iso(trace.first_ts))),
        Text(duration((trace.last_ts - trace.first_ts) / 1000)),
        Text(str(trace.spans or ""), "bold red" if trace.errors else ""),
        Text(str(trace.events or "")),
        Text(brief(trace.name, 40)),
        Text(inert(trace.session_id)),
        Text(trace.session_by or "", "yellow" if trace.session_by == "none" else "dim"),
    )


def _span(row: SpanRow, whole: float, width: int | None) -> tuple[Text, ...]:
    style = "bold red" if row.status == "error" else _STYLES.get(row.kind, "")
    name = Text("  " * row.depth + inert(row.name), style)
    facts: list[Any] = [row.model or row.tool or (row.kind if row.kind != "span" else None)]
    if row.usage is not None:
        facts.append(f"{row.usage.total:,} tokens")
    if row.cost_usd is not None:
        facts.append(money(row.cost_usd))
    details = Text(inert(" · ".join(str(fact) for fact in facts if fact)), "dim")
    if row.error:
        details.append(f"  {brief(row.error, width)}", "red")
    for mark, holds in (
        ("never ended", row.duration_ms is None),
        ("parent missing", row.lost_parent),
        ("redacted", row.redacted),
    ):
        details.append(f"  [{mark}]" if holds else "", "yellow")
    took = "" if row.duration_ms is None else duration(row.duration_ms)
    return Text(f"+{duration(row.at_ms)}", "dim"), Text(took), Text(_bar(row, whole), style or "dim"), name, details


def _bar(row: SpanRow, whole: float) -> str:
    """When it ran, as a line within the whole trace."""
    start = min(int(row.at_ms / whole * BAR), BAR - 1)
    length = max(1, min(round((row.duration_ms or 0) / whole * BAR), BAR - start))
    return (" " * start + "━" * length).ljust(BAR)


def _iso(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).isoformat()


COMMANDS = (traces,)
