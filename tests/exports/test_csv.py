"""CSV: a row a part; sums of columns are the session's own, and no cell is a formula."""

from __future__ import annotations

import csv
import io
import json
from math import fsum

from hypothesis import given
from hypothesis import strategies as st
from sample_sessions import NOW, SESSION, conversation, fill, message, part

from dashcam.contracts.chat import ChatPart, ChatSession
from dashcam.exports import csv as csv_format
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteStore

SUMS = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "reasoning_tokens": "reasoning_tokens",
} | {
    "cache_read": "cache_read",
    "cache_write": "cache_write",
}


def rows(store: SqliteStore, *sessions: str) -> list[dict[str, str]]:
    written = b"".join(csv_format.write(store, sessions or (SESSION,))).decode()
    return list(csv.DictReader(io.StringIO(written, newline=""), strict=True))


def test_every_part_is_a_row_in_order(store: SqliteStore) -> None:
    fill(store)
    parts = [row for row in conversation() if isinstance(row, ChatPart)]
    assert [row["part_id"] for row in rows(store)] == [part.id for part in parts]
    assert [row["tool"] for row in rows(store) if row["tool"]] == ["search", "rm", "fetch", "run"]
    asked = rows(store)[0]
    assert (asked["role"], asked["text"], asked["created_at"]) == (
        "user", "Look it up, please", "2027-01-15T08:00:01.000000Z",
    )  # fmt: skip
    assert rows(store)[3]["model"] == "openai:gpt-5"


def test_sums_of_the_columns_are_the_sums_of_the_sessions(store: SqliteStore) -> None:
    fill(store)
    fill(store, "chat-43", "4bf92f3577b34da6a3ce929d0e0e4736", 100)
    found = rows(store, SESSION, "chat-43")
    sessions = [store.chat_session(SESSION), store.chat_session("chat-43")]
    for column, rollup in SUMS.items():
        assert sum(int(row[column] or 0) for row in found) == sum(getattr(each, rollup) for each in sessions)
    assert fsum(float(row["cost_usd"] or 0) for row in found) == 0.75 == fsum(each.cost_usd or 0 for each in sessions)


def test_odd_amounts_count_as_the_store_counts_them(store: SqliteStore) -> None:
    odd = [True, -1, 2**60, 3.5, "7", None, 11]
    told = [message(number, "assistant", usage={"input": value}, cost_usd=value) for number, value in enumerate(odd)]
    told.append(message(20, "user", usage={"input": 5}, cost_usd=1))  # only answers cost anything
    store.append(Batch(chat=[ChatSession(id=SESSION, agent="", created_at=NOW, updated_at=NOW), *told]))
    session, found = store.chat_session(SESSION), rows(store)
    assert sum(int(row["input_tokens"] or 0) for row in found) == session.prompt_tokens == 11
    assert fsum(float(row["cost_usd"] or 0) for row in found) == session.cost_usd


def test_a_message_without_parts_has_a_row_if_it_cost_something(store: SqliteStore) -> None:
    free, paid = message(1, "assistant"), message(2, "assistant", usage={"input": 3})
    store.append(Batch(chat=[ChatSession(id=SESSION, agent="", created_at=NOW, updated_at=NOW), free, paid]))
    assert [(row["message_id"], row["input_tokens"], row["part_id"]) for row in rows(store)] == [(paid.id, "3", "")]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_comes_back_and_is_never_a_formula(said: str) -> None:
    asked = message(1, "user")
    row = csv_format._told_by(part(asked, 0, "text", text=said))
    line = csv_format._row(row).decode()
    (cells,) = csv.DictReader(io.StringIO(line, newline=""), csv_format.COLUMNS)
    assert cells["text"].removeprefix("'") == said.removeprefix("'")
    assert not cells["text"].startswith(("=", "+", "-", "@", "\t", "\r"))


def test_data_that_is_no_object_is_no_reason_to_fail(store: SqliteStore) -> None:
    asked = message(1, "assistant", model="m", usage=[])
    broken = [part(asked, 0, "text", text=["list"]), part(asked, 1, "dynamic-tool", toolName={"a": 1})]
    broken.append(
        ChatPart(**{**{n: getattr(broken[0], n) for n in ChatPart.__struct_fields__}, "id": "x", "data_json": "{"})
    )
    store.append(Batch(chat=[ChatSession(id=SESSION, agent="", created_at=NOW, updated_at=NOW), asked, *broken]))
    assert len(rows(store)) == 3
    assert json.loads(broken[1].data_json)["toolName"] == {"a": 1}
