"""Large values go to contents, each once, and come back to the letter."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from dashcam.contracts.content import context_digest, digest_of
from dashcam.dialects.otlp.offload import LIMIT, Taken, put_back, take_out
from dashcam.errors import ContentNotFound
from dashcam.store.base import Batch, Context
from dashcam.store.sqlite.store import SqliteStore


class Shelf:
    """Contents and contexts by digest, as a store keeps them."""

    def __init__(self, *taken: Taken) -> None:
        self.contents = {digest_of(body): body for each in taken for body in each.contents}
        self.contexts = {context_digest(digests): list(digests) for each in taken for digests in each.contexts}

    def bodies(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        return {digest: self.contents[digest] for digest in digests if digest in self.contents}

    def context(self, digest: bytes) -> list[bytes]:
        return self.contexts[digest]


def copied(message: Any) -> Any:
    other = type(message)()
    other.CopyFrom(message)
    return other


def there_and_back(message: Any) -> Taken:
    """What is taken out of a message, once it is sure that it comes back to the letter."""
    before, rest = message.SerializeToString(), copied(message)
    taken = take_out(rest)
    stored = type(message).FromString(rest.SerializeToString())
    shelf = Shelf(taken)
    put_back(stored, taken.refs, shelf.bodies, shelf.context)
    assert stored.SerializeToString() == before
    return taken


def with_value(value: AnyValue) -> Span:
    span = Span()
    span.attributes.add(key="before").value.int_value = 1
    span.attributes.add(key="large", value=value)
    span.attributes.add(key="after").value.string_value = "x"
    return span


def message(number: int) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": f"message {number} " + "says something " * 8}]}


HISTORY = [message(number) for number in range(60)]
REQUEST = {"model": "m", "messages": HISTORY, "tools": [{"name": "t"}]}


@pytest.mark.parametrize(
    ("text", "form", "pieces"),
    [
        (json.dumps(HISTORY), "list", 60),
        (json.dumps(HISTORY, separators=(",", ":")), "list", 60),
        (json.dumps(HISTORY, indent=1), "list", 60),
        (json.dumps(REQUEST), "request", 60),
        (json.dumps({"input": HISTORY, "z": "\u20ac"}, ensure_ascii=False), "request", 60),
        (json.dumps({"messages": [HISTORY]}), "request", 60),
        ("plain text \u20ac " * 500, "text", 0),
        (str(HISTORY), "text", 0),  # Python's own writing is no JSON
        ("[" + "1.5, " * 2000 + "1]", "text", 0),  # a vector costs more in pieces
        (json.dumps({"messages": 5, "x": "y" * 3000}), "text", 0),
        ("[" * 5000, "text", 0),
        ('{"messages": ' + "[" * 5000, "text", 0),
        (' {"messages": []} ' + "x" * 3000, "text", 0),
    ],
)
def test_a_text_is_taken_apart_as_far_as_it_can_be_rejoined(text: str, form: str, pieces: int) -> None:
    taken = there_and_back(with_value(AnyValue(string_value=text)))
    assert [ref.form for ref in taken.refs] == [form]
    assert [ref.place for ref in taken.refs] == [(9, 1)]
    assert sum(map(len, taken.contexts)) == pieces


def _array(items: Iterable[AnyValue]) -> AnyValue:
    value = AnyValue()
    value.array_value.values.extend(items)
    return value


UNKNOWN = b"\xc2\x3e\x03abc"  # a field that no version of ours knows


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (_array(AnyValue(string_value=json.dumps(each)) for each in HISTORY), "array"),
        (_array(AnyValue(int_value=number) for number in range(2000)), "value"),
        (AnyValue(bytes_value=b"\xff" * 3000), "value"),
        (AnyValue.FromString(AnyValue(string_value="x" * 3000).SerializeToString() + UNKNOWN), "value"),
        (AnyValue.FromString(_array([AnyValue(string_value="x" * 3000)]).SerializeToString() + UNKNOWN), "value"),
    ],
)
def test_a_value_of_another_kind_is_kept_as_far_apart_as_it_comes_back(value: AnyValue, form: str) -> None:
    assert [ref.form for ref in there_and_back(with_value(value)).refs] == [form]


def test_values_at_the_limit_stay_and_small_ones_beside_large_ones_too() -> None:
    span = Span()
    size = LIMIT - 3  # of the text; its tag and its length make up the rest
    span.attributes.add(key="fits").value.string_value = "x" * size
    span.attributes.add(key="does not").value.string_value = "x" * (size + 1)
    assert [ref.place for ref in there_and_back(span).refs] == [(9, 1)]


def test_events_and_log_records_are_looked_through_too() -> None:
    span = Span()
    span.events.add(name="small").attributes.add(key="a").value.string_value = "x"
    event = span.events.add(name="gen_ai.choice")
    event.attributes.add(key="llm.prompts.0.x").value.string_value = "x" * 3000
    event.attributes.add(key="b").value.string_value = json.dumps(HISTORY)
    assert [ref.place for ref in there_and_back(span).refs] == [(11, 1, 3, 0), (11, 1, 3, 1)]
    record = LogRecord()
    record.body.string_value = "x" * 3000
    record.attributes.add(key="gen_ai.input.messages").value.string_value = json.dumps(HISTORY)
    assert sorted(ref.place for ref in there_and_back(record).refs) == [(5,), (6, 0)]


# Lists that are spread over attributes


def spread(count: int, prefix: str = "llm.input_messages") -> list[KeyValue]:
    pairs = []
    for number in range(count):
        pairs.append((f"{prefix}.{number}.message.role", "user"))
        pairs.append((f"{prefix}.{number}.message.content", f"message {number} " + "says something " * 8))
    return [KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in pairs]


def test_spread_lists_are_kept_one_content_a_message_and_put_back_in_their_order() -> None:
    span = Span()
    span.attributes.add(key="first").value.string_value = "x" * 3000
    span.attributes.extend(spread(30))
    span.attributes.add(key="between").value.string_value = "y" * 3000
    span.attributes.extend(spread(30, "llm.output_messages"))
    span.attributes.extend(spread(30, "gen_ai.prompt"))
    span.attributes.extend(spread(1, "llm.tools"))
    span.attributes.extend(spread(30))
    span.attributes.add(key="last").value.string_value = "z" * 3000
    taken = there_and_back(span)
    assert sorted((ref.place[1], ref.form) for ref in taken.refs) == [
        (0, "text"), (1, "spread"), (61, "text"), (62, "spread"), (122, "spread"), (184, "spread"), (244, "text"),
    ]  # fmt: skip
    assert list(map(len, taken.contexts)) == [30, 30, 30, 30]


keys = st.sampled_from(
    [
        "a",
        "llm.input_messages.0.r",
        "llm.input_messages.1.r",
        "llm.input_messages.x",
        "llm.tools.0.s",
        "gen_ai.prompt.7.c",
    ]
)
sizes = st.sampled_from([0, 1, 700, 2500])


@given(st.lists(st.tuples(keys, sizes), max_size=12), st.lists(st.tuples(keys, sizes), max_size=3))
def test_whatever_the_order_of_attributes_they_come_back_in_it(
    pairs: list[tuple[str, int]], event: list[tuple[str, int]]
) -> None:
    def told(pairs: list[tuple[str, int]]) -> list[KeyValue]:
        return [
            KeyValue(key=key, value=AnyValue(string_value=f"{at}" + "x" * size)) for at, (key, size) in enumerate(pairs)
        ]

    span = Span(attributes=told(pairs))
    span.events.add(attributes=told(event))
    there_and_back(span)
    there_and_back(LogRecord(attributes=told(pairs)))


# What an agent's loop costs


def as_json(history: list[dict[str, Any]]) -> Span:
    return with_value(AnyValue(string_value=json.dumps(history)))


def as_request(history: list[dict[str, Any]]) -> Span:
    return with_value(AnyValue(string_value=json.dumps({"model": "m", "messages": history})))


def as_array(history: list[dict[str, Any]]) -> Span:
    return with_value(_array(AnyValue(string_value=json.dumps(each)) for each in history))


def as_spread(history: list[dict[str, Any]]) -> Span:
    return Span(attributes=spread(len(history)))


@pytest.mark.parametrize("told", [as_json, as_request, as_array, as_spread])
def test_a_history_that_grows_by_a_message_a_span_costs_only_what_is_new(told: Any) -> None:
    kept: dict[bytes, bytes] = {}
    rest = 0
    for length in range(200, 250):
        span = told([message(number) for number in range(length)])
        taken = take_out(span)
        rest += len(span.SerializeToString())
        kept |= {digest_of(body): body for body in taken.contents}
    once = len(told([message(number) for number in range(249)]).SerializeToString())
    assert sum(map(len, kept.values())) < 1.1 * once
    assert rest < 50 * 100


def test_contents_come_back_out_of_a_real_store(store: SqliteStore) -> None:
    span = Span(attributes=[*as_request(HISTORY).attributes, *spread(40)])
    before = span.SerializeToString()
    taken = take_out(span)
    store.append(Batch(contents=taken.contents, contexts=list(map(Context, taken.contexts))))
    put_back(span, taken.refs, store.bodies, store.context)
    assert span.SerializeToString() == before


def test_a_content_that_is_gone_is_named() -> None:
    span = as_json(HISTORY)
    taken = take_out(span)
    shelf = Shelf(taken)
    gone, _ = shelf.contents.popitem()
    with pytest.raises(ContentNotFound, match=gone.hex()):
        put_back(span, taken.refs, shelf.bodies, shelf.context)
