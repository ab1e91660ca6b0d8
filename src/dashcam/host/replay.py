"""Running a recorded turn again: with the recorded inputs, or with some of them changed, into a branch of its own.

The model is asked anew. Its tool calls are answered from the recording; one that isn't there is run only where the
person who replays names the code for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model

from dashcam.contracts import chat as contracts
from dashcam.errors import ModelFailed, NotReplayable, SettingsError
from dashcam.host import wire
from dashcam.host.models import (
    RECORDED,
    SCRIPTED,
    BrokenOff,
    Played,
    check_settings,
    open_model,
    parameters_from,
    settings_from,
)
from dashcam.host.runs import KIND, Run, append
from dashcam.host.turn import CallReport, Ending, Options, TurnRun
from dashcam.record.branch import branch
from dashcam.record.options import model_of, rule_of
from dashcam.record.parts import scrubbed
from dashcam.record.recorder import SessionRecorder, record_session
from dashcam.sdk import emit
from dashcam.sdk.ids import new_id
from dashcam.sdk.settings import Settings
from dashcam.sdk.trace import Trace, new_trace
from dashcam.store.base import Reader
from dashcam.views import replay
from dashcam.views.replay import Inputs, Matcher, Overrides, Plan


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. `exact`: the model was sent what it had been sent, but for what was changed on purpose."""

    eligible: bool
    missing: list[str]
    session_id: str
    turn: int
    exact: bool
    redacted: list[str]
    inexact: list[str] = []  # all else that isn't just as it was
    branch_id: str | None = None
    model: str | None = None
    overrides: dict[str, Any] = {}
    calls: list[CallReport] = []
    steps: int = 0
    stopped: str | None = None
    failed: bool = False  # whether it stopped because the model failed
    duration_ms: float | None = None


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that can be run again, all of it converted."""

    plan: Plan
    inputs: Inputs
    messages: list[ModelMessage]
    inexact: list[str]


def check(store: Reader, session_id: str, turn: int, options: Options | None = None) -> tuple[Replayed, Ready | None]:
    """Whether a turn can be run again, and what is missing; and all that it takes, where it can."""
    changes = options.changes if options else Overrides()
    check_settings(list(changes.settings))
    return _check(replay.load(store, session_id, turn, changes), changes.given)


def check_all(store: Reader, session_id: str) -> Iterator[Replayed]:
    """Whether each of the turns can be run again, as it was."""
    return (_check(plan)[0] for plan in replay.load_all(store, session_id))


def _check(plan: Plan, given: frozenset[str] = frozenset()) -> tuple[Replayed, Ready | None]:
    ready, missing = None, list(plan.missing)
    if plan.inputs is not None:
        try:
            converted = wire.messages_from(plan.inputs.wire, plan.inputs.messages)
            _, tools = parameters_from(plan.inputs.tool_catalog, plan.inputs.settings)
            _, settings = settings_from(plan.inputs.settings, given)
            inexact = [*plan.inexact, *converted.inexact, *tools, *settings]
            ready = Ready(plan=plan, inputs=plan.inputs, messages=converted.messages, inexact=inexact)
        except wire.Unconvertible as error:
            missing.append(f"a form that can be sent again ({error})")
    report = Replayed(
        eligible=ready is not None,
        missing=missing,
        session_id=plan.session_id,
        turn=plan.turn.number,
        exact=ready is not None and not ready.inexact and not plan.redacted,
        redacted=plan.redacted,
        inexact=ready.inexact if ready else [],
    )
    return report, ready


def run(settings: Settings, store: Reader, session_id: str, turn: int, options: Options | None = None) -> Replayed:
    """Run a turn again and record it as a branch; raises NotReplayable where too little was recorded."""
    options = options or Options()
    report, ready = check(store, session_id, turn, options)
    if ready is None:
        raise NotReplayable(session_id, turn, report.missing)
    model, named, ending = _model(ready, options)
    began = time.monotonic()
    with recording(settings):
        overrides = _told_changes(options.changes)
        metadata = {"of": session_id, "turn": turn, "model": _name(named), "overrides": overrides}
        with _branch(store, ready, named, options.changes, metadata) as chat:
            matcher = Matcher(ready.plan.turn.tool_calls, partial(replay.tool_parts, store, session_id))
            again = TurnRun(ready.inputs, ready.messages, options, model, chat, matcher, ending)
            asyncio.run(again.turn())
        report = msgspec.structs.replace(
            report,
            branch_id=chat.id,
            model=_name(named),
            overrides=overrides,
            calls=again.calls,
            steps=again.steps,
            stopped=again.stopped,
            failed=again.failed,
            duration_ms=(time.monotonic() - began) * 1000,
        )
    call = ready.plan.turn.calls[0]
    append(settings, Trace(report.session_id, call.trace_id, call.step), _run_of(report))
    return report


def _run_of(report: Replayed) -> Run:
    return Run(
        turn=report.turn,
        branch_id=report.branch_id,
        model=report.model,
        overrides=report.overrides,
        calls=dict(Counter(each.outcome for each in report.calls)),
        exact=report.exact,
        stopped=report.stopped,
        duration_ms=report.duration_ms or 0.0,
    )


def _model(ready: Ready, options: Options) -> tuple[Model, contracts.Model, Ending | None]:
    """The model to ask, how it is recorded, and where the turn ends if it is played back."""
    if isinstance(options.model, Model):
        named = contracts.Model(provider_id=options.model.system, model_id=options.model.model_name)
        return options.model, named, None
    recorded = ready.inputs.model
    name = options.changes.model
    if name == RECORDED:
        answers = list(_recorded_answers(ready))
        turn = ready.plan.turn
        ending = Ending(steps=len(answers), stop_reason=turn.stop_reason, error=turn.error)
        return Played(answers, "The recording"), recorded, ending
    if name is None:
        if _name(recorded).startswith(SCRIPTED):  # a file is for you to name, never for a recording
            raise ModelFailed(
                f"The recorded model is {_name(recorded)!r:.80}. Choose one with --model, or play the recorded answers "
                "with --model recorded."
            )
        return open_model(_name(recorded)), recorded, None
    return open_model(name), model_of(name), None


def _recorded_answers(ready: Ready) -> Iterator[ModelResponse | Exception]:
    """What the model said, request by request; a failure only where nobody asked again after it."""
    answers, parts = ready.plan.answers, ready.plan.turn.parts
    is_cut = bool(parts) and getattr(parts[-1], "streaming", False)
    for number, answer in enumerate(answers, 1):
        if answer.error and number < len(answers):
            continue
        said, reason = None, "it was not recorded"
        try:
            said = wire.answer_from(ready.inputs.wire, answer.output) if answer.output is not None else None
        except wire.Unconvertible as error:
            reason = str(error)
        if answer.error:
            yield BrokenOff(answer.error, said.parts if said else (), is_cut=is_cut)
        else:
            yield said or ModelFailed(f"The recorded answer {number} can't be said again: {reason}.")


def _name(model: contracts.Model) -> str:
    return f"{model.provider_id}:{model.model_id}" if model.provider_id else model.model_id


def _told_changes(changes: Overrides) -> dict[str, Any]:
    """What was changed, as it is recorded: a prompt by its digest, and no secrets."""
    told: dict[str, Any] = {}
    if changes.model is not None:
        told["model"] = changes.model
    if changes.system_prompt is not None:
        told["system_prompt"] = sha256(changes.system_prompt.encode()).hexdigest()
    if changes.settings:
        told["settings"] = dict(changes.settings)
    return dict(scrubbed(told))


@contextmanager
def recording(settings: Settings) -> Iterator[None]:
    """Record into the project that is replayed from, whatever the tools' own code configures."""
    pinned = emit.pin({"data": settings.data, "project": settings.project})
    before = emit.use_recorder(emit.Recorder(settings))
    try:
        yield
    finally:
        emit.pin(pinned)
        if ours := emit.use_recorder(before):
            ours.close()


@contextmanager
def _branch(
    store: Reader, ready: Ready, model: contracts.Model, changes: Overrides, metadata: Mapping[str, Any]
) -> Iterator[SessionRecorder]:
    parent, turn = store.chat_session(ready.plan.session_id), ready.plan.turn
    with record_session(
        trace=new_trace(new_id(contracts.SESSION)[0], kind=KIND),
        agent=turn.agent or parent.agent,
        model=model,
        settings=replay.with_settings(turn.settings, changes.settings),
        permissions=list(_rules(turn.permissions)),
        workspace_root=parent.workspace_root,
        metadata={"replay": metadata},
        parent_id=parent.id,
        parent_message_id=turn.user[0].id,
    ) as chat:
        branch(store, parent.id, turn.user[0].id, chat)
        yield chat


def _rules(told: list[Any]) -> Iterator[contracts.PermissionRule]:
    for rule in told:
        try:
            yield rule_of(dict(rule))
        except (SettingsError, TypeError, ValueError):  # edited by hand, or of another program
            continue
