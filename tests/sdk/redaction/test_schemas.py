"""A JSON schema describes a secret and is none."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from credential_samples import KEY, redacted, taken

from dashcam.sdk.redaction import Redaction, Redactor

# As OpenAI takes it, with what pydantic writes into schemas.
LOGIN: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "login",
        "description": "Log in to a site and keep the session.",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "user": {"type": "string", "description": "Who logs in"},
                "password": {"type": "string", "description": "The password", "minLength": 8},
                "api_key": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Api Key"},
                "session_token": {"type": ["string", "null"]},
                "token": {"type": "string", "default": ""},
                "cookies": {"type": "array", "items": {"type": "object", "properties": {"cookie": {"type": "string"}}}},
                "credentials": {"$ref": "#/$defs/Credentials"},
                "secret": {"title": "Secret"},
                "private_key": {},
                "basic_auth": {"enum": ["on", "off"]},
            },
            "required": ["user", "password"],
            "additionalProperties": False,
            "$defs": {"Credentials": {"type": "object", "properties": {"client_secret": {"type": "string"}}}},
        },
    },
}


def test_a_catalog_of_tools_comes_out_as_it_is() -> None:
    fields = {"tools": [LOGIN, copy.deepcopy(LOGIN)], "model": "gpt-5"}
    before = copy.deepcopy(fields)
    clean, paths, replaced = Redactor(Redaction()).apply(fields)
    assert clean is fields
    assert fields == before
    assert (paths, replaced) == ([], [])


def test_a_schema_is_known_also_as_a_field_of_its_own_and_in_capitals() -> None:
    fields = {"properties": {"password": {"type": "STRING"}}, "schema": {"definitions": {"Secret": {"type": "object"}}}}
    assert Redactor(Redaction()).apply(fields) == (fields, [], [])


@pytest.mark.parametrize(
    "value",
    [
        *("tr0ub4dor", 4711, ["tr0ub4dor"], {"user": "ada", "pin": "4711"}, {"type": "service_account", "key": "x"}),
        *({"type": []}, {"type": [1]}, {"type": None, "pin": 1}, object()),
    ],
)
def test_what_is_no_schema_goes_from_among_properties_as_from_anywhere(value: object) -> None:
    assert redacted({"properties": {"password": value}}) == {"properties": {"password": "[REDACTED]"}}


def test_a_schema_elsewhere_goes_by_its_name() -> None:
    assert taken({"password": {"type": "string"}}) == ["password"]


@pytest.mark.parametrize("name", ["password", "token"])
def test_a_secret_that_a_schema_gives_goes_out_of_it(name: str) -> None:
    schema = {"type": "string", "default": "tr0ub4dor", "const": "", "description": f"such as {KEY}"}
    clean, paths, _ = Redactor(Redaction()).apply({"properties": {name: schema}})
    assert clean["properties"][name] == {**schema, "default": "[REDACTED]", "description": "such as [REDACTED]"}
    assert paths == [f"properties.{name}.description", f"properties.{name}.default"]
    assert schema["default"] == "tr0ub4dor"


def test_a_schema_below_the_last_level_is_cut_like_anything_else() -> None:
    deep: Any = {"properties": {"password": {"type": "string"}}}
    for _ in range(61):
        deep = [deep]
    clean, paths, replaced = Redactor(Redaction()).apply({"deep": deep})
    for _ in range(61):
        clean = clean["deep"] if isinstance(clean, dict) else clean[0]
    assert paths == []
    assert replaced == ["deep" + ".0" * 61 + ".properties.password"]
