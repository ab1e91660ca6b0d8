"""What a recorder is told, read generously: which model, which rules, which trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from dashcam.contracts.chat import Model, PermissionRule
from dashcam.errors import SettingsError, UnjoinableRecord
from dashcam.record.calls import Request
from dashcam.sdk.trace import Trace, current_trace, new_trace

Rule = PermissionRule | Mapping[str, Any]
_RULE = "{permission, pattern, action: allow|deny|ask, source: manifest|session|project}"
ModelName = str | Mapping[str, Any] | Model


def model_of(model: ModelName | None) -> Model:
    """`provider:model`, a bare model name, or the names of `Model`."""
    if isinstance(model, Model):
        return model
    form = "'provider:model' or {provider_id, model_id, variant?}"
    if isinstance(model, Mapping):
        return _converted(model, Model, form)
    if model is not None and not isinstance(model, str):
        raise SettingsError(f"model is {type(model).__name__}. Write it as {form}.")
    provider, colon, name = (model or "").partition(":")
    return Model(provider_id=provider, model_id=name) if colon else Model(model_id=provider)


def rule_of(rule: Rule) -> PermissionRule:
    if isinstance(rule, PermissionRule):
        return rule
    return _converted(rule, PermissionRule, _RULE)


def trace_for(session_id: str | None, minted: str, kind: str) -> Trace:
    """The current trace, where it is of this session: what is recorded joins what is logged beside it."""
    try:
        current = current_trace()
    except UnjoinableRecord:
        current = None
    if current and session_id in (None, current.session_id):
        return current
    try:
        return new_trace(minted if session_id is None else session_id, kind=kind)
    except UnjoinableRecord as error:
        fault = str(error).partition(":")[0]
        raise UnjoinableRecord(
            f"{fault}. Give record_session a session id of your own, or none; kind is 'user'."
        ) from None


def rules_of(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    is_list = isinstance(rules, Sequence) and not isinstance(rules, str)
    if not is_list or not all(isinstance(rule, PermissionRule | Mapping) for rule in rules):
        raise SettingsError(f"permissions is a list of rules, each {_RULE}.")
    return [msgspec.to_builtins(rule_of(rule)) for rule in rules]


def settings_of(settings: Mapping[str, Any] | None, what: str = "settings") -> dict[str, Any]:
    if settings is not None and not isinstance(settings, Mapping):
        raise SettingsError(f"{what} is {type(settings).__name__}. Write it as {{'temperature': 0.2}}.")
    return dict(settings or {})


def text_of(text: object) -> str:
    if not isinstance(text, str):
        raise SettingsError(
            f"A text was expected, and {type(text).__name__} given. Turn it into text, or give `parts`."
        )
    return text


def fault_of_request(request: object) -> str | None:
    """Say what keeps `request` from being one, or None."""
    if request is None or isinstance(request, Mapping | Request):
        return None
    try:
        if isinstance(request, str | bytes) and isinstance(msgspec.json.decode(request), dict):
            return None
    except (ValueError, RecursionError):
        pass
    return (
        f"request is {type(request).__name__}, not a request. Give what you sent: a dict with `messages`, or its JSON."
    )


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
        # Its names alone: what it holds may be a secret, and this goes into somebody's log.
        raise SettingsError(f"{{{', '.join(map(str, given))}}} can't be used: {error}. Write it as {form}.") from error
