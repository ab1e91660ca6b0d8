"""What the Langfuse and Logfire SDKs ask besides OTLP."""

from __future__ import annotations

import os
import warnings

import msgspec
import pytest
import requests
from logfire._internal.config import LogfireCredentials
from server_process import ServerProcess, eventually, stored

pytestmark = pytest.mark.slow


def score(trace_id: str, **fields: object) -> dict[str, object]:
    return {"traceId": trace_id, "name": "quality", "value": 0.9, **fields}


def logged(server: ServerProcess, trace_id: str) -> list[bytes]:
    with stored(server.data) as store:
        return [record.body for record in store.logs(trace_id)]


def test_one_score_answers_with_its_id(server: ServerProcess) -> None:
    trace_id = os.urandom(16).hex()
    answer = server.http.post("/api/public/scores", json=score(trace_id, id="score-1"))
    assert (answer.status_code, answer.json()) == (200, {"id": "score-1"})
    (body,) = logged(server, trace_id)
    assert b"score-1" in body


def test_a_score_without_an_id_gets_the_same_one_each_time(server: ServerProcess) -> None:
    posted = score(os.urandom(16).hex(), timestamp="2030-01-01T00:00:00Z")
    ids = {server.http.post("/api/public/scores", json=posted).json()["id"] for _ in range(2)}
    assert len(ids) == 1
    assert len(logged(server, str(posted["traceId"]))) == 1


def test_of_a_list_each_score_is_judged_by_itself(server: ServerProcess) -> None:
    trace_id = os.urandom(16).hex()
    good = [score(trace_id, id=f"listed-{number}") for number in range(2)]
    answer = server.http.post("/api/public/scores", json=good)
    assert (answer.status_code, answer.json()) == (202, {"message": "Accepted"})
    answer = server.http.post("/api/public/scores", json=[*good, {"name": "no value"}, 7])
    assert answer.status_code == 207
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (2, 2)
    assert answer.json()["errors"][0]["message"]


@pytest.mark.parametrize("body", [b"", b"7", b'{"name": 1}', b"[" * 100_000, b'{"name": "\\ud800", "value": 1}'])
def test_what_is_no_score_is_a_400(server: ServerProcess, body: bytes) -> None:
    answer = server.http.post("/api/public/scores", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_the_secrets_of_a_comment_are_taken_out(server: ServerProcess) -> None:
    secret, trace_id = "sk-" + "proj-" + os.urandom(24).hex(), os.urandom(16).hex()
    server.http.post("/api/public/scores", json=score(trace_id, comment=f"with {secret}"))
    (body,) = logged(server, trace_id)
    assert secret.encode() not in body


def test_a_batch_of_the_older_sdks_is_answered_event_by_event(server: ServerProcess) -> None:
    trace_id = os.urandom(16).hex()
    batch = [
        {"id": "event-1", "type": "score-create", "body": score(trace_id)},
        {"id": "event-2", "type": "trace-create", "body": {}},
        {"id": "event-3", "type": "score-create", "body": {}},
    ]
    answer = server.http.post("/api/public/ingestion", json={"batch": batch})
    assert answer.status_code == 207
    assert answer.json()["successes"] == [{"id": "event-1", "status": 201}]
    assert [(each["id"], each["status"]) for each in answer.json()["errors"]] == [("event-2", 501), ("event-3", 400)]
    assert len(logged(server, trace_id)) == 1
    assert server.http.post("/api/public/ingestion", content=b"[]").status_code == 400


def test_the_sdk_of_langfuse_finds_what_it_asks_for(server: ServerProcess) -> None:
    from langfuse import Langfuse

    langfuse = Langfuse(public_key="pk-lf-test", secret_key="sk-lf-test", base_url=server.url)
    try:
        assert langfuse.auth_check()
        with langfuse.start_as_current_observation(name="asked", as_type="generation", input="?", output="!") as asked:
            asked.score(name="quality", value=0.9, comment="good")
        langfuse.flush()
        trace_id = asked.trace_id
        eventually(lambda: logged(server, trace_id))
        with stored(server.data) as store:
            assert [span.name for span in store.spans(trace_id)] == ["asked"]
    finally:
        langfuse.shutdown()


def test_the_sdk_of_logfire_learns_whose_token_it_has(server: ServerProcess) -> None:
    with requests.Session() as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        found = LogfireCredentials.from_token("any-token", session, server.url)
    assert found is not None
    assert found.project_name == "default"
    assert found.project_url.startswith(server.url)


def test_health_is_told_without_a_key(server: ServerProcess) -> None:
    assert msgspec.json.decode(server.http.get("/api/public/health").content)["status"] == "OK"
