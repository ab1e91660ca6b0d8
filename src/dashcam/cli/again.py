"""`dashcam replay`: a recorded turn, or one tool call, run again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.text import Text

from dashcam.cli import compare
from dashcam.cli.common import Data, Json, Project, reader_of, settings_of
from dashcam.cli.output import brief, count, duration, err, inert, out, print_json, print_table
from dashcam.errors import MissingExtra, ModelFailed, NotFound, NotReplayable, SettingsError, UnreadableInput
from dashcam.sdk.settings import Settings
from dashcam.views import diff, turns
from dashcam.views.diff import SessionDiff
from dashcam.views.replay import Overrides

# Pydantic AI takes a second to load, which only who replays should wait for: see `_need_host`.
if TYPE_CHECKING:
    from dashcam.host.recall import Recalled
    from dashcam.host.replay import Replayed
    from dashcam.host.tools import Ran, Tools
    from dashcam.host.turn import Options


def replay(
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")],
    turn: Annotated[int | None, typer.Option(min=1, metavar="N", help="The turn; without it, tell which can.")] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="provider:model, scripted:FILE or recorded [default: the model it had]."),
    ] = None,
    system_prompt: Annotated[
        Path | None, typer.Option("--system-prompt", metavar="FILE", help="With this system prompt instead.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="With this setting instead; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell whether it can be replayed.")] = False,
    run_tools: Annotated[bool, typer.Option("--run-tools", help="Run tool calls that were not recorded.")] = False,
    tools: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="Where the tools are, for --run-tools.")
    ] = None,
    tool_timeout: Annotated[
        float, typer.Option(min=0.001, max=86_400, metavar="SECONDS", help="For each tool call.")
    ] = 60.0,
    max_steps: Annotated[int, typer.Option(min=1, metavar="N", help="Ask the model no more often than this.")] = 50,
    tool_call: Annotated[
        str | None, typer.Option(metavar="ID", help="Run this tool call alone again, without a model.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show requests and answers on stderr as they come.")
    ] = False,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Run a recorded turn again.

    The model gets what it was sent then, but for what you change. Its tool calls are answered from the recording; others stop the replay, unless --run-tools runs them. The outcome is a branch of the session, of the kind system:replay, and is shown beside the original. Exits with 1 if too little was recorded, if the model fails, or if the replay stops at a tool call.
    """
    _need_host()
    settings = settings_of(data, project)
    named = _tools(run_tools, tools)
    if tool_call is not None:
        if named is None:
            raise SettingsError("--tool-call runs a tool: say which code that is with --run-tools --tools module:name.")
        with _leaving(named):
            _recall(settings, session_id, tool_call, named, tool_timeout, as_json)
        return
    if turn is None:
        if model or system_prompt or changes:
            raise SettingsError("Say which turn is to be replayed: --turn N. Without it you are told which can be.")
        _check_all(settings, session_id, as_json)
        return
    from dashcam.host.turn import Options

    options = Options(
        changes=Overrides(
            model=model, system_prompt=_prompt(system_prompt), settings=dict(map(_setting, changes or ()))
        ),
        tools=named,
        tool_timeout=tool_timeout,
        max_steps=max_steps,
        tell=_tell if verbose else None,
    )
    with _leaving(named):
        _replay(settings, session_id, turn, options, dry_run, as_json)


@contextmanager
def _leaving(tools: Tools | None) -> Iterator[None]:
    """Leave for good, though a tool that took too long has threads of its own that Python would wait for."""
    code = 0
    try:
        yield
    except typer.Exit as left:
        code = left.exit_code
    if tools is not None and tools.is_hung:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)
    if code:
        raise typer.Exit(code)


def _need_host() -> None:
    if find_spec("pydantic_ai") is None:
        raise MissingExtra("dashcam replay", "host")


def _tools(run_tools: bool, where: str | None) -> Tools | None:
    if run_tools != (where is not None):
        raise SettingsError("--run-tools and --tools module:name go together: the one allows it, the other says what.")
    if where is None:
        return None
    from dashcam.host import tools

    return tools.load(where)


def _prompt(path: Path | None) -> str | None:
    try:
        return None if path is None else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInput(f"{path} can't be read as text: {error}. Name a file with --system-prompt.") from error


def _setting(given: str) -> tuple[str, Any]:
    """`name=value`: the value is JSON, or else the text that it is."""
    name, equals, value = given.partition("=")
    if not (name and equals):
        raise SettingsError(f"--set {given!r:.60} sets nothing. Write it as name=value, e.g. --set temperature=0")
    try:
        return name, msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return name, value.encode("utf-8", "backslashreplace").decode()


def _tell(what: str, value: Any) -> None:
    err.print(Text.assemble((f"{what}  ", "dim"), inert(msgspec.json.encode(value).decode())))


# Turns


