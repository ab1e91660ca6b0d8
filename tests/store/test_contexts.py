"""Contexts: rebuilt exactly, at the cost of what is new, in any order of arrival."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conversations import Call, conversations, digests, held, open_store, straight_conversations
from hypothesis import given, settings
from hypothesis import strategies as st

from dashcam.contracts.content import context_digest
from dashcam.errors import ContentNotFound, StoreError
from dashcam.store.sqlite.connection import open_writer
from dashcam.store.sqlite.contexts import ContextWriter, context, known_prefix, put_context

relaxed = settings(deadline=None, max_examples=60)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = open_writer(tmp_path / "sessions.db")
    yield connection
    connection.close()


def _put_all(writer: ContextWriter, calls: list[Call], *, hints: bool = True) -> None:
    for call in calls:
        hint = context_digest(calls[call.parent].messages) if hints and call.parent is not None else None
        assert writer.put(call.messages, hint) == context_digest(call.messages)


def _assert_all_read_as_sent(store: sqlite3.Connection, calls: list[Call]) -> None:
    for call in calls:
        assert context(store, context_digest(call.messages)) == call.messages


@relaxed
@given(conversations, st.booleans(), st.integers(0, 8))
def test_every_context_is_rebuilt_as_it_was_sent(calls: list[Call], hints: bool, remember: int) -> None:
    with open_store() as store:
        _put_all(ContextWriter(store, remember), calls, hints=hints)
        _assert_all_read_as_sent(store, calls)


@relaxed
@given(conversations)
def test_one_at_a_time_gives_the_same_as_one_writer(calls: list[Call]) -> None:
    with open_store() as store:
        for call in calls:
            hint = context_digest(calls[call.parent].messages) if call.parent is not None else None
            put_context(store, call.messages, hint)
        _assert_all_read_as_sent(store, calls)


@relaxed
@given(conversations, st.data())
def test_any_order_of_arrival_gives_the_same_reads(calls: list[Call], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(calls))))
    with open_store() as store:
        writer = ContextWriter(store)
        for place in order:
            parent = calls[place].parent
            writer.put(calls[place].messages, context_digest(calls[parent].messages) if parent is not None else None)
        _assert_all_read_as_sent(store, calls)


@relaxed
@given(conversations)
def test_putting_everything_again_changes_nothing(calls: list[Call]) -> None:
    with open_store() as store:
        _put_all(ContextWriter(store), calls)
        before = store.execute("SELECT * FROM contexts").fetchall()
        _put_all(ContextWriter(store), calls[::-1])
        assert store.execute("SELECT * FROM contexts").fetchall() == before


@relaxed
@given(straight_conversations)
def test_a_session_holds_at_most_twice_what_was_new(calls: list[Call]) -> None:
    with open_store() as store:
        _put_all(ContextWriter(store), calls)
        assert held(store) <= 2 * sum(max(1, call.new) for call in calls)


@relaxed
@given(conversations)
def test_a_call_holds_what_is_new_or_a_whole_list_that_is_due(calls: list[Call]) -> None:
    with open_store() as store:
        writer = ContextWriter(store)
        for call in calls:
            hint = context_digest(calls[call.parent].messages) if call.parent is not None else None
            due = store.execute("SELECT since FROM contexts WHERE digest = ?", (hint,)).fetchone() or (0,)
            before = held(store)
            writer.put(call.messages, hint)
            new = held(store) - before
            limit = max(64, len(call.messages))
            assert new <= call.new or (due[0] + max(1, call.new) >= limit and new <= len(call.messages))


@relaxed
@given(conversations)
def test_reading_meets_no_more_links_than_the_list_is_long_or_64(calls: list[Call]) -> None:
    with open_store() as store:
        _put_all(ContextWriter(store), calls)
        parents = dict(store.execute("SELECT digest, parent FROM contexts").fetchall())
        for digest, length in store.execute("SELECT digest, length FROM contexts").fetchall():
            links, at = 0, digest
            while (at := parents[at]) is not None:
                links += 1
            assert links < max(64, length)


def test_a_context_without_messages_is_kept(store: sqlite3.Connection) -> None:
    empty = put_context(store, [])
    assert context(store, empty) == []
    assert context(store, put_context(store, digests(1), empty)) == digests(1)


def test_the_first_list_is_whole_and_the_next_a_link(store: sqlite3.Connection) -> None:
    first = put_context(store, digests(1, 2))
    put_context(store, digests(1, 2, 3))
    rows = store.execute("SELECT length, parent, head, tail, length(middle) / 32, since FROM contexts").fetchall()
    assert rows == [(2, None, 0, 0, 2, 0), (3, first, 2, 0, 1, 1)]


def test_a_known_prefix_is_found_without_a_hint(store: sqlite3.Connection) -> None:
    put_context(store, digests(1))
    longest = put_context(store, digests(1, 2, 3))
    put_context(store, digests(1, 2, 9))
    assert known_prefix(store, digests(1, 2, 3, 4, 5)) == (longest, 3)
    assert known_prefix(store, digests(*range(100, 3000))) is None
    assert known_prefix(store, []) is None


def test_a_prefix_far_back_in_a_long_list_is_found(store: sqlite3.Connection) -> None:
    first = put_context(store, digests(1, 2))
    assert known_prefix(store, digests(*range(1, 3000))) == (first, 2)


def test_a_hint_that_is_not_there_is_ignored(store: sqlite3.Connection) -> None:
    digest = put_context(store, digests(1, 2), b"\1" * 32)
    assert context(store, digest) == digests(1, 2)


def test_a_longer_known_prefix_is_better_than_the_hint(store: sqlite3.Connection) -> None:
    hint = put_context(store, digests(1, 2))
    put_context(store, digests(1, 2, 3, 4))
    before = held(store)
    put_context(store, digests(1, 2, 3, 4, 5), hint)
    assert held(store) - before == 1


@pytest.mark.parametrize(
    ("before", "after", "cost"),
    [
        (range(100), [*range(100), 200, 201], 2),  # going on
        (range(100), range(50), 0),  # rewinding
        (range(100), [*range(50), 200], 1),  # rewinding and going on
        (range(100), [*range(10, 100), 200, 201], 2),  # a window that slides
        (range(100), [0, *range(10, 100), 200], 1),  # the same with its first message pinned
        (range(100), [*range(20), 300, *range(21, 100), 200], 2),  # an old output pruned
        (range(100), [300, *range(95, 100), 200], 2),  # compaction
    ],
)
def test_what_agents_do_to_a_history_costs_a_few_digests(
    store: sqlite3.Connection, before: range, after: list[int], cost: int
) -> None:
    parent = put_context(store, digests(*before))
    held_before = held(store)
    assert context(store, put_context(store, digests(*after), parent)) == digests(*after)
    assert held(store) - held_before == cost


def test_a_window_that_slides_for_long_costs_a_few_digests_a_call(store: sqlite3.Connection) -> None:
    writer, parent = ContextWriter(store), None
    store.execute("BEGIN")
    for start in range(0, 2000, 2):
        parent = writer.put(digests(*range(start, start + 200)), parent)
    store.execute("COMMIT")
    assert parent is not None
    assert context(store, parent) == digests(*range(1998, 2198))
    assert held(store) < 1000 * 2 * 2.2


def test_many_branches_off_a_long_chain_do_not_each_write_it_whole(store: sqlite3.Connection) -> None:
    writer, parent = ContextWriter(store), None
    for number in range(64):  # replaced again and again, so that a whole list is due
        parent = writer.put(digests(*range(100), 1000 + number), parent)
    before = held(store)
    for number in range(100):
        writer.put(digests(*range(100), 1063, 2000 + number), parent)
    assert held(store) - before < 102 + 2 * 100


def test_calls_that_arrive_last_first_cost_no_more(store: sqlite3.Connection) -> None:
    writer = ContextWriter(store)
    for length in range(400, 0, -2):
        writer.put(digests(*range(length)))
    assert held(store) < 3 * 400


def test_more_sessions_at_once_than_a_writer_remembers_stay_cheap(store: sqlite3.Connection) -> None:
    writer = ContextWriter(store, remember=2)
    for length in range(1, 40):
        for session in range(10):
            writer.put(digests(0, *range(1000 * (session + 1), 1000 * (session + 1) + length)))
    assert held(store) <= 10 * 40


def test_what_was_rolled_back_is_not_built_upon(store: sqlite3.Connection) -> None:
    writer = ContextWriter(store, remember=1)
    first = writer.put(digests(1, 2))
    store.execute("BEGIN")
    lost = writer.put(digests(1, 2, 3))
    store.execute("ROLLBACK")
    kept = writer.put(digests(1, 2, 3, 4), lost)
    assert context(store, kept) == digests(1, 2, 3, 4)
    assert store.execute("SELECT parent FROM contexts WHERE digest = ?", (kept,)).fetchone() == (first,)
    assert writer.put(digests(1, 2, 3)) == lost
    assert context(store, lost) == digests(1, 2, 3)


def test_links_that_hold_nothing_count_too(store: sqlite3.Connection) -> None:
    writer, parent = ContextWriter(store), put_context(store, digests(*range(300)))
    for length in range(299, 0, -1):
        parent = writer.put(digests(*range(length)), parent)
        assert context(store, parent) == digests(*range(length))
    assert store.execute("SELECT count(*) FROM contexts WHERE since >= max(64, length)").fetchone() == (0,)
    assert held(store) < 3 * 300


def test_a_digest_of_another_width_is_refused(store: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        put_context(store, [b"short"])


def test_an_unknown_context_is_not_found(store: sqlite3.Connection) -> None:
    with pytest.raises(ContentNotFound, match="0101"):
        context(store, b"\1" * 32)


def test_a_list_that_does_not_hash_to_its_digest_is_never_returned(store: sqlite3.Connection) -> None:
    digest = put_context(store, digests(1, 2), put_context(store, digests(1)))
    store.execute("UPDATE contexts SET middle = zeroblob(32) WHERE parent IS NULL")
    with pytest.raises(StoreError, match="damaged"):
        context(store, digest)


def test_a_circle_of_parents_ends_in_an_error(store: sqlite3.Connection) -> None:
    first = put_context(store, digests(1))
    second = put_context(store, digests(1, 2))
    store.execute("UPDATE contexts SET parent = ?, since = 99 WHERE digest = ?", (second, first))
    with pytest.raises(StoreError, match="damaged"):
        context(store, second)


def test_a_new_call_is_kept_even_if_the_one_before_it_is_damaged(store: sqlite3.Connection) -> None:
    damaged = put_context(store, digests(1, 2, 3))
    store.execute("UPDATE contexts SET middle = zeroblob(96)")
    assert context(store, put_context(store, digests(2, 3, 4), damaged)) == digests(2, 3, 4)


def test_the_next_call_of_a_session_reads_a_few_rows_however_long_it_is(store: sqlite3.Connection) -> None:
    writer, parent = ContextWriter(store), None
    history: list[bytes] = []
    store.execute("BEGIN")
    steps = [0]
    store.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 1)  # every step of SQLite's machine
    taken = []
    for number in range(1000):
        history += digests(2 * number, 2 * number + 1)
        steps[0] = 0
        parent = writer.put(history, parent)
        taken.append(steps[0])
    store.set_progress_handler(None, 0)
    store.execute("COMMIT")
    assert max(taken[10:]) < 2 * min(taken[10:])


@pytest.mark.slow
def test_ten_thousand_calls_cost_what_is_new_and_read_quickly(store: sqlite3.Connection) -> None:
    writer, parent, calls = ContextWriter(store), None, 10_000
    history = digests(*range(2 * calls))
    store.execute("BEGIN")
    for number in range(1, calls + 1):
        parent = writer.put(history[: 2 * number], parent)
    store.execute("COMMIT")
    assert held(store) == 2 * calls
    assert parent is not None
    assert context(store, parent) == history
    assert min(_timed(store, parent) for _ in range(3)) < 0.2


def _timed(store: sqlite3.Connection, digest: bytes) -> float:
    started = time.perf_counter()
    context(store, digest)
    return time.perf_counter() - started
