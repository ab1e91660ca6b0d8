"""The steps of a trace: its spans and log records in one order, under sound parents, each told once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from dashcam.contracts.chat import USAGE, Usage
from dashcam.contracts.identity import MAX_TIME, fault_of_id
from dashcam.dialects.otlp.reading import LogView, Reading, SpanView

_LATEST = MAX_TIME * 1000 - 10**15  # nanoseconds; some room below the end of time, so that what follows fits, too
_FIELDS = tuple(name for name in Reading.__struct_fields__ if name not in ("kind", "pending", "stands_for", "score"))


class Step:
    """One span or log record, and where it stands in its trace."""

    __slots__ = (
        *("above", "end", "has_model_below", "is_log", "key", "kind", "named", "order", "parent", "reading", "running"),
        *("scope", "session", "span_id", "start", "view", "visited"),
    )

    def __init__(self, key: str, view: SpanView | LogView, reading: Reading, start: int, end: int) -> None:
        self.key = key
        self.view = view
        self.reading = reading
        self.kind = reading.kind
        self.start = min(max(start, 0), _LATEST)
        self.end = min(max(end, self.start), _LATEST)
        self.is_log = isinstance(view, LogView)
        self.running = reading.pending
        self.span_id: str | None = view.span_id if self.is_log else key
        self.parent: str | None = None
        self.above: Step | None = None
        self.scope: Step | None = None  # the outermost tool that it is part of
        self.has_model_below = False
        self.visited = False
        self.named = _usable(reading.session_id)  # its own session
        self.session = ""
        self.order = 0

    @property
    def is_aside(self) -> bool:
        """Asked besides the conversation: for a title, say."""
        return bool(self.reading.metadata and self.reading.metadata.get("aside"))

    @property
    def tells_messages(self) -> bool:
        return bool(self.reading.input or self.reading.output)


def steps_of(
    spans: Sequence[tuple[SpanView, Reading]], logs: Sequence[tuple[LogView, Reading]]
) -> tuple[list[Step], dict[str, Step]]:
    """All steps in the order of time, and the spans among them by id."""
    by_id: dict[str, Step] = {}
    standing: list[Step] = []
    for view, reading in spans:
        key = view.span_id
        if reading.pending:
            key = reading.stands_for or key
        step = Step(key, view, reading, view.start_ns, view.start_ns if reading.pending else view.end_ns)
        step.parent = reading.parent_span_id or (None if reading.pending else view.parent_span_id)
        if reading.pending:
            standing.append(step)
        else:
            by_id[key] = step
    for step in sorted(standing, key=lambda step: (_by_time(step), step.view.span_id or "")):
        by_id.setdefault(step.key, step)
    steps = list(by_id.values())
    for log, reading in logs:
        step = Step(_log_key(log), log, reading, log.at_ns, log.at_ns)
        step.parent = log.span_id
        steps.append(step)
    steps.sort(key=_by_time)
    for order, step in enumerate(steps):
        step.order = order
        _climb(step, by_id)
    return steps, by_id


def told_once(steps: Iterable[Step]) -> list[Step]:
    """The model calls that count, and what was said outside of them: one step each, with all that is told of it."""
    told = _with_words([s for s in steps if s.kind == "said" or (s.kind == "model" and not s.has_model_below)])
    rest: list[Step] = []
    for step in told:
        above = step.above
        if step.is_log and step.kind == "model" and above is not None and above.kind == "model" and _agree(above, step):
            above.reading = filled(above.reading, step.reading)
        else:
            rest.append(step)
    by_response: dict[str, list[Step]] = {}
    alone: list[Step] = []
    for step in rest:
        if step.reading.response_id:
            by_response.setdefault(step.reading.response_id, []).append(step)
        else:
            alone.append(step)
    alone += [_joined(same) for same in by_response.values()]
    return sorted(alone, key=_by_order)


def tools_once(steps: Iterable[Step]) -> list[Step]:
    """The runs of tools: a log record, or a span inside, that tells of the same call adds to it."""
    tools = [step for step in steps if step.kind == "tool"]
    found: list[Step] = []
    by_call: dict[str, Step] = {}
    for step in sorted(tools, key=_outer_spans_first):
        call_id = step.reading.call_id
        known = by_call.get(call_id) if call_id else None
        if known is not None and (step.is_log or _is_below(step, known)):
            known.reading = filled(known.reading, step.reading)
            continue
        if call_id:
            by_call[call_id] = step
        found.append(step)
    return sorted(found, key=_by_order)


def filled(reading: Reading, other: Reading) -> Reading:
    """What `reading` tells, and where it doesn't what `other` does."""
    new: dict[str, Any] = {}
    for name in _FIELDS:
        value = getattr(other, name)
        if value is not None and getattr(reading, name) is None:
            new[name] = value
    if reading.usage and other.usage and _details(other.usage) > _details(reading.usage):
        new["usage"] = other.usage
    if reading.metadata and other.metadata:
        new["metadata"] = {**other.metadata, **reading.metadata}
    return msgspec.structs.replace(reading, **new) if new else reading


