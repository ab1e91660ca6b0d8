"""A part that had words and lost them, and has words again: the index follows."""

from __future__ import annotations

from chat_rows import AT, message, part, session, text

from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteStore


def test_a_part_that_falls_silent_and_speaks_again_leaves_the_index_sound(store: SqliteStore) -> None:
    store.append(Batch(chat=[session(), message("m"), text("p", "penguins")]))
    silent = part("p", data={"type": "step-start"}, type="step-start", updated_at=AT + 1)
    store.append(Batch(chat=[silent]))
    assert store.search("penguins") == []
    store.append(Batch(chat=[text("p", "albatross", updated_at=AT + 2)]))
    store.append(Batch(chat=[text("p", "cormorant", updated_at=AT + 3)]))
    assert [hit.part_id for hit in store.search("cormorant")] == ["p"]
    assert store.search("albatross") == []
    assert list(store.verify()) == []
