"""Spans and log records: kept to the letter, in any order, and small."""

from __future__ import annotations

import random
import sqlite3
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from records import DAY, NOW, event, span

from dashcam.contracts.content import context_digest, digest_of
from dashcam.contracts.span import LogRecord, Ref, Span
from dashcam.errors import RecordRefused, TraceNotFound
from dashcam.store.base import Batch, Context, Piece, Projection, Retention, TraceFilter
from dashcam.store.sqlite import migrate as migrating
from dashcam.store.sqlite import spans as span_tables
from dashcam.store.sqlite.connection import BLANK
from dashcam.store.sqlite.packing import WORDS, pack, unpack
from dashcam.store.sqlite.store import SqliteStore

MS = 1_000_000  # nanoseconds


def log(number: int, **given: Any) -> LogRecord:
    return LogRecord(**{"trace_id": "t", "ts": NOW + number, "body": str(number).encode(), **given})


def told(records: list[Any]) -> list[Any]:
    """Records but for the number of their arrival."""
    return [replace(each, seq=0) for each in records]


def change(path: Path, *statements: str) -> None:
    other = sqlite3.connect(path)
    for statement in statements:
        other.execute(statement)
    other.commit()
    other.close()


def test_the_dictionary_that_stored_spans_need_has_not_changed() -> None:
    assert sha256(WORDS).hexdigest() == "aceb2ded951eb65ab9c4150166df78155d5f1d57e6d01190fb8723df3664a04d"


@given(st.binary(max_size=3000))
def test_what_is_packed_comes_back(raw: bytes) -> None:
    assert unpack(pack(raw)) == raw


def test_every_flipped_bit_of_a_pack_is_noticed() -> None:
    packed = pack(b'{"role": "user", "parts": [{"type": "text"}]} and what else was said')
    for place in range(len(packed) * 8):
        damaged = bytearray(packed)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(zlib.error):
            unpack(bytes(damaged))


def test_a_span_and_a_log_record_come_back_to_the_letter(store: SqliteStore) -> None:
    refs = (Ref(place=(9, 1), form="json", content="ab" * 32), Ref(place=(9, 2), form="list", context="cd" * 32))
    whole = span(
        parent_span_id="q",
        name="chat é",
        status="error",
        body=b"\0\xff body",
        scope=b"resource",
        refs=refs,
        redacted=True,
    )
    record = log(1, span_id="p", name="event", severity="WARN", scope=b"resource", refs=refs, redacted=True)
    store.append(Batch(spans=[whole, span(span_id="bare")], logs=[record]))
    assert told(store.spans("t")) == [span(span_id="bare"), whole]
    assert told(store.logs("t")) == [record]
    assert store._connection.execute("SELECT count(*) FROM scopes").fetchone() == (2,)


bodies = st.builds(
    span,
    trace_id=st.sampled_from(["t", "u"]),
    span_id=st.sampled_from(["p", "q", "r"]),
    end_ns=st.integers(1, 3),
    body=st.sampled_from([b"", b"one", b"other"]),
    scope=st.sampled_from([b"", b"resource"]),
)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(bodies, max_size=25), st.data())
def test_late_repeated_and_superseding_spans_read_the_same_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, sent: list[Span], data: st.DataObject
) -> None:
    expected: dict[tuple[str, str], Span] = {}
    for each in sent:
        key = (each.trace_id, each.span_id)
        expected[key] = max(each, expected.get(key, each), key=lambda span: span.rank)
    with SqliteStore(tmp_path_factory.mktemp("store") / "sessions.db") as store:
        rest = [*data.draw(st.permutations(sent)), *data.draw(st.lists(st.sampled_from(sent or [span()]), max_size=5))]
        rest = rest if sent else []
        while rest:
            size = data.draw(st.integers(1, len(rest)))
            before = {(each.trace_id, each.span_id): each for name in "tu" for each in store.spans(name)}
            ack = store.append(Batch(spans=rest[:size]))
            after = {(each.trace_id, each.span_id): each for name in "tu" for each in store.spans(name)}
            assert ack.new == sum(each != before.get(key) for key, each in after.items())
            rest = rest[size:]
        for name in "tu":
            found = told(store.spans(name))
            assert found == sorted(
                (each for each in expected.values() if each.trace_id == name), key=lambda s: s.span_id
            )
        assert list(store.verify()) == []


