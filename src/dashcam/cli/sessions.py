"""`dashcam sessions` and `dashcam show`: finding a chat session, and reading it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from dashcam.cli.common import Data, Json, Project, reader_of, settings_of
from dashcam.cli.listing import STATUS, print_scores, print_sessions
from dashcam.cli.output import brief, count, err, inert, out, print_json, write_json
from dashcam.cli.transcript import (
    model_name,
    moment,
    money,
    percent,
    print_line,
    print_section,
    readable,
    rule_of,
    show_turn,
)
from dashcam.contracts.chat import ChatSession, object_of
from dashcam.contracts.event import iso_of
from dashcam.errors import SessionNotFound, SettingsError
from dashcam.store.base import Reader, SearchHit, SessionFilter, SessionSummary
from dashcam.views import context
from dashcam.views.catalog import tools_of
from dashcam.views.context import TurnView, request_of, text_of
from dashcam.views.turns import model_from, require_chat
from dashcam.views.when import millis_of

SNIPPETS = 3  # a session

_KINDS = ("user", "system", "all")
_STATES = ("busy", "idle", "error")


def sessions(
    agent: Annotated[str | None, typer.Option(metavar="NAME", help="Only this agent's.")] = None,
    model: Annotated[str | None, typer.Option(metavar="TEXT", help="Only with a model whose name holds this.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only active since then: a date, a time, or 7d or 2h ago.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only last active before then, told the same way.")
    ] = None,
    status: Annotated[str | None, typer.Option(metavar="STATE", help="Only these: busy, idle or error.")] = None,
    text: Annotated[
        str | None, typer.Option(metavar="WORDS", help="Only where one part holds all these words, or how they begin.")
    ] = None,
    has_error: Annotated[
        bool | None, typer.Option("--has-error/--no-error", help="Only with, or without, anything that failed.")
    ] = None,
    min_cost: Annotated[float | None, typer.Option(min=0, metavar="USD", help="Only what cost this or more.")] = None,
    parent: Annotated[str | None, typer.Option(metavar="SESSION_ID", help="Only branches of this one.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="Whose: user, system, system:SOURCE, or all [default: user]."),
    ] = None,
    archived: Annotated[bool, typer.Option("--archived", help="List archived ones, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, metavar="N", help="How many.")] = 50,
    after: Annotated[str, typer.Option(metavar="SESSION_ID", help="Go on after this one, the last of a page.")] = "",
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """List sessions, the most recently active first."""
    if text is not None and not any(map(str.isalnum, text)):
        raise SettingsError(f"--text {text!r:.40} holds no word to look for.")
    kind = kind or ("all" if parent else "user")  # branches are mostly replays, which are the system's own
    wanted = SessionFilter(
        kind=None if kind == "all" else _checked("kind", kind, _KINDS),
        agent=agent,
        model=model,
        since=millis_of(since),
        until=millis_of(until),
        status=status and _checked("status", status, _STATES),
        text=text,
        has_error=has_error,
        min_cost=min_cost,
        parent=parent,
        archived=archived,
        limit=limit,
        after=after,
    )
    with reader_of(settings_of(data, project)) as store:
        if after and not store.sessions(SessionFilter(session_id=after, kind=None, archived=True)):
            raise SessionNotFound(after, str(store.path))
        found = store.sessions(wanted)
        kinds = store.session_kinds(wanted)
        hits = {each.session_id: _hits(store, text, each.session_id) for each in found} if text else {}
    if as_json:
        print_json([_as_json(each) | _where(hits.get(each.session_id)) for each in found])
        return
    if found:
        print_sessions(found, hits)
        if len(found) == limit:
            err.print(inert(f"More with: --after {found[-1].session_id!r}"))
    else:
        err.print("No sessions.")
    if told := _beside(kinds):
        err.print(told)


def show(
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="The session.")],
    turn: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="This turn alone, with all there is of it.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show reasoning and values whole, however long.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="Show the system prompt wherever it is new.")] = False,
    request: Annotated[bool, typer.Option("--request", help="Show the exact requests to the model.")] = False,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Read a chat session turn by turn.

    Each turn has what was said, the tool calls with their outcomes and the rules that let them through, tokens, cost, model, system prompt, tools, how full the context was and what the prompt cache lost.
    """
    with reader_of(settings_of(data, project)) as store:
        session = require_chat(store, session_id)
        views = context.load(store, session.id) if turn is None else iter([context.load_turn(store, session.id, turn)])
        if as_json:
            _write_document(store, session, views, request)
            return
        _print_header(store, session)
        shown_prompt = None
        for view in views:
            show_turn(view, full=full or turn is not None)
            digest = view.turn.system_prompt_digest
            if (prompt or turn is not None) and digest and digest != shown_prompt:
                print_section(f"system prompt {digest}", text_of(store.system_prompt, digest))
                shown_prompt = digest
            if turn is not None:
                _print_rest(store, view)
            if request:
                _print_requests(store, view)
        print_scores(store.scores(session_id=session.id))


def _beside(kinds: dict[str, int]) -> str:
    """How many of the sessions are the system's own; nothing where none is."""
    system = sum(number for kind, number in kinds.items() if kind.startswith("system"))
    total = sum(kinds.values())
    share = f"{system:,} of {count(total, 'session')} ({percent(system / total)})"
    return f"The system's own traffic: {share}. See it with: --kind system" if system else ""


def _as_json(each: SessionSummary) -> dict[str, Any]:
    told = msgspec.structs.asdict(each)
    usage, first_at, last_at = told.pop("usage"), told.pop("first_at"), told.pop("last_at")
    tokens = {**msgspec.structs.asdict(usage), "total": usage.total}
    return {**told, "tokens": tokens, "first_ts": iso_of(first_at * 1000), "last_ts": iso_of(last_at * 1000)}


