"""Spans whose attributes have the names that a dialect knows and values that nobody should send."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from dashcam.dialects.otlp.reading import EventView, SpanView

_WORDS = (
    *("role", "type", "content", "messages", "message", "choices", "tool_calls", "function", "name", "id", "input"),
    *("output", "args", "kwargs", "inputs", "outputs", "input_str", "lc", "data", "total", "usage", "text", "system"),
    *("function_tools", "generations", "llm_output", "tools", "event.name", "tool", "status", "user", "assistant"),
)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(_WORDS) | st.text(max_size=8)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=4),
    max_leaves=12,
)
_VALUES = _TREES | _TREES.map(json.dumps) | st.binary(max_size=8) | st.sampled_from(["[" * 3000, "\ud800", "null", '"'])


def odd_spans(keys: Sequence[str], scopes: Sequence[str] = ("",), events: Sequence[str] = ("exception",)) -> Any:
    attributes = st.dictionaries(st.sampled_from(list(keys)), _VALUES, max_size=8)
    return st.builds(
        SpanView,
        trace_id=st.just("1" * 32),
        span_id=st.just("2" * 16),
        parent_span_id=st.none() | st.just("3" * 16),
        name=st.sampled_from(["", "agent run", "step 1", "\ud800"]),
        start_ns=st.integers(0, 2**64 - 1),
        status=st.sampled_from(["unset", "ok", "error"]),
        attributes=attributes,
        resource=attributes,
        scope=st.sampled_from(list(scopes)),
        events=st.lists(st.builds(EventView, st.sampled_from(list(events)), st.integers(0, 2**64 - 1), attributes), max_size=1),
    )  # fmt: skip
