"""The joinable signal: two turns of one session, and one broken cost line.

Two turns are recorded the way an agent does it. Then a cost line is written past the recorder, without
the tuple, as a program would that doesn't know its session. Filtering by trace_id rebuilds a turn;
the broken line joins to nothing.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import dashcam
from dashcam.views.joinability import orphans_of


def turn(session_id: str) -> str:
    """One turn: a request, a tool call, a reply. Returns the id under which it can be found again."""
    trace = dashcam.new_trace(session_id=session_id)
    trace = dashcam.log_event(trace, "request_received")
    trace = dashcam.log_event(trace, "tool_call", tool="search")
    trace = dashcam.log_event(trace, "reply_ready")
    return trace.trace_id


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        dashcam.configure(data=folder)
        first = turn("chat-42")
        turn("chat-42")
        lines = [line for path in Path(folder).rglob("*.jsonl") for line in path.read_text().splitlines()]
        lines.append(json.dumps({"operation": "cost", "usd": 0.0123}))
        records = [json.loads(line) for line in lines]

        run = dashcam.run_of(records, first)
        print(f"run for trace_id={first[:8]}… ({len(run)} steps):")
        for record in run:
            print(f"  step {record['step']}: {record['operation']}")
        orphans = orphans_of(records)
        print(f"\norphaned records (no trace_id): {len(orphans)} -> {orphans}")


if __name__ == "__main__":
    main()
