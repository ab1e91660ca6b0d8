"""`dashcam diff`: two sessions beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Annotated, Any

import msgspec
import typer
from rich.box import Box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from dashcam.cli.common import Data, Json, Project, reader_of, settings_of
from dashcam.cli.output import brief, count, duration, inert, out, print_json
from dashcam.cli.transcript import model_name, money, readable
from dashcam.contracts.chat import Model
from dashcam.contracts.content import shapes_of
from dashcam.views import diff as views
from dashcam.views.changes import CatalogChange
from dashcam.views.diff import Delta, SessionDiff, ToolCall, TurnDiff
from dashcam.views.words import Piece, text_diff

WIDE = 100  # columns of a terminal that two texts fit beside each other in
CONTEXT = 3  # lines shown of what is the same, before and after what isn't
LINES = 40  # of one text, unless all of it is wanted
WIDTH = 4_000  # characters of one line, likewise

_STYLES = {"same": "", "a": "red", "b": "green"}
_BESIDE = Box("\n".join(["  │ "] * 8), ascii=False)  # nothing but a line between the two
_MARKS = {"same": ("", ""), "a": ("[-", "-]"), "b": ("{+", "+}")}
_PLAIN = ("agent", "stop_reason", "error", "permissions", "hidden")


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="The one session.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The other session.")],
    turn: Annotated[int | None, typer.Option(min=1, metavar="N", help="This turn alone.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Fold nothing: turns that are the same, and texts however long.")
    ] = False,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Compare two sessions turn by turn.

    Tells at which turn they diverged, and for each turn what differs: what was said, tool calls, system prompt, tools, model, settings, tokens, cost. Random ids don't count. Exits with 0 if the two are the same and with 1 if they aren't; tokens, cost and time may differ all the same. With --turn that is about this turn.
    """
    with reader_of(settings_of(data, project)) as store:
        found = views.load(store, a, b, turn=turn, full=full or turn is not None)
    print_json(found) if as_json else show(found, full or turn is not None)
    differs = found.diverged_at is not None if turn is None else found.turns[0].differs
    if differs:
        raise typer.Exit(1)


def show(found: SessionDiff, full: bool) -> None:
    """Two sessions for the terminal: beside each other where there is room, else one text with both in it."""
    out.print(Text.assemble(("a ", "bold red"), inert(found.a), "\n", ("b ", "bold green"), inert(found.b)))
    out.print(_verdict(found), soft_wrap=not out.is_terminal)
    out.print()
    for is_new, group in groupby(found.turns, key=lambda each: each.is_new or full):
        if is_new:
            for each in group:
                _show_turn(each, found, full)
        else:
            out.print(_folded(list(group)), soft_wrap=not out.is_terminal)


def _verdict(found: SessionDiff) -> Text:
    if found.diverged_at is None:
        return Text("The two are the same.", "bold green")
    verdict = Text(f"They diverged at turn {found.diverged_at}.", "bold yellow")
    if first := found.message:
        place = f"message {first.index + 1} of the context of turn {first.turn}, model call {first.call}"
        verdict.append(f" What the models were sent differs first in {place}.", "not bold")
    return verdict


def _folded(turns: list[TurnDiff]) -> Text:
    """Turns in which nothing new differs, in a line."""
    first, last = turns[0].turn, turns[-1].turn
    which = f"turn {first}" if first == last else f"turns {first}–{last}"  # noqa: RUF001
    if turns[0].missing_in:
        return Text(f"{which} only in {'b' if turns[0].missing_in == 'a' else 'a'}, too", "yellow")
    line = Text(f"{which} the same", "dim")
    repeated = list(dict.fromkeys(name for each in turns for name in each.repeated))
    if repeated:
        line.append(f", but for what differed before: {', '.join(map(_words, repeated))}", "yellow")
    numbers = [name for name in ("tokens", "cost") if any(name in each.changed for each in turns)]
    return line.append(f" ({', '.join(numbers)} differ)" if numbers else "")


