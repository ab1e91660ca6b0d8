"""Digests of what a model was sent, the shape that two runs are compared by, and links."""

from __future__ import annotations

import json
import random
import time
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashcam.contracts.content import (
    Link,
    apply_link,
    context_digest,
    digest_of,
    link,
    prefix_digests,
    shape_digest,
    shape_digests,
    shapes_of,
    slices_of,
)

# Few different messages, so that the same one stands in a list more than once.
lists = st.lists(st.integers(0, 5).map(lambda number: digest_of(bytes([number]))), max_size=30)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_a_content_is_known_by_the_sha256_of_its_bytes() -> None:
    assert digest_of(b"abc") == sha256(b"abc").digest()


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(json_values), st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")]))
def test_the_slices_of_an_array_rejoin_to_what_was_sent(messages: list[Any], separators: tuple[str, str]) -> None:
    raw = json.dumps(messages, separators=separators, ensure_ascii=False).encode()
    slices = slices_of(raw)
    assert slices is not None
    assert b"[" + b",".join(slices) + b"]" == raw
    assert [json.loads(one) for one in slices] == messages


def test_a_history_with_spaces_after_its_commas_is_not_one_content() -> None:
    sent = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    before, after = slices_of(json.dumps(sent[:1]).encode()), slices_of(json.dumps(sent).encode())
    assert before is not None
    assert after is not None
    assert len(after) == 2
    assert after[:1] == before


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b'"text"', b"[1", b"[1] ", b" [1]", b"[ ]", b"[1]x", b"\xff", b"[" * 100_000, b"[nope]"],
)
def test_what_would_not_rejoin_is_not_sliced(raw: bytes) -> None:
    assert slices_of(raw) is None


def test_slices_need_not_be_text() -> None:
    assert slices_of(b'["\xff",{}]') == [b'"\xff"', b"{}"]


@given(st.binary())
def test_slicing_any_bytes_gives_slices_that_rejoin_or_none(raw: bytes) -> None:
    slices = slices_of(raw)
    assert slices is None or b"[" + b",".join(slices) + b"]" == raw


def test_a_context_digest_is_a_rolling_hash() -> None:
    one, two = digest_of(b"1"), digest_of(b"2")
    nothing = sha256(b"dashcam.context.v1").digest()
    first = sha256(nothing + one).digest()
    second = sha256(first + two).digest()
    assert prefix_digests([]) == [nothing]
    assert prefix_digests([one, two]) == [nothing, first, second]
    assert context_digest([one, two]) == second


@given(lists, st.data())
def test_hashing_goes_on_from_any_prefix(messages: list[bytes], data: st.DataObject) -> None:
    prefixes = prefix_digests(messages)
    at = data.draw(st.integers(0, len(messages)))
    assert prefix_digests(messages[at:], prefixes[at]) == prefixes[at:]


@given(lists, lists)
def test_a_link_makes_the_child_out_of_the_parent(parent: list[bytes], child: list[bytes]) -> None:
    change = link(parent, child)
    assert apply_link(parent, change) == child
    assert change.head + change.tail + len(change.middle) == len(child)
    assert change.appended == 0 or change.tail


@given(lists, lists, lists, st.data())
def test_one_edit_and_new_messages_cost_no_more_than_what_is_new(
    parent: list[bytes], new: list[bytes], appended: list[bytes], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(parent)))
    end = data.draw(st.integers(start, len(parent)))
    child = parent[:start] + new + parent[end:] + appended
    assert len(link(parent, child).middle) <= len(new) + len(appended)


def _numbered(*numbers: int) -> list[bytes]:
    return [digest_of(b"%d" % number) for number in numbers]


def test_appending_holds_only_what_is_new() -> None:
    assert link(_numbered(1, 2), _numbered(1, 2, 3, 4)) == Link(2, 0, tuple(_numbered(3, 4)))


def test_rewinding_holds_nothing() -> None:
    assert link(_numbered(1, 2, 3, 4), _numbered(1, 2)) == Link(2, 0, ())


def test_a_sliding_window_holds_only_what_comes_in() -> None:
    assert link(_numbered(1, 2, 3, 4), _numbered(3, 4, 5)) == Link(0, 2, tuple(_numbered(5)), 1)
    assert link(_numbered(9, 2, 3, 4), _numbered(9, 4, 5)) == Link(1, 1, tuple(_numbered(5)), 1)


def test_pruning_an_old_output_while_going_on_holds_the_stub_and_what_is_new() -> None:
    assert link(_numbered(1, 2, 3, 4), _numbered(1, 8, 3, 4, 5, 6)) == Link(1, 2, tuple(_numbered(8, 5, 6)), 2)


def test_compaction_holds_the_summary_and_what_is_new() -> None:
    assert link(_numbered(1, 2, 3, 4, 5), _numbered(8, 4, 5, 6)) == Link(0, 2, tuple(_numbered(8, 6)), 1)


@pytest.mark.parametrize(
    "change", [Link(2, 0, ()), Link(1, 1, ()), Link(-1, 0, ()), Link(0, -1, ()), Link(0, 0, (), 1)]
)
def test_a_link_that_does_not_fit_is_refused(change: Link) -> None:
    with pytest.raises(ValueError, match="doesn't fit"):
        apply_link(_numbered(1), change)


def test_linking_long_lists_of_one_repeated_message_is_quick() -> None:
    same = _numbered(1) * 20_000
    started = time.perf_counter()
    assert len(link([*same, *_numbered(2)], [*_numbered(3), *same, *_numbered(2)]).middle) == 1
    assert time.perf_counter() - started < 2


