"""The examples run, and print what the documentation says that they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_joinable_signal_prints_a_run_and_its_orphan() -> None:
    printed = subprocess.check_output([sys.executable, "examples/joinable_signal.py"], cwd=ROOT, text=True)
    assert re.fullmatch(
        r"run for trace_id=[0-9a-f]{8}… \(3 steps\):\n"
        r"  step 0: request_received\n  step 1: tool_call\n  step 2: reply_ready\n\n"
        r"orphaned records \(no trace_id\): 1 -> \[\{'operation': 'cost', 'usd': 0\.0123\}\]\n",
        printed,
    )


@pytest.mark.slow
def test_the_demo_shows_the_failure_and_the_recovery() -> None:
    done = subprocess.run([sys.executable, "examples/demo.py"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "No such file or directory" in done.stdout
    assert "diverged here" in done.stdout
    assert "sk-proj" not in done.stdout


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs").glob("*.md")) + ["../README.md"])
def test_the_python_of_the_documentation_is_python(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / page).read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        if ">>>" not in block:
            compile(block, page, "exec")


def test_the_first_block_of_recording_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "recording.md").read_text()
    block = re.findall(r"```python\n(.*?)```", text, re.S)[0]
    environment = {**os.environ, "DASHCAM_DATA": str(tmp_path), "DASHCAM_STRICT": "1"}
    subprocess.run([sys.executable, "-c", block], env=environment, check=True)
    assert sum(len(path.read_text().splitlines()) for path in tmp_path.rglob("*.jsonl")) == 4


def test_links_between_pages_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_sql_of_the_documentation_runs_as_printed(tmp_path: Path) -> None:
    import sqlite3

    from dashcam.store.sqlite.store import SqliteStore

    SqliteStore(tmp_path / "sessions.db").close()
    connection = sqlite3.connect(tmp_path / "sessions.db")
    blocks = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "store.md").read_text(), re.S)
    statements = [statement for block in blocks for statement in block.split(";") if statement.strip()]
    assert len(statements) >= 3
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()
