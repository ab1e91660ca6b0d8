"""A list of sessions for the terminal: a line each where that fits, else two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.text import Text

from dashcam.cli.output import brief, count, inert, out
from dashcam.cli.transcript import model_name, moment, money
from dashcam.contracts.chat import Model
from dashcam.contracts.score import Score
from dashcam.store.base import SearchHit, SessionSummary

STATUS = {"busy": "yellow", "error": "red"}

_HEAD = ("session", "agent", "model", "status", "turns", "tokens", "cost", "errors", "last active", "title")
_RIGHT = (4, 5, 6, 7)
_NARROW = (0, 3, 4, 5, 6, 8)  # the columns that stay where the terminal has no room for all
_LEAST_TITLE = 16  # characters of a title that are worth a column
_GAP = "  "


def print_sessions(found: Sequence[SessionSummary], hits: Mapping[str, Sequence[SearchHit]]) -> None:
    """The sessions, and under each where it holds what was looked for."""
    rows = [tuple(Text(name, "bold") for name in _HEAD), *map(_row, found)]
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    room = out.width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
    narrow = out.is_terminal and room < _LEAST_TITLE
    for number, row in enumerate(rows):
        for place, cell in enumerate(row[:-1]):
            cell.align("right" if place in _RIGHT else "left", widths[place])
        _print(Text(_GAP).join(row[place] for place in _NARROW) if narrow else Text(_GAP).join(row))
        if not number:
            continue
        session = found[number - 1]
        if narrow:
            _print(Text(f"    {_rest(session)}", "dim"))
        for hit in hits.get(session.session_id, ()):
            _print(Text.assemble("    ", (f"{moment(hit.created_at)}  ", "dim"), *marked(hit.snippet)))


def _print(line: Text) -> None:
    """One line: cut at the edge of a terminal, whole for whatever else reads."""
    line.rstrip()
    if out.is_terminal:
        line.truncate(out.width, overflow="ellipsis")
    out.print(line, soft_wrap=True)


def _row(each: SessionSummary) -> tuple[Text, ...]:
    return (
        Text(inert(each.session_id), "cyan"),
        Text(brief(each.agent or "", 24)),
        Text(brief(_model(each), 40)),
        Text(inert(each.status), STATUS.get(each.status, "dim")),
        Text(f"{each.turns:,}"),
        Text(f"{each.usage.total:,}"),
        Text(money(each.cost_usd)),
        Text(f"{each.errors:,}", "red" if each.errors else "dim"),
        Text(moment(each.last_at), "dim"),
        Text(brief(each.title, None)),
    )


def _rest(each: SessionSummary) -> str:
    """What a narrow terminal shows on a line of its own."""
    told = [inert(each.agent or ""), inert(_model(each)), count(each.errors, "error") if each.errors else ""]
    return " · ".join(item for item in (*told, inert(each.title)) if item)


def _model(each: SessionSummary) -> str:
    return model_name(Model(provider_id=each.provider or "", model_id=each.model or ""))


def marked(snippet: str) -> Iterator[tuple[str, str]]:
    """A snippet with the words that were looked for set off: the store puts them between two control characters."""
    for number, piece in enumerate(re.split("[\x02\x03]", snippet)):
        yield inert(re.sub(r"\s+", " ", piece)), "bold" if number % 2 else ""


def print_scores(scores: Iterable[Score]) -> None:
    """What was thought of answers, a line each."""
    for score in scores:
        told = " ".join(
            f"{each:g}" if isinstance(each, float) else each for each in (score.value, score.label) if each is not None
        )
        line = Text.assemble("score ", (inert(score.name), "bold"), inert(f" {told}"))
        line.append(inert(f"  {score.comment}") if score.comment else "", "dim")
        line.append(f"  {moment(score.ts // 1000)}", "dim")
        _print(line)
