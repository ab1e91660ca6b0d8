"""One Redaction, applied to every record. Nothing is exempt, the messages of a model least of all.

A record with nothing to hide costs about a microsecond, for which the first look is at single characters only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from dashcam.sdk.redaction import names
from dashcam.sdk.redaction.names import Secrecy
from dashcam.sdk.redaction.outcomes import Outcomes, remember
from dashcam.sdk.redaction.rules import Redaction, chosen_by
from dashcam.sdk.redaction.sieve import REDACTED, Sieve
from dashcam.sdk.redaction.unfold import PLAIN
from dashcam.sdk.redaction.walk import LABELLED, Walk

_new = tuple.__new__  # a named tuple by its name takes 0.1 µs more, a tenth of the quick way

FAILED = {"redaction": "failed"}
# From here on a digest costs less than a second scan.
LONG = 512
# One redaction may lay another bare, seldom a third. What is still changing then is hidden as a whole.
MAX_PASSES = 8
# Names, ids, paths and states come again and again: those without a secret are known by themselves.
SHORT = 64
MAX_NAME = 128


class Redacted(NamedTuple):
    """Fields without secrets, and what was done to them, as paths (`messages.3.content`)."""

    fields: dict[str, Any]
    taken: list[str]  # secrets
    replaced: list[str]  # what JSON has no form for: a text stands there that says what it was


class Redactor:
    """Applies one Redaction; made once, used from every thread.

    `scans` counts the texts that the patterns were tried on, `failures` the records given up because a
    redaction failed.
    """

    def __init__(self, rules: Redaction) -> None:
        self.scans = 0
        self.failures = 0
        self._function = rules.function
        self._credentials = rules.credentials
        self.keys = frozenset(filter(None, map(names.squash, rules.keys)))
        self.sieve = Sieve(chosen_by(rules))
        self.innocent: set[str] = set()
        self._clean: set[str] = set()
        self._known = Outcomes()

    def apply(self, fields: dict[str, Any]) -> Redacted:
        """Return the fields without secrets, with the paths of what was taken out or replaced.

        The given fields are never changed, and come back as they are when there is nothing to do.
        Never raises: a redaction that fails takes the whole record with it.
        """
        try:
            if self.knows(fields) and self.are_harmless(fields.values()):
                return _new(Redacted, (fields, [], []))
            walk = Walk(self)
            fields, taken = walk.container(fields, None), list(dict.fromkeys(walk.taken))
            redacted = Redacted(fields, taken, walk.replaced)
            return redacted if self._function is None else self._ask_host(redacted)
        except Exception:
            self.failures += 1
            return Redacted(dict(FAILED), ["*"], [])

    def knows(self, names: Collection[str]) -> bool:
        """Whether these names tell that only their values can be secret. It holds for good."""
        return self._function is None and self.innocent.issuperset(names)

    def learns(self, names: Collection[str]) -> bool:
        """Judge names that it doesn't know, and say whether it knows them all then."""
        for name in names:
            self.secrecy_of(name)
        return self.knows(names)

    def are_harmless(self, values: Iterable[Any]) -> bool:
        """The quick way through flat values: numbers, and texts without suspicion."""
        shortest, is_suspect = self.sieve.shortest, self.sieve.is_suspect
        for value in values:
            kind = type(value)
            if kind is str:
                size = len(value)
                if size < shortest or (size <= SHORT and value in self._clean):
                    continue
                if size >= LONG or is_suspect(value):  # long ones are looked up by their digest
                    return False
            elif kind not in PLAIN:
                return False
        return True

    def _ask_host(self, redacted: Redacted) -> Redacted:
        assert self._function is not None
        fields, taken, replaced = redacted
        given = self._function(dict(fields))
        if not isinstance(given, dict):
            raise TypeError("the redaction function gave no dict")
        changed = [key for key in fields if key not in given or not _is_same(given[key], fields[key])]
        if not changed and len(given) == len(fields):
            return redacted
        return Redacted(given, list(dict.fromkeys((*taken, *map(str, changed)))), replaced)

    def secrecy_of(self, name: str) -> Secrecy:
        """Judge a name, by our list and the host's, and know it from then on."""
        judged = self.judge(name)
        # A `value` is as secret as the `name` beside it says: it is never known by itself.
        if judged is Secrecy.NONE and name not in LABELLED and len(name) <= SHORT and self.scrub(name) is name:
            remember(name, self.innocent)
        return judged

    def judge(self, name: str) -> Secrecy:
        """As `secrecy_of`, without remembering."""
        if self.keys and names.squash(name) in self.keys:
            return Secrecy.ANY
        return names.secrecy_of(name[-MAX_NAME:]) if self._credentials else Secrecy.NONE

    def text(self, text: str) -> str:
        """The text without secrets; the very same when there are none."""
        size = len(text)
        if size < self.sieve.shortest or (size <= SHORT and text in self._clean):
            return text
        if size < LONG:
            self.scans += 1
            scrubbed = self.scrub(text)
            if size <= SHORT and scrubbed is text:
                remember(text, self._clean)
            return scrubbed
        digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
        outcome = self._known.get(digest)
        if outcome is None:
            self.scans += 1
            scrubbed = self.scrub(text)
            outcome = "" if scrubbed is text else scrubbed
            self._known.put(digest, outcome)
        return outcome or text

    @property
    def asks_host(self) -> bool:
        """Whether a function of the host's has the last word: it sees whole records only."""
        return self._function is not None

    def suspects(self, text: str) -> bool:
        """Whether a text may hold a secret, or the beginning of one: gates, which may yet come, don't count."""
        return self.sieve.may_begin(text)

    def scrub(self, text: str) -> str:
        """As `text`, without remembering."""
        if len(text) < self.sieve.shortest:
            return text
        for _ in range(MAX_PASSES):
            before = text
            for pattern in self.sieve.suspected(text):
                text = pattern.hide(text)
            if text is before:
                return text
        return REDACTED


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False  # arrays don't say whether they are equal
