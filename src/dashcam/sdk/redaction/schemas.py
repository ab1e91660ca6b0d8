"""Telling a JSON schema, which describes a secret, from the secret itself.

Every catalog of tools has `{"properties": {"password": {"type": "string"}}}`, and nothing in it to hide.
"""

from __future__ import annotations

from typing import Any

# Under these a schema has names of its own choice, each with a schema.
HOLDERS = frozenset(("properties", "$defs", "definitions"))
# What in a schema is a value itself: the key of the machine that it was made on, at worst.
GIVEN = ("default", "const")

_TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))
_WORDS = frozenset(("$ref", "anyOf", "oneOf", "allOf", "enum", "const"))
_REMARKS = frozenset(("title", "description", "default"))


def is_schema(value: Any) -> bool:
    """Whether this describes a value. {"user": "ada", "pin": "4711"}, which may stand there too, does not."""
    if not isinstance(value, dict):
        return False
    types = value.get("type")
    if isinstance(types, str):
        return types.lower() in _TYPES  # some write STRING
    if isinstance(types, list):
        return bool(types) and all(isinstance(each, str) and each in _TYPES for each in types)
    return not _WORDS.isdisjoint(value) or _REMARKS.issuperset(value)
