from __future__ import annotations

import asyncio
import contextvars
import re
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dashcam
from dashcam import Trace, UnjoinableRecord, log_event, new_trace, system_trace, use_trace
from dashcam.contracts.identity import is_otel_trace_id, otel_trace_id, root_span_id


def test_minted_ids_are_opentelemetry_ids() -> None:
    trace = new_trace(session_id="s")
    assert re.fullmatch("[0-9a-f]{32}", trace.trace_id)
    assert re.fullmatch("[0-9a-f]{16}", trace.span_id)
    assert (trace.step, trace.kind, trace.parent_span_id) == (0, "user", None)


def test_a_trace_never_changes() -> None:
    trace = new_trace(session_id="s")
    with pytest.raises(AttributeError):
        trace.step = 5  # type: ignore[misc]
    assert trace.tick().step == 1
    assert trace.step == 0


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u3000", None, 7])
def test_an_empty_or_missing_identity_raises(blank: object) -> None:
    with pytest.raises(UnjoinableRecord):
        new_trace(session_id=blank)  # type: ignore[arg-type]
    with pytest.raises(UnjoinableRecord):
        Trace("s", blank)  # type: ignore[arg-type]
    if blank is not None:
        with pytest.raises(UnjoinableRecord):
            new_trace("s", trace_id=blank)  # type: ignore[arg-type]


def test_a_missing_session_is_told_as_unjoinable_not_as_a_type_error() -> None:
    with pytest.raises(UnjoinableRecord, match=r"session_id is empty.*new_trace"):
        new_trace()


@pytest.mark.parametrize("bad", ["x" * 257, "a\0b", "\ud800"])
def test_ids_that_no_store_can_hold_are_refused(bad: str) -> None:
    with pytest.raises(UnjoinableRecord):
        new_trace(session_id=bad)


def test_identity_is_checked_however_a_trace_is_made() -> None:
    with pytest.raises(UnjoinableRecord):
        msgspec.structs.replace(new_trace("s"), session_id="")
    with pytest.raises((UnjoinableRecord, msgspec.ValidationError)):
        msgspec.json.decode(b'{"session_id": "", "trace_id": "t"}', type=Trace)


@pytest.mark.parametrize("kind", ["", "admin", "system", "system:", "system: x", "User", "system:a b"])
def test_a_kind_is_user_or_a_named_system_and_nothing_else(kind: str) -> None:
    with pytest.raises(UnjoinableRecord):
        new_trace("s", kind=kind)


def test_a_system_trace_names_its_source() -> None:
    assert system_trace("reflector").kind == "system:reflector"
    assert system_trace("reflector").session_id == "system:reflector"
    assert system_trace("reflector", session_id="chat-1").session_id == "chat-1"


@pytest.mark.parametrize("source", ["", " ", "a b", "a\tb"])
def test_an_empty_or_spaced_source_is_refused(source: str) -> None:
    with pytest.raises(UnjoinableRecord):
        system_trace(source)


def test_a_missing_id_is_told_like_an_empty_one() -> None:
    with pytest.raises(UnjoinableRecord):
        Trace()
    with pytest.raises(UnjoinableRecord):
        Trace(session_id="s")
    with pytest.raises(UnjoinableRecord):
        Trace(trace_id="t")


def test_some_other_kind_of_text_is_kept_as_text(tape: dashcam.testing.Tape) -> None:
    class Name(StrEnum):
        ID = "chat-42"
        WHAT = "tool_call"

    log_event(new_trace(Name.ID, trace_id=Name.ID), Name.WHAT, tool=Name.ID)
    assert tape.records[0]["session_id"] == tape.records[0]["tool"] == "chat-42"


def test_a_trace_in_use_keeps_its_counter_however_many_others_there_are(tape: dashcam.testing.Tape) -> None:
    with use_trace(new_trace("s")) as trace:
        for number in range(3):
            log_event(trace, "reply_ready")
            for _ in range(6_000 if number else 0):
                with use_trace(new_trace("other")):
                    pass
    assert [record["step"] for record in tape.records] == [0, 1, 2]


