"""A quick look at texts and names: whatever it calls harmless, a Redactor would leave as it is.

A Redactor looks for some thirty words in every text, a third of a nanosecond a character and word, because most
secrets are assigned: a name, then a separator. Here all that stands between the two is dropped, so that one
expression which starts at the separators, read backwards, finds every name at once.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dashcam.sdk.redaction import Redactor
from dashcam.sdk.redaction.names import ENDINGS, Secrecy, squash
from dashcam.sdk.redaction.outcomes import remember
from dashcam.sdk.redaction.sieve import Sieve
from dashcam.sdk.redaction.walk import LABELLED

_SHORT = 64  # characters: names, ids and states come again and again
# Rows of the Redactor's table that want a name and a separator behind it. Any other is looked for by its own words.
_ASSIGNING = frozenset(("cookie header", "authorization header", "signed URL", "connection string", "XML element"))
_SEPARATORS = b":=>"
_KELVIN = "\u212a"  # the one letter beyond ASCII that is an ASCII letter in lower case


def _is_name(byte: int) -> bool:
    return chr(byte).isascii() and chr(byte).isalnum()


_NOISE = bytes(byte for byte in range(256) if not _is_name(byte) and byte not in _SEPARATORS)
_SQUASHED = bytes(range(256)).lower().translate(bytes.maketrans(b"=>", b"::"))


def _backwards(names: tuple[str, ...]) -> str:
    return "|".join(sorted(squash(name)[::-1] for name in names))


_TOKENS = tuple(name for name in ENDINGS if name.endswith("_token"))
# As names.secrecy_of judges, and never milder. Of several tokens, which are counted everywhere, only named ones count.
_NAMED = re.compile(
    rf":[0-9]*+(?:s?(?:{_backwards(ENDINGS)})|s(?:{_backwards(_TOKENS)})"
    rf"|{_backwards(('token', 'pwd', 'jwt', 'auth', 'bearer', 'sig', 'signature'))}|s(?:dwp|twj))".encode()
)


class Screen:
    """What one Redactor finds harmless, remembered where it is short."""

    def __init__(self, redactor: Redactor) -> None:
        sieve = redactor.sieve
        self._redactor = redactor
        self._shortest = sieve.shortest
        self._rest = Sieve([row for row in sieve.rows if not _is_assigning(row.name)])
        self.names: set[str] = set()
        self.texts: set[str] = set()

    def passes(self, text: str) -> bool:
        """Whether a text holds no secret."""
        size = len(text)
        if size < self._shortest or (size <= _SHORT and text in self.texts):
            return True
        if not self._is_calm(text) and self._redactor.text(text) is not text:
            return False
        if size <= _SHORT:
            remember(text, self.texts)
        return True

    def trusts(self, name: str) -> bool:
        """Whether a name says nothing about its value, nor about its neighbour's, and holds no secret itself."""
        if name in self.names:
            return True
        redactor = self._redactor
        if name in LABELLED or redactor.judge(name) is not Secrecy.NONE or redactor.scrub(name) is not name:
            return False
        remember(name, self.names)
        return True

    def _is_calm(self, text: str) -> bool:
        if ":" in text or "=" in text or ">" in text:
            squashed = text.encode("utf-8", "surrogatepass").translate(_SQUASHED, _NOISE)
            if _NAMED.search(squashed[::-1]) or _KELVIN in text:
                return False
        return not self._rest.is_suspect(text)


@lru_cache(maxsize=8)
def screen_of(redactor: Redactor) -> Screen:
    """The screen of a Redactor, made once."""
    return Screen(redactor)


def _is_assigning(row: str) -> bool:
    return row in _ASSIGNING or row.endswith(" assignment")
