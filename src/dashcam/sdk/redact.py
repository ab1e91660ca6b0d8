"""Taking secrets out of a record where it is built, before anything reaches a disk or a socket.

What is known by the name of its field goes whole; what is known by its shape goes out of the text
around it. Nothing is exempt, the messages of a model least of all. A record with nothing to hide
costs about a microsecond, for which the first look is at single characters only.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from operator import is_
from typing import Any
from uuid import UUID

import msgspec

from dashcam.errors import SettingsError
from dashcam.sdk import patterns
from dashcam.sdk.patterns import REDACTED, Pattern, Secrecy, Sieve

TOO_DEEP = "[TOO DEEP]"
FAILED = {"redaction": "failed"}

MAX_DEPTH = 64
# Lists that hold one list ten times over, forty deep, are no circle and still have no end.
MAX_CONTAINERS = 1_000_000
MAX_REPR = 1_000
# From here on a digest costs less than a second scan.
LONG = 512
# One redaction may lay another bare, seldom a third. What is still changing then is hidden as a whole.
MAX_PASSES = 8
# Names, ids, paths and states come again and again: those without a secret are known by themselves.
SHORT = 64
MAX_NAME = 128
MAX_KNOWN = 4_096

_PLAIN = frozenset((int, float, bool, type(None)))
_HARMLESS = (date, time, timedelta, Decimal, UUID)  # a form of their own, in which no secret fits
_BYTES = (bytes, bytearray, memoryview)

Where = tuple[Any, Any] | None  # the path up to here, spelled only when something was found


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken out of a record where it is built.

    `keys` are compared without regard to case, - and _. `patterns` run over every text, without a
    pre-check, and in whatever time they take. `function` is the host's own; it comes last and sees
    fields that are already redacted.
    """

    credentials: bool = True
    emails: bool = False
    cards: bool = False
    phones: bool = False
    ip_addresses: bool = False
    keys: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    function: Callable[[dict[str, Any]], dict[str, Any]] | None = None