def test_ids_from_outside_are_kept_verbatim_and_leave_under_a_derived_id() -> None:
    trace = new_trace("chat 42/ü", trace_id="req_ABC:1")
    assert (trace.session_id, trace.trace_id) == ("chat 42/ü", "req_ABC:1")
    assert is_otel_trace_id(otel_trace_id(trace.trace_id))
    assert otel_trace_id("req_ABC:1") != otel_trace_id("req_ABC:2")
    assert trace.span_id == root_span_id("req_ABC:1")


@given(st.text(min_size=1, max_size=256))
def test_any_text_is_a_join_key_or_is_refused_clearly(text: str) -> None:
    try:
        trace = new_trace(text)
    except UnjoinableRecord as error:
        assert not text.strip() or "\0" in text or not text.isprintable(), error
    else:
        assert trace.session_id == text


def test_a_span_is_a_child_that_can_be_passed_on() -> None:
    trace = new_trace("s")
    child = trace.span("search")
    assert isinstance(child, Trace)
    assert (child.session_id, child.trace_id) == (trace.session_id, trace.trace_id)
    assert child.parent_span_id == trace.span_id
    assert child.span_id != trace.span_id
    assert child.span("deeper").parent_span_id == child.span_id


def test_a_span_records_its_start_its_duration_and_that_it_went_well(tape: dashcam.testing.Tape) -> None:
    with new_trace("s").span("search", index="docs") as inside:
        log_event(inside, "tool_call", tool="grep")
    started, call, ended = tape.records
    assert (started["operation"], started["name"], started["index"]) == ("span_started", "search", "docs")
    assert (ended["operation"], ended["status"]) == ("span_ended", "ok")
    assert ended["duration_ms"] > 0
    assert ended["started_at"] < ended["ts"]
    assert started["span_id"] == call["span_id"] == ended["span_id"] == inside.span_id
    assert started["parent_span_id"] == inside.parent_span_id
    assert [record["step"] for record in tape.records] == [0, 1, 2]


def test_a_span_records_the_error_and_lets_it_through(tape: dashcam.testing.Tape) -> None:
    with pytest.raises(KeyError), new_trace("s").span("search"):
        raise KeyError("no such index")
    ended = tape.records[-1]
    assert ended["status"] == "error"
    assert ended["error"] == {"type": "KeyError", "message": "'no such index'"}


def test_spans_nest_through_the_current_trace(tape: dashcam.testing.Tape) -> None:
    with new_trace("s").span("outer") as outer, dashcam.current_trace().span("inner") as inner:
        assert dashcam.current_trace() == inner
    assert inner.parent_span_id == outer.span_id


def test_after_a_span_the_outer_trace_goes_on_without_sharing_a_step(tape: dashcam.testing.Tape) -> None:
    trace = log_event(new_trace("s"), "request_received")
    with trace.span("work") as inside:
        log_event(inside, "tool_call", tool="x")
    log_event(trace, "reply_ready")  # an older value of the same trace
    assert [record["step"] for record in tape.records] == [0, 1, 2, 3, 4]


def test_only_a_trace_can_be_made_current() -> None:
    with pytest.raises(UnjoinableRecord), use_trace("nope"):  # type: ignore[arg-type]
        pass


def test_there_is_no_current_trace_until_one_is_used() -> None:
    with pytest.raises(UnjoinableRecord, match="use_trace"):
        dashcam.current_trace()
    trace = new_trace("s")
    with use_trace(trace):
        assert dashcam.current_trace() == trace
    with pytest.raises(UnjoinableRecord):
        dashcam.current_trace()


def test_a_thread_does_not_see_the_current_trace_of_another() -> None:
    seen: list[str] = []

    def look() -> None:
        try:
            seen.append(dashcam.current_trace().session_id)
        except UnjoinableRecord:
            seen.append("none")

    with use_trace(new_trace("mine")):
        bare = threading.Thread(target=look)
        carried = threading.Thread(target=contextvars.copy_context().run, args=(look,))
        for thread in (bare, carried):
            thread.start()
            thread.join()
    assert seen == ["none", "mine"]


