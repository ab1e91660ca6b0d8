"""The command as its user meets it: a process, its output, its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dashcam
from dashcam.cli.app import app
from dashcam.cli.output import inert
from dashcam.sdk import emit


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`dashcam …` in the test's own data folder."""
    command = [sys.executable, "-m", "dashcam", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)


def document(*arguments: str) -> Any:
    """What `--json` prints: one document on stdout, and nothing else."""
    done = run(*arguments, "--json")
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def trace_id() -> str:
    """Two turns of one session, recorded and closed; the id of the first."""
    ids = []
    for _ in range(2):
        trace = dashcam.new_trace(session_id="chat-42")
        trace = dashcam.log_event(trace, "request_received")
        with trace.span("work") as inside:
            inside = dashcam.log_event(inside, "model_call", model="m", input_tokens=10, cost_usd=0.5)
            dashcam.log_event(inside, "tool_call_failed", tool="search", error="\x1b[31mred\x1b[0m [bold]no[/bold]")
        trace = dashcam.log_event(trace, "reply_ready")
        ids.append(trace.trace_id)
    ours = emit.use_recorder(None)
    assert ours
    ours.close()
    return ids[0]


@pytest.mark.slow
def test_a_run_is_printed_in_step_order(trace_id: str) -> None:
    records = document("trace", trace_id)
    assert [record["step"] for record in records] == list(range(6))
    assert {record["trace_id"] for record in records} == {trace_id}
    printed = run("trace", trace_id).stdout
    operations = ["request_received", "▸ work", "model_call", "tool_call_failed", "◂ work", "reply_ready"]
    places = [printed.index(name) for name in operations]
    assert places == sorted(places)
    assert "1 failed" in printed
    assert "$0.5000" in printed


@pytest.mark.slow
def test_a_session_shows_all_its_traces(trace_id: str) -> None:
    traces = document("session", "chat-42")
    assert [len(trace["records"]) for trace in traces] == [6, 6]
    assert traces[0]["trace_id"] == trace_id
    assert run("session", "chat-42").stdout.count("trace ") >= 2
    (session,) = document("sessions")
    assert (session["session_id"], session["traces"], session["events"]) == ("chat-42", 2, 12)


def test_what_a_tool_said_is_shown_inert(trace_id: str) -> None:
    printed = run("trace", trace_id, FORCE_COLOR="1").stdout
    assert "\\x1b[31mred" in printed
    assert "\x1b[31mred" not in printed
    assert "[bold]no[/bold]" in printed
    assert inert("a\u202eb\x9b") == "a\\u202eb\\x9b"


@pytest.mark.slow
def test_orphans_tell_the_rate_the_source_and_the_question_left_open(trace_id: str, tmp_path: Path) -> None:
    costs = tmp_path / "costs.jsonl"
    costs.write_text('{"operation":"cost","usd":0.0123}\n' * 4)
    assert document("collect", str(costs)) == {
        "events": 0,
        "rows": 0,
        "orphans": 4,
        "torn": 0,
        "bytes": 136,
        "unreadable": [],
    }
    report = document("orphans")
    assert (report["records"], report["orphans"], report["rate"]) == (16, 4, 25.0)
    assert report["kinds"][0]["operation"] == "cost"
    assert "no budget" in report["kinds"][0]["question"]
    assert report["reasons"] == {"session_id is missing": 4}
    assert {source["rate"] for source in report["sources"]} == {0.0, 100.0}
    assert "25.00 %" in run("orphans").stdout


@pytest.mark.slow
def test_trace_session_and_orphans_read_any_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    tuple_ = {"session_id": "s", "trace_id": "t", "kind": "user"}
    lines = [{**tuple_, "step": 1, "operation": "b"}, {**tuple_, "step": 0, "operation": "a"}, {"operation": "cost"}]
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"torn":')
    assert [record["operation"] for record in document("trace", "t", "--file", str(path))] == ["a", "b"]
    assert len(document("session", "s", "--file", str(path))) == 1
    report = document("orphans", "--file", str(path))
    assert (report["rate"], report["samples"][0]["body"]) == (50.0, '{"operation": "cost"}')
    assert "byte" in run("orphans", "--file", str(path)).stderr
    garbage = tmp_path / "garbage.log"
    garbage.write_text("not json\n" * 60)
    assert run("orphans", "--file", str(garbage)).stderr.count("\n") == 4
    assert run("trace", "t", "--file", str(tmp_path / "none")).returncode == 5