def _with_words(told: list[Step]) -> list[Step]:
    """The same; but a call without words gives way to the one around it that has them and nothing else below.

    So two instrumentations tell of one request: one around the other.
    """
    around = [None if step.is_log or step.kind != "model" else _model_above(step) for step in told]
    below = Counter(step.key for step in around if step is not None)
    found: list[Step] = []
    for step, outer in zip(told, around, strict=True):
        is_same = outer is not None and below[outer.key] == 1 and outer.tells_messages and not step.tells_messages
        if outer is not None and is_same and _agree(outer, step):
            outer.reading = filled(outer.reading, step.reading)
            step = outer
        found.append(step)
    return found


def _model_above(step: Step) -> Step | None:
    above = step.above
    while above is not None and above.kind != "model":
        above = above.above
    return above


def _details(usage: Usage) -> int:
    """How much a sender tells apart."""
    return sum(getattr(usage, name) > 0 for name in USAGE)


def _joined(same: list[Step]) -> Step:
    """Of steps with one response id the one that tells most; a span rather than a log record, which has no length."""
    best = max(same, key=_richness)
    for step in same:
        if step is not best:
            best.reading = filled(best.reading, step.reading)
    return best


def _richness(step: Step) -> tuple[bool, bool, int, bool, int]:
    reading = step.reading
    messages = bool(reading.input) + bool(reading.output)
    return (step.kind == "model", not step.is_log, messages, reading.usage is not None, -step.order)


def _agree(one: Step, other: Step) -> bool:
    mine, its = one.reading.response_id, other.reading.response_id
    return mine is None or its is None or mine == its


def _climb(step: Step, by_id: dict[str, Step]) -> None:
    """Find what stands above a step and above that; a loop is cut where it closes."""
    path: list[Step] = []
    at: Step | None = step
    while at is not None and not at.visited:
        at.visited = True
        path.append(at)
        at = by_id.get(at.parent) if at.parent else None
    above = None if at in path else at
    for node in reversed(path):
        node.above = above
        if above is not None:
            node.scope = above.scope or (above if above.kind == "tool" else None)
        above = node
    if step.kind == "model" and not step.is_log:
        above = step.above
        while above is not None and not above.has_model_below:
            above.has_model_below = True
            above = above.above


@lru_cache(maxsize=4096)
def _usable(session_id: str | None) -> str | None:
    return session_id if session_id and fault_of_id(session_id, "session_id") is None else None


def _is_below(step: Step, other: Step) -> bool:
    above = step.above
    while above is not None and above is not other:
        above = above.above
    return above is other


def _by_time(step: Step) -> tuple[int, bool, int, str]:
    sequence = step.view.attributes.get("event.sequence") if step.is_log else 0
    return (step.start, step.is_log, sequence if isinstance(sequence, int) else 0, step.key)


def _by_order(step: Step) -> int:
    return step.order


def _outer_spans_first(step: Step) -> tuple[bool, bool, int]:
    return (step.is_log, step.scope is not None, step.order)


def _log_key(log: LogView) -> str:
    """Log records have no id; what they say tells them apart, whatever the order of arrival."""
    said = repr((log.at_ns, log.name, log.span_id, log.body, sorted(log.attributes.items(), key=str)))
    return "log:" + sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:16]