def test_a_span_that_supersedes_another_counts_as_new(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(end_ns=5), span(span_id="q")]))
    cursor = store.changes().cursor
    assert store.append(Batch(spans=[span(end_ns=5)])).new == 0
    assert store.append(Batch(spans=[span(end_ns=4, body=b"late")])).new == 0
    assert store.changes(cursor).records == []
    assert store.append(Batch(spans=[span(end_ns=6, body=b"newer")], logs=[log(1)])).new == 2
    assert told(store.changes(cursor).records) == [span(end_ns=6, body=b"newer"), log(1)]


def test_a_scope_of_a_batch_that_was_refused_is_not_taken_for_known(store: SqliteStore) -> None:
    with pytest.raises(RecordRefused):
        store.append(Batch(spans=[span(scope=b"resource")], events=[event(0)], logs=[log(2**63)]))
    store.append(Batch(spans=[span(scope=b"resource")]))
    assert store.spans("t")[0].scope == b"resource"
    assert list(store.verify()) == []


def test_bodies_larger_than_a_pack_and_many_small_ones_come_back(store: SqliteStore) -> None:
    noise = random.Random(3)
    sizes = [0, 1, span_tables.PACK - 1, 1, span_tables.PACK, span_tables.PACK + 1, 5, *([700] * 200)]
    sent = [span(span_id=f"{number:04}", body=noise.randbytes(size)) for number, size in enumerate(sizes)]
    store.append(Batch(spans=sent))
    assert told(store.spans("t")) == sent
    assert list(store.verify()) == []


