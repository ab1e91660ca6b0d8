"""Two sessions beside each other."""

from __future__ import annotations

import json
import os
import tempfile
import time
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chats import MODEL, Chat, said, text, tool
from hypothesis import given, settings
from hypothesis import strategies as st

import dashcam
from dashcam.contracts.content import Link, LinkedContext, context_digest, digest_of, prefix_digests, shape_digest
from dashcam.errors import NotFound, SessionNotFound
from dashcam.record.refresh import open_current
from dashcam.sdk import emit
from dashcam.sdk.settings import settings_from
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteReader, SqliteStore
from dashcam.views import diff
from dashcam.views.diff import Delta, SessionDiff, Sides, ToolCall, tool_diffs
from dashcam.views.words import Piece, text_diff, unified

PROMPT = "Be brief.\nBe kind."
TOOLS = [{"name": "lookup"}, {"name": "refund"}]


def told(found: SessionDiff) -> list[list[str]]:
    """What differs in each turn, but for what no two runs have in common."""
    return [each.changed for each in found.turns]


def both(store: SqliteStore, a: Chat, b: Chat) -> SessionDiff:
    a.keep(store)
    b.keep(store)
    return diff.load(store, a.session_id, b.session_id)


def chats() -> tuple[Chat, Chat]:
    return Chat("a", "ta"), Chat("b", "tb")


def side(pieces: list[Piece] | None, kind: str) -> str:
    return "".join(piece.text for piece in pieces or () if piece.kind in ("same", kind))


def record(data: Path, *sessions: tuple[str, dict[str, Any]]) -> SqliteReader:
    """Sessions as an agent records them: a greeting, then a question that a tool call answers, then thanks."""
    dashcam.configure(data=data)
    for session_id, changed in sessions:
        options = {"system_prompt": PROMPT, "tools": TOOLS, "model": "anthropic:claude-sonnet-4-5", **changed}
        order, answer = options.pop("order", 7), options.pop("answer", "It is on its way.")
        with dashcam.record_session(session_id, agent="shop", **options) as chat:
            chat.user("Hello!")
            chat.assistant("Hello, how can I help?", usage={"input": 100, "output": 7})
            chat.user("Where is my order?")
            call = chat.tool_call("lookup", {"order": order})
            chat.tool_result(call, {"state": "shipped"})
            chat.assistant(answer, usage={"input": 150, "output": len(answer)})
            chat.user("Thanks!")
            chat.assistant("You are welcome.", usage={"input": 200, "output": 5})
    ours = emit.use_recorder(None)
    assert ours
    ours.close()
    return open_current(settings_from(os.environ, data=data))


def test_two_runs_that_differ_in_random_ids_alone_are_the_same(data: Path) -> None:
    with record(data, ("a", {}), ("b", {})) as store:
        calls = [[call.context_digest for call in store.model_calls(session_id=each)] for each in "ab"]
        found = diff.load(store, "a", "b")
    assert calls[0] != calls[1], "the ids of the tool calls are no longer random: this test shows nothing"
    assert (found.diverged_at, found.message, told(found)) == (None, None, [[], [], []])
    assert found.turns[1].tokens["input"] == Delta(150, 150, 0)


def test_a_session_is_the_same_as_itself(data: Path) -> None:
    with record(data, ("a", {})) as store:
        assert told(diff.load(store, "a", "a")) == [[], [], []]


def test_another_tool_input_is_where_they_diverge(data: Path) -> None:
    with record(data, ("a", {}), ("b", {"order": 8})) as store:
        found = diff.load(store, "a", "b")
    assert (found.diverged_at, told(found)) == (2, [[], ["tools"], []])
    (call,) = found.turns[1].tools
    assert call.changed == ["input"]
    assert call.a and call.b
    assert (call.a.input, call.b.input, call.b.output) == ({"order": 7}, {"order": 8}, {"state": "shipped"})
    message = found.message
    assert message
    assert (message.turn, message.call, message.index) == (2, 2, 3)
    assert [each["content"][0]["input"] for each in (message.a, message.b)] == [{"order": 7}, {"order": 8}]