def _openai(call: str, _noise: str) -> list[Any]:
    return [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": {"name": "w"}}]},
        {"role": "tool", "tool_call_id": call, "content": "21C"},
    ]


def _responses(call: str, noise: str) -> list[Any]:
    return [
        {"type": "reasoning", "id": f"rs_{noise}", "summary": [], "encrypted_content": noise},
        {"type": "function_call", "id": f"fc_{noise}", "call_id": call, "name": "w", "arguments": "{}"},
        {"type": "function_call_output", "call_id": call, "output": "21C"},
    ]


def _anthropic(call: str, noise: str) -> list[Any]:
    return [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": noise}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "w", "input": {}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": call,
                    "content": [{"type": "text", "text": "21C", "cache_control": {"type": noise}}],
                    "cache_control": {"type": noise},
                }
            ],
        },
    ]


def _otel(call: str, _noise: str) -> list[Any]:
    return [
        {"role": "assistant", "parts": [{"type": "tool_call", "id": call, "name": "w", "arguments": {}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": call, "response": "21C"}]},
    ]


def _ai_sdk(call: str, noise: str) -> list[Any]:
    part = {
        "type": "tool-w",
        "toolCallId": call,
        "input": {},
        "callProviderMetadata": {"openai": {"itemId": noise}},
    }
    return [
        {
            "id": noise,
            "role": "assistant",
            "parts": [part, {"type": "text", "providerMetadata": {"x": noise}}],
        },
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": call, "output": {"type": "text"}}],
        },
        {"role": "user", "content": "go on", "providerOptions": {"anthropic": {"cacheControl": noise}}},
    ]


def _gemini(call: str, noise: str) -> list[Any]:
    return [
        {"role": "model", "parts": [{"functionCall": {"id": call, "name": "w"}, "thoughtSignature": noise}]},
        {"role": "user", "parts": [{"functionResponse": {"id": call, "response": {"output": "21C"}}}]},
    ]


DIALECTS = [_openai, _responses, _anthropic, _otel, _ai_sdk, _gemini]


def _run(dialect: Any, seed: int, other_order: bool = False) -> list[bytes]:
    """Two rounds in this dialect, with random ids and with keys in either order."""
    rolled = random.Random(seed)
    rounds = [dialect(f"call_{rolled.random()}", f"noise_{rolled.random()}") for _ in range(2)]
    return [json.dumps(message, sort_keys=other_order).encode() for messages in rounds for message in messages]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_two_runs_with_random_ids_have_one_shape(dialect: Any) -> None:
    one, other = _run(dialect, 1), _run(dialect, 2, other_order=True)
    assert [digest_of(message) for message in one] != [digest_of(message) for message in other]
    assert shapes_of(one) == shapes_of(other)
    assert shape_digest(one) == shape_digest(other)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_to_another_call_is_another_shape(dialect: Any) -> None:
    first, second = dialect("call_a", "noise"), dialect("call_b", "noise")
    straight = [json.dumps(message).encode() for message in (*first, *second)]
    crossed = [json.dumps(message).encode() for message in (*first, *first[:-1], second[-1])]
    if dialect is not _ai_sdk:  # there the last message answers nothing
        assert shape_digests(straight) != shape_digests(crossed)


def test_what_a_tool_was_told_and_said_stays_in_the_shape() -> None:
    for key in ("input", "arguments", "output", "response"):
        one, other = (
            b'{"role":"assistant","content":[{"type":"tool_use","id":"x","%s":{"id":"%d","signature":"%d"}}]}'
            % (key.encode(), number, number)
            for number in (1, 2)
        )
        assert shape_digest([one]) != shape_digest([other])


def test_a_document_is_not_a_tool_call() -> None:
    one, other = (b'{"role":"user","content":[{"type":"document","id":"%d"}]}' % number for number in (1, 2))
    assert shape_digest([one]) != shape_digest([other])


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.binary() | json_values.map(lambda value: json.dumps(value).encode())))
def test_anything_has_a_shape(messages: list[bytes]) -> None:
    assert len(shapes_of(messages)) == len(shape_digests(messages)) == len(messages)


def test_what_is_not_json_is_its_own_shape() -> None:
    assert shapes_of([b"\xff", b"{", b"[" * 100_000]) == [b"\xff", b"{", b"[" * 100_000]


def test_numbers_keep_their_kind_in_a_shape() -> None:
    assert shapes_of([b'{"b":1.0,"a":123456789012345678901234567890}']) == [
        b'{"a":123456789012345678901234567890,"b":1.0}'
    ]


def test_two_runs_of_pydantic_ai_have_one_shape() -> None:
    """Times, run ids and what was billed are of the run, not of what was said."""

    def run(stamp: str, call: str, tokens: int) -> list[bytes]:
        asked = {"part_kind": "user-prompt", "content": "hi", "timestamp": stamp}
        called = {"part_kind": "tool-call", "tool_name": "look", "args": {"at": 1}, "tool_call_id": call}
        answer = {"kind": "response", "parts": [called], "usage": {"input_tokens": tokens}, "timestamp": stamp}
        result = {"part_kind": "tool-return", "tool_call_id": call, "content": "7", "timestamp": stamp}
        messages = [
            {"kind": "request", "parts": [asked], "run_id": stamp},
            answer,
            {"kind": "request", "parts": [result]},
        ]
        return [json.dumps(message).encode() for message in messages]

    assert shapes_of(run("2026-01-01", "a1", 5)) == shapes_of(run("2026-01-02", "b2", 6))
    tool = b'{"role":"tool","content":[{"output":{"timestamp":%d}}]}'
    assert shapes_of([tool % 1]) != shapes_of([tool % 2])