def test_asyncio_tasks_keep_their_own_traces(tape: dashcam.testing.Tape) -> None:
    async def turn(name: str) -> None:
        with use_trace(new_trace(name)):
            for _ in range(5):
                log_event(dashcam.current_trace(), "tool_call", tool=name)
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(turn(f"s{number}") for number in range(10)))

    asyncio.run(main())
    for number in range(10):
        mine = [record for record in tape.records if record["session_id"] == f"s{number}"]
        assert {record["tool"] for record in mine} == {f"s{number}"}
        assert [record["step"] for record in mine] == list(range(5))


def test_threads_that_start_from_one_current_trace_get_distinct_ordered_steps(
    tape: dashcam.testing.Tape,
) -> None:
    def work(trace: Trace) -> list[int]:
        steps = []
        for _ in range(200):
            trace = log_event(trace, "tool_call", tool="x")
            steps.append(trace.step - 1)
        return steps

    with use_trace(new_trace("s")) as trace, ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(work, [trace] * 8))
    assert sorted(step for steps in taken for step in steps) == list(range(1600))
    assert all(low < high for steps in taken for low, high in pairwise(steps))
    assert sorted(record["step"] for record in tape.records) == list(range(1600))


def test_tasks_that_start_from_one_current_trace_get_distinct_ordered_steps(
    tape: dashcam.testing.Tape,
) -> None:
    async def work() -> None:
        for _ in range(50):
            log_event(dashcam.current_trace(), "tool_call", tool="x")
            await asyncio.sleep(0)

    async def main() -> None:
        with use_trace(new_trace("s")):
            await asyncio.gather(*(work() for _ in range(4)))

    asyncio.run(main())
    assert sorted(record["step"] for record in tape.records) == list(range(200))


def test_a_trace_passed_by_hand_writes_its_step_as_it_stands(tape: dashcam.testing.Tape) -> None:
    trace = new_trace("s")
    log_event(trace, "tool_call", tool="a")
    log_event(trace, "tool_call", tool="b")
    assert [record["step"] for record in tape.records] == [0, 0]


def test_a_span_left_in_another_context_never_disturbs_the_host(tape: dashcam.testing.Tape) -> None:
    """Web frameworks enter and leave an async generator's block in different contexts."""

    async def dependency() -> AsyncIterator[Trace]:
        with new_trace("s").span("request") as inside, use_trace(inside):
            yield inside

    async def main() -> None:
        block = dependency()
        await asyncio.create_task(anext(block))  # type: ignore[arg-type]
        with pytest.raises(StopAsyncIteration):
            await asyncio.create_task(anext(block))  # type: ignore[arg-type]

    asyncio.run(main())
    assert [record["operation"] for record in tape.records] == ["span_started", "span_ended"]
    assert tape.records[-1]["status"] == "ok"


def test_an_error_that_cannot_be_shown_is_recorded_all_the_same(tape: dashcam.testing.Tape) -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(Hostile), new_trace("s").span("work"):
        raise Hostile
    assert tape.records[-1]["error"]["type"].endswith("Hostile")


def test_a_reader_who_had_enough_is_no_error(tape: dashcam.testing.Tape) -> None:
    def tokens() -> Iterator[int]:
        with new_trace("s").span("stream"):
            yield from range(100)

    stream = tokens()
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert tape.records[-1]["status"] == "ok"


def test_a_trace_made_current_again_and_again_keeps_counting_for_all(tape: dashcam.testing.Tape) -> None:
    """A record that is written while another thread enters or leaves the trace finds its counter there."""
    stop = threading.Event()

    def enters(trace: Trace) -> None:
        while not stop.is_set():
            with use_trace(trace):
                pass

    with use_trace(new_trace("s")) as trace, ThreadPoolExecutor(3) as pool:
        pool.submit(enters, trace)
        writers = [pool.submit(lambda: [log_event(trace, "reply_ready") for _ in range(1_000)]) for _ in range(2)]
        for writer in writers:
            writer.result()
        stop.set()
    assert sorted(record["step"] for record in tape.records) == list(range(2_000))
