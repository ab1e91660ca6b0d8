"""A recording process is killed in the middle of a stream: what it had written is the truth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dashcam.record.refresh import open_current
from dashcam.sdk.settings import settings_from
from dashcam.store.base import SessionFilter

# Says what it has streamed only after it was recorded.
STREAMER = """
import os, sys, dashcam
chat = dashcam.record_session("killed", agent="a", model="openai:gpt-4o", system_prompt="Be kind.")
chat.user("Tell me everything.")
chat.tool_call("search", {"q": "everything"}, tool_call_id="c1")
chat.tool_result("c1", {"found": 3})
chat.chunk({"type": "tool-input-start", "toolCallId": "c2", "toolName": "write"})
chat.chunk({"type": "tool-input-delta", "toolCallId": "c2", "inputTextDelta": '{"path": "a.txt", "te'})
chat.tool_call("wait", {}, tool_call_id="c3")
reply, number = chat.assistant(), 0
while True:
    reply.text(f"word{number} ")
    number += 1
    os.write(1, b"%d\\n" % number)
"""


def run_and_kill(data: Path, seconds: float) -> int:
    """Let it stream for a while, kill it, and return how many words it had said it recorded."""
    child = subprocess.Popen(
        [sys.executable, "-c", STREAMER], env={**os.environ, "DASHCAM_DATA": str(data)}, stdout=subprocess.PIPE
    )
    assert child.stdout
    assert child.stdout.readline() == b"1\n"
    time.sleep(seconds)
    os.kill(child.pid, signal.SIGKILL)
    said, _ = child.communicate(timeout=30)
    whole = said[: said.rfind(b"\n") + 1].split()
    return int(whole[-1]) if whole else 1


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.3])
def test_killed_in_mid_stream_the_text_ends_where_it_stopped(data: Path, seconds: float) -> None:
    count = run_and_kill(data, seconds)
    with open_current(settings_from({}, data=data)) as store:
        parts = list(store.chat_parts("killed"))
        text = parts[-1].data()["text"]
        said = "".join(f"word{number} " for number in range(count))
        # A text of more than a thousand characters is written when it has grown by a thousandth, or after 5 ms.
        missing = len(said) - len(text)
        assert missing <= len(said) // 1000 + 1 + 16 * (missing > 0)
        assert "".join(f"word{number} " for number in range(count + 10_000)).startswith(text)
        states = {part.tool_call_id: part.tool_state for part in parts if part.tool_call_id}
        assert states == {"c1": "output-available", "c2": "input-streaming", "c3": "input-available"}
        raw = next(part for part in parts if part.tool_call_id == "c2").data()["rawInput"]
        assert raw == '{"path": "a.txt", "te'
        assert "stop_reason" not in list(store.chat_messages("killed"))[-1].metadata()
        assert store.sessions(SessionFilter())[0].status == "busy"  # it was just now; an hour later it is an error
        assert list(store.verify()) == []
