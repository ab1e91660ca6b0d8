"""Text that grows: what of it may be written now, so that no half of a secret ever is.

A secret is known by its whole shape, and a stream brings it in pieces. So where the present line may hold
one, its last word waits for its end, and so does what would be hidden if more came behind it. Where that
would take too much looking, nothing more is told until the text is complete.
"""

from __future__ import annotations

import re
import time
from typing import Protocol

# How a word may go on that is the beginning of a secret: with more of it, and with the further parts of a JWT.
_MORE = "A1b2C3d4E5f6G7h8A1b2C3d4E5f6G7h8A1b2C3d4"
_SEQUEL = f"{_MORE}.eyJ{_MORE}.{_MORE}"
_PROBE = " zqxjkv "  # stays as it is, unless it comes to stand within what is hidden
_BLOCK, _BLOCK_END = "-----BEGIN ", "-----END "
MAX_LINE, KEPT_LINE = 1_024, 256  # of a longer one only this much of its end is looked at again
MAX_WORD = 4_096  # what has no space in it is cut there
MAX_HELD = 16_384  # what can't be told from a secret for so long isn't told before the end
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
        self._is_mute = False
        self.given = 0  # characters in all
        self.length = 0  # of all that was written
        self.waiting = 0  # characters given since the last take
        self.spent = 0.0  # seconds that looking for secrets took

    def add(self, piece: str) -> None:
        self.given += len(piece)
        self.waiting += len(piece)
        if not self._is_mute:
            self._line += piece

    @property
    def is_held(self) -> bool:
        """Whether much of what was given may not be told: then looking again soon is of little use."""
        return self._is_mute or len(self._line) - len(self._told) > KEPT_LINE

    def take(self) -> tuple[int, str] | None:
        """What is new and safe, and the character of the written text from which on it stands; None if nothing is."""
        self.waiting = 0
        if self._is_mute:
            return None
        began = time.monotonic()
        is_suspect = self._suspects(self._line)
        taken = self._take(self._safe() if is_suspect else self._line)
        if is_suspect:
            self.spent += time.monotonic() - began
        return taken

    def _take(self, safe: str) -> tuple[int, str] | None:
        taken = None
        if safe != self._told:
            same = _common(safe, self._told)
            at, new = self.length - len(self._told) + same, safe[same:]
            self.length, self._told, taken = at + len(new), safe, (at, new)
        self._settle()
        return taken

    def _safe(self) -> str:
        """The present line without secrets, and without what may yet turn out to be the beginning of one."""
        block = self._line.find(_BLOCK)
        if block >= 0 and _BLOCK_END not in self._line:
            return self._scrub(self._line[:block])
        safe = self._scrub(self._line)
        safe = safe[: _common(safe, self._scrub(self._line + _SEQUEL))]
        word = _LAST_WORD.search(self._line, max(len(self._line) - MAX_WORD, 0))
        assert word
        return safe[: _common(safe, self._scrub(self._line[: word.start()]))] if word[0] else safe

    def _settle(self) -> None:
        """Go on looking further behind, where all before is written and no secret reaches over the cut."""
        end = self._line.rfind("\n") + 1
        if not end and len(self._line) > MAX_LINE:
            end = self._line.rfind(" ", 0, -KEPT_LINE) + 1
            if not end and len(self._line) > MAX_WORD:
                end = len(self._line) - KEPT_LINE
        if end and self._may_cut(end):
            self._told = self._told[len(self._scrub(self._line[:end])) :]
            self._line = self._line[end:]
        elif len(self._line) > MAX_HELD:
            self._is_mute = True
            self._line = self._told = ""

    def _may_cut(self, end: int) -> bool:
        before = self._line[:end]
        if not self._suspects(before):
            return self._told.startswith(before)
        if before[-1] not in " \n" or (_BLOCK in before and _BLOCK_END not in before):
            return False
        return _PROBE in self._scrub(before + _PROBE) and self._told.startswith(self._scrub(before))


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