def _check_all(settings: Settings, session_id: str, as_json: bool) -> None:
    """Which turns of a session can be replayed."""
    from dashcam.host import replay as host

    with reader_of(settings) as store:
        found = list(host.check_all(store, session_id))
    if as_json:
        told = ("turn", "eligible", "missing", "exact", "redacted", "inexact")
        print_json({"session_id": session_id, "turns": [{name: getattr(e, name) for name in told} for e in found]})
    else:
        for each in found:
            _print_eligibility(each)
    if not any(each.eligible for each in found):
        raise typer.Exit(NotReplayable.exit_code)


def _replay(settings: Settings, session_id: str, turn: int, options: Options, dry_run: bool, as_json: bool) -> None:
    from dashcam.host import replay as host

    with reader_of(settings) as store:
        report, _ = host.check(store, session_id, turn, options)
        if not as_json:
            _print_eligibility(report)
        if dry_run or not report.eligible:
            if as_json:
                print_json({**msgspec.structs.asdict(report), "diff": None})
            raise typer.Exit(0 if report.eligible else NotReplayable.exit_code)
        report = host.run(settings, store, session_id, turn, options)
    beside = _diff(settings, report)
    print_json({**msgspec.structs.asdict(report), "diff": beside}) if as_json else _print_report(report, beside)
    if report.failed or report.stopped:
        raise typer.Exit(ModelFailed.exit_code)


def _diff(settings: Settings, report: Replayed) -> SessionDiff | None:
    """The turn and its replay beside each other; None where another process collects the branch in its own time."""
    assert report.branch_id is not None
    with reader_of(settings) as store:
        try:
            # Turns that a rewind had hidden are not in the branch: its last one is the replay, whatever its number.
            last = sum(1 for _ in turns.grouped(store.chat_messages(report.branch_id)))
            return diff.load_pair(store, report.session_id, report.turn, report.branch_id, last)
        except NotFound:
            return None


def _is_played(report: Replayed) -> bool:
    """Whether no model was asked at all."""
    return str(report.overrides.get("model", "")).startswith(("scripted:", "recorded"))


def _print_eligibility(report: Replayed) -> None:
    verdict = ("can be replayed", "bold green") if report.eligible else ("can't be replayed", "bold red")
    out.print(Text.assemble(f"turn {report.turn} of ", (inert(report.session_id), "bold cyan"), " ", verdict))
    for told in report.missing:
        out.print(Text.assemble(("  missing: ", "red"), inert(told)), soft_wrap=True)
    for path in report.redacted:
        out.print(Text.assemble(("  not exact: ", "yellow"), inert(f"redacted at {path}")), soft_wrap=True)
    for told in report.inexact:
        out.print(Text.assemble(("  not exact: ", "yellow"), inert(told)), soft_wrap=True)


def _print_report(report: Replayed, beside: SessionDiff | None) -> None:
    took = duration(report.duration_ms or 0)
    out.print(
        Text.assemble("branch ", (inert(report.branch_id), "bold cyan"), inert(f"  {report.model}")), soft_wrap=True
    )
    out.print(f"{count(report.steps, 'request')} to the model, {count(len(report.calls), 'tool call')}, {took}\n")
    if report.calls:
        rows = [
            (
                call.outcome,
                call.tool,
                call.answered_by or "nobody",
                brief(call.input),
                _outcome(call.output, call.error),
            )
            for call in report.calls
        ]
        print_table(("recording", "tool", "answered by", "input", "outcome"), rows)
        out.print()
    if report.stopped:
        out.print(Text(inert(f"stopped: {report.stopped}"), "bold red"), soft_wrap=True)
        if report.failed and not _is_played(report):
            err.print("Check its key and your network, or choose another with --model.")
    if beside:
        compare.show(beside, full=False)
    else:
        out.print(inert(f"Compare with: dashcam diff {report.session_id} {report.branch_id}"), soft_wrap=True)


# One tool call


def _recall(settings: Settings, session_id: str, call_id: str, tools: Tools, timeout: float, as_json: bool) -> None:
    from dashcam.host import recall

    with reader_of(settings) as store:
        found = recall.run(settings, store, session_id, call_id, tools, timeout)
    print_json(found) if as_json else _print_recalled(found)


def _print_recalled(found: Recalled) -> None:
    out.print(Text.assemble((inert(found.tool), "bold"), f"  {brief(found.input, None)}"), soft_wrap=True)
    if not found.exact:
        out.print(Text("not exact: its input was redacted", "yellow"))
    old = "no outcome" if found.old is None else _said(found.old)
    print_table(("", "outcome"), [("then", old), ("now", _said(found.new))])
    out.print(Text("equal", "bold green") if found.equal else Text("different", "bold yellow"))


def _said(ran: Ran) -> str:
    return brief(ran.output, None) if ran.error is None else f"error: {inert(ran.error)}"


def _outcome(output: Any, error: str | None) -> str:
    return f"error: {brief(error)}" if error is not None else "" if output is None else brief(output)


COMMANDS = (replay,)
