"""A real little agent on a scripted model, recorded: what `make demo` runs.

The loop, the tools and their failures are real; only the model is scripted, so that the demo needs no key
and no network. It looks for an answer in this repository's documentation, asks for a file that isn't
there, gets an error back, finds the right one and answers.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dashcam

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / ".demo"

Message = dict[str, Any]


def search(query: str, api_key: str) -> str:
    """Files under docs/ that hold the words, with how often. The key is only there to be kept off the disk."""
    words = query.lower().split()
    found = {
        path.name: sum(path.read_text().lower().count(word) for word in words) for path in (ROOT / "docs").glob("*.md")
    }
    best = sorted(found, key=lambda name: -found[name])[:3]
    return "\n".join(f"{name}: {found[name]}" for name in best if found[name])


def read(file: str, pattern: str) -> str:
    """The lines of a file under docs/ that match."""
    path = (ROOT / "docs" / file).resolve()
    if not path.is_relative_to(ROOT / "docs"):
        raise PermissionError(f"{file} is outside docs/")
    return "\n".join(line for line in path.read_text().splitlines() if re.search(pattern, line))[:400]


TOOLS: dict[str, Callable[..., str]] = {"search": search, "read": read}

Answer = tuple[str, Any]
# What the scripted model says, turn by turn, given what it was told last.
SCRIPTS: dict[str, list[Callable[[str], Answer]]] = {
    "What happens to my agent when the disk is full?": [
        lambda _: ("search", {"query": "disk full dropped", "api_key": "sk-proj-4eC39HqLyjWDarjtT1zdp7dc9f2b"}),
        lambda _: ("read", {"file": "disk.md", "pattern": "disk is full"}),
        lambda told: ("read", {"file": "errors.md", "pattern": "disk is full"} if "No such" in told else {}),
        lambda told: ("say", f"It goes on. The documentation says: {told.split('|')[3].strip()}"),
    ],
    "Why did that take two tries?": [
        lambda _: ("say", "I asked for a file that does not exist. The trace shows the failed call, and the next."),
    ],
}


def scripted_model(question: str, messages: list[Message]) -> Iterator[Answer]:
    """A model that answers by its script; each answer takes as long as a quick one would."""
    for line in SCRIPTS[question]:
        time.sleep(0.05)
        yield line(str(messages[-1]["content"]))


def turn(session_id: str, question: str) -> str:
    """One turn of the agent: ask the model, run the tools that it wants, until it has an answer."""
    trace = dashcam.new_trace(session_id=session_id)
    trace = dashcam.log_event(trace, "request_received", input=question)
    messages: list[Message] = [{"role": "user", "content": question}]
    for action, wanted in scripted_model(question, messages):
        sent, said = len(str(messages)) // 4, len(str(wanted)) // 4
        usd = sent * 3e-6 + said * 15e-6
        trace = dashcam.log_event(
            trace, "model_call", model="scripted-1", input_tokens=sent, output_tokens=said, cost_usd=usd
        )
        if action == "say":
            dashcam.log_event(trace, "reply_ready", text=wanted)
            return str(wanted)
        messages.append({"role": "assistant", "tool": action, "content": wanted})
        messages.append({"role": "tool", "content": call(trace, action, wanted)})
    raise AssertionError("the script ends with an answer")


def call(trace: dashcam.Trace, tool: str, arguments: dict[str, Any]) -> str:
    """Run a tool inside a span of its own; a failure is an answer, too."""
    with trace.span(tool) as inside:
        inside = dashcam.log_event(inside, "tool_call", tool=tool, input=arguments)
        try:
            output = TOOLS[tool](**arguments)
        except OSError as error:
            dashcam.log_event(inside, "tool_call_failed", tool=tool, error=str(error.strerror or error))
            return f"error: {error.strerror}"
        dashcam.log_event(inside, "tool_call_completed", tool=tool, output=output)
        return output


def bill(session_id: str) -> None:
    """What another program writes: a cost line that knows its session, and one that doesn't."""
    lines = [{"session_id": session_id, "trace_id": "billing", "step": 0, "event": "cost", "usd": 0.0123}]
    lines.append({"event": "cost", "usd": 0.0456})
    (DATA / "billing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def dashcam_command(*arguments: str) -> None:
    """Run a command as its user would, and show it."""
    print(bold(f"$ dashcam {' '.join(arguments)}"), flush=True)
    environment = {**os.environ, "DASHCAM_DATA": str(DATA)}
    subprocess.run([sys.executable, "-m", "dashcam", *arguments], check=True, cwd=DATA, env=environment)
    print(flush=True)


def bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def main() -> None:
    dashcam.configure(data=DATA)
    session_id = f"demo-{secrets.token_hex(3)}"
    for question in SCRIPTS:
        print(bold(f"> {question}"))
        print(f"{turn(session_id, question)}\n")
    bill(session_id)
    dashcam_command("session", session_id)
    dashcam_command("collect", "billing.jsonl")
    dashcam_command("orphans")
    shown = DATA.relative_to(Path.cwd()) if DATA.is_relative_to(Path.cwd()) else DATA
    print(f"Recorded in {shown}/default/sessions.db, which sqlite3 opens. Go on with")
    print(f"  export DASHCAM_DATA={shown}")
    for more in ("sessions", f"session {session_id} --json", "doctor", "--help"):
        print(f"  .venv/bin/dashcam {more}")


if __name__ == "__main__":
    main()
