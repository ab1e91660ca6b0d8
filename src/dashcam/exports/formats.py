"""The formats that sessions leave in, as streams of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from dashcam.exports import acp, csv, json, jsonl, otlp
from dashcam.store.base import Reader

WRITERS: Mapping[str, Callable[[Reader, Sequence[str]], Iterator[bytes]]] = {
    "jsonl": jsonl.write,
    "json": json.write,
    "csv": csv.write,
    "acp": acp.write,
    "otlp": otlp.write,
}
NEED_CHAT = frozenset(("json", "csv", "acp"))
MEDIA_TYPES = {
    "jsonl": "application/x-ndjson",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "acp": "application/x-ndjson",
    "otlp": "application/json",
}
