"""`dashcam sessions` and `dashcam show`: sessions recorded, found and read in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import pytest
from terminal import on_a_terminal

import dashcam
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.sdk import emit
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteStore

SOON = 3.0  # seconds; one on a machine with nothing else to do
EVIL = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
TOOLS = [{"name": "find_order"}, {"name": "refund"}]
RULES = [
    {"permission": "find_order", "action": "allow"},
    {"permission": "refund", "action": "deny", "source": "manifest"},
]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashcam", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)


def printed(*arguments: str, **environment: str) -> str:
    done = run(*arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def document(*arguments: str) -> Any:
    return json.loads(printed(*arguments, "--json"))


def close_recorder() -> None:
    ours = emit.use_recorder(None)
    assert ours
    ours.close()


@pytest.fixture
def recorded() -> str:
    """A session of three turns: tools that work and fail, a new prompt, and a turn that was taken back."""
    with dashcam.record_session(
        "chat-42",
        agent="shop",
        model="anthropic:claude-sonnet-4-5",
        system_prompt="You are a shop.\nIt is 12:00.",
        tools=TOOLS,
        settings={"temperature": 0.2},
        permissions=RULES,
        workspace_root="/srv/shop",
    ) as chat:
        chat.user("Where is order 1042?\nPlease look.")
        call = chat.tool_call("find_order", {"id": 1042}, permission=RULES[0])
        chat.tool_result(call, {"state": "shipped"})
        chat.assistant(
            "It was shipped.",
            reasoning="Say it.\nThen stop.",
            usage={"input": 900, "output": 12, "reasoning": 3, "cache_read": 50, "cache_write": 7},
            cost_usd=0.5,
            stop_reason="end_turn",
        )
        chat.user("Refund it!")
        chat.assistant("", system_prompt="You are a shop.\nIt is 12:01.")
        call = chat.tool_call("refund", {"id": 1042}, permission=RULES[1])
        chat.tool_result(call, denied="not on its way")
        chat.assistant("I can't.", stop_reason="end_turn", usage={"input": 5})
        again = chat.user("Never mind.")
        chat.assistant("Fine.")
        chat.rewind(again)
    close_recorder()
    return "chat-42"


@pytest.mark.slow
def test_a_session_is_read_turn_by_turn(recorded: str) -> None:
    shown = printed("show", recorded)
    places = [
        shown.index(words)
        for words in (
            "session chat-42",
            "/srv/shop",
            "turn 1",
            "Where is order 1042?",
            '✓ find_order  {"id":1042}',
            '{"state":"shipped"}',
            "allowed by find_order * (session)",
            "It was shipped.",
            "input 900 · output 12 · reasoning 3 · cache read 50 · cache write 7 · $0.5000",
            "anthropic:claude-sonnet-4-5 · temperature 0.2",
            "ended: end_turn",
            "2 available · 1 called: find_order",
            "turn 2",
            "⊘ refund  output-denied",
            "not on its way",
            "denied by refund * (manifest)",
            "changed at line 2: -It is 12:00. +It is 12:01.",
            "lost about",
            "turn 3",
            "hidden by rewind",
            "Never mind.",
        )
    ]
    assert places == sorted(places)
    assert "Then stop." not in shown  # reasoning is folded
    assert "of 200,000 tokens" in shown or "of 1,000,000 tokens" in shown
    assert [line for line in shown.splitlines() if line != line.rstrip()] == []
    assert "Then stop." in printed("show", recorded, "--full")


@pytest.mark.slow
def test_one_turn_is_shown_with_all_there_is_of_it(recorded: str) -> None:
    shown = printed("show", recorded, "--turn", "2", "--request")
    for words in (
        "It is 12:01.",
        "-It is 12:00.",
        "• refund",
        "  find_order",
        "deny refund",
        "allow find_order",
        "request 1 of",
    ):
        assert words in shown
    assert "Where is order 1042?\n" not in shown
    assert '"system": "You are a shop.\\nIt is 12:01."' in shown
    assert run("show", recorded, "--turn", "9").returncode == 4
    assert "and no turn 9" in run("show", recorded, "--turn", "9").stderr


def test_the_system_prompt_is_shown_where_it_is_new(recorded: str) -> None:
    shown = printed("show", recorded, "--prompt")
    digests = [sha256(f"You are a shop.\nIt is 12:0{number}.".encode()).hexdigest() for number in range(2)]
    assert [shown.count(f"system prompt {digest}") for digest in digests] == [1, 1]
    assert "\n    It is 12:00.\n" in shown


@pytest.mark.slow
def test_a_session_is_one_json_document(recorded: str) -> None:
    told = document("show", recorded, "--request")
    assert told["session"]["id"] == recorded
    first, second, third = told["turns"]
    assert first["usage"] == {"input": 900, "output": 12, "reasoning": 3, "cache_read": 50, "cache_write": 7}
    assert first["tools_available"] == ["find_order", "refund"]
    (tool,) = [part for part in first["messages"][1]["parts"] if part["kind"] == "tool"]
    assert (tool["state"], tool["decision"]["action"]) == ("output-available", "allow")
    assert [rule["permission"] for rule in first["permissions"]] == ["find_order", "refund"]
    assert second["prompt"]["after"] == "It is 12:01."
    request = second["calls"][-1]["request"]
    assert request["system"].endswith("12:01.")
    assert request["tools"] == TOOLS
    assert request["messages"][0]["role"] == "user"
    assert third["hidden_at"]
    assert [turn["number"] for turn in document("show", recorded, "--turn", "2")["turns"]] == [2]


@pytest.mark.slow
def test_nothing_that_was_recorded_acts_on_the_terminal() -> None:
    with dashcam.record_session(
        f"s{EVIL}", agent=EVIL, model=f"p:{EVIL}", system_prompt=EVIL, tools=[{"name": EVIL}]
    ) as chat:
        chat.user(f"title {EVIL}")
        call = chat.tool_call(
            f"t{EVIL}", {EVIL: EVIL}, permission={"permission": EVIL, "pattern": EVIL, "action": "allow"}
        )
        chat.tool_result(call, error=EVIL)
        chat.assistant(EVIL, reasoning=EVIL, stop_reason=EVIL, settings={EVIL: EVIL})
        chat.user(EVIL)
        chat.assistant(EVIL, system_prompt=f"{EVIL}2", tools=[])
        chat.compaction(EVIL)
    close_recorder()
    commands = [("show", f"s{EVIL}", "--full"), ("show", f"s{EVIL}"), ("show", f"s{EVIL}", "--turn", "1", "--request")]
    for command in [*commands, ("sessions",), ("sessions", "--text", "owned")]:
        for shown in (printed(*command, FORCE_COLOR="1"), on_a_terminal(*command, columns=70)):
            assert "owned" in shown
            for active in ("\x1b]0", "\x1b[2J", "\x07", "\u202e", "\x9b"):
                assert active not in shown, (command, active)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_terminal_of_any_width_gets_lines_that_fit(recorded: str, columns: int) -> None:
    for command in (("show", recorded), ("sessions",), ("sessions", "--text", "order")):
        lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", on_a_terminal(*command, columns=columns)).splitlines()
        assert max(map(len, lines)) <= columns
        assert any(recorded in line for line in lines)


@pytest.mark.slow
def test_sessions_are_listed_with_what_they_cost_and_held(recorded: str) -> None:
    (told,) = document("sessions")
    assert (told["session_id"], told["kind"], told["agent"], told["provider"]) == (
        recorded,
        "user",
        "shop",
        "anthropic",
    )
    assert (told["model"], told["status"], told["turns"], told["title"]) == (
        "claude-sonnet-4-5",
        "idle",
        3,
        "Where is order 1042? Please look.",
    )
    assert told["tokens"]["total"] == sum(told["tokens"][name] for name in told["tokens"] if name != "total") >= 977
    assert told["cost_usd"] >= 0.5
    assert told["first_ts"] <= told["last_ts"]
    assert told["traces"] == 1
    head, row = printed("sessions").splitlines()
    assert head.split() == [
        "session",
        "agent",
        "model",
        "status",
        "turns",
        "tokens",
        "cost",
        "errors",
        "last",
        "active",
        "title",
    ]
    assert "Where is order 1042?" in row


@pytest.mark.slow
def test_sessions_are_found_by_what_is_asked(recorded: str) -> None:
    with dashcam.record_session("nightly", agent="cron", kind="system:cron") as chat:
        chat.user("clean up")
        chat.assistant("done")
    with dashcam.record_session("branch", agent="shop", parent_id=recorded) as chat:
        chat.user("hello")
        chat.assistant("failed", error="Overloaded", stop_reason="error")
    close_recorder()

    def ids(*filters: str) -> set[str]:
        return {each["session_id"] for each in document("sessions", *filters)}

    everything = {recorded, "nightly", "branch"}
    assert ids() == {recorded, "branch"}
    assert ids("--kind", "all") == everything
    assert ids("--kind", "system") == ids("--kind", "system:cron") == {"nightly"}
    assert ids("--agent", "shop", "--no-error", "--model", "sonnet") == ids("--min-cost", "0.5") == {recorded}
    assert ids("--has-error") == ids("--status", "error") == ids("--parent", recorded) == {"branch"}
    assert ids("--since", "2h") == {recorded, "branch"}
    assert ids("--until", "2h") == ids("--since", "2999-01-01") == set()
    assert ids("--until", "2999-01-01T00:00:00+02:00", "--text", "order 1042") == {recorded}
    assert len(document("sessions", "--limit", "1")) == 1
    newest = document("sessions", "--limit", "1")[0]["session_id"]
    assert ids("--after", newest) == {recorded, "branch"} - {newest}
    assert "The system's own traffic: 1 of 3 sessions (33 %)" in run("sessions").stderr
    assert "branches   branch" in printed("show", recorded)
    assert f"branch of  {recorded}" in printed("show", "branch")
    (found,) = document("sessions", "--text", "order 1042")
    assert any("order" in hit["snippet"] for hit in found["hits"])
    assert "\x02" not in found["hits"][0]["snippet"]
    under = printed("sessions", "--text", "order 1042").splitlines()
    assert recorded in under[1]
    assert "Where is order 1042?" in "".join(under[2:])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "nope"), 4, "No session 'nope'"),
        (("show", "events-only"), 4, "dashcam session events-only"),
        (("sessions", "--since", "soon"), 2, "is no time"),
        (("sessions", "--kind", "robot"), 2, "Choose from"),
        (("sessions", "--status", "robot"), 2, "Choose from"),
    ],
)
def test_an_answer_that_cannot_be_given_says_what_to_do(
    recorded: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    dashcam.log_event(dashcam.new_trace("events-only"), "reply_ready")
    close_recorder()
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def _message(name: str, role: Literal["user", "assistant"], at: int, parts: int) -> list[ChatMessage | ChatPart]:
    told = '{"stop_reason":"stop","usage":{"input":7}}' if role == "assistant" else "{}"
    message = ChatMessage(id=name, session_id="long", role=role, metadata_json=told, created_at=at, updated_at=at)
    part = {"type": "tool-t", "toolCallId": name, "state": "output-available", "output": "x" * 2_000}
    return [
        message,
        *(
            ChatPart(
                id=f"{name}-{index}",
                message_id=name,
                session_id="long",
                index=index,
                type="tool-t",
                data_json=json.dumps(part),
                tool_call_id=f"{name}-{index}",
                tool_state="output-available",
                created_at=at,
                updated_at=at,
            )
            for index in range(parts)
        ),
    ]


@pytest.fixture
def long_session(data: Path) -> str:
    """500 turns, 10,000 parts, 20 MB."""
    (data / "default").mkdir(parents=True, mode=0o700)
    rows: list[Any] = [ChatSession(id="long", agent="a", created_at=0, updated_at=0)]
    for turn in range(500):
        rows += _message(f"u{turn:04}", "user", 1_000 * turn, parts=1)
        rows += _message(f"a{turn:04}", "assistant", 1_000 * turn + 1, parts=19)
    with SqliteStore(data / "default" / "sessions.db") as store:
        store.append(Batch(chat=rows))
    return "long"


@pytest.mark.slow
@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_a_long_session_begins_at_once_and_takes_the_memory_of_one_turn(
    long_session: str, extra: tuple[str, ...]
) -> None:
    def watch(*arguments: str) -> tuple[float, int]:
        """Seconds until the first turn is printed, and the most memory in bytes."""
        began, first = time.monotonic(), 0.0
        process = subprocess.Popen([sys.executable, "-m", "dashcam", *arguments], stdout=subprocess.PIPE)
        assert process.stdout
        for line in process.stdout:
            first = first or (time.monotonic() - began) * (b"turn 1" in line or b'"number":1' in line)
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return first, usage.ru_maxrss * 1024

    _, least = watch("sessions")
    first, most = watch("show", long_session, *extra)
    assert 0 < first < SOON
    assert most - least < 30_000_000  # less than the price table that it loads, and what Rich needs; not 20 MB of parts