def test_another_answer_is_told_word_by_word(data: Path) -> None:
    with record(data, ("a", {}), ("b", {"answer": "It is still here."})) as store:
        found = diff.load(store, "a", "b")
    assert found.diverged_at == 2
    turn = found.turns[1]
    assert (turn.changed, turn.tokens["output"]) == (["output"], Delta(17, 17, 0))
    assert turn.output == [
        Piece("same", "It is "),
        Piece("a", "on its way"),
        Piece("b", "still here"),
        Piece("same", "."),
    ]
    assert found.message
    assert (found.message.turn, found.message.index) == (3, 5), "the answer is seen in the context of the next turn"


def test_another_prompt_model_and_catalog_are_told_once_and_then_as_repeated(data: Path) -> None:
    changed = {
        "system_prompt": "Be brief.\nBe rude.",
        "tools": [{"name": "lookup", "x": 1}],
        "model": "openai:gpt-5",
        "settings": {"temperature": 1},
    }
    with record(data, ("a", {}), ("b", changed)) as store:
        found = diff.load(store, "a", "b")
    first, second, third = found.turns
    setup = ["model", "settings", "system_prompt", "tool_catalog"]
    assert found.diverged_at == 1
    assert [name for name in first.changed if name != "cost"] == setup
    assert (first.repeated, second.repeated, third.repeated) == ([], setup, setup)
    assert first.system_prompt and second.system_prompt
    assert first.system_prompt.diff == "@@ -1,2 +1,2 @@\n Be brief.\n-Be kind.\n+Be rude."
    assert (second.system_prompt.diff, second.system_prompt.a) == (None, first.system_prompt.a)
    assert first.tool_catalog and first.tool_catalog.change
    assert (first.tool_catalog.change.removed, first.tool_catalog.change.changed) == (["refund"], ["lookup"])
    assert first.settings == {"temperature": Sides(None, 1)}
    assert first.is_new
    assert not second.is_new
    assert second.differs


def test_the_first_message_that_differs_is_found_under_another_prompt_too(data: Path) -> None:
    changed = {"system_prompt": "Be rude.", "answer": "It is still here."}
    with record(data, ("a", {}), ("b", changed)) as store:
        found = diff.load(store, "a", "b")
    assert (found.diverged_at, told(found)[1:]) == (1, [["output", "system_prompt"], ["system_prompt"]])
    assert found.message
    assert (found.message.turn, found.message.index) == (3, 5)


def test_turns_that_only_one_has_are_missing_in_the_other(store: SqliteStore) -> None:
    a, b = chats()
    for chat, turns in ((a, 2), (b, 4)):
        for number in range(turns):
            chat.user(f"q{number}")
            chat.assistant(f"r{number}", tool("search", f"{chat.session_id}{number}", input={}))
    found = both(store, a, b)
    assert (found.diverged_at, told(found)) == (3, [[], [], ["missing"], ["missing"]])
    assert (found.turns[2].missing_in, found.turns[2].output, len(found.turns[2].tools)) == (
        "a",
        [Piece("b", "r2")],
        1,
    )
    assert [each.is_new for each in found.turns] == [False, False, True, False]
    assert diff.load(store, "b", "a").turns[2].missing_in == "b"


def test_a_context_that_nothing_said_explains_is_told(store: SqliteStore) -> None:
    """Something was put before the model that is no message of the chat: a memory, a pruned output."""
    a, b = chats()
    for chat, memory in ((a, "likes tea"), (b, "likes coffee")):
        sent: list[bytes] = []
        for number in range(3):
            chat.user("hm")
            sent += [said("user", memory if number == 1 else "hm")]
            chat.call(chat.assistant("yes"), sent)
            sent = [*sent, said("assistant", "yes")]
    found = both(store, a, b)
    assert (found.diverged_at, told(found)) == (2, [[], ["context"], []])
    assert found.message
    assert (found.message.turn, found.message.index) == (2, 2)
    assert (found.message.a, found.message.b) == (
        {"role": "user", "content": "likes tea"},
        {"role": "user", "content": "likes coffee"},
    )


