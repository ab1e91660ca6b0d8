"""From what the spans and log records of a trace say to sessions, turns and model calls. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.identity import fault_of_kind
from dashcam.contracts.score import Score
from dashcam.dialects.otlp.reading import LogView, Reading, SpanView
from dashcam.record.trace_calls import model_call
from dashcam.record.trace_rows import Rows
from dashcam.record.trace_steps import Step, steps_of
from dashcam.record.trace_talk import Talk
from dashcam.record.trace_threads import json_text, mended
from dashcam.store.base import Piece, Projection

LOGS_OF_SESSION = "session:"  # the trace of log records that have none, and name a session
_AGENTIC = frozenset(("model", "tool", "agent", "retrieval", "said"))
_MILLI = 1_000_000  # nanoseconds


class Known(Protocol):
    """What the other traces tell."""

    def told_before(self, session_id: str, before: tuple[int, str]) -> dict[bytes, int]: ...
    def traces_ending(self, digest: bytes) -> list[Piece]: ...
    def calls_answered_by(self, response_ids: Sequence[str]) -> list[ModelCall]: ...
    def is_recorded(self, session_id: str) -> bool: ...


class Judged(msgspec.Struct, frozen=True):
    """What follows from a trace, and which others are to be judged again because of it.

    `closed`: calls of tools, by session, whose outcomes it tells; whoever left one open need not tell it any more.
    """

    projection: Projection = Projection()
    others: set[str] = set()
    closed: dict[str, set[bytes]] = {}


class Found(msgspec.Struct):
    """Everything that is derived, while it is being found."""

    model_calls: list[Any] = []
    pieces: list[Piece] = []
    messages: list[Any] = []
    parts: list[Any] = []
    turns: list[Any] = []
    scores: list[Score] = []
    closed: dict[str, set[bytes]] = {}
    system_prompts: dict[str, None] = {}
    tool_catalogs: dict[str, None] = {}


def assemble(
    trace_id: str,
    steps: Sequence[tuple[SpanView, Reading]],
    loose: Sequence[tuple[LogView, Reading]],
    known: Known,
) -> Projection:
    """Everything that follows from the spans of one trace, and from log records that say something by themselves."""
    return judge_steps(trace_id, steps, loose, known).projection


def judge_steps(
    trace_id: str,
    steps: Sequence[tuple[SpanView, Reading]],
    loose: Sequence[tuple[LogView, Reading]],
    known: Known,
) -> Judged:
    """The same, with what is to be judged again because of it."""
    ordered, by_id = steps_of(steps, loose)
    if not ordered:
        return Judged()
    repeated = _give_way(trace_id, ordered, known)
    _share_out(trace_id, ordered)
    groups: dict[str, list[Step]] = {}
    for step in ordered:
        if step.scope is not None and step.scope.session != step.session:
            step.scope = None
        groups.setdefault(step.session, []).append(step)
    talks = {session: Talk(group) for session, group in groups.items()}
    found = Found()
    counted = sorted(call.step.order for talk in talks.values() for call in talk.counted)
    places = {order: place for place, order in enumerate(counted)}
    for session, talk in talks.items():
        _tell(trace_id, session, talk, places, known, found, repeated)
    _take_scores(ordered, by_id, found)
    projection = Projection(
        model_calls=sorted(found.model_calls, key=lambda call: call.step),
        pieces=found.pieces,
        messages=found.messages,
        parts=found.parts,
        turns=found.turns,
        scores=found.scores,
        system_prompts=list(found.system_prompts),
        tool_catalogs=list(found.tool_catalogs),
    )
    return Judged(projection, closed=found.closed)


def _give_way(trace_id: str, steps: Sequence[Step], known: Known) -> str | None:
    """Let calls count no more that another trace tells with all their words: a client that is instrumented twice tells
    of one answer twice, at times in a trace of its own. Returns the session of the other.
    """
    bare = [step for step in steps if step.kind == "model" and step.reading.response_id and not step.tells_messages]
    if not bare:
        return None
    told = {
        call.response_id: call.session_id
        for call in known.calls_answered_by(sorted({str(step.reading.response_id) for step in bare}))
        if call.trace_id != trace_id and (call.context_digest or call.output_digest)
    }
    for step in bare:
        if step.reading.response_id in told:
            step.kind = "span"
    return next((told[step.reading.response_id] for step in bare if step.reading.response_id in told), None)


def _share_out(trace_id: str, steps: Sequence[Step]) -> None:
    """Give each step its session: its own, else the earliest of the trace; none where nobody names one."""
    named = sorted((step for step in steps if step.named), key=lambda step: (step.is_log, step.order))
    shared = named[0].named if named else None
    if shared is None and trace_id.startswith(LOGS_OF_SESSION):
        shared = trace_id.removeprefix(LOGS_OF_SESSION)
    for step in steps:
        step.session = step.named or shared or ""


def _tell(
    trace_id: str,
    session: str,
    talk: Talk,
    places: dict[int, int],
    known: Known,
    found: Found,
    repeated: str | None,
) -> None:
    """One session of the trace: its piece, and its rows unless a recorder tells them."""
    piece = _piece(trace_id, session, talk, known, repeated)
    found.pieces.append(piece)
    for step in talk.steps:
        step.session = piece.session_id
    if known.is_recorded(piece.session_id):
        return
    rows = Rows(trace_id, piece.session_id, piece.agent)
    if talk.chunks:
        rows.write(talk, partial(known.told_before, piece.session_id), piece.first_at)
        if rows.closed:
            found.closed[piece.session_id] = rows.closed
    found.messages += rows.messages
    found.parts += rows.parts
    found.turns += rows.turns
    for call in talk.counted:
        order = call.step.order
        found.model_calls.append(
            model_call(
                call,
                session_id=piece.session_id,
                trace_id=trace_id,
                place=places[order],
                kind=piece.kind,
                message_id=rows.message_of.get(order),
            )
        )
        if call.system:
            found.system_prompts[call.system] = None
        if call.step.reading.tools:
            found.tool_catalogs[call.step.reading.tools] = None


def _piece(trace_id: str, session: str, talk: Talk, known: Known, repeated: str | None) -> Piece:
    steps = talk.steps
    spans = [step for step in steps if not step.is_log]
    first_at, last_at = steps[0].start // _MILLI, max(step.end for step in steps) // _MILLI
    starts = talk.starts
    session_id, by = session, "attribute"
    if not session:
        linked = repeated or _linked(starts, (first_at, trace_id), known)
        session_id, by = (linked, "context") if linked else (f"trace:{trace_id}", "none")
    elif not trace_id.startswith(LOGS_OF_SESSION):
        acting = [step for step in steps if step.kind in _AGENTIC] or steps
        by = "attribute" if all(step.named for step in acting) else "trace"
    root = next((step for step in spans if step.above is None), spans[0] if spans else None)
    agent = _agent_of(steps)
    last = max((call.step for call in talk.counted if call.step.reading.model), key=lambda s: s.order, default=None)
    failed = [step for step in spans if step.view.status == "error"]  # type: ignore[union-attr]
    around = {step.above.key for step in failed if step.above}
    return Piece(
        trace_id=trace_id,
        session_id=session_id,
        session_by=by,
        kind=_kind_of(steps),
        name=mended(root.view.name) if root else "",
        agent=agent or _service_of(steps),
        provider=last.reading.provider if last else None,
        model=last.reading.model if last else None,
        metadata_json=_about(steps, by),
        first_at=first_at,
        last_at=last_at,
        spans=len(spans),
        errors=sum(step.key not in around for step in failed),
        starts=starts,
        ends=talk.ends,
    )


def _linked(starts: bytes | None, before: tuple[int, str], known: Known) -> str | None:
    """The session of the one earlier trace that ends as this one starts."""
    if starts is None:
        return None
    earlier = [piece for piece in known.traces_ending(starts) if (piece.first_at, piece.trace_id) < before]
    return earlier[0].session_id if len(earlier) == 1 else None


def _agent_of(steps: Sequence[Step]) -> str:
    """The name of the outermost agent; where no step is one's, whichever a step names."""
    named = [step for step in steps if step.reading.agent]
    agents = [step for step in named if step.kind == "agent"]
    return mended((agents or named)[0].reading.agent) if named else ""