def _show_turn(each: TurnDiff, found: SessionDiff, full: bool) -> None:
    diverged = each.turn == found.diverged_at
    title = _title(each, diverged)
    if out.is_terminal:
        out.print(Rule(title, align="left", style="yellow" if diverged else "bright_black"))
    else:
        out.print(f"── {title.plain}", soft_wrap=True)
    for name, pieces in _texts(each):
        _show_text(name, pieces, full)
    if found.message and "context" in each.changed:
        pieces = text_diff(_shape_text(found.message.a), _shape_text(found.message.b))
        _show_text(f"message {found.message.index + 1} of the context", pieces, full)
    if each.system_prompt and each.system_prompt.diff is not None:
        _show_block("system prompt", _shown_diff(each.system_prompt.diff, full))
    for name, left, right in () if each.missing_in else _facts(each):
        _show_fact(name, left, right)
    out.print()


def _title(each: TurnDiff, diverged: bool) -> Text:
    title = Text(f"turn {each.turn}", "bold")
    if diverged:
        title.append("  ◆ diverged here", "bold yellow")
    if each.missing_in:
        return title.append(f"  only in {'b' if each.missing_in == 'a' else 'a'}", "not bold yellow")
    new = [_words(name) for name in each.changed if name not in each.repeated]
    title.append(f"  {', '.join(new)}" if new else "  the same", "not bold yellow" if new else "not bold dim")
    if each.repeated:
        title.append(f"  (as before: {', '.join(map(_words, each.repeated))})", "not bold dim")
    return title


def _shape_text(message: Any) -> str:
    """A message as it is compared: its ids numbered."""
    return "(it had ended)" if message is None else _value(msgspec.Raw(shapes_of([msgspec.json.encode(message)])[0]))


def _texts(each: TurnDiff) -> Iterator[tuple[str, list[Piece]]]:
    """What was said and done, under its name."""
    for name in ("user", "reasoning", "output"):
        if pieces := getattr(each, name):
            yield name, pieces
        if name == "reasoning":
            for tool in each.tools:
                one, other = tool.a, tool.b
                what = f"only in {'a' if one else 'b'}" if one is None or other is None else ", ".join(tool.changed)
                yield f"tool call: {what}", text_diff(_call_text(one), _call_text(other))
    if each.parts:
        yield "parts", text_diff(_lines_of(each.parts.a), _lines_of(each.parts.b))


def _call_text(call: ToolCall | None) -> str:
    if call is None:
        return ""
    lines = [f"{call.tool}  {call.state or 'in an unknown state'}", f"input {_value(call.input)}"]
    lines += [] if call.output is None else [f"output {_value(call.output)}"]
    lines += [] if call.error is None else [f"error {call.error}"]
    lines += [] if call.decision is None else [f"permission {call.decision}"]
    return "\n".join(lines)


def _lines_of(parts: list[Any]) -> str:
    return "\n".join(map(_value, parts))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _facts(each: TurnDiff) -> Iterator[tuple[str, str, str]]:
    """What else differs, and not just as in the turn before: its name, and how it is in each of the two."""
    new = {name: getattr(each, name, None) for name in each.changed if name not in each.repeated}
    if sides := new.get("model"):
        yield "model", _model(sides.a), _model(sides.b)
    for name, sides in (new.get("settings") or {}).items():
        yield name, _brief(sides.a), _brief(sides.b)
    if (catalog := new.get("tool_catalog")) and catalog.change:
        yield "tools", "", _catalog(catalog.change)
    for name in _PLAIN:
        if sides := new.get(name):
            yield name, _brief(sides.a), _brief(sides.b)
    for name, tokens in each.tokens.items():
        yield from _number(f"{name} tokens", tokens, lambda number: f"{number:,.0f}")
    yield from _number("cost", each.cost_usd, money)
    yield from _number("duration", each.duration_ms, duration)


def _number(name: str, delta: Delta | None, said: Callable[[float], str]) -> Iterator[tuple[str, str, str]]:
    if delta is None or delta.a == delta.b or None in (delta.a, delta.b):  # what nobody told is no difference
        return
    a, b = (said(number or 0) for number in (delta.a, delta.b))
    by = "" if delta.delta is None else f" ({'+' if delta.delta > 0 else '-'}{said(abs(delta.delta))})"
    yield name, a, f"{b}{by}"


