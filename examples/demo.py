"""A real little agent on a scripted model, recorded: what `make demo` runs.

The loop, the tools and their failures are real; only the model is scripted, so that the demo needs no key
and no network. It looks for an answer in this repository's documentation, asks for a file that isn't
there, gets an error back, finds the right one and answers. Then its system prompt is mended, it is asked
again, and the two sessions are compared.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dashcam
from dashcam.record.recorder import SessionRecorder

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

CATALOG = [
    {
        "name": "search",
        "description": "Files of the documentation that hold the words.",
        "parameters": {"query": "str"},
    },
    {"name": "read", "description": "Lines of a file that match.", "parameters": {"file": "str", "pattern": "str"}},
]
RULES = [
    {"permission": tool["name"], "pattern": "docs/**", "action": "allow", "source": "manifest"} for tool in CATALOG
]
PROMPT = "You answer questions about Dashcam from its documentation. Say only what it says."
MENDED = f"{PROMPT}\nWhat happens when something goes wrong stands in errors.md."

Answer = tuple[str, Any]
DISK = "What happens to my agent when the disk is full?"
KEY = "sk-proj-4eC39HqLyjWDarjtT1zdp7dc9f2b"


def scripted_model(prompt: str, messages: list[Message]) -> Answer:
    """A model that does what its script says, given its prompt and what it was told last; as quick as a quick one."""
    time.sleep(0.05)
    question, told = str(messages[0]["content"]), str(messages[-1]["content"])
    if question != DISK:
        return "say", "I asked for a file that does not exist. The trace shows the failed call, and the next."
    if len(messages) == 1 and prompt == PROMPT:
        return "search", {"query": "disk full dropped", "api_key": KEY}
    if len(messages) == 3 and prompt == PROMPT:
        return "read", {"file": "disk.md", "pattern": "disk is full"}
    if len(messages) == 1 or "No such" in told:
        return "read", {"file": "errors.md", "pattern": "disk is full"}
    return "say", f"It goes on. The documentation says: {told.split('|')[3].strip()}"


def turn(chat: SessionRecorder, prompt: str, question: str) -> str:
    """One turn of the agent: ask the model, run the tools that it wants, until it has an answer."""
    chat.user(question)
    messages: list[Message] = [{"role": "user", "content": question}]
    while True:
        chat.begin_step(is_streamed=False)
        action, wanted = scripted_model(prompt, messages)
        sent, said = len(prompt + str(messages)) // 4, len(str(wanted)) // 4
        usage = {"input": sent, "output": said}
        if action == "say":
            with chat.assistant() as reply:
                for word in str(wanted).split(" "):
                    reply.text(f"{word} ")
                reply.end(usage=usage)
            return str(wanted)
        call = chat.tool_call(action, wanted, permission=next(rule for rule in RULES if rule["permission"] == action))
        chat.end_step(usage=usage)
        messages.append({"role": "assistant", "tool": action, "content": wanted})
        messages.append({"role": "tool", "content": run(chat, call, action, wanted)})


def run(chat: SessionRecorder, call: str, tool: str, arguments: dict[str, Any]) -> str:
    """Run a tool; a failure is an answer, too."""
    try:
        output = TOOLS[tool](**arguments)
    except OSError as error:
        chat.tool_result(call, error=str(error.strerror or error))
        return f"error: {error.strerror}"
    chat.tool_result(call, output)
    return output


def session(session_id: str, prompt: str, *questions: str) -> None:
    """A conversation, recorded."""
    with dashcam.record_session(
        session_id, agent="docs", model="scripted:scripted-1", system_prompt=prompt, tools=CATALOG, permissions=RULES
    ) as chat:
        for question in questions:
            print(bold(f"> {question}"))
            print(f"{turn(chat, prompt, question)}\n")


def bill(session_id: str) -> None:
    """What another program writes: a cost line that knows its session, and one that doesn't."""
    lines = [{"session_id": session_id, "trace_id": "billing", "step": 0, "event": "cost", "usd": 0.0123}]
    lines.append({"event": "cost", "usd": 0.0456})
    (DATA / "billing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def dashcam_command(*arguments: str) -> None:
    """Run a command as its user would, and show it."""
    print(bold(f"$ dashcam {' '.join(arguments)}"), flush=True)
    environment = {**os.environ, "DASHCAM_DATA": str(DATA)}
    done = subprocess.run([sys.executable, "-m", "dashcam", *arguments], check=False, cwd=DATA, env=environment)
    if done.returncode not in (0, 1):  # 1: two sessions differ
        raise SystemExit(done.returncode)
    print(flush=True)


def bold(text: str) -> str:
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def main() -> None:
    shutil.rmtree(DATA, ignore_errors=True)  # what an earlier demo left
    dashcam.configure(data=DATA)
    before, after = "demo-a", "demo-b"
    session(before, PROMPT, DISK, "Why did that take two tries?")
    dashcam_command("show", before)
    print("The prompt is mended, and the question asked again:\n")
    session(after, MENDED, DISK)
    dashcam_command("diff", before, after, "--turn", "1")
    bill(before)
    dashcam_command("collect", "billing.jsonl")
    dashcam_command("orphans")
    shown = DATA.relative_to(Path.cwd()) if DATA.is_relative_to(Path.cwd()) else DATA
    print(f"Recorded in {shown}/default/sessions.db, which sqlite3 opens. Go on with")
    print(f"  export DASHCAM_DATA={shown}")
    for more in (
        "sessions",
        f"show {before} --turn 1 --request",
        f"session {before}",
        f"export {before} --format jsonl",
        "doctor",
        "--help",
    ):
        print(f"  .venv/bin/dashcam {more}")


if __name__ == "__main__":
    main()