def _where(hits: list[SearchHit] | None) -> dict[str, Any]:
    return {} if hits is None else {"hits": [hit.plainly() for hit in hits]}


def _hits(store: Reader, words: str, session_id: str) -> list[SearchHit]:
    return store.search(words, session_id=session_id, limit=SNIPPETS)


def _print_header(store: Reader, session: ChatSession) -> None:
    out.print(Text.assemble("session ", (inert(session.id), "bold cyan")))
    named = model_from(object_of(session.model_json))
    branches = store.sessions(SessionFilter(kind=None, parent=session.id, archived=True))
    print_line("agent", inert(session.agent))
    if named.model_id:
        print_line("model", inert(model_name(named)))
    (summary,) = store.sessions(SessionFilter(session_id=session.id, kind=None, archived=True))
    status = summary.status
    print_line("status", (status, STATUS.get(status, "")))
    if session.workspace_root:
        print_line("workspace", inert(session.workspace_root))
    if session.parent_id:
        print_line("branch of", inert(f"{session.parent_id} at {session.parent_message_id or 'an unknown message'}"))
    if branches:
        named_ones = ", ".join(each.session_id for each in branches[:3])
        more = f" and {len(branches) - 3} more (dashcam sessions --parent {session.id})" if len(branches) > 3 else ""
        print_line("branches", inert(f"{named_ones}{more}"))
    counts = f"input {session.prompt_tokens:,} · output {session.completion_tokens:,} · reasoning "
    counts += f"{session.reasoning_tokens:,} · cache read {session.cache_read:,} · cache write {session.cache_write:,}"
    cost = money(session.cost_usd)
    print_line("tokens", f"{session.total_tokens:,} = {counts}", (f" · {cost}" if cost else "", "green"))
    print_line("time", f"{moment(session.created_at)} to {moment(session.updated_at)}")
    if session.archived_at is not None:
        print_line("archived", moment(session.archived_at))
    out.print()


def _print_rest(store: Reader, view: TurnView) -> None:
    """What only a turn on its own shows: the tools offered, and the rules in force."""
    if view.turn.tools_available:
        called = set(view.turn.tools_called)
        described = descriptions(store, view.turn.tool_catalog_digest)
        tools = [
            f"{'•' if name in called else ' '} {inert(name)}  {brief(described.get(name, ''), 100)}".rstrip()
            for name in view.turn.tools_available
        ]
        print_section("tool catalog, with what was called marked", "\n".join(tools))
    rules = view.turn.permissions
    print_section("permission rules in force", "\n".join(map(rule_of, rules)) if rules else "none recorded")
    if view.prompt:
        print_section("what changed in the system prompt", view.prompt.diff)


def descriptions(store: Reader, digest: str | None) -> dict[str, str]:
    """What each tool of a catalog says of itself, in a line."""
    told = {}
    for name, tool in tools_of(text_of(store.tool_catalog, digest)).items():
        inner = tool.get("function") if isinstance(tool, dict) and isinstance(tool.get("function"), dict) else tool
        said = inner.get("description") if isinstance(inner, dict) else None
        told[name] = " ".join(said.split()) if isinstance(said, str) else ""
    return told


def _print_requests(store: Reader, view: TurnView) -> None:
    if not view.turn.calls:
        out.print("  No request was recorded for this turn; one is when the model has answered.", style="dim")
    for number, each in enumerate(view.turn.calls, 1):
        body = request_of(store, each)
        out.print(Text(f"  request {number} of {len(view.turn.calls)}, {len(body):,} bytes", "dim"))
        out.print(readable(_indented(body)), soft_wrap=True)  # with --json it is there to the letter
        out.print()


def _indented(body: bytes) -> str:
    with suppress(ValueError, RecursionError):
        body = msgspec.json.format(body, indent=2)
    return body.decode("utf-8", "backslashreplace")


def _write_document(store: Reader, session: ChatSession, views: Iterable[TurnView], requests: bool) -> None:
    """One JSON document, a turn a line, none of them kept."""
    scores = msgspec.json.encode(store.scores(session_id=session.id))
    write_json(b'{"session":' + msgspec.json.encode(session) + b',\n"scores":' + scores + b',\n"turns":[')
    for number, piece in enumerate(_documents(store, views, requests)):
        write_json((b",\n" if number else b"\n") + piece)
    write_json(b"\n]}\n")
    sys.stdout.buffer.flush()


def _documents(store: Reader, views: Iterable[TurnView], requests: bool) -> Iterator[bytes]:
    for view in views:
        told = {name: getattr(view.turn, name) for name in view.turn.__struct_fields__}
        calls: list[Any] = [{**{name: getattr(each, name) for name in each.__struct_fields__}} for each in view.calls]
        for each in calls if requests else ():
            each["request"] = _raw(request_of(store, each["call"]))
        yield msgspec.json.encode({**told, "calls": calls, "prompt": view.prompt, "catalog": view.catalog})


def _raw(body: bytes) -> Any:
    """The request as it is where it is JSON, else as text."""
    try:
        msgspec.json.decode(body)
        return msgspec.Raw(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "backslashreplace")


def _checked(what: str, given: str, known: tuple[str, ...]) -> str:
    if given in known or (what == "kind" and given.startswith("system:")):
        return given
    more = ", system:SOURCE" if what == "kind" else ""
    raise SettingsError(f"{given!r:.40} is no {what}. Choose from: {', '.join(known)}{more}.")


COMMANDS = (sessions, show)