def _model(model: Model | None) -> str:
    return "unknown" if model is None else brief(model_name(model), 60)


def _brief(value: Any) -> str:
    return "none" if value is None else brief(value, 120)


def _catalog(change: CatalogChange) -> str:
    told = [f"+{inert(name)}" for name in change.added] + [f"-{inert(name)}" for name in change.removed]
    told += [f"~{inert(name)}" for name in change.changed] + ["order"] * change.reordered
    return " ".join(told) or "in their writing alone"


def _show_fact(name: str, left: str, right: str) -> None:
    line = Text.assemble((f"  {inert(_words(name))}  ", "dim"), (left, "red" if left else ""))
    line.append(f"{' → ' if left else ''}{right}", "green")
    out.print(line, soft_wrap=not out.is_terminal)


def _show_text(name: str, pieces: list[Piece], full: bool) -> None:
    same = all(piece.kind == "same" for piece in pieces)
    shown = pieces if full else [_cut(piece) for piece in pieces]
    if out.is_terminal and out.width >= WIDE and not same:
        table = Table(box=_BESIDE, show_header=False, expand=True, pad_edge=False, show_edge=False, border_style="dim")
        for _ in range(2):
            table.add_column(ratio=1, overflow="fold")
        table.add_row(*(_limited(_side(shown, side), full) for side in ("a", "b")))
        _show_block(name, table)
    else:
        _show_block(name, _limited(_merged(shown), full))


def _show_block(name: str, body: RenderableType) -> None:
    head = Text(f"  {inert(name)}", "dim")
    if out.is_terminal:
        out.print(Group(head, Padding(body, (0, 0, 0, 4))))
        return
    out.print(head, soft_wrap=True)
    for line in str(body).split("\n"):
        out.print(f"    {line}".rstrip(), soft_wrap=True)


def _side(pieces: Iterable[Piece], side: str) -> Text:
    its = [(readable(piece.text), _STYLES[piece.kind]) for piece in pieces if piece.kind in ("same", side)]
    return Text.assemble(*its) if its else Text("not there", "dim")


def _merged(pieces: Iterable[Piece]) -> Text:
    """Both in one text: [-what only a has-]{+what only b has+}."""
    merged = Text()
    for piece in pieces:
        before, after = _MARKS[piece.kind]
        merged.append(f"{before}{readable(piece.text)}{after}", _STYLES[piece.kind])
    return merged


def _cut(piece: Piece) -> Piece:
    """A stretch that isn't shown whole: of what is the same the lines beside what isn't, else how it begins."""
    lines = piece.text.split("\n")
    if piece.kind == "same" and (hidden := len(lines) - 2 * CONTEXT) > 1:
        lines[CONTEXT:-CONTEXT] = [f"… {count(hidden, 'line')} the same"]
    elif piece.kind != "same" and (hidden := len(lines) - LINES) > 1:
        lines[LINES:] = [_more(hidden)]
    return Piece(piece.kind, "\n".join(line if len(line) <= WIDTH else f"{line[:WIDTH]}…" for line in lines))


def _more(hidden: int) -> str:
    return f"… {count(hidden, 'more line')}, shown with --full"


def _limited(text: Text, full: bool) -> Text:
    lines = text.split("\n")
    if full or len(lines) <= LINES + 1:
        return text
    return Text("\n").join([*lines[:LINES], Text(_more(len(lines) - LINES), "dim")])


def _shown_diff(diff: str, full: bool) -> Text:
    text = Text()
    for line in readable(diff).split("\n"):
        style = {"-": "red", "+": "green", "@": "cyan"}.get(line[:1], "")
        text.append(("\n" if text else "") + (line if full else brief(line, WIDTH)), style)
    return _limited(text, full)


def _words(name: str) -> str:
    return name.replace("_", " ")


COMMANDS = (diff,)
