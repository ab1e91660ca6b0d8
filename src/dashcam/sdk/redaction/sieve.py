"""Finding the patterns that may be in a text, at hardly any cost where there are none.

Each pattern says which characters (`gates`) and then which words (`literals`) a text must hold before its
regular expression is worth running, because a look for one character costs 12 ns, for a word 100 ns, and
for a regular expression microseconds.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import msgspec

REDACTED = "[REDACTED]"
# No credential is shorter, its name or prefix included, so shorter texts are never looked into.
SHORTEST = 12
# What a check refuses is looked into again when it is shorter than this; longer, that would take O(n²).
SHORT = 64
# The gate and the word of a pattern that has none: every text holds it.
ANY = ("",)


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """One shape. The group `hide` is what goes, or the whole match where there is no such group.

    Rules: every match holds one of `gates` (of A&I, both A and I) and one of `literals`, where the empty one
    stands in every text;
    with `folded`, literals and regex see the text in lower case.
    """

    name: str
    gates: tuple[str, ...]
    literals: tuple[str, ...]
    regex: str
    folded: bool = False
    shortest: int = SHORTEST
    check: Callable[[str, re.Match[str]], bool] | None = None

    def hide(self, text: str) -> str:
        """The text without what this pattern finds; the very same text when it finds nothing."""
        subject = fold(text) if self.folded else text
        regex = compiled(self.regex)
        group: str | int = "hide" if "hide" in regex.groupindex else 0
        pieces, kept, at = [], 0, 0
        # Beyond its end a text still has an empty match, which would be found for ever.
        while at <= len(subject) and (match := regex.search(subject, at)):
            start, end = match.span(group)
            found = text[start:end]
            if not found or found == REDACTED or (self.check and not self.check(text, match)):
                at = match.start() + 1 if match.end() - match.start() < SHORT else match.end()
                continue
            pieces.append(text[kept:start])
            kept = at = end
        if not pieces:
            return text
        return REDACTED.join((*pieces, text[kept:]))


def row(name: str, gates: str | tuple[str, ...], literals: tuple[str, ...], regex: str, **more: Any) -> Pattern:
    """A pattern as a row of a table. Expressions know ASCII only."""
    return Pattern(name=name, gates=tuple(gates), literals=literals or ANY, regex=f"(?a){regex}", **more)


@cache
def compiled(regex: str) -> re.Pattern[str]:
    """Compiled when first needed, since all of them together would take 12 ms of every import."""
    return re.compile(regex)


def fold(text: str) -> str:
    """The text in lower case, each character at its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # Some letters (İ) grow in lower case; bytes only know the case of ASCII.
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


class Sieve:
    """The staged check of a text, made from the rows: gates, then words, then the patterns of those words."""

    def __init__(self, rows: Sequence[Pattern]) -> None:
        self.rows = rows
        self.shortest = min((row.shortest for row in rows), default=sys.maxsize)
        self._behind: dict[tuple[str, ...], list[Pattern]] = {}
        for row in rows:
            self._behind.setdefault(row.gates, []).append(row)
        self.is_suspect = _written_out(self._behind)
        self._beginnings = sorted({fold(word) for row in rows for word in row.literals}, key=len)

    def may_begin(self, text: str) -> bool:
        """Whether a word stands in this text that some secret is known by, be it the text's end or not."""
        lower = fold(text)  # a word is found five times faster than by one expression of them all
        return any(word in lower for word in self._beginnings)

    def suspected(self, text: str) -> list[Pattern]:
        """The rows that may be in this text."""
        if not self.is_suspect(text):
            return []
        lower = fold(text)
        found = []
        for gates, rows in self._behind.items():
            if any(all(part in text for part in gate.split("&")) for gate in gates):
                found += [row for row in rows if any(word in (lower if row.folded else text) for word in row.literals)]
        return sorted(found, key=self.rows.index) if len(found) > 1 else found


def _written_out(behind: Mapping[tuple[str, ...], Iterable[Pattern]]) -> Callable[[str], bool]:
    """Whether a text holds a gate and a word behind it, as one function written out from the table.

    This runs for every text that is recorded; a loop over the rows would cost ten times as much.
    """
    tests, lowered = [], []
    firsts = [gate.split("&")[0] for gates, rows in behind.items() for _ in {r.folded for r in rows} for gate in gates]
    # Characters that open several tests are looked for once.
    seen = {char: f"has{at}" for at, char in enumerate(firsts) if len(char) == 1 and firsts.count(char) > 1}

    def has(part: str) -> str:
        return seen.get(part, f"{part!r} in text")

    for gates, rows in behind.items():
        opened = " or ".join(" and ".join(map(has, gate.split("&"))) for gate in gates)
        words = {
            folded: [word for row in rows if row.folded is folded for word in row.literals] for folded in (False, True)
        }
        if words[False]:
            tests.append(f"({opened}) and ({_any_in(words[False], 'text')})")
        if words[True]:
            lowered.append((opened, f"({opened}) and ({_any_in(words[True], 'lower')})"))
    lines = ["def is_suspect(text):", *(f"{name} = {part!r} in text" for part, name in seen.items())]
    lines += [f"if {test}: return True" for test in tests]
    if lowered:  # last what needs the text in lower case, once for all of it
        opened, inner = (" or ".join(dict.fromkeys(parts)) for parts in zip(*lowered, strict=True))
        lines += [f"if not ({opened}): return False", "lower = fold(text)", f"return bool({inner})"]
    made: dict[str, Any] = {"fold": fold}
    exec("\n    ".join((*lines, "return False")), made)  # noqa: S102 (nothing from outside)
    return cast("Callable[[str], bool]", made["is_suspect"])


def _any_in(words: Iterable[str], text: str) -> str:
    return " or ".join(f"{word!r} in {text}" for word in dict.fromkeys(words))
