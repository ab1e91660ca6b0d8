"""The API: what the command shows, as typed JSON, a page at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from server_process import ServerProcess, eventually, serving

import dashcam
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession

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