class Redactor:
    """Applies one Redaction; made once, used from every thread.

    `scans` counts the texts that were looked into, `failures` the records given up because a
    redaction failed.
    """

    def __init__(self, rules: Redaction) -> None:
        self.scans = 0
        self.failures = 0
        self._function = rules.function
        self._credentials = rules.credentials
        self._keys = frozenset(filter(None, map(patterns.squash, rules.keys)))
        self._sieve = Sieve(_chosen(rules))
        self.innocent: set[str] = set()
        self._clean: set[str] = set()
        self._known = _Outcomes()

    def apply(self, fields: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return the fields without secrets, and the paths (`messages.3.content`) of what was taken out.

        The given fields are never changed, and come back as they are when there is nothing to do.
        Never raises: a redaction that fails takes the whole record with it.
        """
        try:
            if self.knows(fields) and self.are_harmless(fields.values()):
                return fields, []
            walk = _Walk(self)
            fields, taken = walk.container(fields, None), list(dict.fromkeys(walk.taken))
            return (fields, taken) if self._function is None else self._ask_host(fields, taken)
        except Exception:
            self.failures += 1
            return dict(FAILED), ["*"]

    def knows(self, fields: Iterable[str]) -> bool:
        """Whether these names tell that only their values can be secret. It holds for good."""
        return self._function is None and self.innocent.issuperset(fields)

    def are_harmless(self, values: Iterable[Any]) -> bool:
        """The quick way through flat values: numbers, and texts without suspicion."""
        shortest, is_suspect = self._sieve.shortest, self._sieve.is_suspect
        for value in values:
            kind = type(value)
            if kind is str:
                size = len(value)
                if size < shortest or (size <= SHORT and value in self._clean):
                    continue
                if size >= LONG or is_suspect(value):  # long ones are looked up by their digest
                    return False
                self.scans += 1
            elif kind not in _PLAIN:
                return False
        return True

    def _ask_host(self, fields: dict[str, Any], taken: list[str]) -> tuple[dict[str, Any], list[str]]:
        assert self._function is not None
        given = self._function(dict(fields))
        if not isinstance(given, dict):
            raise TypeError("the redaction function gave no dict")
        changed = [key for key in fields if key not in given or not _is_same(given[key], fields[key])]
        if not changed and len(given) == len(fields):
            return fields, taken
        return given, list(dict.fromkeys((*taken, *map(str, changed))))

    def secrecy_of(self, name: str) -> Secrecy:
        """Judge a name, by our list and the host's."""
        judged = patterns.secrecy_of(name[-MAX_NAME:]) if self._credentials else Secrecy.NONE
        if self._keys and patterns.squash(name) in self._keys:
            judged = Secrecy.ANY
        if judged is Secrecy.NONE and len(name) <= SHORT and self.scrub(name) is name:
            _remember(name, self.innocent)
        return judged

    def text(self, text: str) -> str:
        """The text without secrets; the very same when there are none."""
        size = len(text)
        if size < self._sieve.shortest or (size <= SHORT and text in self._clean):
            return text
        if size < LONG:
            self.scans += 1
            scrubbed = self.scrub(text)
            if size <= SHORT and scrubbed is text:
                _remember(text, self._clean)
            return scrubbed
        digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
        outcome = self._known.get(digest)
        if outcome is None:
            self.scans += 1
            scrubbed = self.scrub(text)
            outcome = "" if scrubbed is text else scrubbed
            self._known.put(digest, outcome)
        return outcome or text

    def scrub(self, text: str) -> str:
        """As `text`, without remembering."""
        if len(text) < self._sieve.shortest:
            return text
        for _ in range(MAX_PASSES):
            before = text
            for pattern in self._sieve.suspected(text):
                text = pattern.hide(text)
            if text is before:
                return text
        return REDACTED


class _Walk:
    """One way through one record. Gives back the very same value wherever nothing changes."""

    __slots__ = ("above", "containers", "redactor", "taken")

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self.taken: list[str] = []
        self.above: set[int] = set()
        self.containers = 0

    def value(self, value: Any, where: Where) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is str:
            return self.text(value, where)
        if kind is dict or kind is list or kind is tuple:
            return self.container(value, where)
        return self.foreign(value, where)

    def text(self, text: str, where: Where) -> str:
        clean = self.redactor.text(text)
        if clean is not text:
            self.taken.append(_spelled(where))
        return clean

    def container(self, given: Any, where: Where) -> Any:
        """Step into something that holds more, unless it holds itself, or there is no end to it."""
        self.containers += 1
        if len(self.above) >= MAX_DEPTH or id(given) in self.above or self.containers > MAX_CONTAINERS:
            return TOO_DEEP
        entered = id(given)
        self.above.add(entered)
        try:
            if type(given) is not tuple and not isinstance(given, (dict, list)):
                given = _unfolded(given)
            if isinstance(given, dict):
                return self.mapping(given, where)
            if isinstance(given, (list, tuple)):
                return self.sequence(given, where)
            return self.said(given, where) if type(given) is str else self.value(given, where)
        finally:
            self.above.discard(entered)

    def said(self, text: str, where: Where) -> str:
        """What an object says of itself, cut only when it is clean: half a secret is still half a secret."""
        clean = self.text(text[: 8 * MAX_REPR], where)
        return clean if len(clean) <= MAX_REPR else self.redactor.scrub(clean[:MAX_REPR])

    def mapping(self, given: dict[Any, Any], where: Where) -> dict[Any, Any]:
        innocent, label = self.redactor.innocent, self.label(given)
        items = list(dict.items(given))  # another thread may be adding to it
        edits = {}
        for key, value in items:
            if type(value) in _PLAIN and key in innocent and not label:
                continue
            edit = self.entry(key, value, where, label if key == "value" else Secrecy.NONE)
            if edit[0] is not key or edit[1] is not value:
                edits[key] = edit
        if not edits:
            return given
        changed: dict[Any, Any] = {}
        for key, value in items:
            name, clean = edits.get(key, (key, value))
            # Two keys may be one when their secrets are gone; neither value gets lost.
            times = 1
            while name != key and (name in changed or name in given):
                name, times = REDACTED * times, times + 1
            changed[name] = clean
        return changed

    def label(self, given: dict[Any, Any]) -> Secrecy:
        """The secrecy of `value` where a record is {"name": "Authorization", "value": ...}."""
        if "value" not in given:
            return Secrecy.NONE
        name = given.get("name", given.get("key"))
        if type(name) is not str or name in self.redactor.innocent:
            return Secrecy.NONE
        return self.redactor.secrecy_of(name)

    def entry(self, key: Any, value: Any, where: Where, secrecy: Secrecy) -> tuple[Any, Any]:
        name = key if type(key) is str else _as_key(key)
        if type(name) is str and name not in self.redactor.innocent:
            secrecy = max(secrecy, self.redactor.secrecy_of(name))
            clean = self.redactor.scrub(name)
            if clean is not name:
                name = clean
                self.taken.append(_spelled((where, name)))
        here = (where, name)
        if secrecy and _hides(secrecy, value):
            self.taken.append(_spelled(here))
            return name, REDACTED
        return name, self.value(value, here)

    def sequence(self, given: Any, where: Where) -> Any:
        if _PLAIN.issuperset(map(type, given)):  # a vector, say
            return given
        clean = [self.value(item, (where, index)) for index, item in enumerate(given)]
        if all(map(is_, clean, given)):
            return given
        return tuple(clean) if isinstance(given, tuple) else clean

    def foreign(self, value: Any, where: Where) -> Any:
        """What JSON has no word for: as it is where it can hold no secret, else in words that it has."""
        if isinstance(value, Enum):
            clean = self.value(value.value, where)
            return value if clean is value.value else clean
        if isinstance(value, str):
            return self.text(str.__str__(value), where)
        if isinstance(value, _BYTES):
            return self.bytes(value, where)
        if isinstance(value, _HARMLESS):
            return value
        if isinstance(value, int):
            return int.__int__(value)
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, (set, frozenset)):
            items = list(value)
            clean = self.container(items, where)
            return value if clean is items else clean
        return self.container(value, where)

    def bytes(self, value: Any, where: Where) -> Any:
        try:
            text = bytes(value).decode()
        except ValueError:
            return value
        clean = self.text(text, where)
        return value if clean is text else clean


