"""The SDKs that people already use, each in a process of its own, sending to a real server over HTTP and gRPC."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from server_process import ServerProcess, eventually, serving

SENDERS = Path(__file__).parent / "senders"

pytestmark = pytest.mark.slow


class StubModel(BaseHTTPRequestHandler):
    """Answers like OpenAI's chat completions, with usage that the cache served part of."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {
            "id": f"chatcmpl-{len(asked['messages'])}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": "gpt-4o-mini-2024-07-18",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": f"Answer to: {asked['messages'][-1]['content']}"},
                }
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 8},
            },
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    stub = ThreadingHTTPServer(("127.0.0.1", 0), StubModel)
    thread = threading.Thread(target=stub.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{stub.server_port}"
    stub.shutdown()
    thread.join()
    stub.server_close()


def run(script: str, *arguments: str) -> None:
    # Logfire sends nothing where it sees that a test runs it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, str(SENDERS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


def get(server: ServerProcess, path: str) -> Any:
    answer = server.http.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def session_of(
    server: ServerProcess, session_id: str, messages: int = 2
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The session once it has all its messages, and these."""
    path = f"/api/sessions/{session_id}/messages"
    found = eventually(lambda: items if len(items := _items(server, path)) == messages else None)
    return get(server, f"/api/sessions/{session_id}"), found


def _items(server: ServerProcess, path: str) -> list[dict[str, Any]]:
    answer = server.http.get(path)
    return list(answer.json()["items"]) if answer.status_code == 200 else []


def texts(messages: list[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    return [(message["role"], [words(part) for part in message["parts"] if words(part)]) for message in messages]


def words(part: dict[str, Any]) -> str:
    data = json.loads(part["data_json"])
    return str(data.get("text") or data.get("type") if part["type"] != "step-start" else "")


@pytest.mark.parametrize("how", ["http", "grpc"])
def test_the_opentelemetry_sdk(server: ServerProcess, how: str) -> None:
    run("otel_sdk.py", how, server.url if how == "http" else f"http://{server.grpc}", f"otel-{how}")
    session, messages = session_of(server, f"otel-{how}")
    assert texts(messages) == [("user", ["What is the weather?"]), ("assistant", ["Sunny."])]
    assert (session["prompt_tokens"], session["cache_read"], session["completion_tokens"]) == (40, 60, 7)
    assert session["cost_usd"] > 0


def test_openinference_around_the_openai_client(server: ServerProcess, model: str) -> None:
    """Two calls in two traces, the second of which repeats the first: each message once."""
    run("openinference_openai.py", server.url, model, "openinference-1")
    session, messages = session_of(server, "openinference-1", 4)
    assert texts(messages) == [
        ("user", ["What is the weather in Paris?"]),
        ("assistant", ["Answer to: What is the weather in Paris?"]),
        ("user", ["And in Rome?"]),
        ("assistant", ["Answer to: And in Rome?"]),
    ]
    tokens = ("prompt_tokens", "cache_read", "completion_tokens", "reasoning_tokens", "total_tokens")
    assert [session[name] for name in tokens] == [72, 128, 24, 16, 240]
    (turn, _) = get(server, "/api/sessions/openinference-1/turns")["items"]
    prompt = get(server, f"/api/prompts/{turn['turn']['system_prompt_digest']}")
    assert prompt["body"] == "You are a weather helper."


def test_pydantic_ai_with_its_test_model(server: ServerProcess) -> None:
    run("pydantic_agent.py", server.url, "pydantic-1")
    session, messages = session_of(server, "pydantic-1")
    assert texts(messages)[0] == ("user", ["What is the weather in Paris?"])
    assert texts(messages)[1] == ("assistant", ["tool-get_weather", "Sunny, 21 degrees."])
    (tool,) = [part for part in messages[1]["parts"] if part["type"] == "tool-get_weather"]
    assert tool["tool_state"] == "output-available"
    assert json.loads(tool["data_json"])["output"] == "sunny in a"
    assert session["agent"] == "weather"
    assert session["turns"] == 1


def test_the_langfuse_sdk_with_a_score(server: ServerProcess) -> None:
    run("langfuse_sdk.py", server.url, "langfuse-1")
    session, messages = session_of(server, "langfuse-1")
    assert texts(messages) == [("user", ["What is the weather in Paris?"]), ("assistant", ["Sunny."])]
    assert (session["prompt_tokens"], session["cache_read"], session["completion_tokens"]) == (40, 60, 5)
    assert session["cost_usd"] == 0.25
    scores = eventually(lambda: _items(server, "/api/sessions/langfuse-1/scores"))
    assert [(score["name"], score["value"], score["comment"]) for score in scores] == [("quality", 0.9, "good enough")]


def test_the_logfire_sdk(server: ServerProcess) -> None:
    run("logfire_sdk.py", server.url, "logfire-1")
    session, messages = session_of(server, "logfire-1")
    assert texts(messages) == [("user", ["What is the weather in Paris?"]), ("assistant", ["Sunny, 21 degrees."])]
    assert session["status"] == "idle"
