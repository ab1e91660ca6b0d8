"""Two texts apart: by lines, and by words where lines changed. However long they are, the work has a bound."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from typing import Literal

import msgspec

WORDS = 200_000  # characters of a changed passage that is still looked at word by word
GAP = 10_000  # pairs of items in a gap that difflib is still asked about
BUDGET = 500_000  # such pairs in all, for two texts
ALIKE = 0.3  # of the shorter passage that must recur: less is chance, and speckles what is really another text

_WORD = re.compile(r"\w+\s*|[^\w\s]+\s*|\s+")


class Piece(msgspec.Struct, frozen=True):
    """A stretch of text that both have, or one alone.

    Rules: all but those of `b` make up the first text, all but those of `a` the second.
    """

    kind: Literal["same", "a", "b"]
    text: str


def text_diff(a: str, b: str) -> list[Piece]:
    """Both texts as one list of pieces."""
    if a == b:
        return [Piece("same", a)] if a else []
    matching = Matching()
    pieces: list[Piece] = []
    for piece in matching.pieces(a.splitlines(keepends=True), b.splitlines(keepends=True)):
        if piece.kind == "b" and pieces and pieces[-1].kind == "a":
            pieces[-1:] = _by_words(pieces[-1].text, piece.text, matching)
        else:
            pieces.append(piece)
    return _joined(pieces)


def unified(a: str, b: str, context: int = 3) -> str:
    """The unified diff of two texts, without a head; empty where they are the same."""
    old, new = a.splitlines(), b.splitlines()
    if a != b and old == new:
        return "(only the ends of lines differ)"
    lines: list[str] = []
    for group in _Matched(old, new).get_grouped_opcodes(context):
        begin, end = group[0], group[-1]
        lines.append(f"@@ -{_span(begin[1], end[2])} +{_span(begin[3], end[4])} @@")
        for what, i, i_end, j, j_end in group:
            if what == "equal":
                lines += [f" {line}" for line in old[i:i_end]]
                continue
            lines += [f"-{line}" for line in old[i:i_end]]
            lines += [f"+{line}" for line in new[j:j_end]]
    return "\n".join(lines)


class Matching:
    """Finds what two sequences have in common, in order, until its budget is spent.

    What is there once on both sides is an anchor (the patience diff); between anchors difflib looks, if the gap is
    small: on long texts that repeat themselves it would take minutes.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self._left = budget

    def blocks(self, a: Sequence[str], b: Sequence[str]) -> list[Match]:
        """The stretches that are equal, in order, none beside another on both sides; an empty one ends them."""
        blocks: list[Match] = []
        at = other = length = 0
        for i, j, size in self._found(a, b):
            if i == at + length and j == other + length:
                length += size
                continue
            if length:
                blocks.append(Match(at, other, length))
            at, other, length = i, j, size
        if length:
            blocks.append(Match(at, other, length))
        return [*blocks, Match(len(a), len(b), 0)]

    def pieces(self, a: Sequence[str], b: Sequence[str]) -> Iterator[Piece]:
        i = j = 0
        for at, other, size in self.blocks(a, b):
            if at > i:
                yield Piece("a", "".join(a[i:at]))
            if other > j:
                yield Piece("b", "".join(b[j:other]))
            i, j = at + size, other + size
            if size:
                yield Piece("same", "".join(a[at:i]))

    def _found(self, a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int, int]]:
        i = j = 0
        for at, other in [*_anchors(a, b), (len(a), len(b))]:
            if at > i and other > j:
                yield from self._between(a, b, (i, at), (j, other))
            if at < len(a):
                yield at, other, 1
            i, j = at + 1, other + 1

    def _between(
        self, a: Sequence[str], b: Sequence[str], here: tuple[int, int], there: tuple[int, int]
    ) -> Iterator[tuple[int, int, int]]:
        (i, i_end), (j, j_end) = here, there
        shorter, head, tail = min(i_end - i, j_end - j), 0, 0
        while head < shorter and a[i + head] == b[j + head]:
            head += 1
        while tail < shorter - head and a[i_end - tail - 1] == b[j_end - tail - 1]:
            tail += 1
        yield i, j, head
        i, j, i_end, j_end = i + head, j + head, i_end - tail, j_end - tail
        size = (i_end - i) * (j_end - j)
        if 1 < size <= min(GAP, self._left):  # two single items that are left differ
            self._left -= size
            matcher = SequenceMatcher(None, a[i:i_end], b[j:j_end], autojunk=False)
            yield from ((i + at, j + other, length) for at, other, length in matcher.get_matching_blocks())
        yield i_end, j_end, tail


