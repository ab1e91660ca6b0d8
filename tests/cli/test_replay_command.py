"""`dashcam replay`, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dashcam
from dashcam.sdk import emit

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e"
SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}}
KEY = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"


def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashcam", "replay", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, cwd=cwd
    )


def printed(*arguments: str, cwd: Path | None = None) -> str:
    done = run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def document(*arguments: str, cwd: Path | None = None) -> Any:
    return json.loads(printed(*arguments, "--json", cwd=cwd))


@pytest.fixture
def chat() -> str:
    """Two turns; the second calls a tool."""
    with dashcam.record_session(
        "chat", agent="shop", model="nobody:knows-1", system_prompt="Be kind.",
        tools=[{"name": "lookup", "input_schema": SCHEMA}], settings={"temperature": 0.2},
    ) as recorder:  # fmt: skip
        recorder.user("Hello")
        recorder.assistant("Hi!")
        recorder.user(f"Where is order 7? {EVIL}")
        call = recorder.tool_call("lookup", {"order": 7}, tool_call_id="c1")
        recorder.tool_result(call, {"state": "shipped"})
        recorder.assistant("It is on its way.")
    ours = emit.use_recorder(None)
    assert ours
    ours.close()
    return "chat"


def scripted(folder: Path, *answers: Any) -> str:
    (folder / "script.json").write_text(json.dumps(answers))
    return f"scripted:{folder / 'script.json'}"


def test_without_a_turn_it_tells_which_turns_can_be_replayed(chat: str) -> None:
    assert printed(chat) == "turn 1 of chat can be replayed\nturn 2 of chat can be replayed\n"
    told = document(chat)
    assert [(turn["turn"], turn["eligible"], turn["exact"]) for turn in told["turns"]] == [
        (1, True, True),
        (2, True, True),
    ]


def test_a_dry_run_asks_no_model_and_records_nothing(chat: str, data: Path) -> None:
    told = document(chat, "--turn", "2", "--dry-run")
    assert (told["eligible"], told["missing"], told["branch_id"]) == (True, [], None)
    assert not (data / "default" / "replay_runs.jsonl").exists()


def test_the_recorded_answers_make_the_same_turn(chat: str) -> None:
    told = document(chat, "--turn", "2", "--model", "recorded")
    (call,) = told["calls"]
    assert (call["tool"], call["outcome"], call["recorded_id"]) == ("lookup", "hit", "c1")
    assert told["diff"]["diverged_at"] is None
    assert (told["eligible"], told["exact"], told["stopped"]) == (True, True, None)
    text = printed(chat, "--turn", "2", "--model", "recorded")
    assert "hit        lookup  recording" in text
    assert "The two are the same." in text


def test_a_changed_prompt_and_setting_are_shown_beside_the_original(chat: str, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text("Be terse.")
    model = scripted(tmp_path, {"tool": "lookup", "input": {"order": 7}}, {"text": f"Shipped.{EVIL}"})
    text = printed(
        chat, "--turn", "2", "--model", model, "--system-prompt", str(tmp_path / "prompt.txt"), "--set", "temperature=0"
    )
    assert "-Be kind.\n" in text
    assert "+Be terse.\n" in text
    assert "temperature  0.2 → 0" in text
    assert "Shipped." in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_call_that_was_not_recorded_stops_it_unless_its_code_is_named(chat: str, tmp_path: Path) -> None:
    model = scripted(tmp_path, {"tool": "weather", "input": {"town": "Bern"}}, {"text": "Rain."})
    done = run(chat, "--turn", "2", "--model", model, "--json")
    assert done.returncode == 1
    stopped = json.loads(done.stdout)
    assert stopped["calls"][0]["outcome"] == "miss"
    assert stopped["stopped"] == "tool weather not recorded; run it with --run-tools --tools module:name"
    (tmp_path / "mine.py").write_text("async def weather(town): return f'rain in {town}'\n")
    ran = document(chat, "--turn", "2", "--model", model, "--run-tools", "--tools", "mine:weather", cwd=tmp_path)
    assert (ran["calls"][0]["answered_by"], ran["calls"][0]["output"]) == ("tool", "rain in Bern")
    assert ran["stopped"] is None
    assert ran["diff"]["diverged_at"] == 2


def test_one_tool_call_is_made_again_and_shown_beside_what_came_then(chat: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def lookup(order: int): return {'state': 'lost'}\n")
    named = ("--tool-call", "c1", "--run-tools", "--tools", "mine:lookup")
    text = printed(chat, *named, cwd=tmp_path)
    assert 'then  {"state":"shipped"}\nnow   {"state":"lost"}\ndifferent\n' in text
    assert document(chat, *named, cwd=tmp_path)["equal"] is False


def test_verbose_shows_requests_and_pieces_on_stderr_and_obeys_none_of_them(chat: str) -> None:
    done = run(chat, "--turn", "2", "--model", "recorded", "--verbose")
    assert done.returncode == 0
    assert '"instructions":"Be kind."' in done.stderr
    assert "It is on its way." in done.stderr
    assert "\x1b]" not in done.stderr
    assert "\u202e" not in done.stderr


def test_what_is_missing_or_redacted_is_told(tmp_path: Path) -> None:
    with dashcam.record_session("chat", agent="a") as recorder:
        recorder.user(f"My key is {KEY}.")
        recorder.assistant("Thanks.")
    done = run("chat", "--turn", "1", "--model", "recorded")
    assert done.returncode == 0, done.stderr
    assert "not exact: redacted at messages.0.content.0.text" in done.stdout
    done = run("chat", "--turn", "1")
    assert done.returncode == 1
    assert "turn 1 of chat can't be replayed\n  missing: the name of the model\n" in done.stdout
    done = run("chat", "--turn", "1", "--json")
    assert (done.returncode, json.loads(done.stdout)["missing"]) == (1, ["the name of the model"])


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("chat", "--turn", "9"), 4, "has 2 turns, and no turn 9"),
        (("gone", "--turn", "1"), 4, "No session 'gone'"),
        (("chat", "--turn", "2"), 1, "Name another with --model"),
        (("chat", "--turn", "2", "--set", "temprature=0"), 2, "no setting 'temprature'"),
        (("chat", "--turn", "2", "--set", "temperature"), 2, "name=value"),
        (("chat", "--turn", "2", "--system-prompt", "gone.txt"), 5, "gone.txt"),
        (("chat", "--turn", "2", "--run-tools"), 2, "go together"),
        (("chat", "--turn", "2", "--tools", "a:b"), 2, "go together"),
        (("chat", "--tool-call", "c1"), 2, "--run-tools --tools module:name"),
        (("chat", "--turn", "2", "--run-tools", "--tools", "no.such:x"), 5, "can't be imported"),
        (("chat", "--turn", "2", "--model", "scripted:gone.json"), 5, "gone.json"),
    ],
)
def test_mistakes_are_told_without_a_traceback(chat: str, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_fails_is_told_and_ends_with_1(chat: str, tmp_path: Path) -> None:
    done = run(chat, "--turn", "2", "--model", scripted(tmp_path, {"error": f"over capacity{EVIL}"}))
    assert done.returncode == 1
    assert "stopped: the model failed: over capacity" in done.stdout
    assert "\x1b]" not in done.stdout


def test_without_pydantic_ai_it_says_what_to_install(chat: str, tmp_path: Path) -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None; from dashcam.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "replay", "chat"], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 3
    assert "pip install 'dashcam[host]'" in done.stderr


def test_other_commands_do_not_wait_for_pydantic_ai() -> None:
    code = "import sys, dashcam.cli.app; print('pydantic_ai' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_the_page_about_replay_runs_as_printed(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "replay.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.S)
    told = [printed(*shlex.split(line, comments=True)[2:]) for line in commands.splitlines()]
    assert told[:2] == ["turn 1 of chat-42 can be replayed\n"] * 2
    assert "The two are the same." in told[2]
    (tmp_path / "shop.py").write_text("def lookup(order: int): return {'state': 'shipped'}\n")
    again = re.findall(r"^dashcam replay (chat-42 --tool-call .*) shop\.tools:lookup$", page, re.M)
    assert printed(*shlex.split(again[0]), "shop:lookup", cwd=tmp_path).endswith("equal\n")
