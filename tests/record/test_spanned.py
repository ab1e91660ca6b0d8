"""What a model was sent and gave is found in its span, by whoever asks for it as for any other call's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sender_sessions import receive

from dashcam.contracts.content import digest_of
from dashcam.errors import ContentNotFound
from dashcam.record.spanned import SpannedReader
from dashcam.store.sqlite.store import SqliteStore
from dashcam.views import context, diff
from dashcam.views.context import messages_of, request_of


@pytest.mark.parametrize(
    ("sender", "session_id", "messages"),
    [
        ("openinference-langchain", "sess-lc-1", [2, 4]),
        ("traceloop", "sess-tl-1", [2, 4, 2, 4, 1, 1]),
        ("logfire-sdk-5.2.0", "sess-42", [2, 4]),
        ("langfuse", "sess-lf-2", [1, 3]),
    ],
)
def test_the_request_of_a_call_is_in_its_span(
    sender: str, session_id: str, messages: list[int], store: SqliteStore, path: Path
) -> None:
    receive(store, sender)
    with SpannedReader(path) as reader:
        calls = reader.model_calls(session_id=session_id)
        assert [len(messages_of(reader, call) or ()) for call in calls] == messages
        for call in calls:
            request = json.loads(request_of(reader, call))
            assert len(request["messages"]) == len(messages_of(reader, call) or ())
            assert request["model"] == call.model
        answered = [call for call in calls if call.output_digest]
        digests = [bytes.fromhex(call.output_digest or "") for call in answered]
        assert all(digest_of(body) == digest for digest, body in reader.bodies(digests).items())
        assert len(reader.bodies(digests)) == len(set(digests))


def test_views_of_contexts_and_differences_work_on_spans(store: SqliteStore, path: Path) -> None:
    receive(store, "traceloop")
    receive(store, "openinference-langchain")
    with SpannedReader(path) as reader:
        turns = list(context.load(reader, "sess-tl-1"))
        assert [[call.messages for call in turn.calls] for turn in turns] == [[2, 4], [2, 4], [1], [1]]
        assert turns[0].calls[1].change is not None
        found = diff.load(reader, "sess-tl-1", "sess-lc-1")
        assert found.message is not None


def test_what_is_nowhere_is_said_to_be_missing(path: Path, store: SqliteStore) -> None:
    receive(store, "traceloop")
    with SpannedReader(path) as reader, pytest.raises(ContentNotFound):
        reader.context(b"\0" * 32)
