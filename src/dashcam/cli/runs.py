"""`dashcam trace`, `session` and `orphans`: what happened, and what can't be joined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.text import Text

from dashcam.cli.common import Data, File, Json, Project, reader_of, records_in, settings_of
from dashcam.cli.output import brief, clock, count, duration, inert, out, print_columns, print_json, print_table
from dashcam.cli.waterfall import show_spans
from dashcam.store.base import Reader, TraceSummary
from dashcam.views import joinability, timeline
from dashcam.views.timeline import Step, Timeline

if TYPE_CHECKING:
    from dashcam.views.waterfall import Waterfall

_SESSION_BY = {
    "attribute": "a span names it",
    "trace": "another span of the trace names it",
    "context": "goes on where an earlier trace ended",
    "none": "nobody names one: set session.id, or gen_ai.conversation.id, on your spans",
}

Full = Annotated[bool, typer.Option("--full", help="Show values whole, however long.")]


def trace(
    trace_id: Annotated[
        str, typer.Argument(metavar="TRACE_ID", help="The trace: its id, how that begins, or its OpenTelemetry id.")
    ],
    full: Full = False,
    file: File = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Print a trace: its spans, each under the one that called it, and its records in step order."""
    if file:
        events, _, names = records_in(file)
        found = timeline.of_events(events, trace_id, names)
    else:
        with reader_of(settings_of(data, project)) as store:
            summary = store.trace(trace_id)
            if summary.spans:
                _trace_of_spans(store, summary, full, as_json)
                return
            found = timeline.load(store, trace_id)
    print_json(found.records) if as_json else show(found, full)


def session(
    session_id: Annotated[str, typer.Argument(metavar="SESSION_ID", help="The session.")],
    full: Full = False,
    file: File = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Print a session: all its traces, the oldest first."""
    if file:
        events, _, names = records_in(file)
        found = timeline.session_of_events(events, session_id, names)
    else:
        with reader_of(settings_of(data, project)) as store:
            found = timeline.load_session(store, session_id, str(store.path))
            falls = [_fall(store, each.trace_id) for each in store.traces(session_id) if each.spans]
            if falls:
                _session_of_spans(session_id, found, falls, full, as_json)
                return
    if as_json:
        print_json([_as_json(each) for each in found])
        return
    out.print(Text.assemble("session ", (inert(session_id), "bold"), f" · {count(len(found), 'trace')}\n"))
    for each in found:
        show(each, full)


def _trace_of_spans(store: Reader, summary: TraceSummary, full: bool, as_json: bool) -> None:
    fall = _fall(store, summary.trace_id)
    found = timeline.load(store, summary.trace_id) if summary.events else None
    if as_json:
        print_json({**msgspec.structs.asdict(fall), "records": found.records if found else []})
        return
    show_spans(fall, full)
    if found:
        show(found, full)


def _fall(store: Reader, trace_id: str) -> Waterfall:
    from dashcam.views import waterfall  # protobuf, which a trace of records doesn't need

    return waterfall.load(store, trace_id)


def _session_of_spans(
    session_id: str, found: list[Timeline], falls: list[Waterfall], full: bool, as_json: bool
) -> None:
    if as_json:
        print_json([*(_as_json(each) for each in found), *falls])
        return
    traces = len({each.trace_id for each in found} | {fall.trace.trace_id for fall in falls})
    out.print(Text.assemble("session ", (inert(session_id), "bold"), f" · {count(traces, 'trace')}\n"))
    for fall in falls:
        show_spans(fall, full)
    for each in found:
        show(each, full)


def orphans(file: File = None, data: Data = None, project: Project = None, as_json: Json = False) -> None:
    """Print what can't be joined, from where, and why.

    Orphans are records without session, trace or step. The rate, by source; the reasons; which question each kind leaves unanswered; the newest of them.
    """
    if file:
        events, found, names = records_in(file)
        report = joinability.report_of(len(events), found, names)
    else:
        with reader_of(settings_of(data, project)) as store:
            report = joinability.load(store)
    if as_json:
        print_json(report)
        return
    rate = (f"{report.rate:.2f} %", "bold red" if report.orphans else "bold green")
    out.print(
        Text.assemble(
            "orphan rate ", rate, f" · {report.orphans:,} of {count(report.records, 'record')} can't be joined\n"
        )
    )
    rows: list[tuple[Any, ...]] = [(s.source, s.records, s.orphans, f"{s.rate:.2f} %") for s in report.sources]
    print_table(("source", "records", "orphans", "rate"), rows)
    if report.session_by:
        out.print()
        told = [(name, traces, _SESSION_BY.get(name, "")) for name, traces in sorted(report.session_by.items())]
        print_table(("session by", "traces", "what that means"), told)
    if report.orphans:
        out.print()
        print_table(
            ("operation", "orphans", "what that costs"), [(k.operation, k.orphans, k.question) for k in report.kinds]
        )
        out.print()
        print_table(("reason", "records"), list(report.reasons.items()))
        out.print()
        print_table(("newest", "record"), [(f"{s.source}:{s.offset}", brief(s.body, 100)) for s in report.samples])


def show(found: Timeline, full: bool) -> None:
    """A timeline for the terminal."""
    facts = [clock(found.started_at), found.kind, count(len(found.steps), "record"), duration(found.duration_ms)]
    if found.tokens is not None:
        facts.append(f"{found.tokens:,} tokens")
    if found.cost_usd is not None:
        facts.append(f"${found.cost_usd:.4f}")
    title = Text.assemble("trace ", (inert(found.trace_id), "bold cyan"), inert(f"  {' · '.join(facts)}"))
    if found.failures:
        title.append(f" · {found.failures} failed", "bold red")
    if found.unfinished:
        title.append(f" · {count(found.unfinished, 'span')} never ended", "bold yellow")
    if found.shared_steps:
        title.append(f" · {count(found.shared_steps, 'record')} at a step that another has too", "yellow")
    out.print(title, soft_wrap=not out.is_terminal)
    print_columns([_row(step, None if full else 60) for step in found.steps], right=(0, 1))
    out.print()


def _row(step: Step, width: int | None) -> tuple[Text, ...]:
    name = step.fields.get("name") if step.operation in ("span_started", "span_ended") else None
    shown = f"{'▸' if step.operation == 'span_started' else '◂'} {name}" if name else step.operation
    style = "bold red" if step.failed else "magenta" if name else "bold"
    rest = {key: value for key, value in step.fields.items() if not (name and key in ("name", "status"))}
    details = Text("  ").join(
        Text.assemble((f"{inert(key)}=", "dim"), brief(value, width)) for key, value in rest.items()
    )
    for mark in step.marks:
        details.append(f"  [{inert(mark)}]", "yellow")
    operation = Text("  " * step.depth + inert(shown), style)
    return Text(str(step.step), "dim"), Text(f"+{duration(step.at_ms)}", "dim"), operation, details


def _as_json(found: Timeline) -> dict[str, Any]:
    told = msgspec.structs.asdict(found)
    del told["steps"]  # the records, made ready for a person
    return told


COMMANDS = (trace, session, orphans)
