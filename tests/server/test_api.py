"""The API: what the command shows, as typed JSON, a page at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from server_process import ServerProcess, eventually, serving

import dashcam
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.server.api.encoding import encode
from dashcam.store.control import Control

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with three recorded chats, one of which has an id with a slash, and a record without identity."""
    data = tmp_path_factory.mktemp("api")
    dashcam.configure(data=data, url="")
    try:
        for number, name in enumerate(("chat-1", "chat-2", "team/chat 3")):
            with dashcam.record_session(name, agent="helper") as session:
                session.user(f"question {number} about penguins")
                session.assistant(f"answer {number}", model="gpt-4o", system_prompt="Be brief.")
    finally:
        dashcam.configure()
    with serving(data) as running:
        eventually(lambda: len(items(running, "/api/sessions")) == 3)
        yield running


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Another, for journals of other machines with all that they hold."""
    with serving(tmp_path_factory.mktemp("shipped") / "data") as running:
        yield running


def items(server: ServerProcess, path: str, **query: Any) -> list[dict[str, Any]]:
    answer = server.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"items", "next"}
    return list(answer.json()["items"])


def test_lists_come_in_pages_that_join_without_gaps(server: ServerProcess) -> None:
    found, cursor = [], None
    while True:
        page = server.http.get("/api/sessions", params={"limit": 1, **({"cursor": cursor} if cursor else {})}).json()
        found += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert sorted(found) == ["chat-1", "chat-2", "team/chat 3"]


def test_items_have_the_columns_of_the_tables(server: ServerProcess) -> None:
    (session,) = [item for item in items(server, "/api/sessions") if item["id"] == "chat-1"]
    assert set(ChatSession.__struct_fields__) <= set(session)
    messages = items(server, "/api/sessions/chat-1/messages")
    assert [set(message) for message in messages] == [{*ChatMessage.__struct_fields__, "parts"}] * 2
    parts = items(server, "/api/sessions/chat-1/parts")
    assert [set(part) for part in parts] == [set(ChatPart.__struct_fields__)] * 2
    assert json.loads(parts[1]["data_json"])["text"] == "answer 0"


def test_an_id_with_a_slash_is_found(server: ServerProcess) -> None:
    assert server.http.get("/api/sessions/team%2Fchat%203").json()["id"] == "team/chat 3"
    assert len(items(server, "/api/sessions/team%2Fchat%203/messages")) == 2


def test_turns_traces_and_timelines(server: ServerProcess) -> None:
    (turn,) = items(server, "/api/sessions/chat-2/turns")
    assert turn["turn"]["number"] == 1
    assert server.http.get("/api/sessions/chat-2/turns/1").json()["turn"] == turn["turn"]
    (trace,) = items(server, "/api/sessions/chat-2/traces")
    assert [each["trace_id"] for each in items(server, "/api/sessions/chat-2/timeline")] == [trace["trace_id"]]
    assert server.http.get(f"/api/traces/{trace['trace_id']}").json()["session_id"] == "chat-2"
    assert server.http.get(f"/api/traces/{trace['trace_id']}/timeline").json()["trace_id"] == trace["trace_id"]
    assert {event["session_id"] for event in items(server, "/api/events", session_id="chat-2")} == {"chat-2"}
    assert len(items(server, "/api/traces")) == 3


def test_search_prompts_diff_orphans_and_export(server: ServerProcess) -> None:
    assert {hit["session_id"] for hit in items(server, "/api/search", q="penguins")} >= {"chat-1", "chat-2"}
    (prompt,) = eventually(lambda: found if (found := items(server, "/api/prompts"))[0]["sessions"] == 3 else None)
    assert server.http.get(f"/api/prompts/{prompt['digest']}").json()["body"] == "Be brief."
    diff = server.http.get("/api/diff", params={"a": "chat-1", "b": "chat-2"}).json()
    assert diff["diverged_at"] == 1
    assert items(server, "/api/orphans") == []
    assert server.http.get("/api/joinability").json()["rate"] == 0
    lines = server.http.get("/api/sessions/chat-1/export", params={"format": "jsonl"}).text.splitlines()
    assert len(lines) > 3
    assert all(json.loads(line) for line in lines)


def test_errors_say_what_and_what_next(server: ServerProcess) -> None:
    missing = server.http.get("/api/sessions/nobody")
    assert missing.status_code == 404
    assert "nobody" in missing.json()["error"]
    wrong: list[tuple[str, dict[str, str | int]]] = [
        ("/api/sessions", {"limit": 0}),
        ("/api/sessions", {"status": "sleepy"}),
        ("/api/search", {"q": "!!"}),
    ]
    wrong += [("/api/sessions/chat-1/messages", {"cursor": "x"}), ("/api/sessions", {"since": "yesterday-ish"})]
    for path, query in wrong:
        answer = server.http.get(path, params=query)
        assert answer.status_code == 400, (path, query, answer.text)
        assert answer.json()["error"]


def test_the_status_tells_the_lag(server: ServerProcess) -> None:
    status = eventually(
        lambda: told if (told := server.http.get("/api/status").json())["lag"]["records"] == 0 else None
    )
    assert status["lag"]["seconds"] == 0
    assert status["storage"]["total_bytes"] > 0
    assert [project["name"] for project in items(server, "/api/projects")] == ["default"]


def ship(server: ServerProcess, segment: str, *lines: bytes) -> dict[str, Any]:
    """Records of a journal of another machine."""
    headers = {"X-Dashcam-Segment": segment, "X-Dashcam-Offset": "0", "content-type": "application/x-ndjson"}
    answer = server.http.post("/v1/records", content=b"".join(line + b"\n" for line in lines), headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def paged(server: ServerProcess, path: str, **query: Any) -> Iterator[list[dict[str, Any]]]:
    """A list page by page, to its end."""
    cursor: str | None = None
    while True:
        page = server.http.get(path, params=query | ({"cursor": cursor} if cursor else {})).json()
        yield page["items"]
        if (cursor := page["next"]) is None:
            return


def event(number: int, **fields: Any) -> bytes:
    identity = {"session_id": "shipped", "trace_id": "t-shipped", "step": number, "kind": "user"}
    said = {"operation": "tool_call", "ts": f"2026-01-01T00:00:{number:02}Z", "tool": "look", "duration_ms": 1}
    return json.dumps({**identity, **said, **fields}).encode()


def test_events_of_all_sessions_come_as_they_arrived(shipped: ServerProcess) -> None:
    """Page by page, with nothing in between left out; by operation, too."""
    ship(shipped, "arrived.jsonl", *(event(number) for number in range(5)))
    every = [item for page in paged(shipped, "/api/events", limit=3) for item in page]
    assert every == items(shipped, "/api/events", limit=1000)
    assert [item["step"] for item in every if item["step"] < 10] == [0, 1, 2, 3, 4]
    ship(shipped, "other.jsonl", *(event(number, operation="other") for number in (20, 21)))
    found = [item for page in paged(shipped, "/api/events", operation="other", limit=1) for item in page]
    assert [item["step"] for item in found] == [20, 21]


def test_values_that_json_hardly_knows_are_told_all_the_same(shipped: ServerProcess) -> None:
    """A number of a hundred digits, and lists in lists: what others wrote. With half a character it is quarantined."""
    big, deep = 10**100, b"[" * 400 + b"]" * 400
    lines = (event(11, operation="odd_half", said="\ud800"), event(12, operation="odd_big", big=big))
    deeper = event(13, operation="odd_deep", deep=1).replace(b'"deep": 1', b'"deep": ' + deep)
    told = ship(shipped, "odd.jsonl", *lines, deeper)
    assert told["quarantined"] == 1
    assert items(shipped, "/api/events", operation="odd_half") == []
    assert [item["big"] for item in items(shipped, "/api/events", operation="odd_big")] == [big]
    assert len(items(shipped, "/api/events", operation="odd_deep")) == 1
    assert shipped.http.get("/api/traces/t-shipped/timeline").status_code == 200


def test_pages_end_early_where_items_are_large(tmp_path: Path) -> None:
    """Six messages of three megabytes: no page holds all of them, and all pages together do."""
    dashcam.configure(data=tmp_path, url="")
    try:
        with dashcam.record_session("large", agent="helper") as session:
            for number in range(6):
                session.user(f"{number} " + "word " * 600_000)
    finally:
        dashcam.configure()
    with serving(tmp_path) as server:
        eventually(lambda: server.http.get("/api/sessions/large").status_code == 200)
        for path in ("/api/sessions/large/messages", "/api/sessions/large/parts"):
            pages = list(paged(server, path, limit=1000))
            assert 1 < len(pages) < 6
            found = [item for page in pages for item in page]
            assert found == [item for page in paged(server, path, limit=1) for item in page]
            assert len({item["id"] for item in found}) == 6


def test_orphans_page_by_what_was_there(shipped: ServerProcess) -> None:
    """What comes in while somebody turns the pages is not among them, and moves nothing."""
    lost = [b'{"operation": "lost-%d", "ts": "2026-01-01T00:00:00Z"}' % number for number in range(9)]
    assert ship(shipped, "lost.jsonl", *lost)["quarantined"] == 9
    pages = paged(shipped, "/api/orphans", limit=2)
    seen = next(pages)
    assert ship(shipped, "later.jsonl", b'{"operation": "later"}')["quarantined"] == 1
    seen += [item for page in pages for item in page]
    mine = [item["operation"] for item in seen if item["segment"] == "lost.jsonl"]
    assert mine == [f"lost-{number}" for number in reversed(range(9))]
    assert "later.jsonl" not in {item["segment"] for item in seen}
    assert items(shipped, "/api/orphans")[0]["segment"] == "later.jsonl"


def test_a_project_that_is_not_there_is_not_made_by_asking(server: ServerProcess) -> None:
    paths = [path for path, item in _described(server).items() if path.startswith("/api/") and "public" not in path]
    with_store = [
        path for path in paths if path not in ("/api/projects", "/api/vocabulary", "/api/keys") and "{" not in path
    ]
    assert len(with_store) > 8
    query = {"q": "penguins", "a": "chat-1", "b": "chat-2"}
    for path in with_store:
        assert server.http.get(path, params=query | {"project": "nobody"}).status_code == 404, path
        assert server.http.get(path, params=query | {"project": "../up"}).status_code == 400, path
    assert not (server.data / "nobody").exists()
    assert items(server, "/api/sessions", project="default") == items(server, "/api/sessions")
    for path in paths:
        for operation in _described(server)[path].values():
            assert "project" in [parameter["name"] for parameter in operation["parameters"]], path


def _described(server: ServerProcess) -> dict[str, dict[str, Any]]:
    return dict(server.http.get("/docs/openapi.json").json()["paths"])


def test_head_answers_as_get_without_a_body(server: ServerProcess) -> None:
    for path in (
        "/health",
        "/api/sessions",
        "/api/sessions/nobody",
        "/docs",
        "/api/sessions/chat-1/export",
        "/api/live",
    ):
        head = server.http.head(path)
        with server.http.stream("GET", path) as answer:
            assert (head.status_code, head.content) == (answer.status_code, b""), path
            assert head.headers.get("content-type") == answer.headers.get("content-type")
            assert head.headers.get("content-length") == answer.headers.get("content-length")
    assert server.http.head("/v1/traces").status_code == 405


def test_other_sites_are_told_nothing(server: ServerProcess) -> None:
    """No header lets a page of another site read an answer, whatever it asks first."""
    asked = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "GET"}
    for method, path in (
        ("OPTIONS", "/api/sessions"),
        ("GET", "/api/sessions"),
        ("GET", "/docs"),
        ("OPTIONS", "/v1/traces"),
    ):
        answer = server.http.request(method, path, headers=asked)
        assert not [name for name in answer.headers if name.startswith("access-control-")], (method, path)
    answer = server.http.put("/api/sessions")
    assert (answer.status_code, set(answer.headers["allow"].split(", "))) == (405, {"GET", "OPTIONS"})


def test_a_wrong_parameter_is_named(server: ServerProcess) -> None:
    answer = server.http.get("/api/sessions", params={"limit": 1001, "has_error": "perhaps"})
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert "limit" in answer.json()["error"] or "has_error" in answer.json()["error"]


def test_keys_are_for_who_may_administer_and_told_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Control(data) as control:
        _, admin = control.create("default", ["admin"])
        _, read = control.create("default", ["read"])
    with serving(data, "--require-key") as server:

        def ask(method: str, path: str, key: str, **given: Any) -> httpx.Response:
            return server.http.request(method, path, headers={"Authorization": f"Bearer {key}"}, **given)

        wanted = {"rights": ["read"], "name": "for a page"}
        for method, path in (("GET", "/api/keys"), ("POST", "/api/keys"), ("DELETE", "/api/keys/x")):
            assert ask(method, path, read, json=wanted).status_code == 403
            assert server.http.request(method, path, json=wanted).status_code == 401
        made = ask("POST", "/api/keys", admin, json=wanted)
        assert made.status_code == 201
        key, text = made.json()["key"], made.json()["text"]
        listed = ask("GET", "/api/keys", admin)
        assert key["id"] in [item["id"] for item in listed.json()["items"]]
        assert text not in listed.text
        assert text.rpartition("_")[2] not in server.said
        assert ask("GET", "/api/sessions", text).status_code == 200
        assert ask("GET", "/api/sessions", text, params={"project": "other"}).status_code == 403
        assert ask("DELETE", f"/api/keys/{key['id']}", admin).status_code == 200
        assert eventually(lambda: ask("GET", "/api/sessions", text).status_code == 401)
        assert ask("POST", "/api/keys", admin, json={"rights": ["everything"]}).status_code == 400


def test_the_page_shows_every_route_and_brings_its_own_style(server: ServerProcess) -> None:
    page = server.http.get("/docs")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for path in _described(server):
        assert f"<code>{path}</code>" in page.text
    assert " style=" not in page.text
    assert "<script" not in page.text
    assert "<style" not in page.text
    style = server.http.get("/docs/style.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "prefers-color-scheme: dark" in style.text


class _Odd(msgspec.Struct, tag="odd"):
    said: Any


def test_whatever_a_value_holds_there_is_json_of_it() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert json.loads(encode(_Odd(said="\ud800x"))) == {"type": "odd", "said": "?x"}
    assert json.loads(encode({"\udfff": (1, 10**50, None, True)})) == {"?": [1, 10**50, None, True]}
    assert b"\xe2\x80\xa6" in encode([deep])  # what is left out is shown as left out
    assert encode(_Odd(said=float("nan"))) == b'{"type":"odd","said":null}'
