"""A request is taken apart and put together again, to the letter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashcam.dialects.requests import put_together, take_apart

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("messages") | st.just('{"messages":[1]}'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.just("messages"), inner, max_size=3),
    max_leaves=12,
)


@given(
    before=st.dictionaries(st.text(), JSON, max_size=3),
    messages=st.lists(JSON, max_size=4),
    after=st.dictionaries(st.text(), JSON, max_size=3),
    indent=st.sampled_from([None, 0, 2]),
    escaped=st.booleans(),
)
def test_any_request_comes_back_and_its_messages_are_found(
    before: dict[str, Any], messages: list[Any], after: dict[str, Any], indent: int | None, escaped: bool
) -> None:
    request = {**before, "messages": messages, **{name: value for name, value in after.items() if name != "messages"}}
    raw = json.dumps(request, indent=indent, ensure_ascii=escaped).encode()
    parts = take_apart(raw)
    assert put_together(parts.envelope, parts.messages) == raw
    assert json.loads(parts.messages) == messages
    assert all(parts.settings[name] == value for name, value in request.items() if name in parts.settings)


@pytest.mark.parametrize(
    "member",
    [
        {"thinking": {"type": "enabled", "budget_tokens": 1000}},
        {"tool_choice": {"type": "function", "function": {"name": "messages"}}},
        {"response_format": {"type": "json_object"}},
        {"metadata": {"a": {"messages": [1]}}},
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_members_that_are_objects_are_no_hindrance(member: dict[str, Any], first: bool) -> None:
    messages = {"messages": [{"role": "user", "content": "hi"}]}
    raw = json.dumps({**member, **messages} if first else {**messages, **member}).encode()
    parts = take_apart(raw)
    assert json.loads(parts.messages) == messages["messages"]
    assert parts.settings == member


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"a":}', b"\xff", b"nul"])
def test_what_is_no_object_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|Expected|Input|trailing|UTF"):
        take_apart(raw)
