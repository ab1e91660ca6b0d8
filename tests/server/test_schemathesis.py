"""The server keeps to its own description: whatever it is asked, it answers with what /docs/openapi.json says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.core.result import Ok
from server_process import ServerProcess, eventually, serving

import dashcam

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[1] / "data" / "otlp"
EXAMPLES = 25  # an operation
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
Known = dict[str, list[Any]]


@schemathesis.serializer("application/x-protobuf", "application/x-ndjson")
def as_it_is(context: schemathesis.SerializationContext, value: Any) -> bytes:
    """A body of a type that isn't JSON: some bytes that it might be, and mostly isn't."""
    return value if isinstance(value, bytes) else json.dumps(value, default=str).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that has recorded chats, a record without identity, and something of every sender."""
    data = tmp_path_factory.mktemp("described")
    dashcam.configure(data=data, url="")
    try:
        for name in ("chat-1", "team/chat 2"):
            with dashcam.record_session(name, agent="helper") as session:
                session.user("a question about penguins")
                session.assistant("an answer", model="gpt-4o", system_prompt="Be brief.")
    finally:
        dashcam.configure()
    with serving(data) as running:
        for body in sorted(SAMPLES.glob("*/*.body")):
            sent = json.loads(body.with_suffix(".headers.json").read_text())
            names = ("content-type", "content-encoding")
            headers = {name: sent["headers"][name] for name in names if name in sent["headers"]}
            answer = running.http.post(sent["path"], content=body.read_bytes(), headers=headers)
            assert answer.is_success, (body, answer.text)
        line = b'{"session_id": "s", "ts": "2026-01-01T00:00:00Z", "operation": "lost"}\n'
        where = {"X-Dashcam-Segment": "a.jsonl", "X-Dashcam-Offset": "0", "content-type": "application/x-ndjson"}
        assert running.http.post("/v1/records", content=line, headers=where).json()["quarantined"] == 1
        score = {"traceId": "ab" * 16, "name": "good", "value": 1}
        assert running.http.post("/api/public/scores", json=score).status_code == 200
        eventually(lambda: running.http.get("/api/status").json()["lag"]["records"] == 0, 60)
        yield running


@pytest.fixture(scope="module")
def known(server: ServerProcess) -> Known:
    """Values that lead somewhere: a few of each, the long ones among them."""

    def some(path: str, field: str) -> list[Any]:
        found = [item[field] for item in server.http.get(path, params={"limit": 1000}).json()["items"]]
        return found[:: max(1, len(found) // 12)]

    sessions, traces = some("/api/sessions?kind=all", "id"), some("/api/traces", "trace_id")
    spans = [item["span_id"] for trace in traces for item in _items(server, f"/api/traces/{trace}/spans")][:20]
    digests = some("/api/prompts", "digest")
    assert sessions and traces and spans and digests
    forms = ["jsonl", "json", "csv", "acp", "otlp"]
    return {
        "session_id": sessions, "a": sessions, "b": sessions, "parent": sessions, "trace_id": traces,
        "span_id": spans, "digest": digests, "number": [1, 2, 3], "cursor": ["0", "1", "2", *sessions[:2]],
        "format": forms, "q": ["penguins", "weather"], "text": ["penguins"], "since": ["7d", "2026-01-01"],
        "kind": ["all", "system", "user"], "operation": ["model_call"], "project": ["default"],
    }  # fmt: skip


def _items(server: ServerProcess, path: str) -> list[dict[str, Any]]:
    return list(server.http.get(path).json()["items"])


def test_every_answer_is_as_described(server: ServerProcess, known: Known) -> None:
    """Every route but the endless one, asked what its description allows and what it forbids."""
    schema = schemathesis.openapi.from_url(f"{server.url}/docs/openapi.json")
    asked = set()
    with requests.Session() as session:
        for found in schema.exclude(path="/api/live").get_all_operations():
            assert isinstance(found, Ok)  # the description itself is sound
            operation = found.ok()
            asked.add(operation.label)
            for mode in schemathesis.GenerationMode:
                _ask(operation, mode, known, session)
    assert len(asked) == sum(len(item) for item in _paths(server).values()) - 1
    assert server.process.poll() is None
    assert "request failed" not in server.said


def _ask(operation: Any, mode: schemathesis.GenerationMode, known: Known, session: requests.Session) -> None:
    @settings(
        max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode), choose=st.randoms(use_true_random=False))
    def asked(case: schemathesis.Case[Any], choose: Any) -> None:
        for given_ in (case.path_parameters, case.query):
            for name in given_ or ():
                if name in known and choose.random() < 0.7:
                    given_[name] = choose.choice(known[name])
        case.call_and_validate(session=session, checks=CHECKS, timeout=30)

    try:
        asked()
    except Unsatisfiable:
        assert mode is schemathesis.GenerationMode.NEGATIVE  # nothing to be had wrong where nothing is asked for


def _paths(server: ServerProcess) -> dict[str, dict[str, Any]]:
    return dict(server.http.get("/docs/openapi.json").json()["paths"])


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 200),
        ({"since": "0"}, 200),
        ({"since": "999999999999999"}, 200),
        ({"type": "nothing", "session_id": "\x00"}, 200),
        ({"since": "9" * 20}, 400),
        ({"since": "-1"}, 400),
        ({"since": "²"}, 400),
        ({"session_id": "x" * 3000}, 400),
        ({"project": "../elsewhere"}, 400),
        ({"project": "nobody"}, 404),
    ],
)
def test_the_stream_begins_or_says_why_not(server: ServerProcess, query: dict[str, str], status: int) -> None:
    with server.http.stream("GET", "/api/live", params=query) as answer:
        assert answer.status_code == status
        if status == 200:
            assert answer.headers["content-type"].startswith("text/event-stream")
        else:
            assert set(json.loads(answer.read())) == {"error"}


def test_every_error_is_described_for_every_route(server: ServerProcess) -> None:
    for path, item in _paths(server).items():
        for operation in item.values():
            assert {"400", "401", "403", "404", "503"} <= set(operation["responses"]), path
            assert "500" not in operation["responses"]
            if "requestBody" in operation:
                assert {"408", "413", "415", "429"} <= set(operation["responses"]), path
