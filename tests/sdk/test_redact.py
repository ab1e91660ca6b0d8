"""Secrets leave a record before it is written: whatever its shape, and at hardly any cost."""

from __future__ import annotations

import copy
import threading
import time
from collections import OrderedDict, UserDict, deque, namedtuple
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_patterns import SAMPLES

from dashcam.errors import SettingsError
from dashcam.sdk import redact
from dashcam.sdk.redact import Redaction, Redactor

KEY = "sk-ant-api03-aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5h"
PROSE = ("Nothing in this sentence is worth hiding from anybody who might read it one fine day " * 10)[:200]


def redacted(fields: dict[str, Any], **rules: Any) -> dict[str, Any]:
    return Redactor(Redaction(**rules)).apply(fields)[0]


def taken(fields: dict[str, Any], **rules: Any) -> list[str]:
    return Redactor(Redaction(**rules)).apply(fields)[1]


# --- by name -----------------------------------------------------------------------------------------


def test_a_value_goes_whole_by_the_name_of_its_key_at_any_depth() -> None:
    fields = {"user": "ada", "request": {"headers": [{"X-Api-Key": "abc"}], "db_password": 1234}}
    clean, paths = Redactor(Redaction()).apply(fields)
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
    assert Redactor(Redaction()).apply(fields) == (fields, [])


def test_a_token_is_a_secret_only_as_text_and_counts_of_tokens_never_are() -> None:
    fields = {"token": 5, "GITHUB_TOKEN": {"n": 1}, "max_tokens": 100, "input_tokens": "12", "session_tokens": 9}
    assert Redactor(Redaction()).apply(fields) == (fields, [])
    assert taken({"token": "x", "session_tokens": ["x"]}) == ["token", "session_tokens"]


def test_a_pair_of_name_and_value_is_judged_by_the_name() -> None:
    fields = {"headers": [{"name": "Authorization", "value": "x"}, {"name": "Accept", "value": "y"}]}
    assert taken(fields) == ["headers.0.value"]
    assert taken({"attributes": [{"key": "db.password", "value": {"intValue": 3}}]}) == ["attributes.0.value"]


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


# --- by shape ----------------------------------------------------------------------------------------


def test_a_secret_in_a_message_of_a_model_goes_like_any_other() -> None:
    fields = {"messages": [{"role": "system", "content": "hi"}, {"role": "user", "content": f"my key is {KEY}!"}]}
    clean, paths = Redactor(Redaction()).apply(fields)
    assert clean["messages"][1]["content"] == "my key is [REDACTED]!"
    assert clean["messages"][0] is fields["messages"][0]
    assert paths == ["messages.1.content"]


def test_a_secret_in_a_key_goes_and_no_value_is_lost_with_it() -> None:
    other = KEY.replace("aB3", "zZ9")
    clean, paths = Redactor(Redaction()).apply({"by_key": {KEY: 1, other: 2, "n": 3}})
    assert clean == {"by_key": {"[REDACTED]": 1, "[REDACTED][REDACTED]": 2, "n": 3}}
    assert paths == ["by_key.[REDACTED]"]


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


# --- values that JSON has no word for ----------------------------------------------------------------


@dataclass
class Login:
    user: str
    password: str
    note: Any = None


class Account(msgspec.Struct, tag="account", rename="camel"):
    api_key: str
    seen: datetime | None = None


class Pair(namedtuple("Pair", "user secret")):
    __slots__ = ()


class Colour(Enum):
    RED = "red"
    KEY = KEY
    BOTH = ("red", KEY)


class Model(StrEnum):
    OPUS = "claude-opus"


class Sneaky:
    def __repr__(self) -> str:
        return f"<Sneaky at {KEY}>"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Text(str):
    __slots__ = ()


class Attrs:
    """As attrs makes them, which is not installed here."""

    def __init__(self) -> None:
        self.password = "tr0ub4dor"

    class _Field:
        name = "password"

    __attrs_attrs__ = (_Field,)


