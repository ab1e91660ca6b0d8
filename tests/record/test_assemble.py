"""Chunks into parts: as the SDK does it, and whatever else a stream may bring."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashcam.contracts.chat import TOOL_STATES
from dashcam.record.assemble import INVALID, Assembler
from dashcam.record.part import Began, Change, Changed, Ended, Failed, Grew, Odd, StepBegan, StepEnded, Told

SAMPLES = Path(__file__).parent.parent / "data" / "vercel-ai"
CALL = {"toolCallId": "c1", "toolName": "search"}


def chunk(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def fed(*chunks: Any) -> tuple[Assembler, list[Change]]:
    assembler = Assembler()
    return assembler, [change for each in chunks for change in assembler.feed(each)]


def parts_of(assembler: Assembler) -> list[dict[str, Any]]:
    return [part.data for part in assembler.parts]


def odd(changes: list[Change]) -> list[str]:
    return [change.what for change in changes if isinstance(change, Odd)]


def only_part(*chunks: Any) -> dict[str, Any]:
    """The single part of a stream in which nothing is odd."""
    assembler, changes = fed(*chunks)
    assert odd(changes) == []
    (data,) = parts_of(assembler)
    return data


def follow(saved: dict[int, dict[str, Any]], changes: list[Change]) -> None:
    """What a writer does that saves whole parts and deltas and nothing else."""
    for change in changes:
        if isinstance(change, Began | Changed):
            saved[change.part.index] = dict(change.part.data)
        elif isinstance(change, Grew):
            row = saved[change.part.index]
            row[change.path] = row.get(change.path, "")[: change.at] + change.text


# As the SDK does it


@pytest.mark.parametrize("version", ["ai-v5", "ai-v6"])
def test_a_real_stream_gives_the_parts_that_the_sdk_made_of_it(version: str) -> None:
    chunks = msgspec.json.Decoder().decode_lines((SAMPLES / version / "ui-message-stream.jsonl").read_bytes())
    _, answer = msgspec.json.decode((SAMPLES / version / "uimessages.json").read_bytes())
    assembler, changes = fed(*chunks)
    assert parts_of(assembler) == answer["parts"]
    assert assembler.metadata == answer["metadata"]
    assert assembler.message_id == answer["id"]
    assert odd(changes) == []
    assert sum(isinstance(change, StepBegan) for change in changes) == 2
    assert changes[-2:] == [Told(answer["metadata"]), Ended("stop", aborted=False)]


@pytest.mark.parametrize("kind", ["text", "reasoning"])
def test_a_text_begins_grows_and_ends(kind: str) -> None:
    assembler = Assembler()
    (began,) = assembler.feed(chunk(f"{kind}-start", id="1", providerMetadata={"p": {"a": 1}}))
    (grew,) = assembler.feed(chunk(f"{kind}-delta", id="1", delta="Hel"))
    (more,) = assembler.feed(chunk(f"{kind}-delta", id="1", delta="lo"))
    assert assembler.feed(chunk(f"{kind}-delta", id="1", delta="")) == []
    (ended,) = assembler.feed(chunk(f"{kind}-end", id="1"))
    part = assembler.parts[0]
    assert (began, ended) == (Began(part), Changed(part))
    assert (grew, more) == (Grew(part, "text", 0, "Hel"), Grew(part, "text", 3, "lo"))
    identity = {"id": "1"} if kind == "reasoning" else {}
    assert part.data == {
        "type": kind, "text": "Hello", "state": "done", "providerMetadata": {"p": {"a": 1}}, **identity,
    }  # fmt: skip
    assert (part.type, part.tool_call_id, part.tool_state) == (kind, None, None)


def test_metadata_in_a_delta_changes_the_part_only_where_it_is_new() -> None:
    signed = {"anthropic": {"signature": "x"}}
    assembler = Assembler()
    assembler.feed(chunk("reasoning-start", id="1"))
    (first,) = assembler.feed(chunk("reasoning-delta", id="1", delta="a", providerMetadata=signed))
    (second,) = assembler.feed(chunk("reasoning-delta", id="1", delta="b", providerMetadata=dict(signed)))
    assert isinstance(first, Changed) and isinstance(second, Grew)
    assert assembler.parts[0].data["providerMetadata"] == signed
    assert assembler.parts[0].data["text"] == "ab"


def test_a_text_that_was_cut_off_stays_where_it_stopped() -> None:
    assembler, changes = fed(chunk("text-start", id="1"), chunk("text-delta", id="1", delta="Hal"), chunk("abort"))
    assert parts_of(assembler) == [{"type": "text", "text": "Hal", "state": "streaming"}]
    assert changes[-1] == Ended(None, aborted=True)


def test_two_texts_at_once_keep_apart_and_a_next_step_may_use_their_ids_again() -> None:
    assembler, changes = fed(
        chunk("start-step"),
        chunk("text-start", id="1"),
        chunk("reasoning-start", id="1"),
        chunk("text-delta", id="1", delta="said"),
        chunk("reasoning-delta", id="1", delta="thought"),
        chunk("finish-step"),
        chunk("start-step"),
        chunk("text-start", id="1"),
        chunk("text-delta", id="1", delta="again"),
        chunk("finish-step", usage={"inputTokens": 1}, finishReason="stop"),
    )
    assert [part.get("text") for part in parts_of(assembler)] == [None, "said", "thought", None, "again"]
    assert odd(changes) == []
    assert changes[-1] == StepEnded({"inputTokens": 1}, "stop")


def test_a_tool_call_passes_through_its_states_on_one_part() -> None:
    assembler, states = Assembler(), []
    for each in [
        chunk("tool-input-start", **CALL, title="Search", providerMetadata={"p": {}}),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta='{"q":'),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta=' "x"}'),
        chunk("tool-input-available", **CALL, input={"q": "x"}),
        chunk("tool-approval-request", toolCallId="c1", approvalId="a1"),
        chunk("tool-approval-response", approvalId="a1", approved=True, reason="fine"),
        chunk("tool-output-available", toolCallId="c1", output=1, preliminary=True),
        chunk("tool-output-available", toolCallId="c1", output=[1, 2], providerMetadata={"r": {}}),
    ]:
        assert odd(assembler.feed(each)) == []
        (part,) = assembler.parts
        states.append(part.tool_state)
        if part.tool_state == "input-streaming":
            assert "input" not in part.data
    assert list(dict.fromkeys(states)) == list(TOOL_STATES[:5])
    assert part.tool_call_id == "c1"
    assert part.data == {
        "type": "tool-search",
        "toolCallId": "c1",
        "state": "output-available",
        "title": "Search",
        "input": {"q": "x"},
        "output": [1, 2],
        "callProviderMetadata": {"p": {}},
        "resultProviderMetadata": {"r": {}},
        "approval": {"id": "a1", "approved": True, "reason": "fine"},
    }


def test_streaming_input_is_kept_as_the_text_it_is_until_the_input_is_there() -> None:
    assembler, changes = fed(
        chunk("tool-input-start", **CALL),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta='{"q'),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta='":1'),
    )
    part = assembler.parts[0]
    assert changes[1:] == [Grew(part, "rawInput", 0, '{"q'), Grew(part, "rawInput", 3, '":1')]
    assert part.data["rawInput"] == '{"q":1'
    assembler.feed(chunk("tool-input-available", **CALL, input={"q": 1}))
    assert part.data == {"type": "tool-search", "toolCallId": "c1", "state": "input-available", "input": {"q": 1}}


def test_a_null_input_and_a_null_output_are_values() -> None:
    data = only_part(
        chunk("tool-input-available", **CALL, input=None), chunk("tool-output-available", toolCallId="c1", output=None)
    )
    assert data["input"] is None and data["output"] is None


def test_a_dynamic_tool_has_its_name_in_the_part() -> None:
    data = only_part(
        chunk("tool-input-available", **CALL, input={}, dynamic=True, providerExecuted=True),
        chunk("tool-output-error", toolCallId="c1", errorText="no"),
    )
    assert data == {
        "type": "dynamic-tool", "toolName": "search", "toolCallId": "c1", "state": "output-error",
        "input": {}, "errorText": "no", "providerExecuted": True,
    }  # fmt: skip


def test_a_denied_call_keeps_what_was_asked() -> None:
    data = only_part(
        chunk("tool-input-available", **CALL, input={}),
        chunk("tool-approval-request", toolCallId="c1", approvalId="a1", signature="s"),
        chunk("tool-approval-response", approvalId="a1", approved=False),
        chunk("tool-output-denied", toolCallId="c1"),
    )
    assert data["state"] == "output-denied"
    assert data["approval"] == {"id": "a1", "signature": "s", "approved": False}


@pytest.mark.parametrize(("dynamic", "kept_as"), [(False, "rawInput"), (True, "input")])
@pytest.mark.parametrize("began", [False, True])
def test_input_that_is_refused_is_kept_beside_the_error(dynamic: bool, kept_as: str, began: bool) -> None:
    start = [
        chunk("tool-input-start", **CALL, dynamic=dynamic),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta="{bad"),
    ]
    data = only_part(
        *(start if began else []),
        chunk("tool-input-error", **CALL, input="{bad", errorText="not JSON", dynamic=dynamic),
    )
    named = {"type": "dynamic-tool", "toolName": "search"} if dynamic else {"type": "tool-search"}
    assert data == {**named, "toolCallId": "c1", "state": "output-error", kept_as: "{bad", "errorText": "not JSON"}


def test_an_error_after_half_an_input_keeps_the_half() -> None:
    data = only_part(
        chunk("tool-input-start", **CALL),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta='{"q'),
        chunk("tool-output-error", toolCallId="c1", errorText="cut off"),
    )
    assert (data["rawInput"], data["errorText"], data["state"]) == ('{"q', "cut off", "output-error")


def test_files_and_sources_are_kept_as_they_came() -> None:
    chunks = [
        chunk("file", url="data:,x", mediaType="text/plain"),
        chunk("source-url", sourceId="s", url="https://example.com", title="T"),
        chunk("source-document", sourceId="d", mediaType="application/pdf", title="D", filename="d.pdf"),
        chunk("data-weather", data={"t": 1}),
    ]
    assembler, changes = fed(*chunks)
    assert parts_of(assembler) == chunks
    assert changes == [Began(part) for part in assembler.parts]


def test_data_with_the_same_id_is_replaced_in_place_and_transient_data_is_not_kept() -> None:
    assembler, changes = fed(
        chunk("data-w", id="1", data={"t": 1}),
        chunk("data-w", id="2", data={}),
        chunk("data-v", id="1", data={}),
        chunk("data-w", id="1", data={"t": 2}),
        chunk("data-w", id="1", data={"t": 3}, transient=True),
    )
    assert [part["data"] for part in parts_of(assembler)] == [{"t": 2}, {}, {}]
    assert changes[-1] == Changed(assembler.parts[0])


def test_metadata_is_merged_into_the_depth_and_earlier_tellings_stay_as_they_were() -> None:
    _, changes = fed(
        chunk("start", messageMetadata={"a": {"b": 1, "c": [1]}, "d": 1}),
        chunk("message-metadata", messageMetadata={"a": {"b": 2}, "d": {"e": 1}}),
        chunk("finish", messageMetadata={"a": {"c": [2]}}),
    )
    assert changes == [
        Told({"a": {"b": 1, "c": [1]}, "d": 1}),
        Told({"a": {"b": 2, "c": [1]}, "d": {"e": 1}}),
        Told({"a": {"b": 2, "c": [2]}, "d": {"e": 1}}),
        Ended(None, aborted=False),
    ]


def test_an_error_and_an_abort_say_why() -> None:
    _, changes = fed(chunk("error", errorText="overloaded"), chunk("abort", reason="the user left"))
    assert changes == [Failed("overloaded"), Ended("the user left", aborted=True)]


# Whole parts


@pytest.mark.parametrize("state", [*TOOL_STATES, "a-state-of-next-year"])
def test_a_whole_part_is_taken_in_any_state_and_replaces_its_call(state: str) -> None:
    assembler, _ = fed(
        chunk("tool-input-start", **CALL), chunk("tool-input-delta", toolCallId="c1", inputTextDelta="{")
    )
    whole = {"type": "tool-search", "toolCallId": "c1", "state": state, "input": {}}
    assert assembler.part(whole) == [Changed(assembler.parts[0])]
    assert parts_of(assembler) == [whole]
    assert assembler.parts[0].tool_state == state
    (began,) = assembler.part({**whole, "toolCallId": "c2"})
    assert began == Began(assembler.parts[1])


def test_whole_parts_of_every_kind_are_added_as_they_are() -> None:
    _, answer = msgspec.json.decode((SAMPLES / "ai-v6" / "uimessages.json").read_bytes())
    assembler = Assembler()
    changes = [change for part in answer["parts"] for change in assembler.part(part)]
    assert parts_of(assembler) == answer["parts"]
    assert sum(isinstance(change, StepBegan) for change in changes) == 2


@pytest.mark.parametrize("part", [None, "text", [], {}, {"type": 1}, {"type": ""}])
def test_what_is_no_part_is_kept_as_invalid(part: Any) -> None:
    assembler = Assembler()
    assert len(odd(assembler.part(part))) == 1
    assert parts_of(assembler)[0]["data"]["value"] == repr(part)


# Whatever else a stream may bring


@pytest.mark.parametrize("kind", ["text", "reasoning"])
def test_a_text_that_never_began_begins_where_it_goes_on(kind: str) -> None:
    assembler, changes = fed(chunk(f"{kind}-delta", id="1", delta="Hi"), chunk(f"{kind}-delta", id="1", delta="!"))
    assert parts_of(assembler)[0]["text"] == "Hi!"
    assert len(odd(changes)) == 1


def test_an_end_without_a_beginning_is_odd_and_what_it_says_is_kept() -> None:
    assembler, changes = fed(chunk("text-end", id="1"))
    assert parts_of(assembler) == [] and len(odd(changes)) == 1
    assembler, changes = fed(chunk("text-end", id="1", providerMetadata={"p": {}}))
    assert parts_of(assembler) == [{"type": "text", "text": "", "state": "done", "providerMetadata": {"p": {}}}]
    assert len(odd(changes)) == 1


def test_a_second_beginning_with_the_same_id_is_a_new_part() -> None:
    assembler, changes = fed(
        chunk("text-start", id="1"),
        chunk("text-delta", id="1", delta="a"),
        chunk("text-start", id="1"),
        chunk("text-delta", id="1", delta="b"),
    )
    assert [part["text"] for part in parts_of(assembler)] == ["a", "b"]
    assert len(odd(changes)) == 1


def test_a_text_that_goes_on_after_its_end_is_appended() -> None:
    assembler, changes = fed(
        chunk("text-start", id="1"),
        chunk("text-end", id="1"),
        chunk("text-delta", id="1", delta="late"),
        chunk("text-end", id="1"),
    )
    assert parts_of(assembler) == [{"type": "text", "text": "late", "state": "done"}]
    assert len(odd(changes)) == 2


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        (chunk("tool-output-available", toolCallId="x", output=1), {"state": "output-available", "output": 1}),
        (chunk("tool-output-error", toolCallId="x", errorText="e"), {"state": "output-error", "errorText": "e"}),
        (chunk("tool-output-denied", toolCallId="x"), {"state": "output-denied"}),
        (
            chunk("tool-approval-request", toolCallId="x", approvalId="a"),
            {"state": "approval-requested", "approval": {"id": "a"}},
        ),
        (
            chunk("tool-approval-response", toolCallId="x", approvalId="a", approved=True),
            {"state": "approval-responded", "approval": {"id": "a", "approved": True}},
        ),
        (
            chunk("tool-input-delta", toolCallId="x", inputTextDelta="{"),
            {"state": "input-streaming", "rawInput": "{"},
        ),
    ],
)
def test_what_happens_to_an_unknown_call_begins_it(late: dict[str, Any], expected: dict[str, Any]) -> None:
    assembler, changes = fed(late)
    unknown = {"type": "dynamic-tool", "toolName": "unknown", "toolCallId": "x"}
    assert parts_of(assembler) == [{**unknown, **expected}]
    assert len(odd(changes)) == 1


def test_an_input_that_comes_after_the_outcome_loses_neither() -> None:
    assembler, changes = fed(
        chunk("tool-output-available", toolCallId="c1", output=1), chunk("tool-input-available", **CALL, input={"q": 1})
    )
    assert parts_of(assembler) == [
        {"type": "dynamic-tool", "toolName": "search", "toolCallId": "c1", "state": "output-available",
         "output": 1, "input": {"q": 1}},
    ]  # fmt: skip
    assert len(odd(changes)) == 2


def test_a_second_outcome_replaces_the_first_and_is_odd() -> None:
    assembler, changes = fed(
        chunk("tool-input-available", **CALL, input={}),
        chunk("tool-output-available", toolCallId="c1", output=1),
        chunk("tool-output-error", toolCallId="c1", errorText="no"),
    )
    (data,) = parts_of(assembler)
    assert data["state"] == "output-error" and "output" not in data
    assert len(odd(changes)) == 1


def test_a_call_that_begins_again_or_goes_on_too_late_stays_one_part() -> None:
    assembler, changes = fed(
        chunk("tool-input-start", **CALL),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta="{"),
        chunk("tool-input-start", toolCallId="c1", toolName="other"),
        chunk("tool-input-available", **CALL, input={}),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta="}"),
    )
    (data,) = parts_of(assembler)
    assert (data["type"], data["state"], data["input"], data["rawInput"]) == ("tool-search", "input-available", {}, "}")
    assert len(odd(changes)) == 3


@pytest.mark.parametrize("raw", [None, 0, [], {"q": 1}])
def test_a_delta_on_an_input_that_is_no_text_is_kept_apart(raw: Any) -> None:
    assembler, changes = fed(
        chunk("tool-input-error", **CALL, input=raw, errorText="no"),
        chunk("tool-input-delta", toolCallId="c1", inputTextDelta="late"),
    )
    assert parts_of(assembler)[0]["rawInput"] == raw
    assert "late" in parts_of(assembler)[1]["data"]["value"]
    assert len(odd(changes)) == 1


def test_a_chunk_of_a_type_never_seen_is_kept_as_a_part_and_never_as_the_call_it_names() -> None:
    new = chunk("tool-progress", toolCallId="c1", percent=50)
    assembler, changes = fed(chunk("tool-input-available", **CALL, input={}), new)
    assert parts_of(assembler)[1] == new
    assert [part.tool_call_id for part in assembler.parts] == ["c1", None]
    assert len(odd(changes)) == 1


@pytest.mark.parametrize(
    "bad",
    [
        None, 1, "text-delta", b"x", [], {}, {"type": None}, {"type": ["text-start"]}, {"type": ""},
        chunk("text-start"), chunk("text-start", id=1), chunk("text-delta", id="1"), chunk("text-delta", id="1", delta=7),
        chunk("text-end", id=None), chunk("reasoning-delta", id={}, delta="x"),
        chunk("tool-input-start", toolCallId="c"), chunk("tool-input-start", toolCallId=[], toolName="t"),
        chunk("tool-input-delta", toolCallId="c", inputTextDelta=None), chunk("tool-input-available", toolName="t"),
        chunk("tool-input-error", toolCallId="c", toolName=3), chunk("tool-output-available", output=1),
        chunk("tool-approval-request", toolCallId="c"), chunk("tool-approval-response", approvalId="nobody's"),
        chunk("message-metadata", messageMetadata="x"),
    ],
)  # fmt: skip
def test_what_is_no_chunk_is_kept_as_invalid_and_explained(bad: Any) -> None:
    assembler, changes = fed(bad)
    (part,) = assembler.parts
    assert part.type == INVALID
    assert part.data["data"]["value"] == repr(bad)
    assert odd(changes) == [part.data["data"]["why"]]


def test_what_is_kept_of_invalid_input_is_limited() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assembler, _ = fed(chunk("text-delta", id=1, delta="x" * 1_000_000), Hostile())
    assert len(assembler.parts[0].data["data"]["value"]) <= 4_000
    assert assembler.parts[1].data["data"]["value"] == "<Hostile>"


def test_an_error_that_is_no_text_is_told_all_the_same() -> None:
    assembler, changes = fed(
        chunk("error"),
        chunk("error", errorText={"a": 1}),
        chunk("finish", finishReason=7),
        chunk("finish-step", usage=3),
    )
    assert changes[:4] == [
        Failed("an error without a text"), Failed("{'a': 1}"), Ended("7", aborted=False), StepEnded(None, None),
    ]  # fmt: skip
    assert len(odd(changes)) == 1
    assembler, changes = fed(
        chunk("tool-input-available", **CALL, input={}), chunk("tool-output-error", toolCallId="c1")
    )
    assert assembler.parts[0].tool_state == "output-error"
    assert len(odd(changes)) == 1


def test_metadata_of_any_depth_is_merged() -> None:
    deep: dict[str, Any] = {}
    for _ in range(50_000):
        deep = {"a": deep}
    assembler, changes = fed(chunk("start", messageMetadata=deep), chunk("finish", messageMetadata=deep))
    assert odd(changes) == [] and "a" in assembler.metadata
    while deep:  # from the outside in: the interpreter's own way of freeing it is recursive
        deep = deep.pop("a")


# Properties

_ids = st.sampled_from(["1", "2"])
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_KINDS = [
    *(f"{kind}-{what}" for kind in ("text", "reasoning") for what in ("start", "delta", "end")),
    *("tool-input-start", "tool-input-delta", "tool-input-available", "tool-input-error", "tool-output-available"),
    *("tool-output-error", "tool-output-denied", "tool-approval-request", "tool-approval-response", "file", "data-x"),
    *("start", "finish", "start-step", "finish-step", "abort", "error", "message-metadata", "tool-new", "done"),
]
_FIELDS = {
    **dict.fromkeys(("id", "toolCallId", "toolName", "approvalId"), _ids | _json),
    **dict.fromkeys(("delta", "inputTextDelta", "errorText"), st.text(max_size=5) | _json),
    **dict.fromkeys(("input", "output", "providerMetadata", "messageMetadata", "data", "usage", "approved"), _json),
    **dict.fromkeys(("dynamic", "preliminary", "transient"), st.booleans()),
}
_chunks = st.fixed_dictionaries({"type": st.sampled_from(_KINDS)}, optional=_FIELDS) | _json
_good = st.one_of(
    st.builds(chunk, st.sampled_from([kind for kind in _KINDS if "text" in kind or "reasoning" in kind]),
              id=_ids, delta=st.text(max_size=5)),
    st.builds(chunk, st.just("tool-input-delta"), toolCallId=_ids, inputTextDelta=st.text(max_size=5)),
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(_chunks, max_size=30))
def test_no_sequence_of_chunks_raises_and_the_changes_tell_all(chunks: list[Any]) -> None:
    """A writer that follows the changes ends with the parts as they are, whatever came."""
    assembler, saved = Assembler(), dict[int, dict[str, Any]]()
    for each in chunks:
        follow(saved, assembler.feed(each))
    # Compared as they look, since NaN is not itself.
    assert {index: repr(sorted(data.items())) for index, data in saved.items()} == {
        part.index: repr(sorted(part.data.items())) for part in assembler.parts
    }
    assert [part.index for part in assembler.parts] == list(range(len(assembler.parts)))
    calls = [part.tool_call_id for part in assembler.parts if part.tool_call_id is not None]
    assert len(calls) == len(set(calls))


@given(st.lists(_good, max_size=30))
def test_no_character_of_a_delta_is_lost(chunks: list[dict[str, Any]]) -> None:
    """Texts in the order of their parts may be woven together in the stream; so each character is counted."""
    assembler, _ = fed(*chunks)
    sent = [each.get("delta", "") if each["type"].endswith("-delta") else "" for each in chunks]
    sent += [each.get("inputTextDelta", "") for each in chunks]
    kept = [part.get("text", "") + part.get("rawInput", "") for part in parts_of(assembler)]
    assert sorted("".join(sent)) == sorted("".join(kept))


@given(st.text(), st.lists(st.integers(min_value=0, max_value=20)))
def test_it_does_not_matter_how_a_text_was_split(text: str, cuts: list[int]) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    deltas = [chunk("text-delta", id="1", delta=piece) for piece in pieces]
    data = only_part(chunk("text-start", id="1"), *deltas, chunk("text-end", id="1"))
    assert data == {"type": "text", "text": text, "state": "done"}


def test_a_hundred_thousand_deltas_cost_no_more_each_than_a_few() -> None:
    assembler = Assembler()
    assembler.feed(chunk("text-start", id="1"))
    assembler.feed(chunk("tool-input-start", **CALL))
    word = chunk("text-delta", id="1", delta="word ")
    argument = chunk("tool-input-delta", toolCallId="c1", inputTextDelta="more ")
    began = time.process_time()
    for _ in range(50_000):
        assembler.feed(word)
        assembler.feed(argument)
    lengths = [len(assembler.parts[0].data["text"]), len(assembler.parts[1].data["rawInput"])]
    assert time.process_time() - began < 2
    assert lengths == [250_000, 250_000]
