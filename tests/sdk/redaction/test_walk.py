"""Secrets leave a record by name and by shape, whatever its structure, and every structure has an end."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from credential_samples import KEY, SAMPLES, redacted, taken
from hypothesis import given, settings
from hypothesis import strategies as st

from dashcam.sdk.redaction import Redaction, Redactor, walk


@dataclass
class Login:
    user: str
    password: str
    note: Any = None


def test_a_value_goes_whole_by_the_name_of_its_key_at_any_depth() -> None:
    fields = {"user": "ada", "request": {"headers": [{"X-Api-Key": "abc"}], "db_password": 1234}}
    clean, paths, _ = Redactor(Redaction()).apply(fields)
    assert clean == {
        "user": "ada",
        "request": {"headers": [{"X-Api-Key": "[REDACTED]"}], "db_password": "[REDACTED]"},
    }
    assert paths == ["request.headers.0.X-Api-Key", "request.db_password"]


@pytest.mark.parametrize("value", ["x", 7, 1.5, ["a"], {"user": "x"}, ("a",), b"x", Decimal(1), object()])
def test_text_numbers_and_containers_under_a_secret_name_go(value: object) -> None:
    assert redacted({"password": value}) == {"password": "[REDACTED]"}


@pytest.mark.parametrize("value", [None, True, False, "", b"", "[REDACTED]"])
def test_what_tells_nothing_stays_under_a_secret_name(value: object) -> None:
    fields = {"password": value}
    assert Redactor(Redaction()).apply(fields) == (fields, [], [])


def test_a_token_is_a_secret_only_as_text_and_counts_of_tokens_never_are() -> None:
    fields = {"token": 5, "GITHUB_TOKEN": {"n": 1}, "max_tokens": 100, "input_tokens": "12", "session_tokens": 9}
    assert Redactor(Redaction()).apply(fields) == (fields, [], [])
    assert taken({"token": "x", "session_tokens": ["x"]}) == ["token", "session_tokens"]


def test_a_pair_of_name_and_value_is_judged_by_the_name() -> None:
    fields = {"headers": [{"name": "Authorization", "value": "x"}, {"name": "Accept", "value": "y"}]}
    assert taken(fields) == ["headers.0.value"]
    assert taken({"attributes": [{"key": "db.password", "value": {"intValue": 3}}]}) == ["attributes.0.value"]


@pytest.mark.parametrize(
    "record",
    [
        {"Name": "X-Api-Key", "Value": "hunter2"},
        {"header": "x-api-key", "value": b"hunter2"},
        {"Key": "db_password", "Value": "hunter2"},
        {"NAME": "AUTHORIZATION", "VALUE": "hunter2"},
        {"name": b"x-api-key", "value": b"hunter2"},
        {"name": "first", "key": "password", "value": "hunter2"},
    ],
)
def test_a_pair_is_known_in_every_spelling(record: dict[str, Any]) -> None:
    value = list(record)[-1]
    assert redacted({"r": [record]})["r"][0][value] == "[REDACTED]"
    assert taken({"r": [record]}) == [f"r.0.{value}"]


def test_a_header_as_a_list_of_two_is_judged_by_the_first() -> None:
    headers = [["Accept", "text/html"], ["X-Api-Key", "hunter2"], (b"x-api-key", b"hunter2"), ("token", 5)]
    clean, paths, _ = Redactor(Redaction()).apply({"headers": headers, "scope": (("Cookie", "a"), ("n", 1))})
    assert clean == {
        "headers": [["Accept", "text/html"], ["X-Api-Key", "[REDACTED]"], (b"x-api-key", "[REDACTED]"), ("token", 5)],
        "scope": (("Cookie", "[REDACTED]"), ("n", 1)),
    }
    assert clean["headers"][0] is headers[0]
    assert paths == ["headers.1.1", "headers.2.1", "scope.0.1"]
    assert taken({"pairs": [["ssn", "1"]]}, keys=("SSN",)) == ["pairs.0.1"]
    assert taken({"words": ["password", "hunter2"], "three": [["password", "is", "long"]]}) == []


def test_bytes_that_are_no_text_go_as_a_whole_when_a_secret_is_in_them() -> None:
    blob = b"\xff\xfe\x00" + KEY.encode() + b"\x80"
    assert Redactor(Redaction()).apply({"blob": blob, "other": b"\xff\xd8 picture"}) == (
        {"blob": "[REDACTED]", "other": b"\xff\xd8 picture"},
        ["blob"],
        [],
    )


def test_a_secret_in_a_message_of_a_model_goes_like_any_other() -> None:
    fields = {"messages": [{"role": "system", "content": "hi"}, {"role": "user", "content": f"my key is {KEY}!"}]}
    clean, paths, _ = Redactor(Redaction()).apply(fields)
    assert clean["messages"][1]["content"] == "my key is [REDACTED]!"
    assert clean["messages"][0] is fields["messages"][0]
    assert paths == ["messages.1.content"]


def test_a_secret_in_a_key_goes_and_no_value_is_lost_with_it() -> None:
    other = KEY.replace("aB3", "zZ9")
    clean, paths, _ = Redactor(Redaction()).apply({"by_key": {KEY: 1, other: 2, "n": 3}})
    assert clean == {"by_key": {"[REDACTED]": 1, "[REDACTED]_2": 2, "n": 3}}
    assert paths == ["by_key.[REDACTED]"]


def test_a_structure_that_holds_itself_comes_to_an_end() -> None:
    circle: dict[str, Any] = {"n": 1}
    circle["again"], circle["and"] = circle, [circle, circle]
    login = Login("ada", "x")
    login.note = [login]
    assert redacted({"c": circle}) == {"c": {"n": 1, "again": "[TOO DEEP]", "and": ["[TOO DEEP]", "[TOO DEEP]"]}}
    assert redacted({"l": login})["l"]["note"] == ["[TOO DEEP]"]


def test_a_structure_of_a_thousand_levels_is_cut_at_the_sixty_fourth() -> None:
    deep: Any = KEY
    for _ in range(1_000):
        deep = [deep]
    clean, paths, _ = Redactor(Redaction()).apply({"deep": deep})
    levels, inner = 1, clean["deep"]
    while isinstance(inner, list):
        levels, inner = levels + 1, inner[0]
    assert (levels, inner, paths) == (64, "[TOO DEEP]", [])


def test_a_list_that_doubles_forty_times_over_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MAX_CONTAINERS", 1_000)
    laughs: Any = ["ha"]
    for _ in range(40):
        laughs = [laughs, laughs]
    assert b"[TOO DEEP]" in msgspec.json.encode(redacted({"laughs": laughs}))


def test_every_place_where_a_structure_was_cut_is_listed_up_to_a_thousand() -> None:
    circle: dict[str, Any] = {"n": 1}
    circle["again"], circle["and"] = circle, [circle, circle]
    assert Redactor(Redaction()).apply({"c": circle}).replaced == ["c.again", "c.and.0", "c.and.1"]
    crowd = Redactor(Redaction()).apply({"crowd": [object() for _ in range(2_000)]})
    assert crowd.replaced == [f"crowd.{number}" for number in range(1_000)]


# --- whatever comes ----------------------------------------------------------------------------------

TEXTS = st.text(max_size=40) | st.sampled_from(
    [
        *(text for text, _ in SAMPLES.values()),
        "password=",
        '"token": "',
        "[REDACTED]",
        "sk-",
        "://a:b@",
        "key: x1",
        "\\",
    ]
)
MIXTURES = st.lists(TEXTS, max_size=4).map("".join)
KEYS = MIXTURES | st.sampled_from(
    ["password", "token", "name", "value", "note", "cookies", "max_tokens", "properties", "type", "default"]
)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | MIXTURES | st.binary(max_size=20)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
RECORDS = st.dictionaries(KEYS, VALUES, max_size=4)
RULES = st.sampled_from(
    [
        Redaction(),
        Redaction(emails=True, cards=True, phones=True, ip_addresses=True, keys=("note",), patterns=("[a-c]+",)),
    ]
)


@pytest.mark.slow
@given(RECORDS, RULES)
@settings(max_examples=300, deadline=None)
def test_a_second_redaction_changes_nothing_and_the_given_record_stays_as_it_was(
    fields: dict[str, Any], rules: Redaction
) -> None:
    redactor, before = Redactor(rules), copy.deepcopy(fields)
    once, _, _ = redactor.apply(fields)
    assert fields == before
    assert redactor.failures == 0
    twice, paths, _ = redactor.apply(once)
    assert twice == once
    assert paths == []
    assert Redactor(rules).apply(once) == (once, [], [])


AROUND = st.text(alphabet="abc XYZ019.,!?", max_size=30)


@st.composite
def plants(draw: st.DrawFn) -> tuple[Any, str]:
    """A secret in some text, somewhere in some structure."""
    text, secret = SAMPLES[draw(st.sampled_from(sorted(SAMPLES)))]
    planted: Any = f"{draw(AROUND)} {text}{draw(st.sampled_from(['', ' ', chr(10)]))}"
    planted += "" if planted.endswith(secret) else draw(AROUND)
    if draw(st.booleans()):
        planted = planted.encode()
    for _ in range(draw(st.integers(0, 6))):
        filler = draw(AROUND | st.none() | st.floats(allow_nan=False))
        wrappers = [[filler, planted], {"n": filler, "inner": planted}, (planted, filler), Login("ada", "", planted)]
        if isinstance(planted, str | bytes):
            wrappers += [{planted: filler}, {planted}, Exception(planted)]
        planted = draw(st.sampled_from(wrappers))
    return planted, secret


@pytest.mark.slow
@given(plants())
@settings(max_examples=400, deadline=None)
def test_a_planted_secret_never_survives(plant: tuple[Any, str]) -> None:
    planted, secret = plant
    clean, paths, _ = Redactor(Redaction()).apply({"field": planted})
    assert paths
    assert msgspec.json.encode(secret)[1:-1] not in msgspec.json.encode(clean)
    assert secret not in repr(clean)