def test_the_first_message_is_looked_for_beyond_turns_without_model_calls(store: SqliteStore) -> None:
    a, b = chats()
    for chat in (a, b):
        sent: list[bytes] = []
        for number in range(3):
            chat.user("hm")
            answer = chat.session_id if number == 0 else "yes"
            message_id = chat.assistant(answer)
            sent = [*sent, said("user", "hm")]
            if number != 1:
                chat.call(message_id, sent)
            sent.append(said("assistant", answer))
    found = both(store, a, b)
    assert found.message
    assert (found.diverged_at, found.message.turn, found.message.index) == (1, 3, 1)


def test_a_context_that_ends_earlier_differs(store: SqliteStore) -> None:
    a, b = chats()
    for chat in (a, b):
        chat.user("hm")
        chat.call(chat.assistant("yes"), [said("user", "hm"), said("user", "and more")][: 2 if chat is a else 1])
    found = both(store, a, b)
    assert found.message
    assert (found.diverged_at, found.message.index, found.message.b) == (1, 1, None)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"stop_reason": "length"}, "stop_reason"),
        ({"error": "overloaded"}, "error"),
        ({"agent": "other"}, "agent"),
        ({"model": {**MODEL, "variant": "high"}}, "model"),
        ({"model": {**MODEL, "temperature": 0.3}}, "settings"),
        ({"permissions": [{"permission": "*", "action": "deny"}]}, "permissions"),
        ({"hidden_at": 5}, "hidden"),
        ({"usage": {"input": 1}}, "tokens"),
        ({"cost_usd": 0.5}, "cost"),
    ],
)
def test_whatever_the_rows_tell_is_compared(store: SqliteStore, change: dict[str, Any], name: str) -> None:
    a, b = chats()
    for chat, metadata in ((a, {}), (b, change)):
        chat.user("hm")
        chat.assistant("yes", **metadata)
    found = both(store, a, b)
    assert told(found) == [[name]]
    assert found.diverged_at == (None if name in ("tokens", "cost") else 1), "numbers alone are no divergence"


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (text("a"), text("b"), "output"),
        ({"type": "reasoning", "text": "a"}, {"type": "reasoning", "text": "b"}, "reasoning"),
        (tool("t", "1", input=1), tool("t", "2", input=True), "tools"),
        (tool("t", "1", output="x"), tool("t", "2", state="output-error", errorText="x"), "tools"),
        ({"type": "file", "url": "a"}, {"type": "file", "url": "b"}, "parts"),
        ({"type": "data-x", "data": 1}, {"type": "data-x", "data": 2}, "parts"),
        (text("a"), {"type": "text", "text": "a", "state": "streaming"}, "parts"),
    ],
)
def test_whatever_a_part_says_is_compared(
    store: SqliteStore, one: dict[str, Any], other: dict[str, Any], name: str
) -> None:
    a, b = chats()
    for chat, part in ((a, one), (b, other)):
        chat.user("hm")
        chat.assistant(part)
    found = both(store, a, b)
    assert (found.diverged_at, told(found)) == (1, [[name]])


def test_where_a_step_begins_says_nothing(store: SqliteStore) -> None:
    a, b = chats()
    a.user("hm")
    a.assistant({"type": "step-start"}, text("a"))
    b.user("hm")
    b.assistant(text("a"))
    assert both(store, a, b).diverged_at is None


@pytest.mark.parametrize(
    "other",
    [
        [tool("t", "2"), text("a")],
        [{**text("a"), "state": "streaming"}, tool("t", "2")],
    ],
)
def test_where_only_order_or_cut_of_the_parts_differs_all_of_them_are_told(
    store: SqliteStore, other: list[dict[str, Any]]
) -> None:
    a, b = chats()
    for chat, parts in ((a, [text("a"), tool("t", "1")]), (b, other)):
        chat.user("hm")
        chat.assistant(*parts)
    (turn,) = both(store, a, b).turns
    assert turn.changed == ["parts"]
    assert turn.parts is not None
    assert turn.parts.a != turn.parts.b
    assert [message["role"] for message in turn.parts.a] == ["user", "assistant"]


