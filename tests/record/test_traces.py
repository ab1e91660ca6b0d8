"""What the spans of one trace come to: sessions, turns, tools, calls."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from agent_traces import T0, TRACE, Others, Step, called, log, model, result, said, shown, span, tool
from hypothesis import given
from hypothesis import strategies as st

from dashcam.contracts.chat import Usage
from dashcam.contracts.content import context_digest, digest_of
from dashcam.contracts.score import Score
from dashcam.dialects.otlp.reading import LogView, Reading
from dashcam.record.prices import cost_of
from dashcam.record.traces import assemble
from dashcam.store.base import Piece, Projection

Q, A = said("user", "How hot is it?"), said("assistant", "Very.")


def told(*steps: Step, loose: list[tuple[LogView, Reading]] | None = None, known: Others | None = None) -> Projection:
    return assemble(TRACE, steps, loose or [], known or Others())


def about(projection: Projection, role: str = "assistant") -> dict[str, Any]:
    """The metadata of the last message of that role."""
    return [message for message in projection.messages if message.role == role][-1].metadata()


def piece(projection: Projection) -> Piece:
    (only,) = projection.pieces
    return only


def test_a_call_is_a_question_and_its_answer() -> None:
    projection = told(model("m", 0, [said("system", "Be brief."), Q], A, session_id="s", stop_reason="stop"))
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["Very."])]
    user, assistant = projection.messages
    assert (user.session_id, user.created_at, user.updated_at) == ("s", T0, T0)
    assert (assistant.created_at, assistant.updated_at) == (T0 + 1, T0 + 5)
    assert user.id < assistant.id
    prompt = sha256(b"Be brief.").hexdigest()
    assert assistant.metadata() == {
        "usage": {"input": 10, "output": 2, "reasoning": 0, "cache_read": 0, "cache_write": 0},
        "model": {"provider_id": "", "model_id": "m-1"},
        "system_prompt_digest": prompt,
        "stop_reason": "stop",
        "trace_id": TRACE,
    }
    (call,) = projection.model_calls
    assert (call.session_id, call.trace_id, call.step, call.kind, call.ts) == ("s", TRACE, 0, "user", T0 * 1000)
    assert (call.span_id, call.message_id, call.model, call.wire) == ("m", assistant.id, "m-1", "otlp")
    assert (call.input_tokens, call.output_tokens, call.duration_ms) == (10, 2, 5.0)
    assert call.system_prompt_digest == prompt
    assert list(projection.system_prompts) == ["Be brief."]
    sent = [said("system", "Be brief."), Q]
    assert call.context_digest == context_digest(digest_of(each.raw) for each in sent).hex()
    assert call.output_digest == digest_of(A.raw).hex()


def test_a_loop_of_calls_and_tools_is_one_answer() -> None:
    asked = said("assistant", "Let me look.", called("c1", "look", city="Rome"))
    projection = told(
        (span("agent", 0, took=40), Reading(kind="agent", agent="scout", usage=Usage(input=999))),
        model("m1", 1, [Q], asked, parent="agent", stop_reason="tool_calls"),
        tool("t1", 10, "look", "c1", parent="agent", result="41 degrees"),
        model("m2", 20, [Q, asked, said("tool", result("c1", "41"))], A, parent="agent", stop_reason="stop"),
    )
    assert shown(projection)[1] == (
        "assistant",
        ["Let me look.", ("look", "output-available", "41 degrees"), "|", "Very."],
    )
    assert about(projection)["usage"]["input"] == 20  # what the agent repeats is not counted
    assert about(projection)["agent"] == piece(projection).agent == "scout"
    part = projection.parts[2]
    assert (part.tool_call_id, part.tool_state) == ("c1", "output-available")
    assert part.data()["input"] == {"city": "Rome"}
    assert [call.message_id for call in projection.model_calls] == [projection.messages[1].id] * 2
    assert [call.step for call in projection.model_calls] == [0, 1]


def test_a_result_that_no_span_tells_comes_from_what_the_next_call_was_sent() -> None:
    asked = said("assistant", called("c1", "look"), called("c2", "look"))
    answers = said("tool", result("c1", "fine"), result("c2", "gone", error=True))
    projection = told(model("m1", 0, [Q], asked), model("m2", 10, [Q, asked, answers], A))
    assert shown(projection)[1][1] == [
        ("look", "output-available", "fine"),
        ("look", "output-error", "gone"),
        "|",
        "Very.",
    ]


def test_a_tool_that_is_not_done_waits_for_its_outcome() -> None:
    projection = told(model("m1", 0, [Q], said("assistant", called("c1", "look"))))
    assert shown(projection)[1][1] == [("look", "input-available", None)]


def test_tools_without_ids_are_found_by_name_arguments_and_order() -> None:
    asked = said("assistant", called(None, "look", n=1), called(None, "look", n=2), called(None, "read", n=1))
    projection = told(
        model("m1", 0, [Q], asked),
        tool("t1", 5, "look", arguments='{"n": 2}', result="two"),
        tool("t2", 6, "look", arguments={"n": 1}, result="one"),
        tool("t3", 7, "read", result="read"),
    )
    assert [outcome for _, _, outcome in shown(projection)[1][1]] == ["one", "two", "read"]


def test_a_tool_that_no_answer_calls_stands_where_it_ran() -> None:
    projection = told(
        model("m1", 0, None, said("assistant", "First.")),
        tool("t1", 5, "look", arguments={"n": 1}, error="broken"),
        model("m2", 10, None, said("assistant", "Then.")),
    )
    assert shown(projection) == [("assistant", ["First.", ("look", "output-error", "broken"), "|", "Then."])]
    assert projection.parts[1].data()["toolCallId"] == "t1"


def test_tools_alone_are_an_answer() -> None:
    projection = told(
        (span("agent", 0), Reading(kind="agent", agent="scout")), tool("t", 1, "look", parent="agent", result=1)
    )
    assert shown(projection) == [("assistant", [("look", "output-available", 1)])]
    assert piece(projection).kind == "user"


def test_a_tool_inside_a_tool_is_the_same_run() -> None:
    projection = told(
        model("m1", 0, [Q], said("assistant", "Hm.")),
        tool("outer", 5, "look", "c1"),
        tool("inner", 6, "look", "c1", parent="outer", result="in"),
        loose=[(log(9), Reading(kind="tool", tool="look", call_id="c1", arguments={"a": 1}))],
    )
    assert shown(projection)[1][1] == ["Hm.", ("look", "output-available", "in")]
    assert projection.parts[-1].data()["input"] == {"a": 1}


def test_only_calls_without_a_call_below_them_count() -> None:
    projection = told(
        model("outer", 0, [Q], A, usage=Usage(input=70)),
        (span("middle", 1, parent="outer"), Reading(kind="span")),
        model("inner", 2, [Q], A, parent="middle", usage=Usage(input=7)),
    )
    assert [call.span_id for call in projection.model_calls] == ["inner"]
    assert about(projection)["usage"]["input"] == 7


def test_parents_in_a_circle_lose_no_call() -> None:
    projection = told(
        model("a", 0, [Q], A, parent="b"),
        (span("b", 1, parent="a"), Reading(kind="span")),
        tool("c", 2, "x", parent="c"),
    )
    assert [call.span_id for call in projection.model_calls] == ["a"]


def test_of_two_calls_with_one_response_id_the_one_that_tells_more_counts() -> None:
    projection = told(
        model("bare", 0, response_id="r", cost_usd=0.5, usage=Usage(input=3)),
        model("full", 1, [Q], A, response_id="r", usage=None),
    )
    (call,) = projection.model_calls
    assert (call.span_id, call.cost_usd, call.input_tokens) == ("full", 0.5, 3)
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["Very."])]


def test_log_records_add_words_and_cost_to_the_span_of_their_call() -> None:
    projection = told(
        (span("turn", 0, took=30), Reading(kind="agent", session_id="s")),
        model("m", 2, parent="turn", response_id="r", first_token_ms=1.5),
        loose=[
            (log(1, span_id="turn"), Reading(kind="said", input=(Q,))),
            (log(7, span_id="turn"), Reading(kind="model", response_id="r", cost_usd=0.25)),
            (log(7, span_id="turn"), Reading(kind="said", response_id="r", output=(A,))),
        ],
    )
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["Very."])]
    (call,) = projection.model_calls
    assert (call.span_id, call.cost_usd, call.first_token_ms, call.duration_ms) == ("m", 0.25, 1.5, 5.0)
    assert about(projection)["cost_usd"] == 0.25


def test_a_session_of_log_records_alone() -> None:
    trace = "session:s-7"
    loose = [
        (log(0, trace=trace), Reading(kind="said", input=(Q,))),
        (log(1, trace=trace), Reading(kind="model", response_id="r", model="m-1", usage=Usage(input=4))),
        (log(1, trace=trace), Reading(kind="said", response_id="r", output=(A,))),
        (log(2, trace=trace), Reading(kind="tool", call_id="c", tool="look", result="ok")),
        (log(3, trace=trace), Reading(kind="said", input=(said("user", "And now?"),))),
    ]
    projection = assemble(trace, [], loose, Others())
    assert shown(projection) == [
        ("user", ["How hot is it?"]),
        ("assistant", ["Very.", ("look", "output-available", "ok")]),
        ("user", ["And now?"]),
    ]
    assert (piece(projection).session_id, piece(projection).session_by) == ("s-7", "attribute")
    assert projection.model_calls[0].duration_ms is None


def test_words_that_a_call_was_sent_are_not_told_again() -> None:
    projection = told(model("m", 5, [Q], A), loose=[(log(0), Reading(kind="said", input=(Q,)))])
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["Very."])]


def test_a_span_that_is_still_running_is_stood_for_until_it_comes() -> None:
    view = span("p", 0, parent="real")
    pending = (
        view,
        Reading(kind="model", model="m-1", input=(Q,), pending=True, stands_for="real", parent_span_id="top"),
    )
    projection = told(pending)
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", [])]
    assert "stop_reason" not in about(projection)
    (call,) = projection.model_calls
    assert (call.span_id, call.duration_ms) == ("real", None)
    done = told(pending, model("real", 0, [Q], A, parent="top"))
    assert about(done)["stop_reason"] == "stop"
    assert [call.span_id for call in done.model_calls] == ["real"]
    assert piece(done).spans == 1


def test_an_answer_is_open_while_the_agent_runs() -> None:
    pending = (span("p", 0), Reading(kind="agent", pending=True, stands_for="agent"))
    assert "stop_reason" not in about(told(pending, model("m", 1, [Q], A, parent="agent", stop_reason="stop")))


def test_a_call_that_failed_says_so() -> None:
    projection = told(model("m", 0, [Q], error="too many requests", usage=None, view={"status": "error"}))
    assert about(projection)["stop_reason"] == "error"
    assert about(projection)["error"] == {"type": "error", "message": "too many requests"}
    assert projection.model_calls[0].error == "too many requests"
    assert piece(projection).errors == 1


def test_a_call_that_is_made_again_after_it_failed_is_the_same_turn() -> None:
    projection = told(model("m1", 0, [Q], error="busy"), model("m2", 10, [Q], A, stop_reason="stop"))
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["Very."])]
    assert about(projection)["stop_reason"] == "stop"


def test_the_same_question_asked_again_is_another_turn() -> None:
    first, second = said("assistant", called("c1", "look")), said("assistant", called("c2", "look"))
    projection = told(
        model("m1", 0, [Q], first),
        model("m2", 10, [Q], second),
        model("m3", 20, [Q, second, said("tool", result("c2", "2"))], said("assistant", "Two.")),
        model("m4", 30, [Q, first, said("tool", result("c1", "1"))], said("assistant", "One.")),
    )
    assert shown(projection) == [
        ("user", ["How hot is it?"]),
        ("assistant", [("look", "output-available", "1"), "|", "One."]),
        ("user", ["How hot is it?"]),
        ("assistant", [("look", "output-available", "2"), "|", "Two."]),
    ]


def test_a_look_at_the_question_by_somebody_else_belongs_to_the_turn() -> None:
    projection = told(
        model("guard", 0, [Q], said("assistant", "harmless"), system="Guard."), model("m", 10, [Q], A, system="Answer.")
    )
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["harmless", "|", "Very."])]


def test_new_words_of_the_user_begin_a_turn() -> None:
    more = said("user", "And tomorrow?")
    projection = told(model("m1", 0, [Q], A), model("m2", 10, [Q, A, more], said("assistant", "Less.")))
    assert shown(projection) == [
        ("user", ["How hot is it?"]),
        ("assistant", ["Very."]),
        ("user", ["And tomorrow?"]),
        ("assistant", ["Less."]),
    ]
    assert sorted(turn.times for turn in projection.turns) == [1, 1]


def test_results_that_are_sent_in_the_name_of_the_user_begin_none() -> None:
    asked = said("assistant", called("c1", "look"))
    projection = told(model("m1", 0, [Q], asked), model("m2", 10, [Q, asked, said("user", result("c1", "hot"))], A))
    assert shown(projection)[1][1] == [("look", "output-available", "hot"), "|", "Very."]


def test_what_a_lost_call_said_is_known_from_the_next() -> None:
    lost = said("assistant", "In between.")
    projection = told(
        model("m1", 0, [Q], A), model("m3", 20, [Q, A, said("user", "Go on."), lost, said("user", "Stop.")], A)
    )
    assert shown(projection)[2:] == [
        ("user", ["Go on."]),
        ("assistant", ["In between."]),
        ("user", ["Stop."]),
        ("assistant", ["Very."]),
    ]


def test_an_answer_that_was_not_captured_is_known_from_the_next_call() -> None:
    projection = told(model("m1", 0, [Q]), model("m2", 10, [Q, A, said("user", "Thanks.")], said("assistant", "Sure.")))
    assert shown(projection)[:2] == [("user", ["How hot is it?"]), ("assistant", ["Very."])]


def test_order_follows_the_context_whatever_the_clocks_say() -> None:
    asked = said("assistant", "Looking.")
    later = said("user", "Well?")
    projection = told(model("m2", 0, [Q, asked, later], A), model("m1", 500, [Q], asked))
    assert [parts for _, parts in shown(projection)] == [["How hot is it?"], ["Looking."], ["Well?"], ["Very."]]
    times = [message.created_at for message in projection.messages]
    assert times == sorted(set(times))


def test_a_call_of_an_agent_below_a_tool_counts_but_does_not_speak() -> None:
    asked = said("assistant", called("c1", "delegate"))
    inside = [said("user", "Look around.")]
    projection = told(
        model("m1", 0, [Q], asked),
        tool("t", 5, "delegate", "c1", result="a hill"),
        (span("sub", 6, parent="t"), Reading(kind="agent", agent="helper")),
        model("s1", 7, inside, said("assistant", "I see a hill."), parent="sub"),
        tool("st", 8, "peek", "c9", parent="sub", result="x"),
        model("m2", 20, [Q, asked, said("tool", result("c1", "a hill"))], A),
    )
    assert shown(projection) == [
        ("user", ["How hot is it?"]),
        ("assistant", [("delegate", "output-available", "a hill"), "|", "Very."]),
    ]
    assert about(projection)["usage"]["input"] == 30
    assert {call.message_id for call in projection.model_calls} == {projection.messages[1].id}


def test_independent_conversations_are_turns_of_their_own() -> None:
    projection = told(
        model("a1", 0, [said("user", "A?")], said("assistant", "A!")),
        model("b1", 5, [said("user", "B?")], said("assistant", "B!")),
        model("a2", 9, [said("user", "A?"), said("assistant", "A!"), said("user", "AA?")], said("assistant", "AA!")),
    )
    assert [parts[0] for _, parts in shown(projection)] == ["A?", "A!", "B?", "B!", "AA?", "AA!"]


def test_what_is_asked_besides_has_a_cost_and_no_words() -> None:
    projection = told(
        model("m", 0, [Q], A),
        model("title", 1, [said("user", "Name this.")], A, metadata={"aside": True}, cost_usd=1.0),
    )
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["Very."])]
    assert [(call.span_id, call.cost_usd, call.message_id is None) for call in projection.model_calls] == [
        ("m", None, False),
        ("title", 1.0, True),
    ]
    assert "aside" not in piece(projection).metadata_json


def test_calls_without_words_are_an_answer_without_a_question() -> None:
    projection = told(model("m1", 0), model("m2", 10))
    assert shown(projection) == [("assistant", [])]
    assert about(projection)["usage"]["input"] == 20


def test_a_call_without_words_belongs_to_the_turn_that_goes_on() -> None:
    projection = told(model("m1", 0, [Q], A), model("embed", 3))
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["Very."])]
    assert about(projection)["usage"]["input"] == 20


def test_an_agent_speaks_where_no_call_is_told() -> None:
    reading = Reading(kind="agent", input=(Q,), output=(A,), usage=Usage(input=5), model="m-2")
    projection = told(
        (span("outer", 0), reading),
        (span("inner", 1, parent="outer"), Reading(kind="agent", input=(Q,), output=(A,), usage=Usage(input=5))),
        tool("t", 2, "look", parent="inner", result=1),
    )
    assert shown(projection) == [
        ("user", ["How hot is it?"]),
        ("assistant", [("look", "output-available", 1), "Very."]),
    ]
    assert [(call.span_id, call.input_tokens) for call in projection.model_calls] == [("outer", 5)]


def test_an_agent_lends_its_words_to_calls_that_tell_none() -> None:
    projection = told((span("agent", 0), Reading(kind="agent", input=(Q,), output=(A,))), model("m", 1, parent="agent"))
    assert shown(projection) == [("user", ["How hot is it?"]), ("assistant", ["Very."])]
    assert [call.span_id for call in projection.model_calls] == ["m"]


def test_files_and_other_data_are_parts_as_they_are() -> None:
    picture = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA=="}
    projection = told(
        model("m", 0, [said("user", "See?", picture)], said("assistant", {"type": "data-x", "data": [1]}))
    )
    assert [part.data() for part in projection.parts] == [
        {"type": "text", "text": "See?"},
        picture,
        {"type": "data-x", "data": [1]},
    ]


def test_history_that_nobody_told_is_told_before_the_question() -> None:
    asked = said("assistant", called("c1", "look"), "Looking.")
    history = [Q, asked, said("tool", result("c1", "41")), A]
    projection = told(model("m", 100, [*history, said("user", "Sure?")], said("assistant", "Yes."), session_id="s"))
    assert shown(projection) == [
        ("user", ["How hot is it?"]),
        ("assistant", [("look", "output-available", "41"), "Looking.", "Very."]),
        ("user", ["Sure?"]),
        ("assistant", ["Yes."]),
    ]
    first, second, *rest = projection.messages
    assert [message.created_at for message in projection.messages] == [T0 + 98, T0 + 99, T0 + 100, T0 + 101]
    assert first.metadata() == {"history": True, "trace_id": TRACE}
    assert second.metadata() == {"history": True, "stop_reason": "stop", "trace_id": TRACE}
    assert not any("history" in message.metadata() for message in rest)
    # The question, and for who was not there: the question before, and the outcome of its tool.
    assert sorted((turn.times, turn.history) for turn in projection.turns) == [(1, 0), (1, 1), (1, 1)]


def test_history_that_an_earlier_trace_tells_is_left_to_it() -> None:
    known = Others()
    first = assemble("1" * 32, [model("m", 0, [Q], A, session_id="s", trace="1" * 32)], [], known)
    known.projections["1" * 32] = first
    # The same question a second time was told by nobody: k of them need k that were told.
    again = [Q, A, Q, said("assistant", "Still."), said("user", "Sure?")]
    projection = told(model("m", 100, again, said("assistant", "Yes."), session_id="s"), known=known)
    assert shown(projection) == [
        ("user", ["How hot is it?"]),
        ("assistant", ["Still."]),
        ("user", ["Sure?"]),
        ("assistant", ["Yes."]),
    ]


def test_a_question_that_got_no_answer_is_not_told_twice() -> None:
    known = Others()
    known.projections["1" * 32] = assemble(
        "1" * 32, [model("m", 0, [Q], error="down", session_id="s", trace="1" * 32)], [], known
    )
    projection = told(model("m", 50, [Q, said("user", "Hello?")], A, session_id="s"), known=known)
    assert shown(projection) == [("user", ["Hello?"]), ("assistant", ["Very."])]


def test_an_answer_that_goes_on_in_the_next_trace_brings_the_tool_s_outcome() -> None:
    asked = said("assistant", called("c1", "look"))
    known = Others()
    known.projections["1" * 32] = assemble("1" * 32, [model("m", 0, [Q], asked, trace="1" * 32)], [], known)
    going_on = model("m", 50, [Q, asked, said("tool", result("c1", "41"))], A)
    projection = told(going_on, known=known)
    assert (piece(projection).session_id, piece(projection).session_by) == ("trace:" + "1" * 32, "context")
    assert shown(projection) == [("assistant", [("look", "output-available", "41"), "|", "Very."])]
    known.projections["2" * 32] = assemble(
        "2" * 32, [tool("t", 10, "look", "c1", result="41", session_id="trace:" + "1" * 32, trace="2" * 32)], [], known
    )
    assert shown(told(going_on, known=known)) == [("assistant", ["Very."])]  # the tool's own trace tells it


def test_a_call_is_left_to_the_trace_that_tells_it_whole() -> None:
    asking = model("m", 0, [Q], said("assistant", "Hm.", called("c1", "look", n=1)), session_id="s")
    for arguments, parts in ((None, ["Hm.", ("look", "input-available", None)]), ({"n": 1}, ["Hm."])):
        known, other = Others(), "2" * 32
        ran = tool("t", 10, "look", "c1", result="41", arguments=arguments, session_id="s", trace=other)
        known.projections[other] = assemble(other, [ran], [], known)
        assert shown(told(asking, known=known))[1] == ("assistant", parts)


def test_a_session_is_its_own_attribute_or_the_earliest_of_the_trace() -> None:
    projection = told(
        (span("root", 0), Reading(kind="agent")),
        model("m1", 1, [Q], A, session_id="one"),
        model("m2", 2, [said("user", "B?")], A, session_id="two"),
        tool("t", 3, "look"),
    )
    assert [(piece.session_id, piece.session_by, piece.spans) for piece in projection.pieces] == [
        ("one", "trace", 3),
        ("two", "attribute", 1),
    ]
    assert shown(projection, "two") == [("user", ["B?"]), ("assistant", ["Very."])]
    assert [call.session_id for call in projection.model_calls] == ["one", "two"]


@pytest.mark.parametrize("session_id", ["", " ", "x" * 5000, "\ud800"])
def test_a_session_id_that_can_t_be_one_is_none(session_id: str) -> None:
    assert piece(told(model("m", 0, [Q], A, session_id=session_id))).session_id == f"trace:{TRACE}"


def test_a_trace_joins_the_one_that_it_goes_on_from_and_no_other() -> None:
    more = [Q, A, said("user", "Sure?")]
    known = Others()
    for place, trace in enumerate(("1" * 32, "2" * 32)):
        projection = told(model("m", 100, more, A), known=known)
        assert piece(projection).session_by == ("context" if place else "none")
        known.projections[trace] = assemble(trace, [model("m", place, [Q], A, trace=trace)], [], known)
    assert piece(told(model("m", 100, more, A), known=known)).session_by == "none"  # which of the two?
    del known.projections["2" * 32]
    assert piece(told(model("m", -100, more, A), known=known)).session_by == "none"  # that one came later


def test_words_that_were_not_captured_join_nothing() -> None:
    empty = [said("user"), said("assistant"), said("user")]
    known = Others()
    known.projections["1" * 32] = assemble(
        "1" * 32, [model("m", 0, empty[:1], said("assistant"), trace="1" * 32)], [], known
    )
    projection = told(model("m", 10, empty, said("assistant")), known=known)
    assert piece(projection).session_by == "none"
    assert shown(projection) == [("assistant", [])]


def test_a_recorded_session_keeps_its_traces_and_gets_no_rows() -> None:
    score = Score(score_id="x", session_id="?", trace_id=TRACE, ts=1)
    projection = told(model("m", 0, [Q], A, session_id="s", score=score), known=Others(recorded=["s"]))
    assert piece(projection).session_id == "s"
    assert not (projection.messages or projection.parts or projection.model_calls or projection.turns)
    assert [score.session_id for score in projection.scores] == ["s"]


def test_a_score_is_of_the_session_of_the_span_that_it_judges() -> None:
    score = Score(score_id="x", session_id="?", trace_id=TRACE, span_id="m2", value=1.0, ts=1)
    projection = told(
        model("m1", 0, [Q], A, session_id="one"),
        model("m2", 1, [Q], A, session_id="two"),
        loose=[(log(5), Reading(score=score))],
    )
    assert [score.session_id for score in projection.scores] == ["two"]


def test_a_piece_tells_of_its_trace() -> None:
    resource = {"service.name": "shop"}
    projection = told(
        (
            span("root", 0, took=100, name="GET /", resource=resource),
            Reading(kind="span", user_id="u", dialect="generic"),
        ),
        model("m1", 10, [Q], A, parent="root", provider="openai", metadata={"tags": ["a"]}),
        (span("bad", 20, parent="root", status="error"), Reading(kind="span")),
        (span("worse", 21, parent="bad", status="error"), Reading(kind="span")),
    )
    found = piece(projection)
    assert (found.name, found.agent, found.provider, found.model, found.kind) == (
        "GET /",
        "shop",
        "openai",
        "m-1",
        "user",
    )
    assert (found.first_at, found.last_at, found.spans, found.errors) == (T0, T0 + 100, 4, 1)
    assert msgspec.json.decode(found.metadata_json) == {
        "session_by": "none",
        "user_id": "u",
        "dialect": "generic",
        "tags": ["a"],
        "service": "shop",
    }


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [({}, "system:otel"), ({"dashcam.kind": "system:cron"}, "system:cron"), ({"dashcam.kind": 7}, "system:otel")],
)
def test_a_trace_without_an_agent_is_the_system_s(attributes: dict[str, Any], kind: str) -> None:
    projection = told((span("root", 0, attributes=attributes), Reading(kind="span")))
    assert (piece(projection).kind, projection.messages) == (kind, [])


def test_a_price_is_that_of_the_list_whatever_the_length_of_the_context() -> None:
    for usage in (Usage(input=1000, output=50, cache_read=7), Usage(input=300_000, output=9)):
        (call,) = told(model("m", 0, [Q], A, model="gpt-4o-mini", provider="openai", usage=usage)).model_calls
        assert call.cost_usd == pytest.approx(cost_of("openai", "gpt-4o-mini", usage))


def test_nothing_comes_of_nothing() -> None:
    assert told() == Projection()


_ODD: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", "\0", 2**80, b"\xff"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_TEXT = st.sampled_from(["", "hi", "\ud800", "\0x"])
_PARTS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, _TEXT),
    st.builds(
        lambda a, b, c: {"type": "tool-call", "toolCallId": a, "toolName": b, "input": c},
        st.none() | _TEXT,
        _TEXT,
        _ODD,
    ),
    st.builds(
        lambda a, b, c: {"type": "tool-result", "toolCallId": a, "toolName": None, "output": b, "error": c},
        st.none() | _TEXT,
        _ODD,
        st.booleans(),
    ),
    st.builds(lambda data: {"type": "data-x", "data": data}, _ODD),
)
_IDS = st.sampled_from(["a", "b", "c", "d", "e"])


@st.composite
def _steps(draw: st.DrawFn) -> list[Step]:
    found = {}
    for span_id in draw(st.lists(_IDS, max_size=5)):
        messages = st.lists(
            st.builds(
                lambda role, parts, raw: msgspec.structs.replace(said(role), parts=tuple(parts), raw=raw),
                st.sampled_from(["system", "user", "assistant", "tool"]),
                st.lists(_PARTS, max_size=3),
                st.binary(max_size=1),
            ),
            max_size=4,
        )
        reading = Reading(
            kind=draw(st.sampled_from(["model", "tool", "agent", "retrieval", "said", "span", None])),
            session_id=draw(st.none() | st.sampled_from(["s", "t"])),
            input=draw(st.none() | messages.map(tuple)),
            output=draw(st.none() | messages.map(tuple)),
            usage=draw(st.none() | st.just(Usage(input=1))),
            response_id=draw(st.none() | _IDS),
            tool=draw(st.none() | _TEXT),
            call_id=draw(st.none() | _TEXT),
            arguments=draw(_ODD),
            result=draw(_ODD),
            settings={"x": draw(_ODD)},
            metadata=draw(st.none() | st.just({"aside": True}) | st.dictionaries(st.text(), _ODD, max_size=2)),
            pending=draw(st.booleans()),
            stands_for=draw(st.none() | _IDS),
            parent_span_id=draw(st.none() | _IDS),
        )
        times = st.sampled_from([0, 1, 10**18, 2**63, 2**64])
        view = msgspec.structs.replace(
            span(span_id, parent=draw(st.none() | _IDS)), start_ns=draw(times), end_ns=draw(times)
        )
        found[span_id] = (view, reading)
    return list(found.values())


@pytest.mark.slow
@given(_steps(), st.randoms())
def test_whatever_spans_say_comes_out_the_same_in_any_order(steps: list[Step], random: Any) -> None:
    projection = told(*steps)
    mixed = list(steps)
    random.shuffle(mixed)
    assert told(*mixed) == projection
    assert len({message.id for message in projection.messages}) == len(projection.messages)
    assert len({part.id for part in projection.parts}) == len(projection.parts)
    for text in [part.data_json for part in projection.parts] + [each.metadata_json for each in projection.messages]:
        msgspec.json.decode(text)
