"""A catalog of event names, each with one shape, so that records can be asked questions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import NoneType
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
_ANYTHING = _TYPES[object][1]


class Shape:
    """What an event of one name must and may hold.

    Rules: a required field is there, an optional one may be absent or None; both have the type that the
    shape says. More fields are kept as they are, unless the shape is `closed`.
    """

    __slots__ = ("_types", "closed", "doc", "name", "optional", "required")

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
        self._types = {field: _TYPES[kind][1] for field, kind in self.required.items()}
        self._types |= {field: _TYPES[kind][1] | {NoneType} for field, kind in self.optional.items()}

    def has_names(self, fields: Mapping[str, Any]) -> bool:
        """Whether everything required is among the fields, and nothing that a closed shape doesn't know."""
        if not self.required.keys() <= fields.keys():
            return False
        return not self.closed or fields.keys() <= self.required.keys() | self.optional.keys()

    def checks_for(self, fields: Mapping[str, Any]) -> tuple[tuple[str, frozenset[type]], ...]:
        """The fields of these whose type matters, with the types that they may have."""
        anything = (_ANYTHING, _ANYTHING | {NoneType})
        return tuple((name, types) for name, types in self._types.items() if name in fields and types not in anything)

    def faults(self, fields: Mapping[str, Any]) -> list[str]:
        """Everything that keeps `fields` from this shape, in words."""
        found = []
        for field, kind in self.required.items():
            if field not in fields or (fields[field] is None and kind is not object):
                found.append(f"missing {field} ({_TYPES[kind][0]})")
        for field, kind in (self.required | self.optional).items():
            value, (wanted, types) = fields.get(field), _TYPES[kind]
            if value is not None and types and not _is_one_of(value, types):
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


def _is_one_of(value: object, types: frozenset[type]) -> bool:
    """Whether a value has one of these types, or one made from it, such as a StrEnum. True is no number."""
    return type(value) in types or (not isinstance(value, bool) and isinstance(value, tuple(types)))


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
        """Add an event of your own: its name, the fields that it must and may have, and their types.

        Types are str, int, float, bool, dict, list, or object for anything. Registering the same shape again
        changes nothing; another shape under the same name is refused.
        """
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
