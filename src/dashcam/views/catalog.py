"""Tool catalogs: the tools that a text as sent to a model holds, whosever form it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

# Where providers put the tool inside an item of their list: OpenAI, Bedrock.
_WRAPPERS = ("function", "toolSpec")
_GROUPS = ("functionDeclarations", "function_declarations", "tools")  # Gemini, Bedrock: a list within the list


def tools_of(catalog: str) -> dict[str, Any]:
    """The tools by name, in the order sent; nothing where the text isn't a catalog.

    A tool without a name gets one from its place, so that a change of it is seen all the same.
    """
    try:
        decoded = msgspec.json.decode(catalog)
    except (ValueError, RecursionError):
        return {}
    tools: dict[str, Any] = {}
    for name, tool in _tools_in(decoded):
        tools[_free_name(name, tools)] = tool
    return tools


def _tools_in(value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        groups = [value[key] for key in _GROUPS if isinstance(value.get(key), list)]
        if groups and depth < 2:
            for group in groups:
                yield from _tools_in(group, depth + 1)
        else:
            yield from ((name, tool) for name, tool in value.items())
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and depth < 2 and any(isinstance(item.get(key), list) for key in _GROUPS):
                yield from _tools_in(item, depth + 1)
            else:
                yield _name_of(item), item


def _name_of(tool: Any) -> str:
    if not isinstance(tool, dict):
        return tool if isinstance(tool, str) and tool else "unnamed"
    for candidate in (tool, *(tool[key] for key in _WRAPPERS if isinstance(tool.get(key), dict))):
        if isinstance(candidate.get("name"), str) and candidate["name"]:
            return str(candidate["name"])
    return str(tool["type"]) if isinstance(tool.get("type"), str) and tool["type"] else "unnamed"


def _free_name(name: str, taken: dict[str, Any]) -> str:
    """The name, with a number where another tool has it already."""
    if name not in taken:
        return name
    number = 2
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"