@pytest.mark.slow
def test_a_span_of_a_model_call_takes_at_most_a_thousand_bytes(path: Path) -> None:
    chance = random.Random(1)
    words = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 10))) for _ in range(5000)]

    def prose(size: int) -> str:
        return " ".join(chance.choices(words, k=size // 6))[:size]

    def body() -> bytes:
        said = f'[{{"role": "user", "parts": [{{"type": "text", "content": "{prose(440)}"}}]}}]'
        gave = f'[{{"role": "assistant", "parts": [{{"type": "text", "content": "{prose(220)}"}}]}}]'
        pairs = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4.1-mini", "gen_ai.input.messages": said}
        pairs |= {"gen_ai.output.messages": gave, "gen_ai.response.id": "chatcmpl-" + chance.randbytes(12).hex()}
        pairs |= {"gen_ai.conversation.id": chance.randbytes(8).hex(), "gen_ai.provider.name": "openai"}
        pairs |= {"gen_ai.usage.input_tokens": str(chance.randint(1, 9999)), "gen_ai.usage.output_tokens": "12"}
        return b"".join(b"J\x10\n" + name.encode() + b"\x12\n" + value.encode() for name, value in pairs.items())

    with SqliteStore(path) as store:
        for _ in range(50):
            ids = [chance.randbytes(16).hex() for _ in range(10)]
            sent = [span(trace_id=ids[i // 10], span_id=chance.randbytes(8).hex(), body=body()) for i in range(100)]
            store.append(Batch(spans=[replace(each, start_ns=NOW * 1000, end_ns=NOW * 1000 + MS) for each in sent]))
    assert path.stat().st_size / 5000 <= 1000


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("UPDATE spans SET end_ns = end_ns + 1", "Span 1 of trace t has changed"),
        ("UPDATE spans SET status = 2", "Span 1 of trace t has changed"),
        ("UPDATE spans SET name = CAST(x'ff' AS TEXT)", "Span 1 of trace t has changed"),
        ("UPDATE spans SET refs = '[{'", "Span 1 of trace t is damaged"),
        ("UPDATE spans SET body_at = body_at + 1", "Span 1 of trace t is damaged"),
        ("UPDATE logs SET trace_id = 'u'", "Log record 2 of trace u has changed"),
        ("DELETE FROM packs WHERE id = 2", "Log record 2 of trace t is damaged"),
        ("UPDATE packs SET body = zeroblob(length(body))", "Span 1 of trace t is damaged"),
        ("UPDATE scopes SET body = zeroblob(length(body))", "Scope 1 has changed"),
        ("DELETE FROM scopes", "1 spans stand in a scope that is missing"),
        ("DELETE FROM contents", "Row 1 of spans names the content"),
        ("DELETE FROM contexts", "Row 1 of spans names the context"),
    ],
)
def test_verify_finds_damage_to_spans_and_logs(store: SqliteStore, path: Path, statement: str, part: str) -> None:
    body = b'{"role":"user"}'
    messages = (digest_of(body),)
    content, context = digest_of(body).hex(), context_digest(messages).hex()
    refs = (Ref(place=(1,), form="a", content=content), Ref(place=(2,), form="b", context=context))
    sent = span(body=b"said" * 20, scope=b"resource", refs=refs)
    store.append(Batch(spans=[sent], logs=[log(1, scope=b"resource")], contents=[body], contexts=[Context(messages)]))
    assert list(store.verify()) == []
    change(path, statement)
    assert any(part in found for found in store.verify())


def test_one_damaged_pack_hides_no_other_finding(store: SqliteStore, path: Path) -> None:
    for number in range(3):
        store.append(Batch(spans=[span(span_id=str(number), body=b"said" * 20)]))
    change(path, "UPDATE packs SET body = x'00' WHERE id = 1", "UPDATE spans SET name = 'x' WHERE seq = 3")
    found = list(store.verify())
    assert [each[:6] for each in found] == ["Span 1", "Span 3"]


def test_what_spans_and_logs_refer_to_stays_as_long_as_they_do(store: SqliteStore) -> None:
    bodies = [f'{{"n":{number}}}'.encode() for number in range(4)]
    messages = (digest_of(bodies[1]), digest_of(bodies[2]))
    refs = (Ref(place=(1,), form="a", content=digest_of(bodies[0]).hex().upper()),)
    listed = (Ref(place=(2,), form="b", context=context_digest(messages).hex()),)
    late = log(0, ts=NOW + DAY, refs=listed, scope=b"of logs")
    store.append(
        Batch(
            spans=[span(end_ns=NOW * 1000, refs=refs, scope=b"of spans", body=b"x" * 99)],
            logs=[late], contents=bodies, contexts=[Context(messages)],
        )
    )  # fmt: skip
    assert store.retain(Retention(before=NOW)).contents == 1
    assert store.bodies([digest_of(bodies[0])]) and store.context(context_digest(messages)) == [*messages]
    gone = store.retain(Retention(before=NOW + 1))
    assert (gone.spans, gone.contents, gone.contexts) == (1, 1, 0)
    assert store._connection.execute("SELECT count(*) FROM scopes").fetchone() == (1,)
    assert list(store.verify()) == []
    gone = store.retain(Retention(before=NOW + DAY + 1))
    assert (gone.logs, gone.contents, gone.contexts) == (1, 2, 1)
    for table in ("scopes", "packs"):
        assert store._connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    store.append(Batch(spans=[span(scope=b"of spans")]))
    assert store.spans("t")[0].scope == b"of spans"


def test_bodies_go_with_their_spans_though_nothing_can_be_swept_yet(store: SqliteStore) -> None:
    store.append(Batch(spans=[span(span_id=str(n), end_ns=(NOW + n) * 1000, body=b"said") for n in range(9)]))
    store.append(Batch(spans=[span(trace_id="u", end_ns=(NOW + 99) * 1000, body=b"left")]))
    store.append(Batch(events=[event(0, ts=NOW + 99, operation="model_call")]))
    assert store.retain(Retention(before=NOW + 5)).spans == 5
    assert store._connection.execute("SELECT id FROM packs").fetchall() == [(1,), (10,)]
    assert [each.body for each in store.spans("t")] == [b"said"] * 4
    store.retain(Retention(before=NOW + 50))
    assert store._connection.execute("SELECT id FROM packs").fetchall() == [(10,)]
    assert store.spans("u")[0].body == b"left"


def at(millis: int, **given: Any) -> Span:
    return span(start_ns=millis * MS, end_ns=(millis + 5) * MS, **given)


def projected(trace_id: str, millis: int, session_id: str = "s", **given: Any) -> Projection:
    piece = {"trace_id": trace_id, "session_id": session_id, "session_by": "attribute", "spans": 1}
    return Projection(pieces=[Piece(**{**piece, "first_at": millis, "last_at": millis + 5, **given})])


def test_a_trace_is_there_with_its_spans_before_it_is_projected(store: SqliteStore) -> None:
    root, child = at(10, trace_id="abcdef", name="run"), at(11, trace_id="abcdef", span_id="c", parent_span_id="p")
    store.append(Batch(spans=[replace(child, status="error"), root], logs=[log(0, trace_id="only logs")]))
    found = store.trace("abcd")
    assert (found.spans, found.errors, found.name, found.session_by) == (2, 1, "run", None)
    assert (found.first_ts, found.last_ts, found.session_id) == (10_000, 16_000, "trace:abcdef")
    assert store.trace("only logs").first_ts == NOW
    with pytest.raises(TraceNotFound):
        store.trace("abcdefg")


def test_a_trace_of_events_and_spans_is_one(store: SqliteStore) -> None:
    store.append(Batch(events=[event(0, ts=50_000), event(1, ts=60_000)], spans=[at(10, name="run")]))
    store.replace({"t": projected("t", 10, name="run")}, cursor=store.unprojected().cursor)
    for found in (store.trace("t"), *store.traces("s"), *store.trace_list(TraceFilter())):
        assert (found.events, found.spans, found.first_ts, found.last_ts) == (2, 1, 10_000, 60_000)
        assert (found.session_id, found.name, found.session_by) == ("s", "run", "attribute")


def test_traces_are_listed_newest_first_page_by_page(store: SqliteStore) -> None:
    events = [event(i, trace_id=f"e{i}", ts=(10 + 20 * i) * 1000) for i in range(5)]
    both = event(9, trace_id="p1", ts=1000)  # began before its spans
    spans = [at(20 * i, trace_id=f"p{i}") for i in range(5)]
    store.append(Batch(events=[*events, both], spans=spans))
    told = {f"p{i}": projected(f"p{i}", 20 * i, session_id="two" if i > 2 else "one", errors=i % 2) for i in range(5)}
    store.replace(told, cursor=store.unprojected().cursor)
    everything = [found.trace_id for found in store.trace_list(TraceFilter())]
    assert everything == ["e4", "p4", "e3", "p3", "e2", "p2", "e1", "e0", "p1", "p0"]
    paged: list[str] = []
    while page := store.trace_list(TraceFilter(limit=3, after=paged[-1] if paged else "")):
        paged += [found.trace_id for found in page]
    assert paged == everything
    assert store.trace_list(TraceFilter(after="never heard of")) == []
    assert [found.trace_id for found in store.trace_list(TraceFilter(has_error=True))] == ["p3", "p1"]
    assert [found.trace_id for found in store.trace_list(TraceFilter(session_id="two"))] == ["p4", "p3"]
    assert [found.trace_id for found in store.trace_list(TraceFilter(session_id="two", after="p4"))] == ["p3"]
    assert [found.trace_id for found in store.trace_list(TraceFilter(since=31, until=70))] == ["e3", "p3", "e2", "p2"]


def test_a_store_from_before_spans_is_brought_up_to_date(path: Path) -> None:
    connection = sqlite3.connect(path)
    for number, sql in migrating.migrations()[:2]:
        connection.executescript(sql.replace("BLANK", BLANK) + f"; PRAGMA user_version = {number};")
    connection.execute("INSERT INTO sources (segment, updated_at) VALUES ('a.jsonl', 0)")
    row = (1, 1, 0, "old", "t", 0, "user", "tool_call", NOW, "{}")
    connection.execute(f"INSERT INTO events VALUES ({','.join('?' * 10)}, 0)", row)
    connection.execute(
        "INSERT INTO rollups VALUES (date(?, 'unixepoch'), 1, 'user', 'tool_call', 1, 0, 0, 0)", (NOW // 10**6,)
    )
    connection.execute("INSERT INTO session_traces VALUES ('old', 't', 'user', 1)")
    facts = "INSERT INTO session_facts (session_id, kind, first_at, last_at, traces, events) VALUES ('old', 'user', ?, ?, 1, 1)"
    connection.execute(facts, (NOW // 1000, NOW // 1000))
    connection.execute("INSERT INTO meta VALUES ('seq', '1')")
    connection.commit()
    connection.close()
    with SqliteStore(path) as store:
        assert list(store.verify()) == []
        (found,) = store.trace_list(TraceFilter())
        assert (found.trace_id, found.first_ts, found.events) == ("t", NOW, 1)
        assert store.append(Batch(spans=[span(scope=b"r")], logs=[log(1)])).seq == 3
        assert list(store.verify()) == []