def _service_of(steps: Sequence[Step]) -> str:
    return mended(next((name for step in steps if (name := step.view.resource.get("service.name"))), None))


def _kind_of(steps: Sequence[Step]) -> str:
    for step in steps:
        told = step.view.attributes.get("dashcam.kind")
        if told is not None and fault_of_kind(told) is None:
            return str(told)
    if any(step.kind in _AGENTIC or step.reading.session_id for step in steps):
        return "user"
    return "system:otel"


def _about(steps: Sequence[Step], by: str) -> str:
    """What a session's row may carry: of the first that tells it."""
    about: dict[str, Any] = {"session_by": by}
    for step in steps:
        reading = step.reading
        if reading.user_id:
            about.setdefault("user_id", reading.user_id)
        if reading.dialect:
            about.setdefault("dialect", reading.dialect)
        for name, value in (reading.metadata or {}).items():
            if name != "aside":
                about.setdefault(name, value)
    if service := _service_of(steps):
        about["service"] = service
    return json_text(about)


def _take_scores(steps: Iterable[Step], by_id: dict[str, Step], found: Found) -> None:
    """Scores belong to the session of the span that they judge."""
    for step in steps:
        score = step.reading.score
        if score is not None:
            judged = by_id.get(score.span_id or step.parent or "", step)
            found.scores.append(msgspec.structs.replace(score, session_id=judged.session))