class _Outcomes:
    """What became of long texts, by digest; the oldest go first. Holds no secret: outcomes are clean."""

    def __init__(self, entries: int = 4_096, size: int = 16_000_000) -> None:
        self._entries, self._size, self._held = entries, size, 0
        self._found: dict[bytes, str] = {}
        self._lock = threading.Lock()

    def get(self, digest: bytes) -> str | None:
        return self._found.get(digest)

    def put(self, digest: bytes, outcome: str) -> None:
        weight = _weight(outcome)
        with self._lock:
            if digest in self._found or weight > self._size // 4:
                return
            self._found[digest] = outcome
            self._held += weight
            while len(self._found) > self._entries or self._held > self._size:
                self._held -= _weight(self._found.pop(next(iter(self._found))))


def _remember(text: str, known: set[str]) -> None:
    if len(known) >= MAX_KNOWN:
        known.clear()
    known.add(text)


def _weight(outcome: str) -> int:
    return 128 + sys.getsizeof(outcome)


def _chosen(rules: Redaction) -> tuple[Pattern, ...]:
    for name in ("keys", "patterns"):
        if isinstance(getattr(rules, name), str):
            raise SettingsError(
                f"Redaction({name}=...) wants several texts, not one. Write ({getattr(rules, name)!r},)."
            )
    chosen = list(patterns.CREDENTIALS) if rules.credentials else []
    if any(map(patterns.squash, rules.keys)):
        chosen.insert(0, patterns.own_keys(rules.keys))
    personal = (
        (rules.emails, patterns.EMAILS),
        (rules.cards, patterns.CARDS),
        (rules.phones, patterns.PHONES),
        (rules.ip_addresses, patterns.ADDRESSES),
    )
    chosen.extend(pattern for wanted, pattern in personal if wanted)
    for regex in rules.patterns:
        try:
            chosen.append(patterns.own_pattern(regex))
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise SettingsError(
                f"The redaction pattern {regex!r} is not a regular expression: {error}. "
                "Mend it in Redaction(patterns=...); backslashes want a raw string, r'...'."
            ) from error
    return tuple(chosen)


def _hides(secrecy: Secrecy, value: Any) -> bool:
    """Whether a value goes because of its name. None, a bool and an empty text tell nothing."""
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, (str, *_BYTES)):
        return len(value) > 0 and value != REDACTED
    if secrecy is Secrecy.UNCOUNTED:
        return not isinstance(value, (int, float))
    return secrecy is Secrecy.ANY


def _unfolded(value: Any) -> Any:
    """An object in builtins, one level deep; where it shows no fields, what it says of itself."""
    kind = type(value)
    try:
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, tuple) and not hasattr(kind, "_fields"):
            return tuple(value)
        if isinstance(value, Mapping):
            return dict(value)
        if isinstance(value, (deque, Set)):
            return list(value)
        if isinstance(value, msgspec.Raw):
            return msgspec.json.decode(value)
        if callable(getattr(kind, "model_dump", None)):
            return value.model_dump()
        shown = _shown(value)
        return repr(value) if shown is None else shown
    except Exception:
        return f"<{kind.__name__} that can't be shown>"


def _shown(value: Any) -> dict[str, Any] | None:
    """The fields of a Struct, a dataclass, an attrs class or a named tuple."""
    kind = type(value)
    start: dict[str, Any] = {}
    if isinstance(value, msgspec.Struct):
        names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
        config = kind.__struct_config__
        if config.tag is not None:
            start = {config.tag_field or "type": config.tag}
    elif isinstance(value, tuple):
        names = {name: name for name in kind._fields}
    elif hasattr(kind, "__dataclass_fields__"):
        names = {name: name for name in kind.__dataclass_fields__}
    elif hasattr(kind, "__attrs_attrs__"):
        names = {field.name: field.name for field in kind.__attrs_attrs__}
    else:
        return None
    values = {shown: getattr(value, name, msgspec.UNSET) for shown, name in names.items()}
    return start | {shown: item for shown, item in values.items() if item is not msgspec.UNSET}


def _as_key(key: Any) -> Any:
    """A key that JSON can have, or that holds no text."""
    if isinstance(key, Enum):
        return _as_key(key.value)
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    if key is None or isinstance(key, (int, float, *_HARMLESS)):
        return key
    return str(_unfolded(key))


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False  # arrays don't say whether they are equal


def _spelled(where: Where) -> str:
    parts = []
    while where is not None:
        where, part = where
        parts.append(str(part))
    return ".".join(reversed(parts))
