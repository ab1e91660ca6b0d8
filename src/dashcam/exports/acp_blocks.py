"""Parts of a chat message as ACP's content blocks."""

from __future__ import annotations

from typing import Any

_PRIORITIES = ("high", "medium", "low")
_STATUSES = ("pending", "in_progress", "completed")


def block_of(part_type: str, data: dict[str, Any]) -> dict[str, Any] | None:
    """The content block that a part is; None for what ACP has no block for."""
    if part_type in ("text", "reasoning"):
        text = data.get("text")
        return text_block(text) if isinstance(text, str) else None
    if part_type == "file":
        return _file_block(data)
    if part_type == "source-url":
        return _link_block(data.get("url"), data.get("title"), None)
    return None


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def plan_entries(plan: Any) -> list[dict[str, str]]:
    """The entries of a plan in the protocol's own words; what isn't one of them becomes the ordinary."""
    entries = plan.get("entries") if isinstance(plan, dict) else plan
    return [
        {
            "content": str(entry.get("content", "")),
            "priority": _one_of(_PRIORITIES, entry.get("priority"), "medium"),
            "status": _one_of(_STATUSES, entry.get("status"), "pending"),
        }
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
    ]


def _file_block(data: dict[str, Any]) -> dict[str, Any] | None:
    """A picture or a sound with its bytes, if they are there; else a link."""
    url, media = data.get("url"), data.get("mediaType")
    if not isinstance(url, str):
        return None
    kind = media.partition("/")[0] if isinstance(media, str) else ""
    head, comma, body = url.partition(",")
    if kind in ("image", "audio") and comma and head.startswith("data:") and head.endswith(";base64"):
        return {"type": kind, "data": body, "mimeType": media}
    return _link_block(url, data.get("filename"), media)


def _link_block(url: Any, name: Any, media: Any) -> dict[str, Any] | None:
    if not isinstance(url, str):
        return None
    block = {"type": "resource_link", "uri": url, "name": name if isinstance(name, str) and name else url[:200]}
    return {**block, "mimeType": media} if isinstance(media, str) else block


def _one_of(known: tuple[str, ...], value: Any, otherwise: str) -> str:
    return value if isinstance(value, str) and value in known else otherwise
