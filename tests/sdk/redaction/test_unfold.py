"""A secret inside an object does not slip, and what JSON has no form for is told."""

from __future__ import annotations

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
from credential_samples import KEY, redacted

from dashcam.sdk.redaction import Redaction, Redactor


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
    fields, paths, _ = Redactor(Redaction()).apply({"value": value})
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
    clean, paths, _ = Redactor(Redaction()).apply(fields)
    assert clean is fields
    assert clean["value"] is value
    assert paths == []


def test_an_object_is_converted_without_being_listed_as_redacted() -> None:
    assert Redactor(Redaction()).apply({"a": Login("ada", ""), "b": Text("hi"), "c": Path("x")}) == (
        {"a": {"user": "ada", "password": "", "note": None}, "b": "hi", "c": "x"},
        [],
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


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value",
    [
        *(object(), Sneaky(), Broken(), lambda: None, print, Sneaky, msgspec, (n for n in "abc"), range(3), 1j),
        *({"a": 1}.values(), msgspec.Raw(b"{no json"), LOOP[0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_has_no_form_for_is_replaced_by_a_text_and_listed(value: object) -> None:
    clean, _, replaced = Redactor(Redaction()).apply({"n": 1, "a": [{"b": value}]})
    assert replaced == ["a.0.b.0" if value is LOOP else "a.0.b"]
    assert msgspec.json.encode(clean)


@pytest.mark.parametrize(
    "value",
    [
        *(Login("ada", "x"), Account(api_key="x"), Pair("ada", "x"), Attrs(), Pydantic(), Colour.BOTH, Model.OPUS),
        *(
            {"some words of text"},
            deque([1]),
            UserDict(a=1),
            Path("x"),
            ValueError("no"),
            KeyboardInterrupt(),
            Text(KEY),
        ),
        *(
            b"\xff",
            memoryview(b"ok"),
            datetime.now(UTC),
            Decimal(1),
            UUID(int=7),
            msgspec.Raw(b'{"a": 1}'),
            {(1, 2): 3},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_a_form_or_is_known_by_its_text_is_not_listed(value: object) -> None:
    assert Redactor(Redaction()).apply({"value": value}).replaced == []


def test_an_object_under_a_secret_name_is_taken_and_not_replaced() -> None:
    assert Redactor(Redaction()).apply({"password": object()}) == ({"password": "[REDACTED]"}, ["password"], [])


def test_a_secret_that_an_object_tells_is_listed_as_both() -> None:
    assert Redactor(Redaction()).apply({"value": Sneaky()}) == (
        {"value": "<Sneaky at [REDACTED]>"},
        ["value"],
        ["value"],
    )
