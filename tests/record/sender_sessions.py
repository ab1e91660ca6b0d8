"""What the captured requests of a sender come to: its sessions, as a person would tell them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from dashcam.contracts.chat import ChatMessage
from dashcam.record.projector import project_all
from dashcam.record.receive import receive_otlp, receive_scores
from dashcam.sdk.redaction import Redaction, Redactor
from dashcam.store.base import SessionFilter
from dashcam.store.sqlite.store import SqliteStore

DATA = Path(__file__).parent.parent / "data" / "otlp"
SENDERS = sorted(path.name for path in DATA.iterdir() if path.is_dir())
_CUT = 60  # characters of a text


def receive(store: SqliteStore, sender: str) -> None:
    """Take in every request of a sender as the server does."""
    redactor = Redactor(Redaction())
    for headers in sorted((DATA / sender).glob("*.headers.json")):
        told = json.loads(headers.read_text())
        named = {name.lower(): value for name, value in told["headers"].items()}
        body = headers.with_name(headers.name.replace(".headers.json", ".body")).read_bytes()
        body = gzip.decompress(body) if named.get("content-encoding") == "gzip" else body
        if told["path"].endswith("/scores"):
            store.append(receive_scores(body, redactor).batch)
        elif not told["path"].endswith("/metrics"):
            signal: Any = told["path"].rsplit("/", 1)[-1]
            form: Any = "json" if "json" in named["content-type"] else "protobuf"
            store.append(receive_otlp(signal, body, form, redactor).batch)
    project_all(store)


def sessions(store: SqliteStore) -> list[dict[str, Any]]:
    """Every session that somebody would look at, in the order of their ids."""
    found = store.sessions(SessionFilter(limit=1000))
    return sorted((_session(store, each.session_id) for each in found), key=lambda told: str(told["id"]))


def _session(store: SqliteStore, session_id: str) -> dict[str, Any]:
    row = store.chat_session(session_id)
    usage = [row.prompt_tokens, row.completion_tokens, row.reasoning_tokens, row.cache_read, row.cache_write]
    calls = store.model_calls(session_id=session_id)
    return {
        "id": session_id,
        "by": json.loads(row.metadata_json)["session_by"],
        "agent": row.agent,
        "model": json.loads(row.model_json).get("model_id"),
        "tokens": usage,
        "cost_usd": row.cost_usd if row.cost_usd is None else round(row.cost_usd, 9),
        "calls": len(calls),
        "errors": sorted({call.error[:_CUT] for call in calls if call.error}),
        "talk": [line for message in store.chat_messages(session_id) for line in _told(store, message)],
        "scores": [[score.name, score.value] for score in store.scores(session_id=session_id)],
    }


def _told(store: SqliteStore, message: ChatMessage) -> list[str]:
    lines = []
    for part in store.chat_parts(message.session_id, message.id):
        data = part.data()
        if part.type in ("text", "reasoning"):
            name = message.role if part.type == "text" else "thinks"
            lines.append(f"{name}: {_brief(data['text'])}")
        elif part.tool_call_id:
            outcome = data.get("errorText") if part.tool_state == "output-error" else data.get("output")
            lines.append(f"{part.type} {_brief(data['input'])} {part.tool_state}: {_brief(outcome)}")
        elif part.type != "step-start":
            lines.append(part.type)
    return lines or [f"{message.role}: (nothing)"]


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return " ".join(text.split())[:_CUT]
