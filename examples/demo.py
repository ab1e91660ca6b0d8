"""A real little agent on a scripted model, recorded: what `make demo` runs.

The loop, the tools and their failures are real; only the model is scripted, so that the demo needs no key
and no network. It looks for an answer in this repository's documentation, asks for a file that isn't
there, gets an error back, finds the right one and answers.
"""

from __future__ import annotations

import re
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


def search(query: str) -> str:
    """Files under docs/ that hold the words, with how often."""
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
        lambda _: ("search", {"query": "full disk dropped"}),
        lambda _: ("read", {"file": "disk.md", "pattern": "full"}),
        lambda told: (
            ("read", {"file": "errors.md", "pattern": "full|dropped"}) if "No such file" in told else ("say", told)
        ),
        lambda told: ("say", f"Nothing: it goes on, and the loss is counted. The documentation says:\n{told[:200]}"),
    ],
    "Why did that take two tries?": [
        lambda _: (
            "say",
            "I asked for a file that does not exist. Its trace shows the failed call and the one after it.",
        ),
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


def main() -> None:
    dashcam.configure(data=DATA)
    session_id = time.strftime("demo-%H%M%S")
    for question in SCRIPTS:
        print(f"\033[1m> {question}\033[0m")
        print(f"{turn(session_id, question)}\n")
    command = [sys.executable, "-m", "dashcam", "session", session_id, "--data", str(DATA)]
    print(f"\033[2m$ dashcam session {session_id}\033[0m", flush=True)
    subprocess.run(command, check=True)
    shown = DATA.relative_to(Path.cwd()) if DATA.is_relative_to(Path.cwd()) else DATA
    print(f"Recorded in {shown}/default/sessions.db: open it with sqlite3, or try")
    for more in ("sessions", f"session {session_id} --json", "orphans", "doctor"):
        print(f"  .venv/bin/dashcam {more} --data {shown}")


if __name__ == "__main__":
    main()
