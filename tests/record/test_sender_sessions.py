"""Every captured sender gives the right sessions: who said what, tools, tokens, costs, each once.

`tests/data/otlp/sessions.json` holds what is right, read by eye against what the scripted models answered.
"""

from __future__ import annotations

import json

import pytest
from sender_sessions import DATA, SENDERS, receive, sessions

from dashcam.store.sqlite.store import SqliteStore

RIGHT = json.loads((DATA / "sessions.json").read_text())


def test_all_senders_are_told() -> None:
    assert sorted(RIGHT) == SENDERS


@pytest.mark.parametrize("sender", SENDERS)
def test_the_sessions_of_a_sender(sender: str, store: SqliteStore) -> None:
    receive(store, sender)
    assert sessions(store) == RIGHT[sender]
    assert list(store.verify()) == []
    receive(store, sender)
    assert sessions(store) == RIGHT[sender]
