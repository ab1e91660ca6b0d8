"""What the model saw: contexts beside each other, the prompt cache, the exact request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chats import Chat, said
from hypothesis import given
from hypothesis import strategies as st

from dashcam.errors import ContentNotFound
from dashcam.record.prices import ModelPrices
from dashcam.store.sqlite.store import SqliteStore
from dashcam.views import context
from dashcam.views.changes import (
    Change,
    Fill,
    Sent,
    cache_of,
    catalog_change,
    change_of,
    fill_of,
    prompt_change,
)
from dashcam.views.context import TurnView, request_of

PRICES = ModelPrices(input=3e-6, output=15e-6, cache_read=3e-7, context_window=200_000)
A, B, C, D, X = (bytes([number]) * 32 for number in range(5))
SECOND = 1_000_000


def sent(messages: list[bytes], **given: Any) -> Sent:
    """A request of 1,000 bytes a message, a prompt of 2,000 and a catalog of 1,000; a token is a byte."""
    told = {"ts": 0, "model": "m", "catalog_digest": "c", "prompt_digest": "p", "catalog_size": 1_000}
    told |= {"prompt_size": 2_000, "messages": messages, "sizes": [1_000] * len(messages)}
    told["messages_size"] = 1_000 * len(messages)
    return Sent(**{**told, "tokens": 3_000 + 1_000 * len(messages), **given})


def test_a_fill_is_what_was_reported_or_an_estimate_that_says_so() -> None:
    assert fill_of(50_000, 9, 200_000) == Fill(tokens=50_000, estimated=False, window=200_000)
    assert fill_of(50_000, 9, 200_000).share == 0.25
    assert fill_of(None, 4_000, None) == Fill(tokens=1_000, estimated=True)
    assert fill_of(None, 4_000, None).share is None


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ([A, B], [A, B], Change(kept=2)),
        ([A, B], [A, B, C, D], Change(kept=2, appended=2)),
        ([], [A], Change(kept=0, appended=1)),
        ([A, B, C], [B, C, D], Change(kept=2, appended=1, dropped_head=1, at=0)),
        ([A, B, C], [A, X, C, D], Change(kept=2, appended=1, replaced=1, by=1, at=1)),
        ([A, B, C, D], [X, D], Change(kept=1, replaced=3, by=1, at=0)),
        ([A, B, C], [X, D], Change(kept=0, replaced=3, by=2, at=0)),
        ([A, B, C], [], Change(kept=0, rewound=3, at=0)),
        ([A, B, C], [A], Change(kept=1, rewound=2, at=1)),
        ([A, B, C], [A, X, D], Change(kept=1, appended=2, rewound=2, at=1)),
    ],
)
def test_what_became_of_the_messages_is_counted(before: list[bytes], now: list[bytes], change: Change) -> None:
    assert change_of(before, now) == change


@given(*[st.lists(st.sampled_from([A, B, C, D]), max_size=12)] * 2)
def test_every_message_is_kept_taken_out_or_put_in(before: list[bytes], now: list[bytes]) -> None:
    change = change_of(before, now)
    assert change.kept + change.dropped_head + change.replaced + change.rewound == len(before)
    assert change.kept + change.appended + change.by == len(now)


@pytest.mark.parametrize(
    ("now", "reason", "could_serve", "lost"),
    [
        (sent([A, B, C]), "none", 5_000, 0),
        (sent([A, B, C], catalog_digest="other"), "catalog", 5_000, 5_000),
        (sent([A, B, C], prompt_digest="other"), "prompt", 5_000, 4_000),
        (sent([A, B, C], model="other"), "model", 5_000, 5_000),
        (sent([X, B, C]), "message", 5_000, 2_000),
        (sent([B, C]), "message", 4_000, 1_000),
        (sent([A, B, C], ts=301 * SECOND), "expired", 5_000, 5_000),
        (sent([A, B, C], ts=299 * SECOND), "none", 5_000, 0),
        (sent([A, X]), "none", 4_000, 0),  # a rewind: nothing behind it is sent again
        (sent([X, C]), "none", 3_000, 0),  # all of it is new
        (sent([A, B, C], cache_read=0), "unserved", 5_000, 5_000),
        (sent([A, B, C], cache_read=5_000), "none", 5_000, 0),
        (sent([A, B, C], ts=301 * SECOND, cache_read=5_000), "none", 5_000, 0),  # it was kept longer
        (sent([A, B, C], prompt_digest="other", cache_read=2_500), "prompt", 5_000, 2_500),
    ],
)
def test_the_cache_is_lost_from_the_first_change_on(now: Sent, reason: str, could_serve: int, lost: int) -> None:
    cache = cache_of(sent([A, B]), now, PRICES)
    assert (cache.reason, cache.could_serve, cache.lost) == (reason, could_serve, lost)
    assert cache.lost_usd == pytest.approx(lost * 2.7e-6)
    assert cache.share == pytest.approx(could_serve / now.size)


def test_the_age_of_the_cache_can_be_told_otherwise_and_prices_may_be_unknown() -> None:
    now = sent([A, B, C], ts=301 * SECOND)
    assert cache_of(sent([A, B]), now, max_age_s=3_600).reason == "none"
    assert cache_of(sent([A, B]), now).lost_usd is None
    assert cache_of(sent([A, B]), now, ModelPrices(input=1e-6)).lost_usd is None


def test_tokens_are_shares_of_those_reported_else_of_the_bytes() -> None:
    assert cache_of(sent([A]), sent([A, B], tokens=500)).could_serve == 400
    assert cache_of(sent([A]), sent([A, B], tokens=None)).could_serve == 1_000
    empty = Sent(ts=0, messages=[], sizes=[], messages_size=0, tokens=7)
    assert cache_of(empty, empty).could_serve == 0


@given(*[st.lists(st.sampled_from([A, B, C, D]), max_size=8)] * 2, st.none() | st.integers(0, 20_000))
def test_no_more_is_lost_than_could_be_served(before: list[bytes], now: list[bytes], cache_read: int | None) -> None:
    cache = cache_of(sent(before), sent(now, cache_read=cache_read), PRICES)
    assert 0 <= cache.lost <= cache.could_serve <= 3_000 + 1_000 * len(now)
    assert (cache.reason == "none") == (cache.lost == 0)


def test_a_prompt_change_names_the_first_line_that_differs() -> None:
    change = prompt_change("You are kind.\nIt is 12:00.\nBye.", "You are kind.\nIt is 12:01.\nBye.")
    assert change
    assert (change.line, change.before, change.after) == (2, "It is 12:00.", "It is 12:01.")
    assert change.diff.splitlines()[:2] == ["--- before", "+++ after"]
    assert "-It is 12:00.\n+It is 12:01." in change.diff
    longer = prompt_change("a", "a\nb")
    assert longer
    assert (longer.line, longer.before, longer.after) == (2, "", "b")
    assert prompt_change("a", "a") is None


def test_a_catalog_change_tells_tools_that_came_went_changed_and_moved() -> None:
    def catalog(**tools: int) -> str:
        return json.dumps([{"name": name, "v": version} for name, version in tools.items()])

    change = catalog_change(catalog(a=1, b=1, c=1, d=1), catalog(d=1, b=2, a=1, e=1))
    assert change
    assert (change.added, change.removed, change.changed, change.reordered) == (["e"], ["c"], ["b"], True)
    spaced = catalog_change('[{"name":"a"}]', '[ {"name":"a"}]')
    assert spaced
    assert (spaced.added, spaced.removed, spaced.changed, spaced.reordered) == ([], [], [], False)
    assert catalog_change(catalog(a=1), catalog(a=1)) is None


@pytest.fixture
def views(store: SqliteStore) -> list[TurnView]:
    """Three turns: the second asks with a new prompt and catalog, the third folds the beginning."""
    chat = Chat()
    history = [said("user", "hello " * 200)]
    chat.user("hello")
    chat.call(chat.assistant("hi"), list(history), prompt="It is 12:00.", catalog='[{"name":"a"}]', input_tokens=1_000)
    history += [said("assistant", "hi"), said("user", "more")]
    chat.user("more")
    answer = chat.assistant("yes")
    chat.call(
        answer, list(history), prompt="It is 12:01.", catalog='[{"name":"a"},{"name":"b"}]',
        input_tokens=1_500, cache_read=0, cache_write=500,
    )  # fmt: skip
    history += [said("assistant", "yes")]
    chat.call(answer, list(history), prompt="It is 12:01.", catalog='[{"name":"a"},{"name":"b"}]')
    chat.user("fold")
    folded = [said("user", "in short"), *history[2:], said("user", "fold")]
    chat.call(chat.assistant("done"), folded, prompt="It is 12:01.", catalog='[{"name":"a"},{"name":"b"}]')
    chat.user("no answer")
    chat.keep(store)
    return list(context.load(store, "s"))


def test_each_call_is_seen_beside_the_one_before_it(views: list[TurnView], store: SqliteStore) -> None:
    first, second, third, fourth = views
    assert (first.prompt, first.catalog, first.calls[0].cache, first.calls[0].change) == (None, None, None, None)
    assert first.calls[0].fill
    assert (first.calls[0].fill.tokens, first.calls[0].fill.estimated) == (1_000, False)
    assert (first.calls[0].fill.window or 0) >= 200_000
    assert second.prompt
    assert (second.prompt.before, second.prompt.after) == ("It is 12:00.", "It is 12:01.")
    assert second.catalog
    assert second.catalog.added == ["b"]
    cache = second.calls[0].cache
    assert cache
    assert cache.reason == "catalog"
    assert cache.lost == cache.could_serve > 1_500
    assert cache.lost_usd
    assert second.calls[0].fill
    assert second.calls[0].fill.tokens == 2_000
    again = second.calls[1]
    assert again.change == Change(kept=3, appended=1)
    assert (again.prompt, again.cache and again.cache.reason) == (None, "none")
    assert again.fill
    assert again.fill.estimated
    assert third.calls[0].change == Change(kept=2, replaced=2, by=1, appended=1, at=0)
    assert fourth.calls == []
    assert context.load_turn(store, "s", 2) == second
    assert context.load_turn(store, "s", 1) == first


def test_without_recorded_calls_the_digests_of_the_messages_tell_what_changed(store: SqliteStore) -> None:
    chat = Chat()
    made = [chat.call("nobody", [b"1"], prompt=prompt) for prompt in ("a", "b")]
    chat.calls = []
    for call in made:
        chat.user("q")
        chat.assistant("a", system_prompt_digest=call.system_prompt_digest)
    chat.user("q")
    chat.keep(store)
    first, second, third = context.load(store, "s")
    assert (first.prompt, third.prompt) == (None, None)
    assert second.prompt
    assert (second.prompt.before, second.prompt.after) == ("a", "b")


def test_a_call_whose_context_is_not_there_is_shown_by_its_counts(store: SqliteStore) -> None:
    chat = Chat()
    chat.user("q")
    answer = chat.assistant("a")
    chat.call(answer, [b"1"], context_digest=None, input_tokens=5, cache_read=6)
    chat.call(answer, [b"1"], context_digest="no hex", system_prompt_digest="0" * 64)
    chat.keep(store)
    (view,) = context.load(store, "s")
    assert [call.fill and call.fill.tokens for call in view.calls] == [11, None]
    assert [call.cache for call in view.calls] == [None, None]


def test_a_prompt_among_the_messages_counts_once(store: SqliteStore) -> None:
    chat = Chat()
    history = [said("system", "Be kind. " * 100), said("user", "hi")]
    for number in range(2):
        chat.user("q")
        chat.call(chat.assistant("a"), history[: number + 1], prompt="Be kind. " * 100)
    chat.keep(store)
    last = list(context.load(store, "s"))[-1].calls[0]
    assert last.fill
    assert last.fill.tokens == sum(map(len, history)) // 4


def test_the_request_is_rebuilt_byte_for_byte(store: SqliteStore) -> None:
    chat = Chat()
    messages = [b'{"role": "user",\t"content":"\\u00e9"}', b' {"b":1,  "a":2.50}', b'{"role":"user"}']
    catalog = '[ {"name" : "a"} ]'
    call = chat.call("m", messages, prompt='Say "hi"\n', catalog=catalog, settings='{ "temperature":0.20, "n":1 }')
    chat.keep(store)
    expected = (
        b'{"model":"claude-sonnet-4-5","temperature":0.20, "n":1,"system":"Say \\"hi\\"\\n","tools":'
        + catalog.encode()
        + b',"messages":['
        + b",".join(messages)
        + b"]}"
    )
    assert request_of(store, call) == expected
    assert json.loads(expected)["messages"][1] == {"b": 1, "a": 2.5}


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        (b'{"role":"system","content":"p"}', "{}"),
        (b'{"role":"developer","content":"p"}', "{}"),
        (b'{"kind":"request","parts":[{"part_kind":"system-prompt","content":"p"}]}', "{}"),
        (b'{"kind":"request","parts":[],"instructions":"p"}', "{}"),
    ],
)
def test_a_prompt_that_the_messages_hold_is_not_repeated(store: SqliteStore, message: bytes, settings: str) -> None:
    chat = Chat()
    call = chat.call("m", [message], prompt="p", settings=settings)
    chat.keep(store)
    assert "system" not in json.loads(request_of(store, call))


def test_a_notice_of_the_host_is_no_system_prompt(store: SqliteStore) -> None:
    chat = Chat()
    call = chat.call("m", [said("system", "The user has changed."), b"\xff system"], prompt="Be kind.")
    chat.keep(store)
    assert request_of(store, call).startswith(b'{"model":"claude-sonnet-4-5","system":"Be kind.","messages":[{')


def test_the_providers_own_form_of_model_and_system_stands_alone(store: SqliteStore) -> None:
    chat = Chat()
    settings = {"model": "claude@2025", "system": [{"type": "text", "text": "p"}]}
    call = chat.call("m", [], prompt="p", settings=json.dumps(settings))
    chat.keep(store)
    assert json.loads(request_of(store, call)) == {**settings, "messages": []}
    assert request_of(store, call).count(b'"system"') == 1


def test_a_request_of_which_nothing_was_recorded_is_the_model_alone(store: SqliteStore) -> None:
    chat = Chat()
    bare = chat.call("m", [], context_digest=None, settings="broken")
    lost = chat.call("m", [], system_prompt_digest="0" * 64)
    chat.keep(store)
    assert request_of(store, bare) == b'{"model":"claude-sonnet-4-5"}'
    with pytest.raises(ContentNotFound):
        request_of(store, lost)
