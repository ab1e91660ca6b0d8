"""`dashcam diff` as its user meets it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

import dashcam
from dashcam.cli import compare
from dashcam.sdk import emit
from dashcam.views.diff import PromptDiff, SessionDiff, Sides, TurnDiff
from dashcam.views.words import text_diff


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashcam", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)


def document(*arguments: str) -> Any:
    done = run("diff", *arguments, "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _recorded() -> None:
    """Three sessions of five turns: `a` and `same` say the same, `b` goes another way in turn 3."""
    for name in ("a", "same", "b"):
        with dashcam.record_session(name, agent="shop", model="m", system_prompt="Be kind.") as chat:
            for number in range(1, 6):
                chat.user(f"question {number}")
                other = name == "b" and number == 3
                call = chat.tool_call("lookup", {"order": 8 if other else 7})
                chat.tool_result(call, "\x1b[31mred\x1b[0m [bold]no[/bold]")
                chat.assistant("The order is late." if other else "The order is here.", usage={"output": number})
    ours = emit.use_recorder(None)
    assert ours
    ours.close()


@pytest.mark.slow
def test_it_exits_with_0_if_the_two_are_the_same_and_with_1_if_not() -> None:
    same, other = run("diff", "a", "same"), run("diff", "a", "b")
    assert (same.returncode, other.returncode) == (0, 1), same.stderr + other.stderr
    assert "The two are the same." in same.stdout
    assert "turns 1–5 the same" in same.stdout  # noqa: RUF001
    assert [run("diff", "a", "b", "--turn", number).returncode for number in "23"] == [0, 1]
    assert run("diff", "a", "nobody").returncode == 4
    assert run("diff", "a", "b", "--turn", "6").returncode == 4


@pytest.mark.slow
def test_turns_that_are_the_same_are_folded_and_the_divergence_is_marked() -> None:
    printed = run("diff", "a", "b").stdout
    places = [
        printed.index(said)
        for said in (
            "They diverged at turn 3.",
            "turns 1–2 the same",  # noqa: RUF001
            "turn 3  ◆ diverged here  output, tools",
            '"order": [-7-]{+8+}',
            "The order is [-here-]{+late+}.",
            "turns 4–5 the same",  # noqa: RUF001
        )
    ]
    assert places == sorted(places)
    whole = run("diff", "a", "b", "--full").stdout
    assert "question 1" not in printed
    assert all(f"question {number}" in whole for number in range(1, 6))


@pytest.mark.slow
def test_json_is_one_document() -> None:
    found = document("a", "b")
    assert (found["a"], found["b"], found["diverged_at"]) == ("a", "b", 3)
    assert [(each["turn"], each["changed"]) for each in found["turns"]] == [
        (1, []),
        (2, []),
        (3, ["output", "tools"]),
        (4, []),
        (5, []),
    ]
    turn = found["turns"][2]
    assert turn["tools"][0]["changed"] == ["input"]
    assert {"kind": "a", "text": "here"} in turn["output"]
    assert turn["tokens"]["output"] == {"a": 3, "b": 3, "delta": 0}
    assert found["message"]["turn"] == 3
    (only,) = document("a", "b", "--turn", "4")["turns"]
    assert only["output"] == [{"kind": "same", "text": "The order is here."}]


@pytest.mark.slow
def test_what_was_recorded_is_shown_inert() -> None:
    for columns in ("60", "160"):
        printed = run("diff", "a", "b", FORCE_COLOR="1", COLUMNS=columns).stdout
        assert "\\x1b[31mred" in printed
        assert "\x1b[31mred" not in printed
        assert "[bold]no[/bold]" in printed


def shown(
    found: SessionDiff, width: int, monkeypatch: pytest.MonkeyPatch, *, full: bool = False, **options: Any
) -> str:
    written = io.StringIO()
    console = Console(file=written, width=width, highlight=False, markup=False, emoji=False, **options)
    monkeypatch.setattr(compare, "out", console)
    compare.show(found, full)
    return written.getvalue()


def test_two_texts_stand_beside_each_other_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = TurnDiff(turn=1, changed=["output"], output=text_diff("one little word", "one big word"))
    found = SessionDiff(a="a", b="b", diverged_at=1, turns=[turn])
    wide = shown(found, 120, monkeypatch, force_terminal=True, color_system=None)
    (line,) = [line for line in wide.splitlines() if "one" in line]
    assert line.index("one little word") < line.index("one big word")
    narrow = shown(found, 60, monkeypatch, force_terminal=True, color_system=None)
    assert "one [-little-]{+big+} word" in narrow
    coloured = shown(found, 120, monkeypatch, force_terminal=True, color_system="standard")
    assert "\x1b[31mlittle\x1b[0m" in coloured
    assert "\x1b[32mbig\x1b[0m" in coloured


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("full", [True, False])
def test_nothing_in_a_diff_acts_on_the_terminal(terminal: bool, full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "\x1b[2J\x9b\u202e\r\x07[red]"
    sides = Sides(evil, evil + "!")
    turn = TurnDiff(
        turn=1,
        changed=["output", "user", "parts", "settings", "system_prompt", "agent", "error", "permissions"],
        user=text_diff(evil, evil * 2),
        output=text_diff(evil, "x" + evil),
        parts=Sides([evil], [evil, evil]),
        settings={evil: sides},
        system_prompt=PromptDiff(a=evil, b=evil, diff=f"-{evil}\n+{evil}"),
        agent=sides,
        error=sides,
        permissions=Sides([evil], []),
    )
    found = SessionDiff(a=evil, b=evil, diverged_at=1, turns=[turn])
    for width in (60, 140):
        printed = shown(found, width, monkeypatch, full=full, force_terminal=terminal, color_system=None)
        assert not {"\x1b", "\x9b", "\u202e", "\r", "\x07"} & set(printed)
        assert "[red]" in printed


def test_a_long_text_is_cut_unless_all_of_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "\n".join(f"line {number}" for number in range(500))
    turn = TurnDiff(turn=1, changed=["output"], output=text_diff(long, long.replace("line 250", "row 250")))
    found = SessionDiff(a="a", b="b", diverged_at=1, turns=[turn])
    printed = shown(found, 120, monkeypatch)
    assert "[-line-]{+row+} 250" in printed
    assert "lines the same" in printed
    assert len(printed.splitlines()) < 30
    added = TurnDiff(turn=1, changed=["output"], output=text_diff("", long))
    printed = shown(SessionDiff(a="a", b="b", diverged_at=1, turns=[added]), 120, monkeypatch)
    assert "line 39\n    … 460 more lines, shown with --full+}" in printed
    line = TurnDiff(turn=1, changed=["output"], output=text_diff("", "x" * 1_000_000))
    assert len(shown(SessionDiff(a="a", b="b", diverged_at=1, turns=[line]), 120, monkeypatch)) < 10_000