class Pydantic:
    """As far as pydantic models matter here."""

    def model_dump(self) -> dict[str, Any]:
        return {"password": "tr0ub4dor", "at": datetime(2024, 1, 1, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        (Login("ada", "x", [KEY]), {"user": "ada", "password": "[REDACTED]", "note": ["[REDACTED]"]}),
        (Account(api_key="x"), {"type": "account", "apiKey": "[REDACTED]", "seen": None}),
        (Pair("ada", "x"), {"user": "ada", "secret": "[REDACTED]"}),
        (Attrs(), {"password": "[REDACTED]"}),
        (Pydantic(), {"password": "[REDACTED]", "at": datetime(2024, 1, 1, tzinfo=UTC)}),
        (Colour.KEY, "[REDACTED]"),
        (Colour.BOTH, ("red", "[REDACTED]")),
        ({KEY}, ["[REDACTED]"]),
        (frozenset([KEY]), ["[REDACTED]"]),
        (deque([1, KEY]), [1, "[REDACTED]"]),
        (OrderedDict(password="x"), {"password": "[REDACTED]"}),
        (UserDict(password="x"), {"password": "[REDACTED]"}),
        (MappingProxyType({"password": "x"}), {"password": "[REDACTED]"}),
        (f"key {KEY}".encode(), "key [REDACTED]"),
        (bytearray(KEY, "ascii"), "[REDACTED]"),
        (memoryview(KEY.encode()), "[REDACTED]"),
        (Path("/tmp") / KEY / "x", "/tmp/[REDACTED]/x"),
        (Text(KEY), "[REDACTED]"),
        (ValueError(f"bad key {KEY}"), "ValueError('bad key [REDACTED]')"),
        (Sneaky(), "<Sneaky at [REDACTED]>"),
        (msgspec.Raw(b'{"password": "x"}'), {"password": "[REDACTED]"}),
        ({b"password": "x", (KEY, 1): 2}, {"password": "[REDACTED]", "('[REDACTED]', 1)": 2}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_secret_inside_an_object_does_not_slip(value: object, clean: object) -> None:
    fields, paths = Redactor(Redaction()).apply({"value": value})
    assert fields == {"value": clean}
    assert paths
    assert KEY.encode() not in msgspec.json.encode(fields)


@pytest.mark.parametrize(
    "value",
    [
        *(datetime(2024, 1, 1, tzinfo=UTC), Decimal("1.5"), UUID(int=7), Colour.RED, Model.OPUS, b"\xff\x00", b"ok"),
        *({1, 2}, {"plain text of some length"}, [1.5] * 100, ("a", "b"), OrderedDict(a=1), {1: "a", 2.5: "b"}, 2**70),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_secret_passes_untouched(value: object) -> None:
    fields = {"value": value}
    clean, paths = Redactor(Redaction()).apply(fields)
    assert clean is fields
    assert clean["value"] is value
    assert paths == []


def test_an_object_is_converted_without_being_listed_as_redacted() -> None:
    assert Redactor(Redaction()).apply({"a": Login("ada", ""), "b": Text("hi"), "c": Path("x")}) == (
        {"a": {"user": "ada", "password": "", "note": None}, "b": "hi", "c": "x"},
        [],
    )


def test_an_object_that_cannot_say_what_it_is_gets_a_word_for_it() -> None:
    assert redacted({"value": Broken()}) == {"value": "<Broken that can't be shown>"}


def test_what_an_object_says_is_cut_to_a_thousand_characters_and_never_through_a_secret() -> None:
    class Long:
        def __repr__(self) -> str:
            return "x" * 985 + " " + KEY + "y" * 5000

    text = redacted({"value": Long()})["value"]
    assert len(text) <= 1_010
    assert "sk-" not in text


def test_a_pydantic_model_is_seen_through() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Login", user=(str, ...), password=(str, ...))(user="ada", password="x")
    assert redacted({"login": model}) == {"login": {"user": "ada", "password": "[REDACTED]"}}


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
    clean, paths = Redactor(Redaction()).apply({"deep": deep})
    levels, inner = 1, clean["deep"]
    while isinstance(inner, list):
        levels, inner = levels + 1, inner[0]
    assert (levels, inner, paths) == (64, "[TOO DEEP]", [])


def test_a_list_that_doubles_forty_times_over_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "MAX_CONTAINERS", 1_000)
    laughs: Any = ["ha"]
    for _ in range(40):
        laughs = [laughs, laughs]
    assert b"[TOO DEEP]" in msgspec.json.encode(redacted({"laughs": laughs}))


# --- the host's own function -------------------------------------------------------------------------


def test_the_hosts_function_comes_last_and_sees_what_is_left() -> None:
    seen: list[dict[str, Any]] = []

    def function(fields: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(fields))
        del fields["gone"]
        return {**fields, "name": "A.", "new": 1}

    given = {"password": "x", "name": "Ada", "gone": 1, "same": [1]}
    clean, paths = Redactor(Redaction(function=function)).apply(given)
    assert seen == [{"password": "[REDACTED]", "name": "Ada", "gone": 1, "same": [1]}]
    assert clean == {"password": "[REDACTED]", "name": "A.", "same": [1], "new": 1}
    assert paths == ["password", "name", "gone"]
    assert given == {"password": "x", "name": "Ada", "gone": 1, "same": [1]}


def test_a_function_that_changes_nothing_costs_no_copy() -> None:
    fields = {"a": 1}
    assert Redactor(Redaction(function=dict)).apply(fields)[0] is fields


@pytest.mark.parametrize("answer", [ValueError("no"), None, [("a", 1)], RecursionError()])
def test_a_function_that_fails_takes_the_whole_record_with_it(answer: object) -> None:
    def function(fields: dict[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    redactor = Redactor(Redaction(function=function))
    assert redactor.apply({"a": 1, "b": "x"}) == ({"redaction": "failed"}, ["*"])
    assert redactor.failures == 1


def test_a_value_that_fights_back_takes_the_whole_record_with_it() -> None:
    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("no")

    redactor = Redactor(Redaction())
    assert redactor.apply({"a": Hostile()}) == ({"redaction": "failed"}, ["*"])
    assert redactor.failures == 1


# --- cost --------------------------------------------------------------------------------------------


def test_a_long_message_repeated_in_forty_requests_is_scanned_once() -> None:
    redactor = Redactor(Redaction())
    for text in (PROSE * 5, f"{PROSE * 5} {KEY}"):
        before = redactor.scans
        results = [redactor.apply({"messages": [{"content": "".join(text)}] * 2}) for _ in range(40)]
        assert redactor.scans == before + 1
        assert all(result == results[0] for result in results)
    assert results[0][1] == ["messages.0.content", "messages.1.content"]


def test_a_known_short_text_is_not_scanned_again() -> None:
    redactor = Redactor(Redaction())
    for _ in range(3):
        assert taken_by(redactor, {"model": "claude-sonnet-4-5"}) == []
    assert redactor.scans == 1
    for _ in range(3):
        assert taken_by(redactor, {"model": "password=tr0ub4dor"}) == ["model"]


def taken_by(redactor: Redactor, fields: dict[str, Any]) -> list[str]:
    return redactor.apply(fields)[1]


def test_a_text_too_short_for_a_credential_is_not_scanned() -> None:
    redactor = Redactor(Redaction())
    redactor.apply({"a": "short-text=", "b": ["x_y"]})
    assert redactor.scans == 0


def test_what_is_remembered_is_bounded_by_entries_and_by_bytes() -> None:
    outcomes = redact._Outcomes(entries=10, size=10_000)
    for number in range(100):
        outcomes.put(bytes([number]), "")
    assert [number for number in range(100) if outcomes.get(bytes([number])) is not None] == list(range(90, 100))
    for number in range(100):
        outcomes.put(bytes([number, 0]), "x" * 2_000)
    assert 1 <= sum(outcomes.get(bytes([number, 0])) is not None for number in range(100)) <= 4
    outcomes.put(b"huge", "x" * 9_000)
    assert outcomes.get(b"huge") is None


def test_known_names_and_texts_are_bounded() -> None:
    redactor = Redactor(Redaction(emails=True, cards=True, phones=True, ip_addresses=True))
    for number in range(10_000):
        redactor.apply({f"field{number}": f"some-text-{number}"})
    assert len(redactor.innocent) <= redact.MAX_KNOWN
    assert len(redactor._clean) <= redact.MAX_KNOWN


def test_many_threads_get_the_same_answers() -> None:
    redactor = Redactor(Redaction())
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(200):
            text = f"{PROSE * 3} {turn} {KEY}"
            clean, paths = redactor.apply({"note": text, f"key{turn}": turn, "password": number})
            if KEY in clean["note"] or paths != ["note", "password"]:
                wrong.append(clean)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_flat_record_with_nothing_to_hide_costs_microseconds() -> None:
    """About 1 µs where it was measured; the bound leaves room for a busy machine."""
    redactor = Redactor(Redaction())
    fields = {"tool": "search", "latency_ms": 42, "note": PROSE, "a": 1, "b": 2.5, "c": True, "d": None, "e": "hello"}
    assert redactor.apply(fields)[0] is fields
    rounds = []
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(1_000):
            redactor.apply(fields)
        rounds.append(time.perf_counter() - started)
    assert min(rounds) < 0.005


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
KEYS = MIXTURES | st.sampled_from(["password", "token", "name", "value", "note", "cookies", "max_tokens"])
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


@given(RECORDS, RULES)
@settings(max_examples=300, deadline=None)
def test_a_second_redaction_changes_nothing_and_the_given_record_stays_as_it_was(
    fields: dict[str, Any], rules: Redaction
) -> None:
    redactor, before = Redactor(rules), copy.deepcopy(fields)
    once, _ = redactor.apply(fields)
    assert fields == before
    assert redactor.failures == 0
    twice, paths = redactor.apply(once)
    assert twice == once
    assert paths == []
    assert Redactor(rules).apply(once) == (once, [])


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


@given(plants())
@settings(max_examples=400, deadline=None)
def test_a_planted_secret_never_survives(plant: tuple[Any, str]) -> None:
    planted, secret = plant
    clean, paths = Redactor(Redaction()).apply({"field": planted})
    assert paths
    assert msgspec.json.encode(secret)[1:-1] not in msgspec.json.encode(clean)
    assert secret not in repr(clean)
