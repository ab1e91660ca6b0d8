"""A chat session for the terminal, turn by turn. All of it was said by others: it is shown, and never obeyed."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Any

import msgspec
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from dashcam.cli.output import brief, clock, count, duration, inert, out
from dashcam.contracts.chat import USAGE, Model
from dashcam.contracts.event import iso_of
from dashcam.views.changes import LEAST_CACHED, Cache, CatalogChange, Change, Fill, PromptChange
from dashcam.views.context import CallView, TurnView
from dashcam.views.parts import (
    CompactionPart,
    DataPart,
    Decision,
    FilePart,
    Part,
    ReasoningPart,
    SourcePart,
    StepStart,
    TextPart,
    ToolPart,
)
from dashcam.views.turns import Message, Turn

LINES = 40  # of one text, unless all of it is wanted
WIDTH = 110  # of a value in one line
BAR = 20  # characters

_LABEL = 11
_STATES = {"output-available": ("✓", "green"), "output-error": ("✗", "red"), "output-denied": ("⊘", "red")}
_DECIDED = {"allow": "allowed", "deny": "denied", "ask": "left to a person"}
_LOST = {
    "model": "another model was asked",
    "catalog": "the tool catalog changed",
    "prompt": "the system prompt changed",
    "message": "a message before others changed",
    "expired": "it was too old",
    "unserved": "the provider served nothing of it",
}


def show_turn(view: TurnView, *, full: bool) -> None:
    """One turn: what was said and done, then the facts about it."""
    turn = view.turn
    _title(turn)
    for message in turn.messages:
        _message(message, full)
    if turn.error:
        _block(f"failed: {turn.error}", 2, "red", full)
    if turn.is_open:
        _block("The answer has not ended.", 2, "yellow", full)
    out.print()
    if turn.assistant:
        _facts(view)
        out.print()


def moment(ms: int) -> str:
    return clock(iso_of(ms * 1000))


def model_name(model: Model) -> str:
    name = f"{model.provider_id}:{model.model_id}" if model.provider_id else model.model_id
    return f"{name} ({model.variant})" if model.variant else name


def money(usd: float | None) -> str:
    """Dollars with as many places as a small amount needs; nothing where unknown."""
    return "" if usd is None else f"${usd:.4f}" if usd >= 0.001 or not usd else f"${usd:.6f}"


def percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def print_line(label: str, *said: str | Text | tuple[str, str]) -> None:
    """A fact: its name, then what it says, which wraps beside the name."""
    line = Text.assemble((f"{label:<{_LABEL}}", "dim"), *said)
    if not out.is_terminal:
        out.print(f"  {line.plain}".rstrip(), soft_wrap=True)
        return
    for number, each in enumerate(_wrapped(line, max(20, out.width - _LABEL - 3))):
        out.print(Padding(each, (0, 0, 0, 2 if number == 0 else 2 + _LABEL), expand=False), soft_wrap=True)


def _wrapped(line: Text, width: int) -> Iterable[Text]:
    """A line of facts, broken between two of them, and within one only where it is too long alone."""
    rows: list[Text] = []
    for fact in line.split(" · "):
        if rows and rows[-1].cell_len + 3 + fact.cell_len <= width:
            rows[-1].append(" · ").append_text(fact)
        else:
            rows.append(fact)
    for row in rows:
        for each in row.wrap(out, width):
            each.rstrip()
            yield each


def print_section(title: str, text: str) -> None:
    """A long text under its own name: a prompt, a request."""
    out.print(Text(f"  {title}", "dim"))
    _block(text, 4, "", full=True)
    out.print()


def readable(text: str) -> str:
    """Text of several lines in which nothing acts on the terminal."""
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return "\n".join(map(inert, lines))


def _title(turn: Turn) -> None:
    title = Text.assemble((f"turn {turn.number}", "bold"), (f"  {moment(turn.started_at)}", "dim"))
    if turn.queued_at is not None:
        title.append(f"  queued {moment(turn.queued_at)}", "dim")
    if turn.hidden_at is not None:
        title.append(f"  hidden by rewind {moment(turn.hidden_at)}", "yellow")
    if out.is_terminal:
        out.print(Rule(title, align="left", style="bright_black"))
    else:
        out.print(f"── {title.plain}", soft_wrap=True)


def _message(message: Message, full: bool) -> None:
    """Its parts in their order, with the speaker named wherever words begin."""
    speaking = False
    for part in message.parts:
        if isinstance(part, TextPart) and not part.text:
            continue
        speaks = isinstance(part, TextPart | FilePart | SourcePart | DataPart)
        if speaks and not speaking:
            out.print(Text(f"  {inert(message.role)}", "bold cyan" if message.role == "user" else "bold"))
        speaking = speaks
        _part(part, full)


def _part(part: Part, full: bool) -> None:
    if isinstance(part, TextPart):
        _block(part.text + (" …" if part.streaming else ""), 4, "", full)
    elif isinstance(part, ReasoningPart):
        _reasoning(part, full)
    elif isinstance(part, ToolPart):
        _tool(part, full)
    elif isinstance(part, CompactionPart):
        kept = "with a tail kept" if part.tail_start_id else "with no tail kept"
        how = "automatically" if part.auto else "by hand"
        _block(f"┄┄ compacted {how}, {kept}: this summary stands for what came before", 2, "yellow", full)
        _block(part.summary, 4, "dim", full)
    elif isinstance(part, FilePart):
        name = part.filename or ("(embedded)" if part.url.startswith("data:") else part.url)
        _block(
            f"file {brief(name)} · {brief(part.media_type or 'unknown type')} · {len(part.url):,} characters",
            4,
            "dim",
            full,
        )
    elif isinstance(part, SourcePart):
        _block(f"source {part.title or ''} {part.url or ''}".strip(), 4, "dim", full)
    elif isinstance(part, DataPart):
        _value(f"data {part.name}", part.data, full)
    elif not isinstance(part, StepStart):
        _value(part.type, part.data, full)


def _reasoning(part: ReasoningPart, full: bool) -> None:
    if full:
        out.print(Text("  reasoning", "dim"))
        _block(part.text, 4, "dim italic", full)
    elif part.text:
        first, _, rest = part.text.strip().partition("\n")
        more = f" ({len(part.text):,} characters)" if rest or len(first) > WIDTH else ""
        _block(f"reasoning{more}  {brief(first, WIDTH - 20)}", 2, "dim italic", full)


def _tool(part: ToolPart, full: bool) -> None:
    sign, style = _STATES.get(part.state or "", ("…", "yellow"))
    head = Text.assemble("  ", (f"{sign} ", style), (inert(part.tool), "magenta"))
    if part.state not in ("output-available", None):
        head.append(f"  {inert(part.state)}", style)
    if not full:
        head.append(f"  {brief(part.input, WIDTH)}", "")
    head.append(f"  {duration(part.updated_at - part.created_at)}" if part.updated_at > part.created_at else "", "dim")
    out.print(head, soft_wrap=not out.is_terminal)
    if full:
        _value("input", part.input, full)
    if part.error is not None:
        _block(part.error, 6, "red", full)
    elif part.output is not None:
        _value("output", part.output, full) if full else _block(brief(part.output, WIDTH), 6, "dim", full)
    if part.decision:
        _block(said_of(part.decision), 6, "dim" if part.decision.action == "allow" else "yellow", full)


def said_of(decision: Decision) -> str:
    """A decision in a line: what, by which rule, from where."""
    said = _DECIDED.get(decision.action, decision.action)
    if decision.rule is not None:
        rule = decision.rule
        said += f" by {rule_of({**rule, 'action': None, 'source': None} if isinstance(rule, dict) else rule)}"
    elif decision.pattern:
        said += f" by {decision.pattern}"
    return f"{said} ({decision.source})" if decision.source else said


def rule_of(rule: Any) -> str:
    """A permission rule in a line."""
    if not isinstance(rule, dict):
        return brief(rule)
    named = (rule.get("action"), rule.get("permission"), rule.get("pattern"))
    told = " ".join(str(value) for value in named if value)
    source = f" ({rule['source']})" if rule.get("source") else ""
    return f"{told}{source}" if told else brief(rule)


def _value(name: str, value: Any, full: bool) -> None:
    """A value of any shape: a line, or all of it on request."""
    if not full:
        _block(f"{name} {brief(value, WIDTH)}", 4, "dim", full)
        return
    out.print(Text(f"      {inert(name)}", "dim"))
    text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    _block(text, 8, "", full)


def _block(text: str, indent: int, style: str, full: bool) -> None:
    """Text of several lines, set in; cut after `LINES` unless all of it is wanted."""
    lines = readable(text).split("\n")
    more = 0 if full else len(lines) - LINES
    shown = lines[:LINES] if more > 0 else lines
    longest = None if full else out.width * LINES
    cut = [line if longest is None or len(line) <= longest else line[:longest] + "…" for line in shown]
    if more > 0:
        cut.append(f"… {count(more, 'more line')}, shown with --full")
    if out.is_terminal:
        out.print(Padding(Text("\n".join(cut), style), (0, 0, 0, indent), expand=False))
    else:
        out.print("\n".join(f"{' ' * indent}{line}".rstrip() for line in cut), soft_wrap=True)


def _facts(view: TurnView) -> None:
    turn = view.turn
    print_line("tokens", *_usage(turn))
    print_line("model", " · ".join(_model(turn)))
    if turn.system_prompt_digest:
        print_line("prompt", turn.system_prompt_digest[:12], *_prompt(view.prompt))
    if turn.tools_available is not None or turn.tools_called:
        print_line("tools", *_tools(turn, view.catalog))
    if view.calls:
        last = view.calls[-1]
        if last.fill:
            print_line("context", *_fill(last.fill, last))
        seen = [each.cache for each in view.calls if each.cache]
        for cache in [each for each in seen if each.lost] or seen[-1:]:
            print_line("cache", *_cache(cache))


def _usage(turn: Turn) -> list[str | tuple[str, str]]:
    if turn.usage is None:
        return [("not told", "dim")]
    counts = (f"{name.replace('_', ' ')} {getattr(turn.usage, name):,}" for name in USAGE)
    said: list[str | tuple[str, str]] = [" · ".join(counts)]
    if turn.cost_usd is not None:
        said.append((f" · {money(turn.cost_usd)}", "green"))
    return said


# What Pydantic AI was told for itself; `--request` shows it.
_OF_THE_LIBRARY = frozenset(("parameters", "instructions"))


def _model(turn: Turn) -> Iterable[str]:
    if turn.model:
        yield inert(model_name(turn.model))
    for name, value in turn.settings.items():
        if name in _OF_THE_LIBRARY:
            continue
        yield f"{inert(name)} {brief(value, 40)}"
    if turn.duration_ms is not None:
        yield duration(turn.duration_ms)
    if turn.first_token_ms is not None:
        yield f"first token {duration(turn.first_token_ms)}"
    if turn.stop_reason:
        yield f"ended: {inert(turn.stop_reason)}"
    if len(turn.calls) > 1:
        yield count(len(turn.calls), "call")


def _prompt(change: PromptChange | None) -> list[str | tuple[str, str]]:
    if change is None:
        return []
    return [
        (f"  changed at line {change.line}: ", "yellow"),
        (f"-{brief(change.before, 50)} ", "red"),
        (f"+{brief(change.after, 50)}", "green"),
    ]


def _tools(turn: Turn, change: CatalogChange | None) -> list[str | tuple[str, str]]:
    called = ", ".join(inert(name) for name in turn.tools_called[:12])
    more = len(turn.tools_called) - 12
    called += f" and {more} more" if more > 0 else ""
    offered = "" if turn.tools_available is None else f"{len(turn.tools_available)} available · "
    said: list[str | tuple[str, str]] = [f"{offered}{len(turn.tools_called)} called{': ' if called else ''}{called}"]
    unknown = set(turn.tools_called) - set(turn.tools_available or turn.tools_called)
    if unknown:
        said.append((f"  not in the catalog: {', '.join(map(inert, sorted(unknown)))}", "yellow"))
    if change:
        told = [f"+{inert(name)}" for name in change.added] + [f"-{inert(name)}" for name in change.removed]
        told += [f"~{inert(name)}" for name in change.changed] + ["order"] * change.reordered
        said.append((f"  changed: {' '.join(told) or 'its writing alone'}", "yellow"))
    return said


def _fill(fill: Fill, call: CallView) -> list[str | tuple[str, str]]:
    tokens = f"{'about ' if fill.estimated else ''}{fill.tokens:,}"
    said: list[str | tuple[str, str]] = []
    if fill.share is None or not fill.window:
        said.append(f"{tokens} tokens")
    else:
        full = min(BAR, ceil(fill.share * BAR))
        style = "red" if fill.share > 0.9 else "yellow" if fill.share > 0.7 else "blue"
        said += [("━" * full, style), ("┈" * (BAR - full), "bright_black")]
        said.append(f" {percent(fill.share)} · {tokens} of {fill.window:,} tokens")
    if call.messages is not None:
        said.append(f" · {count(call.messages, 'message')}")
    if call.change:
        said.append((_change(call.change), "dim"))
    return said


def _change(change: Change) -> str:
    told = [f"+{change.appended}"] if change.appended else []
    if change.dropped_head:
        told.append(f"{change.dropped_head} dropped from the head")
    if change.replaced or change.by:
        told.append(f"{change.replaced} replaced by {change.by} at {change.at}")
    if change.rewound:
        told.append(f"{change.rewound} rewound")
    return f" ({', '.join(told)})" if told else ""


def _cache(cache: Cache) -> list[str | tuple[str, str]]:
    if cache.served:
        told = f"{cache.served:,} tokens came from the cache"
    elif cache.could_serve < LEAST_CACHED and not cache.lost:
        return [("too little was sent before for a cache", "dim")]
    else:
        told = f"{percent(cache.share)} could come from the cache"
    said: list[str | tuple[str, str]] = [f"{told} · "]
    if not cache.lost:
        return [*said, "nothing lost"]
    cost = f", {money(cache.lost_usd)} more" if cache.lost_usd else ""
    said.append((f"lost about {cache.lost:,} tokens{cost}: {_LOST.get(cache.reason, cache.reason)}", "yellow"))
    return said
