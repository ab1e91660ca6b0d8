"""What the host asks for: its own names and patterns, personal data, and its mistakes."""

from __future__ import annotations

import msgspec
import pytest
from credential_samples import KEY, redacted, taken

from dashcam.errors import SettingsError
from dashcam.sdk.redaction import Redaction, Redactor


def test_the_hosts_own_names_count_in_keys_and_inside_texts() -> None:
    rules = {"keys": ("Customer-SSN",)}
    assert taken({"customer_ssn": 1, "customerSsn": 2, "ssn": 3}, **rules) == ["customer_ssn", "customerSsn"]
    text = 'call({"customer_ssn": "123-45"}) in\\nCUSTOMER-SSN=123-45 but old_customer_ssn=123-45'
    assert redacted({"arguments": text}, **rules)["arguments"] == (
        'call({"customer_ssn": "[REDACTED]"}) in\\nCUSTOMER-SSN=[REDACTED] but old_customer_ssn=123-45'
    )


def test_credentials_can_be_left_alone_while_the_hosts_own_rules_hold() -> None:
    fields = {"password": "tr0ub4dor", "note": KEY, "ssn": "1"}
    assert taken(fields, credentials=False) == []
    assert taken(fields, credentials=False, keys=("ssn",)) == ["ssn"]


def test_personal_data_goes_only_when_asked_for() -> None:
    texts = {"a": "to ada@example.org", "b": "card 4111111111111111", "c": "call +49 151 23456789", "d": "at 10.0.0.1"}
    assert taken(texts) == []
    assert taken(texts, emails=True) == ["a"]
    assert taken(texts, cards=True) == ["b"]
    assert taken(texts, phones=True) == ["c"]
    assert taken(texts, ip_addresses=True) == ["d"]


def test_the_hosts_patterns_run_on_every_text_however_short() -> None:
    assert redacted({"a": "x-7", "b": ["the x-42 of x-7"]}, patterns=(r"x-\d+",)) == {
        "a": "[REDACTED]",
        "b": ["the [REDACTED] of [REDACTED]"],
    }


def test_a_pattern_with_a_group_named_hide_takes_only_that() -> None:
    assert redacted({"a": "case 4711"}, patterns=(r"case (?P<hide>\d+)",)) == {"a": "case [REDACTED]"}


@pytest.mark.parametrize("pattern", [r"\w+", "RED", "", "x*", ".", r"\]|\[", "E.*D"])
def test_a_pattern_that_finds_its_own_traces_comes_to_an_end(pattern: str) -> None:
    once = redacted({"a": "some words here"}, patterns=(pattern,))
    assert redacted(once, patterns=(pattern,)) == once


def test_a_pattern_that_cannot_be_compiled_is_named() -> None:
    with pytest.raises(SettingsError, match=r"'\(unclosed'.*not a regular expression"):
        Redactor(Redaction(patterns=("fine", "(unclosed")))


@pytest.mark.parametrize("field", ["keys", "patterns"])
def test_one_text_where_several_are_wanted_is_refused(field: str) -> None:
    with pytest.raises(SettingsError, match=field):
        Redactor(msgspec.structs.replace(Redaction(), **{field: "password"}))
