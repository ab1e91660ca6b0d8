"""What a recorder is told, read generously: which model, which rules, which trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from dashcam.contracts.chat import Model, PermissionRule
from dashcam.errors import SettingsError, UnjoinableRecord
from dashcam.sdk.trace import Trace, current_trace, new_trace

Rule = PermissionRule | Mapping[str, Any]
ModelName = str | Mapping[str, Any] | Model


def model_of(model: ModelName | None) -> Model:
    """`provider:model`, a bare model name, or the names of `Model`."""
    if isinstance(model, Model):
        return model
    if isinstance(model, Mapping):
        return _converted(model, Model, "{provider_id, model_id, variant?}, or 'provider:model'")
    provider, colon, name = (model or "").partition(":")
    return Model(provider_id=provider, model_id=name) if colon else Model(model_id=provider)


def rule_of(rule: Rule) -> PermissionRule:
    if isinstance(rule, PermissionRule):
        return rule
    form = "{permission, pattern, action: allow|deny|ask, source: manifest|session|project}"
    return _converted(rule, PermissionRule, form)


def trace_for(session_id: str | None, minted: str, kind: str) -> Trace:
    """The current trace, where it is of this session: what is recorded joins what is logged beside it."""
    try:
        current = current_trace()
    except UnjoinableRecord:
        current = None
    if current and session_id in (None, current.session_id):
        return current
    return new_trace(minted if session_id is None else session_id, kind=kind)


def message_of(error: BaseException) -> str:
    """What an error says. Its own __str__ is the host's code, and may fail."""
    try:
        return str(error)
    except Exception:
        return "(the error can't be shown)"


_Made = TypeVar("_Made")


def _converted(given: Mapping[str, Any], into: type[_Made], form: str) -> _Made:
    try:
        return msgspec.convert(dict(given), into)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{dict(given)!r:.120} can't be used: {error}. Write it as {form}.") from error