@pytest.mark.slow
def test_doctor_says_what_is_amiss_and_how_to_mend_it(trace_id: str, data: Path) -> None:
    findings = {finding["check"]: finding for finding in document("doctor")}
    assert {finding["state"] for finding in findings.values()} == {"ok"}
    trace = dashcam.new_trace("s")
    dashcam.log_event(trace, "tool_call", tool="a")
    dashcam.log_event(trace, "tool_call", tool="b")  # the same step again
    (data / "default").chmod(0o755)
    findings = {finding["check"]: finding for finding in document("doctor")}
    assert findings["steps"]["found"].startswith("1 beyond")
    assert findings["folder"]["mend"].startswith("chmod 700")


def test_doctor_on_an_empty_machine_is_no_failure(data: Path) -> None:
    assert run("doctor").returncode == 0
    assert not data.exists()


@pytest.mark.slow
def test_the_catalog_is_printed_with_the_hosts_own_events(tmp_path: Path) -> None:
    assert {"tool_call", "cost"} <= {shape["name"] for shape in document("events")}
    (tmp_path / "shop_events.py").write_text(
        "import dashcam\ndashcam.register_event('order_placed', required={'n': int})\n"
    )
    command = [sys.executable, "-m", "dashcam", "events", "--import", "shop_events"]
    assert "order_placed" in subprocess.check_output(command, cwd=tmp_path, text=True)
    assert run("events", "--import", "no_such_module").returncode == 5


@pytest.mark.slow
def test_rebuild_gives_the_same_reads(trace_id: str) -> None:
    before = [document(*command) for command in (("session", "chat-42"), ("sessions",), ("orphans",))]
    assert document("rebuild") == {"traces": 2}
    assert [document(*command) for command in (("session", "chat-42"), ("sessions",), ("orphans",))] == before


