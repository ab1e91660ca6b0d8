"""A span, or a log record that stands alone, read by whoever knows its dialect."""

from __future__ import annotations

from collections.abc import Reversible, Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any

from dashcam.dialects.otlp import (
    claude_code,
    codex,
    gemini_cli,
    genai,
    genai_events,
    generic,
    langfuse,
    logfire,
    openinference,
    traceloop,
    vercel,
)
from dashcam.dialects.otlp.reading import Kind, LogView, Reading, SpanView
from dashcam.dialects.otlp.scores import score_of
from dashcam.dialects.otlp.values import session_of

# Programs that tell their own doings: what they call a plain span is one, whatever names stand on it besides.
_NATIVE = (claude_code, codex, gemini_cli)
# Who speaks of its own matters first: most put OpenTelemetry's names beside their own, with less in them.
# Beside each, how names begin that only it has something to say about; none where it knows its spans by other signs.
_ANY: frozenset[str] = frozenset()
_DIALECTS = (
    *((native, _ANY) for native in _NATIVE),
    (langfuse, frozenset(("langfuse",))),
    (openinference, frozenset(("openinference", "llm"))),
    (vercel, _ANY),
    (traceloop, frozenset(("traceloop", "llm", "gen_ai"))),
    (logfire, _ANY),
    (genai, frozenset(("gen_ai",))),
    (genai_events, _ANY),
    (generic, _ANY),
)
_FIRST = tuple(name for name in Reading.__struct_fields__ if name not in ("kind", "dialect", "metadata", "pending"))
_values = attrgetter(*_FIRST)


def read(view: SpanView, logs: Sequence[LogView] = ()) -> Reading:
    """What a span tells, with the log records that belong to it: each thing as the first dialect says that tells it."""
    names = {key.partition(".")[0] for key in view.attributes}
    readings = {
        dialect: told
        for dialect, own in _DIALECTS
        if (own is _ANY or not own.isdisjoint(names)) and (told := dialect.read(view, logs)) is not None
    }
    speaker = next((dialect for dialect, told in readings.items() if _names_kind(dialect, told.kind)), generic)
    kind: Kind = readings[speaker].kind or "span"
    merged = _merged(readings.values())
    if kind in ("tool", "retrieval"):  # arguments and result say it; what generic attributes repeat is no message
        merged |= {"input": None, "output": None}
    metadata = {key: value for told in reversed(readings.values()) for key, value in (told.metadata or {}).items()}
    return Reading(
        kind=kind,
        dialect=speaker.__name__.rpartition(".")[2],
        metadata=metadata or None,
        pending=any(told.pending for told in readings.values()),
        **merged,
    )


def read_log(log: LogView) -> Reading | None:
    """What a log record tells by itself; None where it only adds to its span, or tells nothing of an agent."""
    score = score_of(log)
    if score is not None:
        return Reading(dialect="genai_events", session_id=session_of(log.attributes), score=score)
    return next((found for dialect in _NATIVE if (found := dialect.read_log(log)) is not None), None)


def _names_kind(dialect: ModuleType, kind: Kind | None) -> bool:
    return kind is not None and (kind != "span" or dialect in _NATIVE)


def _merged(readings: Reversible[Reading]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for reading in reversed(readings):
        merged |= {name: value for name, value in zip(_FIRST, _values(reading), strict=True) if value is not None}
    return merged