def test_a_turn_stands_beside_one_of_another_number_told_by_the_first(store: SqliteStore) -> None:
    a, b = chats()
    a.user("One", hidden_at=1)
    a.assistant(text("1"), hidden_at=1)
    for chat in (a, b):
        chat.user("Two")
        chat.assistant(text("2" if chat is a else "3"))
        chat.keep(store)
    found = diff.load_pair(store, "a", 2, "b", 1)
    assert (found.a, found.b, found.diverged_at) == ("a", "b", 2)
    assert [(turn.turn, turn.changed) for turn in found.turns] == [(2, ["output"])]
    assert side(found.turns[0].output, "b") == "3"
    with pytest.raises(NotFound, match="no turn 2"):
        diff.load_pair(store, "a", 2, "b", 2)
    with pytest.raises(SessionNotFound):
        diff.load_pair(store, "a", 2, "gone", 1)


def test_of_a_pair_it_makes_no_difference_that_one_was_hidden(store: SqliteStore) -> None:
    a, b = chats()
    for chat, hidden in ((a, {"hidden_at": 1}), (b, {})):
        chat.user("hm", **hidden)
        chat.assistant(text("a"), **hidden)
    assert both(store, a, b).diverged_at == 1
    assert diff.load_pair(store, "a", 1, "b", 1).diverged_at is None


def test_tool_calls_are_matched_by_what_they_ask_then_by_name_then_by_order() -> None:
    def calls(*named: str) -> list[ToolCall]:
        return [ToolCall(tool=name[0], input=name[1:]) for name in named]

    def pairs(a: list[ToolCall], b: list[ToolCall]) -> list[tuple[Any, Any]]:
        return [tuple(call and f"{call.tool}{call.input}" for call in (each.a, each.b)) for each in tool_diffs(a, b)]  # type: ignore[misc]

    assert pairs(calls("a1", "a2"), calls("a1", "a2")) == []
    assert pairs(calls("a1", "a2", "a3"), calls("a2", "a3")) == [("a1", None)]
    assert pairs(calls("s1", "b1"), calls("b2")) == [("s1", None), ("b1", "b2")]
    assert pairs(calls("a1", "x1"), calls("a1", "y1")) == [("x1", "y1")]


def test_one_turn_alone_and_turns_that_are_the_same_on_request(store: SqliteStore) -> None:
    a, b = chats()
    for chat in (a, b):
        for number in range(3):
            chat.user(f"q{number}")
            chat.assistant(f"{chat.session_id if number == 2 else 'r'}")
    both(store, a, b)
    (only,) = diff.load(store, "a", "b", turn=3).turns
    assert (only.turn, only.changed) == (3, ["output"])
    assert diff.load(store, "a", "b").turns[0].output is None
    assert diff.load(store, "a", "b", full=True).turns[0].output == [Piece("same", "r")]
    with pytest.raises(NotFound, match="there are 3"):
        diff.load(store, "a", "b", turn=4)
    with pytest.raises(SessionNotFound, match="'nobody'"):
        diff.load(store, "a", "nobody")


Turns = list[tuple[str, str | None, str]]  # what the user says, what a tool finds, what the answer is
turn_lists = st.lists(
    st.tuples(st.sampled_from("xy"), st.sampled_from([None, "1", "2"]), st.sampled_from("xy")), max_size=4
)


def conversation(turns: Turns, name: str, *, with_calls: bool) -> tuple[Chat, list[bytes]]:
    """A chat with ids of its own, and all that its model was sent or answered."""
    chat, sent = Chat(name, f"t{name}"), []
    for number, (asked, found, answer) in enumerate(turns):
        chat.user(asked)
        sent.append(said("user", asked))
        call_id = f"{name}-{number}"
        calls = [list(sent)]
        if found:
            call = {"type": "tool-call", "toolCallId": call_id, "toolName": "look", "input": {}}
            result = {"type": "tool-result", "toolCallId": call_id, "output": found}
            sent += [json.dumps({"role": "assistant", "content": [call]}).encode()]
            sent += [json.dumps({"role": "tool", "content": [result]}).encode()]
            calls.append(list(sent))
        parts = [tool("look", call_id, input={}, output=found), text(answer)] if found else [text(answer)]
        message_id = chat.assistant(*parts)
        for messages in calls if with_calls else ():
            chat.call(message_id, messages)
        sent.append(said("assistant", answer))
    return chat, sent


