"""The way through one record: what is known by its name goes whole, what by its shape out of the text around it."""

from __future__ import annotations

from enum import Enum
from operator import is_
from typing import TYPE_CHECKING, Any

from dashcam.sdk.redaction.names import Secrecy
from dashcam.sdk.redaction.schemas import GIVEN, HOLDERS, is_schema
from dashcam.sdk.redaction.sieve import REDACTED
from dashcam.sdk.redaction.unfold import BYTES, HARMLESS, PLAIN, as_key, unfolded

if TYPE_CHECKING:
    from dashcam.sdk.redaction.redactor import Redactor

TOO_DEEP = "[TOO DEEP]"

MAX_DEPTH = 64
# Lists that hold one list ten times over, forty deep, are no circle and still have no end.
MAX_CONTAINERS = 1_000_000
MAX_REPR = 1_000
# A tree whose every node knows its parent is cut in every node; the first thousand paths say as much as all.
MAX_REPLACED = 1_000

# How records of a name and a value call the two.
LABELS = tuple(cased for name in ("name", "key", "header") for cased in (name, name.title(), name.upper()))
LABELLED = ("value", "Value", "VALUE")

Where = tuple[Any, Any] | None  # the path up to here, spelled only when something was found


class Walk:
    """One way through one record. Gives back the very same value wherever nothing changes."""

    __slots__ = ("above", "containers", "redactor", "replaced", "taken")

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self.taken: list[str] = []
        self.replaced: list[str] = []
        self.above: set[int] = set()
        self.containers = 0

    def value(self, value: Any, where: Where) -> Any:
        kind = type(value)
        if kind in PLAIN:
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
            self.replace(where)
            return TOO_DEEP
        entered = id(given)
        self.above.add(entered)
        try:
            if type(given) is not tuple and not isinstance(given, (dict, list)):
                given, has_form = unfolded(given)
                if not has_form:
                    self.replace(where)
            if isinstance(given, dict):
                return self.mapping(given, where)
            if isinstance(given, (list, tuple)):
                return self.sequence(given, where)
            return self.said(given, where) if type(given) is str else self.value(given, where)
        finally:
            self.above.discard(entered)

    def replace(self, where: Where) -> None:
        """Note that a text stands here for what JSON has no form for."""
        if len(self.replaced) < MAX_REPLACED:
            self.replaced.append(_spelled(where))

    def said(self, text: str, where: Where) -> str:
        """What an object says of itself, cut only when it is clean: half a secret is still half a secret."""
        clean = self.text(text[: 8 * MAX_REPR], where)
        return clean if len(clean) <= MAX_REPR else self.redactor.scrub(clean[:MAX_REPR])

    def mapping(self, given: dict[Any, Any], where: Where) -> dict[Any, Any]:
        innocent, label = self.redactor.innocent, self.label(given)
        items = list(dict.items(given))  # another thread may be adding to it
        edits = {}
        for key, value in items:
            if type(value) in PLAIN and key in innocent and not label:
                continue
            edit = self.entry(key, value, where, label if key in LABELLED else Secrecy.NONE)
            if edit[0] is not key or edit[1] is not value:
                edits[key] = edit
        if not edits:
            return given
        changed: dict[Any, Any] = {}
        times = 1
        for key, value in items:
            name, clean = edits.get(key, (key, value))
            # Two keys may be one when their secrets are gone; neither value gets lost.
            while name != key and (name in changed or name in given):
                times += 1
                name = f"{REDACTED}_{times}"
            changed[name] = clean
        return changed

    def label(self, given: dict[Any, Any]) -> Secrecy:
        """The secrecy of `value` where a record is {"name": "Authorization", "value": ...}."""
        if "value" not in given and "Value" not in given and "VALUE" not in given:
            return Secrecy.NONE
        found = Secrecy.NONE
        for label in LABELS:
            name = given.get(label)
            if isinstance(name, bytes):
                name = as_key(name)
            if type(name) is str and name not in self.redactor.innocent:
                found = max(found, self.redactor.secrecy_of(name))
        return found

    def entry(self, key: Any, value: Any, where: Where, secrecy: Secrecy) -> tuple[Any, Any]:
        name = key if type(key) is str else as_key(key)
        if type(name) is str and name not in self.redactor.innocent:
            secrecy = max(secrecy, self.redactor.secrecy_of(name))
            clean = self.redactor.scrub(name)
            if clean is not name:
                name = clean
                self.taken.append(_spelled((where, name)))
        here = (where, name)
        if secrecy and where is not None and where[1] in HOLDERS and is_schema(value):
            return name, self.schema(value, here, secrecy)
        if secrecy and secrecy.hides(value):
            self.taken.append(_spelled(here))
            return name, REDACTED
        return name, self.value(value, here)

    def schema(self, given: dict[Any, Any], where: Where, secrecy: Secrecy) -> Any:
        """A schema under the name of a secret: of itself it is none, but it may give one."""
        clean = self.value(given, where)
        if not isinstance(clean, dict):
            return clean  # too deep
        secret = [key for key in GIVEN if key in clean and secrecy.hides(clean[key])]
        self.taken += [_spelled((where, key)) for key in secret]
        return {**clean, **dict.fromkeys(secret, REDACTED)} if secret else clean

    def sequence(self, given: Any, where: Where) -> Any:
        if PLAIN.issuperset(map(type, given)):  # a vector, say
            return given
        clean = [self.item(item, (where, index)) for index, item in enumerate(given)]
        if all(map(is_, clean, given)):
            return given
        return tuple(clean) if isinstance(given, tuple) else clean

    def item(self, item: Any, where: Where) -> Any:
        """One of a list. A list of two in a list may be a header: (b"x-api-key", b"...")."""
        if (type(item) is list or type(item) is tuple) and len(item) == 2:
            first, second = item[0], item[-1]  # whatever another thread does to it
            name = as_key(first) if isinstance(first, (str, bytes)) else ""
            secrecy = self.redactor.judge(name) if name else Secrecy.NONE
            if secrecy and secrecy.hides(second):
                self.taken.append(_spelled((where, 1)))
                clean = [self.value(first, (where, 0)), REDACTED]
                return tuple(clean) if type(item) is tuple else clean
        return self.value(item, where)

    def foreign(self, value: Any, where: Where) -> Any:
        """What JSON has no word for: as it is where it can hold no secret, else in words that it has."""
        if isinstance(value, Enum):
            clean = self.value(value.value, where)
            return value if clean is value.value else clean
        if isinstance(value, str):
            return self.text(str.__str__(value), where)
        if isinstance(value, BYTES):
            return self.bytes(value, where)
        if isinstance(value, HARMLESS):
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
            # Each byte a character: what is written in ASCII between others is found like that. What is
            # left of such bytes would mean nothing, so they go as a whole.
            text = bytes(value).decode("latin-1")
            return value if self.text(text, where) is text else REDACTED
        clean = self.text(text, where)
        return value if clean is text else clean


def _spelled(where: Where) -> str:
    parts = []
    while where is not None:
        where, part = where
        parts.append(str(part))
    return ".".join(reversed(parts))
