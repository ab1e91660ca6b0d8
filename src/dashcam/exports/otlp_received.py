"""Spans that came as OpenTelemetry leave as they came: the same ids, attributes, events, resource and scope."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import msgspec
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from dashcam.contracts.span import Span
from dashcam.dialects.otlp.decode import span_message
from dashcam.dialects.otlp.json_form import span_json, to_json
from dashcam.store.base import Reader

_CUT = '"spans":['


def blocks(store: Reader, trace_id: str) -> Iterator[tuple[bytes, Iterator[dict[str, Any]]]]:
    """The spans of a trace by where they came from: how such a block of JSON opens, and its spans."""
    spans = sorted(store.spans(trace_id), key=lambda span: span.scope)
    for scope, same in groupby(spans, lambda span: span.scope):
        yield _opening(scope), (_span(span, store) for span in same)


def _opening(scope: bytes) -> bytes:
    """ResourceSpans as JSON, up to where its spans begin."""
    block = to_json(ResourceSpans.FromString(scope))
    around = block.pop("scopeSpans", None) or [{}]
    told = {"resource": block.pop("resource", {}), **block}
    inner = {**around[0], "spans": []}
    text = msgspec.json.encode({**told, "scopeSpans": [inner]}).decode()
    return text[: text.rindex(_CUT) + len(_CUT)].encode()


def _span(span: Span, store: Reader) -> dict[str, Any]:
    return span_json(span_message(span, store))