@pytest.mark.slow
@settings(max_examples=40)
@given(turn_lists, st.one_of(st.none(), turn_lists), st.booleans())
def test_two_sessions_are_the_same_exactly_if_their_shapes_are(one: Turns, other: Turns | None, calls: bool) -> None:
    """And they diverge at the same turn whichever comes first, the first one that isn't the same."""
    other = one if other is None else other
    a, sent_a = conversation(one, "a", with_calls=calls)
    b, sent_b = conversation(other, "b", with_calls=calls)
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "sessions.db") as store:
        found, turned = both(store, a, b), diff.load(store, "b", "a")
    assert (found.diverged_at is None) == (shape_digest(sent_a) == shape_digest(sent_b))
    assert found.diverged_at == turned.diverged_at
    assert told(found) == told(turned)
    differing = [
        place for place in range(max(len(one), len(other))) if one[place : place + 1] != other[place : place + 1]
    ]
    assert found.diverged_at == (differing[0] + 1 if differing else None)
    assert [each.turn - 1 for each in found.turns if each.differs] == differing


def called(tool_name: str, call_id: str) -> bytes:
    call = {"type": "tool-call", "toolCallId": call_id, "toolName": tool_name, "input": {}}
    return json.dumps({"role": "assistant", "content": [call]}).encode()


requests = st.lists(st.lists(st.sampled_from("xyz"), max_size=5), max_size=5)


@pytest.mark.slow
@settings(max_examples=60)
@given(requests, st.one_of(st.none(), st.integers(0, 30)))
def test_the_first_message_is_found_however_contexts_shrink_and_grow(sent: list[list[str]], edit: int | None) -> None:
    """Rewound, compacted, pruned: the same as looking at every message of every call, whatever the ids are."""
    places = [(call, place) for call, messages in enumerate(sent) for place in range(len(messages))]
    other = [list(messages) for messages in sent]
    if edit is not None and places:
        call, place = places[edit % len(places)]
        other[call][place] = "w"
    a, b = chats()
    for chat, contexts in ((a, sent), (b, other)):
        chat.user("hm")
        message_id = chat.assistant("yes")
        for messages in contexts:
            chat.call(message_id, [called(each, f"{chat.session_id}-{each}") for each in messages])
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "sessions.db") as store:
        message = both(store, a, b).message
    expected = next(
        (
            (call + 1, place)
            for call, (one, two) in enumerate(zip(sent, other, strict=True))
            for place, (left, right) in enumerate(zip_longest(one, two))
            if left != right
        ),
        None,
    )
    assert (message and (message.call, message.index)) == expected


def long_session(store: SqliteStore, name: str, turns: int, *, answers: str = "", edited: int | None = None) -> None:
    """Two model calls a turn; each context is kept as what is new of it."""
    chat, last = Chat(name, f"t{name}"), context_digest([])
    sent: list[bytes] = []
    contexts: list[LinkedContext] = []
    for number in range(turns):
        chat.user(f"question {number} " + "and so on " * 10)
        call = {"type": "tool-call", "toolCallId": f"{name}{number}", "toolName": "look", "input": {"n": number}}
        result = {"type": "tool-result", "toolCallId": f"{name}{number}", "output": "found " * 20}
        answer = f"answer {number} " + " ".join(f"word{number * place % 97}" for place in range(80))
        answer += answers if edited is None or number == edited else ""
        message_id = chat.assistant(tool("look", f"{name}{number}", input={"n": number}, output="found " * 20), answer)
        steps = [
            [said("user", f"question {number}")],
            [json.dumps({"role": "assistant", "content": [call]}).encode()]
            + [json.dumps({"role": "tool", "content": [result]}).encode()],
        ]
        for new in steps:
            chat.contents += new
            digests = [digest_of(body) for body in new]
            digest = prefix_digests(digests, last)[-1]
            contexts.append(LinkedContext(digest, last if sent else None, Link(len(sent), 0, tuple(digests))))
            sent += digests
            last = digest
            made = chat.call(message_id, [])
            chat.calls[-1] = msgspec.structs.replace(made, context_digest=digest.hex())
        chat.contents.append(said("assistant", answer))
        sent.append(digest_of(chat.contents[-1]))
        last = prefix_digests(sent[-1:], last)[-1]
        contexts.append(LinkedContext(last, contexts[-1].digest, Link(len(sent) - 1, 0, (sent[-1],))))
    chat.contexts.clear()
    store.append(Batch(contents=chat.contents, contexts=contexts))
    chat.keep(store)


