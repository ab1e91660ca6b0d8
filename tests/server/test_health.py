"""What the server says of itself: health, readiness, figures, its own description, its log."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest
from sent import PROTOBUF, logs, traces, traces_body
from server_process import ServerProcess, eventually, serving

from dashcam.store.sqlite.connection import WriterLock

pytestmark = pytest.mark.slow


def test_health_and_readiness(server: ServerProcess) -> None:
    assert server.http.get("/health").json()["status"] == "ok"
    assert server.http.get("/ready").json() == {"ready": True, "error": None}


def test_figures_count_what_happened(data: Path) -> None:
    with serving(data) as server:
        for _ in range(2):
            server.http.post("/v1/traces", content=traces_body(5)[1], headers=PROTOBUF)
        secret = traces(1, note="sk-" + "proj-" + os.urandom(24).hex())[1].SerializeToString()
        server.http.post("/v1/traces", content=secret, headers=PROTOBUF)
        server.http.post("/v1/traces", content=b"\xff", headers=PROTOBUF)
        server.http.post("/v1/logs", content=logs(), headers=PROTOBUF)
        server.http.get("/no/such/place/at/all")
        assert server.metric('dashcam_accepted_total{what="spans"}') == 11
        assert server.metric('dashcam_quarantined_total{what="logs"}') == 1
        assert server.metric("dashcam_redacted_total") == 1
        assert server.metric('dashcam_requests_total{route="/v1/traces",status="200"}') == 3
        assert server.metric('dashcam_requests_total{route="/v1/traces",status="400"}') == 1
        assert server.metric('dashcam_requests_total{route="other",status="404"}') == 1
        assert server.metric('dashcam_received_bytes_total{door="http"}') > 100
        assert server.metric("dashcam_commit_seconds_count") >= 4
        assert server.metric("dashcam_open_projects") == 1
        eventually(lambda: server.metric('dashcam_projection_lag_records{project="default"}') == 0)
        assert server.metric('dashcam_projection_lag_seconds{project="default"}') == 0


def test_every_answer_carries_its_security_headers(server: ServerProcess) -> None:
    for answer in (server.http.get("/health"), server.http.get("/nowhere"), server.http.post("/v1/traces")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers


def test_what_is_not_there_is_said_in_json(server: ServerProcess) -> None:
    assert server.http.get("/nowhere").status_code == 404
    assert "/docs" in server.http.get("/nowhere").json()["error"]
    assert server.http.get("/v1/traces").status_code == 405
    assert server.http.get("/v1/traces").json()


def test_the_description_is_complete_and_its_page_loads_nothing_from_elsewhere(server: ServerProcess) -> None:
    paths = server.http.get("/docs/openapi.json").json()["paths"]
    assert {"/v1/traces", "/v1/logs", "/v1/metrics", "/v1/records", "/api/public/scores", "/health"} <= set(paths)
    assert "application/x-protobuf" in paths["/v1/traces"]["post"]["requestBody"]["content"]
    page = server.http.get("/docs").text
    assert "POST /v1/traces" in page
    assert re.findall(r"""(?:src|href)=["'](?!/)""", page) == []


def test_a_foreign_host_is_turned_away(server: ServerProcess) -> None:
    _, body = traces_body()
    assert server.http.post("/v1/traces", content=body, headers={**PROTOBUF, "host": "evil.example"}).status_code == 403
    assert server.http.get("/metrics", headers={"host": "evil.example"}).status_code == 403


def test_the_log_is_one_json_line_an_event_without_payloads(data: Path) -> None:
    with serving(data) as server:
        server.http.post("/v1/traces", content=b"\xffpayload-of-mine", headers=PROTOBUF)
        server.stop()
        lines = [msgspec.json.decode(line) for line in server.said.splitlines()]
        assert [line["event"] for line in lines] == ["listening", "refused", "stopping", "stopped"]
        assert all({"ts", "level"} <= line.keys() for line in lines)
        assert "payload-of-mine" not in server.said


def test_a_project_that_another_process_holds_is_a_503_until_it_lets_go(data: Path) -> None:
    folder = data / "other"
    folder.mkdir(parents=True)
    with serving(data) as server:
        with WriterLock(folder, "testing"):
            answer = server.http.get("/api/traces", params={"project": "other"})
            assert answer.status_code == 503
            assert "retry-after" in answer.headers
        assert server.http.get("/api/traces", params={"project": "other"}).status_code == 200


def test_the_projector_is_started_again_when_it_dies(data: Path) -> None:
    with serving(data) as server:
        child = eventually(lambda: children(server.process.pid))[0]
        os.kill(child, 9)
        eventually(lambda: server.metric("dashcam_projector_restarts_total") == 1)
        assert child not in eventually(lambda: children(server.process.pid))


def test_the_projector_dies_with_the_server(data: Path) -> None:
    with serving(data) as server:
        (child,) = eventually(lambda: children(server.process.pid))
        server.kill()
        eventually(lambda: not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text())


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        if task.name != str(pid)
        for child in (task / "children").read_text().split()
    ]
