from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dashcam
from dashcam import log_event, new_trace
from dashcam.dialects.lines import parse_line
from dashcam.record import collect as collect_module
from dashcam.record.collect import collect_journals, parse_block
from dashcam.record.prune import prune_journals
from dashcam.record.refresh import collect, open_current, open_store
from dashcam.sdk import emit
from dashcam.sdk.settings import Settings, settings_from
from dashcam.store.base import EventFilter
from dashcam.views import timeline


@pytest.fixture
def settings(data: Path) -> Settings:
    return settings_from({}, data=data)


def finish() -> None:
    """End recording, as the end of the process does."""
    ours = emit.use_recorder(None)
    assert ours
    ours.close()


def test_what_was_recorded_is_found_again_with_nothing_set_up(settings: Settings) -> None:
    trace = log_event(new_trace("chat-42"), "tool_call_completed", tool="search", latency_ms=42)
    with open_current(settings) as store:
        (event,) = store.events(EventFilter(trace_id=trace.trace_id))
    assert msgspec.json.decode(event.fields) == {"tool": "search", "latency_ms": 42}


def test_collecting_goes_on_where_it_stood_and_adds_nothing_twice(settings: Settings) -> None:
    trace = new_trace("s")
    with open_store(settings) as store:
        for round_number in range(5):
            trace = log_event(trace, "tool_call", tool=str(round_number))
            assert collect(store, settings).events == 1
            assert collect(store, settings).events == 0
        assert [event.step for event in store.events(EventFilter())] == list(range(5))


@pytest.mark.slow
def test_a_journal_is_collected_while_it_is_being_written(settings: Settings) -> None:
    stop = threading.Event()

    def write() -> None:
        trace = new_trace("s")
        while not stop.is_set() and trace.step < 30_000:
            trace = log_event(trace, "tool_call", tool="x" * 50)

    writer = threading.Thread(target=write)
    with open_store(settings) as store:
        writer.start()
        for _ in range(30):
            collect(store, settings)
            time.sleep(0.005)
        stop.set()
        writer.join()
        collect(store, settings)
        steps = [event.step for event in store.events(EventFilter())]
        assert steps == list(range(dashcam.stats()["written"]))
        assert list(store.orphans()) == []


def test_a_torn_last_line_waits_while_its_writer_lives_and_is_reported_when_it_is_gone(
    settings: Settings,
) -> None:
    log_event(new_trace("s"), "tool_call", tool="x")
    (segment,) = settings.journals.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"session_id":"s","tra')
    with open_store(settings) as store:
        assert collect(store, settings).torn == 0
        finish()
        assert collect(store, settings).torn == 1
        assert collect(store, settings).torn == 0
        (orphan,) = store.orphans()
        assert orphan.reason.startswith("torn")
        assert orphan.body == b'{"session_id":"s","tra'
        assert len(list(store.events(EventFilter()))) == 1


def test_what_is_no_record_goes_to_quarantine_and_its_neighbours_stay(settings: Settings) -> None:
    trace = log_event(new_trace("s"), "tool_call", tool="a")
    (segment,) = settings.journals.glob("*.jsonl")
    with segment.open("ab") as file:
        file.write(b'{"operation":"cost","usd":0.0123}\nnot json\n\n   \n')
    log_event(trace, "tool_call", tool="b")
    with open_store(settings) as store:
        collected = collect(store, settings)
        assert (collected.events, collected.orphans) == (2, 2)
        reasons = sorted(orphan.reason for orphan in store.orphans())
        assert reasons[0].startswith("not JSON")
        assert reasons[1] == "session_id is missing"


def test_a_line_longer_than_a_block_is_collected_whole(settings: Settings) -> None:
    log_event(new_trace("s"), "tool_call", tool="x", input="y" * 3_000_000)
    log_event(new_trace("s"), "tool_call", tool="x")
    with open_store(settings) as store:
        assert collect(store, settings).events == 2
        assert max(len(event.fields) for event in store.events(EventFilter())) > 3_000_000


def test_a_line_without_end_goes_to_quarantine_by_its_beginning(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect_module, "MAX_LINE", 100_000)
    monkeypatch.setattr(collect_module, "BLOCK", 10_000)
    settings.journals.mkdir(parents=True)
    (settings.journals / "x.jsonl").write_bytes(b"z" * 250_000 + b"\n")
    with open_store(settings) as store:
        collected = collect(store, settings)
        assert collected.events == 0
        assert "only its beginning is kept" in next(iter(sorted(o.reason for o in store.orphans())))
        assert collect(store, settings).bytes == 0


def test_every_line_has_its_own_offset() -> None:
    block = b'{"a":1}\n\n{"b":2}\r\n{"c":3}\n'
    assert [(record.offset) for record in parse_block(block, "s", 100, 0)] == [100, 109, 118]


def test_progress_is_told_in_bytes(settings: Settings) -> None:
    for _ in range(10):
        log_event(new_trace("s"), "tool_call", tool="x")
    told: list[tuple[int, int]] = []
    with open_store(settings) as store:
        collect_journals(store, settings.journals, lambda done, total: told.append((done, total)))
    (segment,) = settings.journals.glob("*.jsonl")
    assert told[-1] == (segment.stat().st_size,) * 2


