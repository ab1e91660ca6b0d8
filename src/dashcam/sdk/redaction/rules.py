"""What is taken out of a record, as the host asks for it, and the patterns that this comes to."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from dashcam.errors import SettingsError
from dashcam.sdk.redaction.assignments import own_keys
from dashcam.sdk.redaction.names import squash
from dashcam.sdk.redaction.personal import ADDRESSES, CARDS, EMAILS, PHONES
from dashcam.sdk.redaction.shapes import CREDENTIALS
from dashcam.sdk.redaction.sieve import ANY, REDACTED, Pattern, compiled


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken out of a record where it is built.

    `keys` are compared without regard to case, - and _. `patterns` run over every text, without a
    pre-check, and in whatever time they take. `function` is the host's own; it comes last and sees
    fields that are already redacted.
    """

    credentials: bool = True
    emails: bool = False
    cards: bool = False
    phones: bool = False
    ip_addresses: bool = False
    keys: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    function: Callable[[dict[str, Any]], dict[str, Any]] | None = None


def chosen_by(rules: Redaction) -> tuple[Pattern, ...]:
    """The patterns that these rules ask for, or a SettingsError that says what is wrong with them."""
    for name in ("keys", "patterns"):
        if isinstance(getattr(rules, name), str):
            raise SettingsError(
                f"Redaction({name}=...) wants several texts, not one. Write ({getattr(rules, name)!r},)."
            )
    chosen = list(CREDENTIALS) if rules.credentials else []
    if any(map(squash, rules.keys)):
        chosen.insert(0, own_keys(rules.keys))
    personal = (
        (rules.emails, EMAILS),
        (rules.cards, CARDS),
        (rules.phones, PHONES),
        (rules.ip_addresses, ADDRESSES),
    )
    chosen.extend(pattern for wanted, pattern in personal if wanted)
    for regex in rules.patterns:
        try:
            chosen.append(own_pattern(regex))
        except (re.error, TypeError, RecursionError, OverflowError) as error:
            raise SettingsError(
                f"The redaction pattern {regex!r} is not a regular expression: {error}. "
                "Mend it in Redaction(patterns=...); backslashes want a raw string, r'...'."
            ) from error
    return tuple(chosen)


def own_pattern(regex: str) -> Pattern:
    """A pattern that the host gave: tried on every text. Where it has a group `hide`, only that goes."""
    compiled(regex)
    return Pattern(name=regex, gates=ANY, literals=ANY, regex=regex, shortest=1, check=_is_outside)


def _is_outside(text: str, match: re.Match[str]) -> bool:
    """Whether a match cuts through no [REDACTED], which `\\w+` would otherwise find again and again."""
    edges = match.span("hide" if "hide" in match.re.groupindex else 0)
    cut = len(REDACTED) - 1
    return not any(text.find(REDACTED, max(0, edge - cut), edge + cut) >= 0 for edge in edges)
