"""`dashcam replay`: in this process, which has Pydantic AI loaded, and where it matters in one of its own."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dashcam
from dashcam.cli import main

EVIL = "\x1b]0;owned\x07\x1b[2J\u202e"
SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}}
KEY = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"


class Done(NamedTuple):
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


class Command:
    """`dashcam replay` as somebody types it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def run(self, *arguments: str) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["dashcam", "replay", *arguments])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        told = self._capsys.readouterr()
        return Done(int(ended.value.code or 0), told.out, told.err)

    def printed(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def document(self, *arguments: str) -> Any:
        return json.loads(self.printed(*arguments, "--json"))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module of tools into the working folder; gives its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(code: str) -> str:
        (tmp_path / "tools_for_commands.py").write_text(code)
        return "tools_for_commands"

    yield write
    sys.modules.pop("tools_for_commands", None)


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
    return "chat"


def scripted(folder: Path, *answers: Any) -> str:
    (folder / "script.json").write_text(json.dumps(answers))
    return f"scripted:{folder / 'script.json'}"


def test_without_a_turn_it_tells_which_turns_can_be_replayed(command: Command, chat: str) -> None:
    assert command.printed(chat) == "turn 1 of chat can be replayed\nturn 2 of chat can be replayed\n"
    told = command.document(chat)
    assert [(turn["turn"], turn["eligible"], turn["exact"]) for turn in told["turns"]] == [
        (1, True, True),
        (2, True, True),
    ]


def test_a_dry_run_asks_no_model_and_records_nothing(command: Command, chat: str, data: Path) -> None:
    told = command.document(chat, "--turn", "2", "--dry-run")
    assert (told["eligible"], told["missing"], told["branch_id"]) == (True, [], None)
    assert not (data / "default" / "replay_runs.jsonl").exists()


def test_the_recorded_answers_make_the_same_turn(command: Command, chat: str) -> None:
    told = command.document(chat, "--turn", "2", "--model", "recorded")
    (call,) = told["calls"]
    assert (call["tool"], call["outcome"], call["recorded_id"]) == ("lookup", "hit", "c1")
    assert told["diff"]["diverged_at"] is None
    assert (told["eligible"], told["exact"], told["stopped"]) == (True, True, None)
    text = command.printed(chat, "--turn", "2", "--model", "recorded")
    assert "hit        lookup  recording" in text
    assert "The two are the same." in text


def test_a_changed_prompt_and_setting_are_shown_beside_the_original(
    command: Command, chat: str, tmp_path: Path
) -> None:
    (tmp_path / "prompt.txt").write_text("Be terse.")
    model = scripted(tmp_path, {"tool": "lookup", "input": {"order": 7}}, {"text": f"Shipped.{EVIL}"})
    text = command.printed(
        chat, "--turn", "2", "--model", model, "--system-prompt", str(tmp_path / "prompt.txt"), "--set", "temperature=0"
    )
    assert "-Be kind.\n" in text
    assert "+Be terse.\n" in text
    assert "temperature  0.2 → 0" in text
    assert "Shipped." in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_call_that_was_not_recorded_stops_it_unless_its_code_is_named(
    command: Command, chat: str, tmp_path: Path, module: Callable[[str], str]
) -> None:
    model = scripted(tmp_path, {"tool": "weather", "input": {"town": "Bern"}}, {"text": "Rain."})
    done = command.run(chat, "--turn", "2", "--model", model, "--json")
    assert done.returncode == 1
    stopped = json.loads(done.stdout)
    assert stopped["calls"][0]["outcome"] == "miss"
    assert stopped["stopped"] == "tool weather not recorded; run it with --run-tools --tools module:name"
    named = module("async def weather(town): return f'rain in {town}'") + ":weather"
    ran = command.document(chat, "--turn", "2", "--model", model, "--run-tools", "--tools", named)
    assert (ran["calls"][0]["answered_by"], ran["calls"][0]["output"]) == ("tool", "rain in Bern")
    assert ran["stopped"] is None
    assert ran["diff"]["diverged_at"] == 2


def test_one_tool_call_is_made_again_and_shown_beside_what_came_then(
    command: Command, chat: str, module: Callable[[str], str]
) -> None:
    mine = module("def lookup(order: int): return {'state': 'lost'}")
    named = ("--tool-call", "c1", "--run-tools", "--tools", f"{mine}:lookup")
    text = command.printed(chat, *named)
    assert 'then  {"state":"shipped"}\nnow   {"state":"lost"}\ndifferent\n' in text
    assert command.document(chat, *named)["equal"] is False


def test_verbose_shows_requests_and_pieces_on_stderr_and_obeys_none_of_them(command: Command, chat: str) -> None:
    done = command.run(chat, "--turn", "2", "--model", "recorded", "--verbose")
    assert done.returncode == 0
    assert '"instructions":"Be kind."' in done.stderr
    assert "It is on its way." in done.stderr
    assert "\x1b]" not in done.stderr
    assert "\u202e" not in done.stderr


def test_after_a_rewind_the_turn_is_shown_beside_the_last_one_of_its_branch(command: Command, tmp_path: Path) -> None:
    with dashcam.record_session(
        "chat", agent="a", model="openai:gpt-5", system_prompt="Be kind.", tools=[]
    ) as recorder:
        first = recorder.user("One")
        recorder.assistant("1")
        recorder.rewind(first)
        recorder.user("Two")
        recorder.assistant("2")
    same = command.document("chat", "--turn", "2", "--model", "recorded")["diff"]
    assert (same["diverged_at"], [each["turn"] for each in same["turns"]]) == (None, [2])
    text = command.printed("chat", "--turn", "2", "--model", scripted(tmp_path, {"text": "3"}))
    assert "They diverged at turn 2." in text
    assert "[-2-]{+3+}" in text
    hidden = command.document("chat", "--turn", "1", "--model", "recorded")["diff"]
    assert (hidden["diverged_at"], [each["turn"] for each in hidden["turns"]]) == (None, [1])


def test_a_turn_that_failed_fails_again_when_it_is_played_back(command: Command) -> None:
    with dashcam.record_session(
        "chat", agent="a", model="openai:gpt-5", system_prompt="Be kind.", tools=[]
    ) as recorder:
        recorder.user("Hello")
        recorder.chunk({"type": "start-step"})
        recorder.chunk({"type": "text-start", "id": "1"})
        recorder.chunk({"type": "text-delta", "id": "1", "delta": "Hel"})
        recorder.chunk({"type": "error", "errorText": "over capacity"})
    done = command.run("chat", "--turn", "1", "--model", "recorded")
    assert done.returncode == 1
    assert "stopped: the model failed: over capacity" in done.stdout
    assert "The two are the same." in done.stdout
    assert "network" not in done.stderr  # no model was asked: there is nothing to check


def test_what_nobody_told_the_recorder_is_said_not_to_be_exact(command: Command) -> None:
    for question in ("Hello", "Still there?"):
        with dashcam.record_session("chat", agent="a", model="openai:gpt-5") as recorder:
            recorder.user(question)
            recorder.assistant("Hi!")
    lines = command.printed("chat").splitlines()
    assert [line for line in lines if not line.startswith("  not exact: ")] == [
        "turn 1 of chat can be replayed",
        "turn 2 of chat can be replayed",
    ]
    assert len(lines) == 2 + 2 + 3
    assert lines[-1] == "  not exact: the messages of earlier turns were not told to the recorder that made this call"


def test_what_is_missing_or_redacted_is_told(command: Command) -> None:
    with dashcam.record_session("chat", agent="a") as recorder:
        recorder.user(f"My key is {KEY}.")
        recorder.assistant("Thanks.")
    done = command.run("chat", "--turn", "1", "--model", "recorded")
    assert done.returncode == 0, done.stderr
    assert "not exact: redacted at messages.0.content.0.text" in done.stdout
    done = command.run("chat", "--turn", "1")
    assert done.returncode == 1
    assert "turn 1 of chat can't be replayed\n  missing: the name of the model\n" in done.stdout
    done = command.run("chat", "--turn", "1", "--json")
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
def test_mistakes_are_told_without_a_traceback(
    command: Command, chat: str, arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = command.run(*arguments)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_fails_is_told_and_ends_with_1(command: Command, chat: str, tmp_path: Path) -> None:
    done = command.run(chat, "--turn", "2", "--model", scripted(tmp_path, {"error": f"over capacity{EVIL}"}))
    assert done.returncode == 1
    assert "stopped: the model failed: over capacity" in done.stdout
    assert "\x1b]" not in done.stdout


def test_without_pydantic_ai_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    done = command.run("chat")
    assert done.returncode == 3
    assert "pip install 'dashcam[host]'" in done.stderr


@pytest.mark.slow
def test_it_runs_in_a_process_of_its_own(chat: str) -> None:
    told = [sys.executable, "-m", "dashcam", "replay", chat, "--turn", "2", "--model", "recorded", "--json"]
    done = subprocess.run(told, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["diff"]["diverged_at"] is None


def test_other_commands_do_not_wait_for_pydantic_ai() -> None:
    code = "import sys, dashcam.cli.app; print('pydantic_ai' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.mark.slow
def test_the_page_about_replay_runs_as_printed(command: Command, module: Callable[[str], str]) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "replay.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.S)
    told = [command.printed(*shlex.split(line, comments=True)[2:]) for line in commands.splitlines()]
    assert told[:2] == ["turn 1 of chat-42 can be replayed\n"] * 2
    assert "The two are the same." in told[2]
    shop = module("def lookup(order: int): return {'state': 'shipped'}")
    again = re.findall(r"^dashcam replay (chat-42 --tool-call .*) shop\.tools:lookup$", page, re.M)
    assert command.printed(*shlex.split(again[0]), f"{shop}:lookup").endswith("equal\n")


@pytest.mark.slow
def test_a_tool_that_hangs_in_threads_of_its_own_does_not_keep_the_command(chat: str, tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(
        "import asyncio, time\nasync def weather(town): await asyncio.to_thread(time.sleep, 60)\n"
    )
    model = scripted(tmp_path, {"tool": "weather", "input": {"town": "Bern"}}, {"text": "Rain."})
    began = time.monotonic()
    command = ["replay", chat, "--turn", "2", "--model", model, "--run-tools", "--tools", "stuck:weather"]
    done = subprocess.run(
        [sys.executable, "-m", "dashcam", *command, "--tool-timeout", "0.2", "--json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert "longer than 0.2 s" in json.loads(done.stdout)["calls"][0]["error"]
    assert time.monotonic() - began < 40