@pytest.mark.slow
def test_a_thousand_turns_are_compared_in_about_a_second(store: SqliteStore) -> None:
    long_session(store, "a", 1000)
    long_session(store, "b", 1000)
    long_session(store, "late", 1000, answers=" but", edited=997)
    long_session(store, "odd", 1000, answers=" but otherwise")
    for other, diverged_at, differing in (("a", None, 0), ("b", None, 0), ("late", 998, 1), ("odd", 1, 1000)):
        began = time.perf_counter()
        found = diff.load(store, "a", other)
        took = time.perf_counter() - began
        print(f"a and {other}: {took:.2f} s")
        assert (found.diverged_at, sum(each.differs for each in found.turns)) == (diverged_at, differing)
        assert bool(found.message) == (diverged_at is not None)
        assert took < 3


lines = st.lists(st.sampled_from(["a b", "a c", "b\tc ", "", "x"]), max_size=12).map("\n".join)


@given(st.one_of(lines, st.text(max_size=40)), st.one_of(lines, st.text(max_size=40)))
def test_pieces_make_up_both_texts_and_nothing_is_the_same_but_what_is(a: str, b: str) -> None:
    pieces = text_diff(a, b)
    assert (side(pieces, "a"), side(pieces, "b")) == (a, b)
    assert all(piece.text for piece in pieces)
    assert (a == b) == all(piece.kind == "same" for piece in pieces)
    assert all(one.kind != other.kind for one, other in pairwise(pieces))


@given(lines, lines)
def test_a_unified_diff_makes_one_text_out_of_the_other(a: str, b: str) -> None:
    old, new, at = a.splitlines(), [], 0
    for line in unified(a, b).split("\n"):
        if line.startswith("@@"):
            begin, _, length = line.split()[1][1:].partition(",")
            start = int(begin) - (length != "0")
            new += old[at:start]
            at = start
        elif line[:1] in ("-", " "):
            assert old[at] == line[1:]
            new += [line[1:]] if line[0] == " " else []
            at += 1
        else:
            new += [line[1:]] if line else []
    if a.splitlines() != b.splitlines():
        assert [*new, *old[at:]] == b.splitlines()


def test_one_changed_word_in_a_long_text_is_found() -> None:
    before = "\n".join(f"line {number} of many" for number in range(5000))
    after = before.replace("line 2500 of", "line 2500 among")
    assert [piece for piece in text_diff(before, after) if piece.kind != "same"] == [
        Piece("a", "of"),
        Piece("b", "among"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a\nb\n" * 250_000, "b\na\n" * 250_000),
        ("a b " * 250_000, "b a a " * 170_000),
        ("a" * 1_000_000, "a" * 999_999 + "b"),
        (
            "\n".join(f"{n % 89} {n % 97}" for n in range(150_000)),
            "\n".join(f"{n % 97} {n % 89}" for n in range(150_000)),
        ),
        (
            "\n".join(f"u{n}\n" + "x\ny\n" * 45 for n in range(4000)),
            "\n".join(f"u{n}\n" + "y\nx\n" * 45 for n in range(4000)),
        ),
    ],
    ids=["lines that repeat", "words that repeat", "one word", "lines out of order", "gaps between anchors"],
)
def test_a_megabyte_of_difference_takes_no_minutes(a: str, b: str) -> None:
    began = time.perf_counter()
    pieces = text_diff(a, b)
    assert unified(a, b)
    assert time.perf_counter() - began < 10
    assert (side(pieces, "a"), side(pieces, "b")) == (a, b)