@pytest.mark.slow
def test_a_store_is_verified_backed_up_and_pruned(trace_id: str, tmp_path: Path) -> None:
    assert document("verify") == []
    assert document("backup", str(tmp_path / "copy.db"))["bytes"] > 0
    assert run("backup", str(tmp_path / "copy.db")).returncode == 5
    assert document("retain", "--older-than", "30d")["segments"] == 0  # nothing is that old
    assert document("retain", "--max-size", "1g")["segments"] == 1
    assert len(document("trace", trace_id)) == 6  # the journal went, the store has it
    for wrong in ((), ("--older-than", "soon"), ("--older-than", "30"), ("--max-size", "2"), ("--max-size", "1k")):
        assert run("retain", *wrong).returncode == 2
    assert len(document("trace", trace_id)) == 6


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("trace", "nope"), 4, "No trace 'nope'"),
        (("session", "nope"), 4, "dashcam sessions"),
        (("collect", "/no/such/file"), 5, "can't be read"),
        (("sessions", "--project", "../x"), 2, "can't name a project"),
        (("ship",), 2, "DASHCAM_URL"),
    ],
)
def test_an_error_says_what_to_do_next_without_a_traceback(
    arguments: tuple[str, ...], code: int, said: str, trace_id: str
) -> None:
    done = run(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_a_trace_is_found_by_the_beginning_of_its_id_and_shown_in_full_on_request(trace_id: str) -> None:
    assert len(document("trace", trace_id[:8])) == 6
    long = dashcam.log_event(dashcam.new_trace("long"), "reply_ready", text="word " * 100).trace_id
    assert "…" in run("trace", long).stdout
    assert "word " * 99 in run("trace", long, "--full").stdout


def test_what_is_piped_is_a_line_a_record_without_padding(trace_id: str) -> None:
    lines = run("trace", trace_id).stdout.splitlines()
    assert len(lines) == 8
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_terminal_without_unicode_is_no_reason_to_fail(trace_id: str) -> None:
    done = run("trace", trace_id, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "\\u25b8 work" in done.stdout


@pytest.mark.slow
def test_shipping_to_a_server_that_is_away_is_told_and_loses_nothing(trace_id: str) -> None:
    done = run("ship", DASHCAM_URL="http://127.0.0.1:9")
    assert done.returncode == 1
    assert "0 bytes sent" in done.stdout
    assert run("retain", "--max-size", "1g").returncode == 0  # and retention leaves the journal to the shipper
    assert json.loads(run("ship", "--json", DASHCAM_URL="http://127.0.0.1:9").stdout)["behind_bytes"] > 0


def test_doctor_tells_a_folder_that_can_never_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = run("doctor", "--data", str(tmp_path / "file" / "x"))
    assert done.returncode == 1
    assert "can't be written" in done.stdout


def test_a_folder_where_nothing_was_recorded_is_told(data: Path) -> None:
    done = run("sessions")
    assert done.returncode == 6
    assert "Nothing has been recorded" in done.stderr


def test_without_its_extra_the_command_says_which_one_to_install(tmp_path: Path) -> None:
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name in ('typer', 'rich') else real(name, *a)\n"
        "from dashcam.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 3
    assert "pip install 'dashcam[cli]'" in done.stderr


def commands() -> list[str]:
    return [str(command.callback.__name__) for command in app.registered_commands if command.callback]


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_every_command_has_json_help_and_a_place_in_the_docs(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert "--json" in done.stdout
    docs = "".join(path.read_text() for path in (Path(__file__).parents[2] / "docs").glob("*.md"))
    assert f"`dashcam {command}" in docs


def test_a_reader_that_goes_away_is_no_error(trace_id: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m dashcam trace {trace_id} --json | head -c 5", shell=True, capture_output=True
    )
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_a_store_that_another_process_holds_can_be_backed_up(trace_id: str, data: Path, tmp_path: Path) -> None:
    from dashcam.store.sqlite.store import SqliteReader, SqliteStore

    assert run("collect").returncode == 0
    (path,) = data.rglob("sessions.db")
    target = tmp_path / "copy.db"
    with SqliteStore(path):
        done = run("backup", str(target))
    assert done.returncode == 0, done.stderr
    with SqliteReader(target) as copy:
        assert copy.trace(trace_id).events == 6
        assert list(copy.verify()) == []


@pytest.mark.slow
def test_several_commands_at_once_on_a_fresh_folder_all_answer(trace_id: str) -> None:
    command = [sys.executable, "-m", "dashcam", "sessions", "--json"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    for each in started:
        _, told = each.communicate(timeout=60)
        assert each.returncode == 0, told


@pytest.mark.slow
def test_commands_that_start_at_once_on_fresh_journals_all_answer_the_same(trace_id: str) -> None:
    command = [sys.executable, "-m", "dashcam", "trace", trace_id, "--json"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [process.communicate(timeout=60)[0] for process in started]
    assert [len(json.loads(answer)) for answer in answers] == [6] * 4


@pytest.mark.slow
def test_a_damaged_store_is_told_by_verify_itself(trace_id: str, data: Path) -> None:
    assert run("sessions").returncode == 0
    store = data / "default" / "sessions.db"
    content = bytearray(store.read_bytes())
    content[4096 * 3 : 4096 * 12] = b"\xff" * (4096 * 9)
    store.write_bytes(content)
    done = run("verify")
    assert done.returncode in (1, 6)
    assert "Traceback" not in done.stderr
    assert "damaged" in done.stderr or "malformed" in done.stderr


def test_doctor_passes_over_what_is_no_segment(trace_id: str, data: Path) -> None:
    (data / "default" / "journal" / "broken.jsonl").symlink_to("/nowhere")
    assert run("doctor").returncode == 0


@pytest.mark.parametrize("command", ["collect", "rebuild", "sessions", "verify", "orphans"])
def test_a_folder_that_cannot_be_made_is_told_without_a_traceback(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = run(command, "--data", str(tmp_path / "file" / "x"))
    assert done.returncode == 6
    assert "Traceback" not in done.stderr
    assert "--data" in done.stderr