def test_model_calls_are_derived_from_the_log_and_the_same_after_a_rebuild(settings: Settings) -> None:
    trace = new_trace("s")
    trace = log_event(trace, "model_call", model="m", input_tokens=10, cost_usd=0.5, latency_ms=9, settings={"t": 0})
    trace = log_event(trace, "model_call", model="m", api_key="x")
    with open_store(settings) as store:
        collect(store, settings)
        before = store.model_calls(trace.trace_id), store.figures("day"), store.figures("source")
        first, second = before[0]
        assert (first.input_tokens, first.cost_usd, first.duration_ms, first.settings) == (
            10,
            0.5,
            9.0,
            '{"t":0}',
        )
        assert (second.input_tokens, second.cost_usd, second.redacted) == (None, None, True)
        store.forget_projections()
        assert store.model_calls(trace.trace_id) == []
        collect(store, settings)
        assert (store.model_calls(trace.trace_id), store.figures("day"), store.figures("source")) == before


def test_more_traces_than_a_page_are_all_projected(settings: Settings) -> None:
    traces = [log_event(new_trace("s"), "model_call", model="m") for _ in range(250)]
    with open_store(settings) as store:
        collect(store, settings)
        assert all(len(store.model_calls(trace.trace_id)) == 1 for trace in traces)
        assert store.unprojected().trace_ids == []


def test_only_finished_and_collected_segments_are_pruned(settings: Settings) -> None:
    log_event(new_trace("s"), "tool_call", tool="x")
    with open_store(settings) as store:
        collect(store, settings)
        assert prune_journals(store, settings.journals) == 0  # still being written
        log_event(new_trace("s"), "tool_call", tool="y")
        finish()
        assert prune_journals(store, settings.journals) == 0  # not collected to its end
        collect(store, settings)
        assert prune_journals(store, settings.journals) == 1
        assert len(list(store.events(EventFilter()))) == 2


def test_a_reader_beside_a_writer_only_reads(settings: Settings) -> None:
    log_event(new_trace("s"), "tool_call", tool="x")
    with open_store(settings) as store:
        collect(store, settings)
        log_event(new_trace("s"), "tool_call", tool="y")
        with open_current(settings) as reader:
            assert len(list(reader.events(EventFilter()))) == 1
    with open_current(settings) as reader:
        assert len(list(reader.events(EventFilter()))) == 2


def test_one_record_that_the_store_refuses_goes_to_quarantine_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rule lets such a record through today; if one ever does, it must not stop all the others."""
    trace = log_event(new_trace("s"), "reply_ready")
    trace = log_event(trace, "model_call", model="m", text="unfit")
    log_event(trace, "reply_ready")
    real = parse_line

    def lets_one_through(line: bytes, *where: Any) -> Any:
        found = real(line, *where)
        return msgspec.structs.replace(found, step=-1) if b"unfit" in line else found

    monkeypatch.setattr(collect_module, "parse_line", lets_one_through)
    with open_store(settings) as store:
        collected = collect(store, settings)
        assert (collected.events, collected.orphans) == (2, 1)
        (orphan,) = store.orphans()
        assert "refused by the store" in orphan.reason
        assert b"unfit" in orphan.body
        assert collect(store, settings).bytes == 0
        assert list(store.verify()) == []


def test_a_segment_that_cannot_be_read_does_not_keep_the_others_away(settings: Settings) -> None:
    log_event(new_trace("s"), "reply_ready")
    (settings.journals / "a-broken.jsonl").symlink_to("a-broken.jsonl")  # leads to itself
    (settings.journals / "b-folder.jsonl").mkdir()
    with open_store(settings) as store:
        assert collect(store, settings).events == 1


def test_hostile_numbers_in_a_model_call_stop_neither_projecting_nor_reading(settings: Settings) -> None:
    settings.journals.mkdir(parents=True)
    head = b'{"session_id":"s","trace_id":"t","step":%d,"kind":"user","operation":"model_call","ts":"2030-01-01T00:00:00.000001Z","model":"m",'
    lines = [
        b'"x":1e999}',
        b'"cost_usd":' + b"9" * 400 + b"}",
        b'"input_tokens":' + b"9" * 5000 + b"}",
        b'"span_id":["x"]}',
    ]
    (settings.journals / "x.jsonl").write_bytes(b"".join(head % step + line + b"\n" for step, line in enumerate(lines)))
    with open_store(settings) as store:
        assert collect(store, settings).events == 4
        assert [call.cost_usd for call in store.model_calls("t")] == [None] * 4
        assert timeline.load(store, "t").cost_usd is None
        assert timeline.load_session(store, "s", "here")[0].failures == 0


def test_a_session_never_shows_the_records_of_another_with_the_same_trace_id(settings: Settings) -> None:
    log_event(new_trace("alice", trace_id="turn-1"), "request_received", input="secret")
    log_event(new_trace("bob", trace_id="turn-1"), "request_received", input="hello")
    with open_current(settings) as store:
        (found,) = timeline.load_session(store, "bob", "here")
    assert [record["input"] for record in found.records] == ["hello"]
