"""A catalog of event names, each with one shape, so that records can be asked questions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from dashcam.contracts.identity import RESERVED, fault_of_id
from dashcam.errors import VocabularyError

# What a field may be, and which Python types say so. Exact types: True is no whole number.
_TYPES: dict[type, tuple[str, frozenset[type]]] = {
    str: ("text", frozenset({str})),
    int: ("a whole number", frozenset({int})),
    float: ("a number", frozenset({int, float})),
    bool: ("true or false", frozenset({bool})),
    dict: ("an object", frozenset({dict})),
    list: ("a list", frozenset({list, tuple})),
    object: ("anything", frozenset()),
}


class Shape:
    """What an event of one name must and may hold.

    Rules: a required field is there and not None; an optional one may be absent or None; both have
    the type that the shape says. More fields are kept as they are, unless the shape is `closed`.
    """

    __slots__ = ("_optional", "_required", "closed", "doc", "name", "optional", "required")

    def __init__(
        self,
        name: str,
        required: Mapping[str, type],
        optional: Mapping[str, type],
        doc: str = "",
        closed: bool = False,
    ) -> None:
        self.name, self.doc, self.closed = name, doc, closed
        self.required, self.optional = dict(required), dict(optional)
        self._required = [(field, _TYPES[kind][1]) for field, kind in self.required.items()]
        self._optional = {field: _TYPES[kind][1] for field, kind in self.optional.items()}

    def fits(self, fields: Mapping[str, Any]) -> bool:
        """Whether `fields` are in this shape. Runs for every event, so it explains nothing."""
        for field, types in self._required:
            value = fields.get(field)
            if type(value) not in types and (types or value is None):
                return False
        for field, types in self._optional.items():
            if field in fields:
                value = fields[field]
                if type(value) not in types and types and value is not None:
                    return False
        return not self.closed or fields.keys() <= self.required.keys() | self.optional.keys()

    def faults(self, fields: Mapping[str, Any]) -> list[str]:
        """Everything that keeps `fields` from this shape, in words."""
        found = []
        for field, kind in self.required.items():
            if fields.get(field) is None:
                found.append(f"missing {field} ({_TYPES[kind][0]})")
        for field, kind in (self.required | self.optional).items():
            value, (wanted, types) = fields.get(field), _TYPES[kind]
            if value is not None and types and type(value) not in types:
                found.append(f"{field} is {type(value).__name__}, not {wanted}")
        if self.closed:
            unknown = fields.keys() - self.required.keys() - self.optional.keys()
            found += [f"{field} is not a field of it" for field in sorted(unknown)]
        return found

    def as_dict(self) -> dict[str, Any]:
        """The shape as data, as `dashcam events --json` shows it."""
        return {
            "name": self.name,
            "required": {field: _TYPES[kind][0] for field, kind in self.required.items()},
            "optional": {field: _TYPES[kind][0] for field, kind in self.optional.items()},
            "closed": self.closed,
            "doc": self.doc,
        }


class Vocabulary:
    """The event names that a process knows."""

    def __init__(self) -> None:
        self.shapes: dict[str, Shape] = {}

    def register(
        self,
        name: str,
        *,
        required: Mapping[str, type] | None = None,
        optional: Mapping[str, type] | None = None,
        doc: str = "",
        closed: bool = False,
    ) -> None:
        """Add an event. Registering the same shape again changes nothing; another shape is refused."""
        required, optional = required or {}, optional or {}
        if fault := fault_of_id(name, "the event's name"):
            raise VocabularyError(f"{fault}. An event is called something like 'order_placed'.")
        for field, kind in (*required.items(), *optional.items()):
            if field in RESERVED:
                raise VocabularyError(f"{name}: {field!r} belongs to every record already. Use another name.")
            if kind not in _TYPES:
                names = ", ".join(known.__name__ for known in _TYPES)
                raise VocabularyError(f"{name}: {field} has type {kind!r}; a field is one of {names}.")
        shape = Shape(name, required, optional, doc, closed)
        known = self.shapes.get(name)
        if known and (known.required, known.optional, known.closed) != (
            shape.required,
            shape.optional,
            closed,
        ):
            raise VocabularyError(
                f"{name!r} is registered already, with another shape: {known.as_dict()}. One name, one shape: "
                "choose another name."
            )
        self.shapes[name] = shape

    def unknown(self, name: str) -> str:
        """What to say of a name that nobody registered."""
        nearest = difflib.get_close_matches(name, self.shapes, n=1, cutoff=0.5)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        return (
            f"No event is called {name!r:.80}. {hint}Print the catalog with `dashcam events`, or add it with "
            f"dashcam.register_event({name!r:.80}, required={{...}})."
        )
