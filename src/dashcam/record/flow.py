"""Text that grows: what of it may be written now, so that no half of a secret ever is.

A secret is known by its whole shape, and a stream brings it in pieces. So where the present line may hold
one, its last word waits for its end, and so does what would be hidden if more came behind it.
"""

from __future__ import annotations

import re
from typing import Protocol

# How a word may go on that is the beginning of a secret: with more of it, and with the further parts of a JWT.
_MORE = "A1b2C3d4E5f6G7h8A1b2C3d4E5f6G7h8A1b2C3d4"
_SEQUEL = f"{_MORE}.eyJ{_MORE}.{_MORE}"
_BLOCK, _BLOCK_END = "-----BEGIN ", "-----END "
MAX_LINE, KEPT_LINE = 1_024, 256  # of a longer one only this much of its end is looked at again
MAX_WORD = 4_096  # what has no space in it is cut there
MAX_BLOCK = 65_536
_LAST_WORD = re.compile(r"[!-~]*\Z")  # a secret is printable ASCII


class Redactor(Protocol):
    def suspects(self, text: str) -> bool: ...
    def scrub(self, text: str) -> str: ...


class Flow:
    """One growing text, given in pieces as they came and taken without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        self._suspects, self._scrub = redactor.suspects, redactor.scrub
        self._line = ""  # as it came, from where looking begins
        self._told = ""  # what was written of that
        self.length = 0  # of all that was written
        self.waiting = 0  # characters given since the last take

    def add(self, piece: str) -> None:
        self._line += piece
        self.waiting += len(piece)

    def take(self) -> tuple[int, str] | None:
        """What is new and safe, and the character of the written text from which on it stands; None if nothing is."""
        self.waiting = 0
        safe = self._safe()
        if safe == self._told:
            return None
        same = _common(safe, self._told)
        at = self.length - len(self._told) + same
        new = safe[same:]
        self.length = at + len(new)
        self._told = safe
        self._settle()
        return at, new

    def _safe(self) -> str:
        """The present line without secrets, and without what may yet turn out to be the beginning of one."""
        if not self._suspects(f"{self._line}."):  # a JWT is known by its first dot
            return self._line
        block = self._line.find(_BLOCK)
        if block >= 0 and _BLOCK_END not in self._line and len(self._line) - block < MAX_BLOCK:
            return self._scrub(self._line[:block])
        safe = self._scrub(self._line)
        safe = safe[: _common(safe, self._scrub(self._line + _SEQUEL))]
        word = _LAST_WORD.search(self._line, max(len(self._line) - MAX_WORD, 0))
        assert word
        return safe[: _common(safe, self._scrub(self._line[: word.start()]))] if word[0] else safe

    def _settle(self) -> None:
        """Go on looking behind the last line end, if all up to there is written."""
        end = self._line.rfind("\n") + 1
        if not end and len(self._line) > MAX_LINE:
            end = self._line.rfind(" ", 0, -KEPT_LINE) + 1
            if not end and len(self._line) > MAX_WORD:
                end = len(self._line) - KEPT_LINE
        if not end or (_BLOCK in self._line[:end] and _BLOCK_END not in self._line):
            return
        rest = self._line[end:]
        before = self._scrub(self._line[:end])
        if self._told.startswith(before):
            self._line, self._told = rest, self._told[len(before) :]


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    low, high = 0, shorter
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