class _Matched(SequenceMatcher[str]):
    """difflib's grouping of opcodes, on matches that were found within bounds."""

    def __init__(self, a: Sequence[str], b: Sequence[str]) -> None:
        super().__init__(None, "", "", autojunk=False)
        self.a, self.b = a, b

    def get_matching_blocks(self) -> list[Match]:
        return Matching().blocks(self.a, self.b)


def _by_words(a: str, b: str, matching: Matching) -> list[Piece]:
    if len(a) + len(b) <= WORDS:
        pieces = list(matching.pieces(_WORD.findall(a), _WORD.findall(b)))
        same = sum(len(piece.text) for piece in pieces if piece.kind == "same")
        if same >= ALIKE * min(len(a), len(b)):
            return _with_spaces_shared(pieces)
    return [Piece("a", a), Piece("b", b)]


def _with_spaces_shared(pieces: list[Piece]) -> list[Piece]:
    """A word has the space after it, which is no difference where the word in its place has it, too."""
    shared: list[Piece] = []
    for piece in pieces:
        last = shared[-1] if shared else piece
        size = _shared_space(last.text, piece.text) if (last.kind, piece.kind) == ("a", "b") else 0
        if size:
            shared[-1] = Piece("a", last.text[:-size])
            shared += [Piece("b", piece.text[:-size]), Piece("same", piece.text[-size:])]
        else:
            shared.append(piece)
    return [piece for piece in shared if piece.text]


def _shared_space(a: str, b: str) -> int:
    """How many characters of white space both end with."""
    size = 0
    while size < min(len(a), len(b)) and a[-size - 1] == b[-size - 1] and a[-size - 1].isspace():
        size += 1
    return size


def _anchors(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The longest row of items, in order on both sides, of which each is there just once."""
    here, there = Counter(a), Counter(b)
    places = {item: place for place, item in enumerate(b) if there[item] == 1 and here.get(item) == 1}
    common = [(place, places[item]) for place, item in enumerate(a) if item in places]
    ends: list[int] = []  # of the rows found so far, by their length: the least place in b
    last: list[int] = []
    before: list[int | None] = []
    for number, (_, place) in enumerate(common):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else None)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    row: list[tuple[int, int]] = []
    at = last[-1] if last else None
    while at is not None:
        row.append(common[at])
        at = before[at]
    return row[::-1]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Pieces of one kind beside each other as one; between two that are the same, first all of a, then all of b."""
    joined: list[Piece] = []
    texts: dict[str, list[str]] = {"same": [], "a": [], "b": []}

    def close(*kinds: Literal["same", "a", "b"]) -> None:
        joined.extend(Piece(kind, "".join(texts[kind])) for kind in kinds if texts[kind])
        for kind in kinds:
            texts[kind] = []

    for piece in pieces:
        close("a", "b") if piece.kind == "same" else close("same")
        texts[piece.kind].append(piece.text)
    close("same", "a", "b")
    return joined


def _span(begin: int, end: int) -> str:
    """A range of lines as a unified diff writes it."""
    length = end - begin
    return f"{begin + 1}" if length == 1 else f"{begin + bool(length)},{length}"
