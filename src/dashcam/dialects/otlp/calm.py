"""A quick look at the bytes of a message: whatever it calls calm, a Redactor would leave as it is.

A Redactor walks through every value and looks for some fifty shapes: 37 µs for a span. Here all that may be one, told
more loosely and as one automaton (RE2), is looked for in the bytes of a whole request: 3 µs a span. What is not
calm, seldom a secret, goes to the Redactor.
"""

from __future__ import annotations

import re
from functools import lru_cache

import re2  # type: ignore[import-untyped]

from dashcam.sdk.redaction import Redactor
from dashcam.sdk.redaction.names import ENDINGS, squash
from dashcam.sdk.redaction.sieve import Pattern
from dashcam.sdk.redaction.walk import LABELLED

_MEMORY = 64 << 20  # bytes that the automaton may grow to
_MANY = 40  # repetitions that are told apart; beyond that any number

# Rows of the Redactor's table that want a name and a separator behind it: `_NAMED` finds all of them.
_ASSIGNING = frozenset(("cookie header", "authorization header", "signed URL", "connection string", "XML element"))
_NOISE = "[^A-Za-z0-9]*"  # what may stand between the letters of a name
# As names.secrecy_of judges, and never milder: of several tokens, which are counted everywhere, only named ones count.
_ALONE = ("token", "pwd", "pwds", "jwt", "jwts", "auth", "bearer", "sig", "signature")
# Whatever follows: a separator, its value where it is a key, its neighbour where it is the first of a pair.
_ENDED = rf"(?:{_NOISE}[0-9])*(?:[^A-Za-z0-9]|$)"
# Letters beyond ASCII that are ASCII letters in another case: a long s, the Kelvin sign, i with a dot and without.
_FOREIGN = r"\xc5\xbf|\xe2\x84\xaa|\xc4[\xb0\xb1]"

_AROUND = re.compile(r"\(\?(?:<[=!]|[=!])")
_REPEATED = re.compile(r"\{(\d+),(\d*)\}")


class Calm:
    """The automaton of one Redactor."""

    def __init__(self, redactor: Redactor) -> None:
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        options.max_mem = _MEMORY
        self._shapes = re2.Set.SearchSet(options)
        for shape in (_named(redactor.keys), _labelled(), _FOREIGN):
            self._shapes.Add(shape.encode("latin-1"))
        for row in redactor.sieve.rows:
            if not (row.name in _ASSIGNING or row.name.endswith(" assignment")):
                self._shapes.Add(_loosely(row, options))
        self._shapes.Compile()
        self._asks_host = redactor.asks_host

    def is_calm(self, message: bytes) -> bool:
        """Whether there is no secret in a protobuf message."""
        return not self._asks_host and not self._shapes.Match(message)


@lru_cache(maxsize=8)
def calm_of(redactor: Redactor) -> Calm:
    """The automaton of a Redactor, made once."""
    return Calm(redactor)


def _named(more: frozenset[str]) -> str:
    """A name that tells of a secret, however it is written."""
    plural = f"(?:{_NOISE}s)?"
    names = [_spread(name) + plural for name in ENDINGS] + [_spread(name) for name in (*_ALONE, *more)]
    return rf"(?i:(?:{'|'.join(names)}){_ENDED})"


def _spread(name: str) -> str:
    return _NOISE.join(squash(name))


def _labelled() -> str:
    """A key whose value is as secret as its neighbour says."""
    return rf"\x0a\x05(?:{'|'.join(LABELLED)})\x12"


def _loosely(row: Pattern, options: object) -> bytes:
    """A shape without what RE2 doesn't know: looking around, and taking without giving back. It then finds more."""
    loose = row.regex.removeprefix("(?a)")
    while found := _AROUND.search(loose):
        loose = loose[: found.start()] + loose[_end_of(loose, found.start()) + 1 :]
    loose = re.sub(r"\(\?\(\w+\)|\(\?P<\w+>|\(\?>", "(?:", loose)
    loose = _REPEATED.sub(_roughly, re.sub(r"([*+?}])\+", r"\1", loose))
    try:
        re2.compile(loose.encode("latin-1"), options)
    except re2.error:
        loose = "|".join(map(re.escape, row.literals))  # a row of the host's: its words alone
    return (f"(?i:{loose})" if row.folded else loose).encode("latin-1", "replace")


def _roughly(repeated: re.Match[str]) -> str:
    """Few repetitions as they are: each that is told apart is a state of the automaton."""
    least, most = min(int(repeated[1]), _MANY), repeated[2]
    if most and int(most) <= _MANY // 2:
        return repeated[0]
    return f"{{{least},}}" if least else "*"


def _end_of(expression: str, start: int) -> int:
    """Where the group that opens at `start` is closed."""
    depth = at = 0
    for piece in re.finditer(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", expression[start:], re.DOTALL):
        depth += {"(": 1, ")": -1}.get(piece[0], 0)
        at = start + piece.start()
        if not depth:
            break
    return at
