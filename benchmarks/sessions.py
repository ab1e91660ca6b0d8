"""Chat sessions: what they take on the disk, what recording costs the host, and how fast they are read."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

import dashcam
from benchmarks.figures import Figure, at_least, at_most, plain
from dashcam.record.refresh import open_current
from dashcam.sdk import emit
from dashcam.sdk.settings import Settings, settings_from
from dashcam.store.sqlite.store import SqliteReader
from dashcam.views import diff
from dashcam.views.context import request_of

STEPS, FEWER = 300, 50
MESSAGE = 2_048  # bytes
DELTAS = 100_000
PARTS = 10_000
TURNS = 1_000


def run() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        figures = [*sizes(Path(folder)), *streaming(Path(folder)), *reading(Path(folder))]
        emit.use_recorder(None)
    return figures


def words(seed: int) -> Any:
    """Text as hard to compress as prose: made of 5,000 words."""
    source = random.Random(seed)
    known = ["".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=source.randint(2, 10))) for _ in range(5_000)]

    def text(size: int) -> str:
        made = ""
        while len(made) < size:
            made += source.choice(known) + " "
        return made[:size]

    return text


def sizes(folder: Path) -> list[Figure]:
    stored, naive, seconds = {}, {}, 0.0
    empty = session_of(folder / "0", 0)[0]
    for steps in (FEWER, STEPS):
        stored[steps], naive[steps], seconds = session_of(folder / str(steps), steps)
    each = {steps: (size - empty) / steps for steps, size in stored.items()}
    return [
        plain(f"a session of {STEPS} steps, 2 KB a message, every request whole", naive[STEPS] / 1e6, "MB"),
        plain("… in our store, all tables, indexes and search included", stored[STEPS] / 1e6, "MB"),
        at_least("… so many times smaller", naive[STEPS] / stored[STEPS], 40),
        at_most(f"bytes a step, {FEWER} steps against {STEPS} (without the empty store)", spread(each), 1.1),
        plain("the empty store", empty / 1e3, "KB"),
        plain("recording such a step: two messages, a model call, a tool call", seconds / STEPS * 1e6, "µs"),
    ]


def spread(values: dict[int, float]) -> float:
    return max(values.values()) / min(values.values())


def session_of(data: Path, steps: int) -> tuple[int, int, float]:
    """Bytes in the store, bytes of the naive form, and the seconds that recording took. Checks every request."""
    text = words(7)
    requests: list[bytes] = []
    messages: list[dict[str, Any]] = []
    tools = [{"name": "look", "description": text(300)}]
    prompt = text(MESSAGE)
    dashcam.configure(data=data)
    dashcam.log_event(dashcam.new_trace("other"), "reply_ready")
    seconds = 0.0
    if steps:
        with dashcam.record_session(
            "s", agent="a", model="anthropic:claude-sonnet-4-5", system_prompt=prompt, tools=tools
        ) as chat:
            question = text(MESSAGE)
            chat.user(question)
            messages.append({"role": "user", "content": [{"type": "text", "text": question}]})
            for number in range(steps):
                said, found, call = text(MESSAGE), text(MESSAGE), f"call_{number}"
                requests.append(b"[" + b",".join(map(msgspec.json.encode, messages)) + b"]")
                began = time.perf_counter()
                chat.assistant(said, usage={"input": 50, "output": 500, "cache_read": number * 1_000})
                chat.tool_call("look", {"at": number}, tool_call_id=call)
                chat.tool_result(call, found)
                seconds += time.perf_counter() - began
                content = [
                    {"type": "text", "text": said},
                    {"type": "tool-call", "toolCallId": call, "toolName": "look", "input": {"at": number}},
                ]
                messages.append({"role": "assistant", "content": content})
                output = {"type": "text", "value": found}
                result = {"type": "tool-result", "toolCallId": call, "toolName": "look", "output": output}
                messages.append({"role": "tool", "content": [result]})
    settings = settings_from({}, data=data)
    with open_current(settings) as store:
        check(store, requests, prompt, tools)
    naive = sum(map(len, requests)) + steps * (len(prompt) + len(msgspec.json.encode(tools)))
    return settings.store.stat().st_size, naive, seconds


def check(store: SqliteReader, requests: list[bytes], prompt: str, tools: Any) -> None:
    """The exact requests of all calls come back."""
    calls = store.model_calls(session_id="s")
    assert len(calls) == len(requests)
    for call, sent in zip(calls, requests, strict=True):
        rebuilt = request_of(store, call)
        assert b'"messages":' + sent in rebuilt
        assert msgspec.json.decode(rebuilt)["system"] == prompt
        assert msgspec.json.decode(rebuilt)["tools"] == tools


def streaming(folder: Path) -> list[Figure]:
    data = folder / "stream"
    dashcam.configure(data=data)
    text = words(8)(DELTAS * 5)
    with dashcam.record_session("s", agent="a") as chat:
        chat.user("go")
        began = time.perf_counter()
        with chat.assistant() as reply:
            for at in range(0, len(text), 5):
                reply.text(text[at : at + 5])
        seconds = time.perf_counter() - began
    written = dashcam.stats()["bytes"]
    with open_current(settings_from({}, data=data)) as store:
        assert list(store.chat_parts("s"))[-1].data()["text"] == text
    return [
        plain(f"{DELTAS:,} deltas of one text: each", seconds / DELTAS * 1e6, "µs"),
        at_most("… bytes written for each byte of text", written / len(text), 20),
    ]


def reading(folder: Path) -> list[Figure]:
    data = folder / "long"
    dashcam.configure(data=data)
    for session in ("a", "b"):
        with dashcam.record_session(session, agent="a", model="openai:gpt-4o", system_prompt="Be kind.") as chat:
            for turn in range(TURNS):
                chat.user(f"question {turn}")
                call = chat.tool_call("look", {"at": turn if (session, turn) != ("b", 500) else -1})
                chat.tool_result(call, {"found": turn})
                chat.assistant(f"answer {turn}", usage={"input": turn, "output": 3})
    with dashcam.record_session("parts", agent="a") as chat:
        for turn in range(PARTS // 10):
            chat.user(f"question {turn}")
            for number in range(9):
                chat.assistant(f"answer {turn} {number} " + "word " * 20)
    settings = settings_from({}, data=data)
    with open_current(settings) as store:
        began = time.perf_counter()
        found = diff.load(store, "a", "b")
        compared = time.perf_counter() - began
        assert found.diverged_at == 501
    first, whole, memory = shown(settings)
    return [
        at_most(f"comparing two sessions of {TURNS:,} turns", compared, 1.0, "s"),
        at_most(f"dashcam show of {PARTS:,} parts: until the first line", first, 1.0, "s"),
        plain("… until the last", whole, "s"),
        plain("… memory at most", memory / 1e6, "MB"),
    ]


_SHOW = """
import atexit, re, sys
from dashcam.cli import main
atexit.register(lambda: sys.stderr.write(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]))
sys.argv = ["dashcam", *sys.argv[1:]]
main()
"""


def shown(settings: Settings) -> tuple[float, float, int]:
    """Seconds to the first and to the last line of `dashcam show`, and the process's greatest memory."""
    began = time.perf_counter()
    command = [sys.executable, "-c", _SHOW, "show", "parts", "--data", str(settings.data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as shows:
        assert shows.stdout
        assert shows.stderr
        shows.stdout.readline()
        first = time.perf_counter() - began
        shows.stdout.read()
        memory = int(shows.stderr.read()) * 1024
    return first, time.perf_counter() - began, memory
