"""A chat session turn by turn, in the memory of one turn however long it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession, Model, Usage, object_of, usage_of
from dashcam.errors import ContentNotFound, NotFound, SessionNotFound
from dashcam.store.base import EventFilter, Reader
from dashcam.views.catalog import tools_of
from dashcam.views.parts import Decision, Part, TextPart, ToolPart, decision_of, part_of

_MODEL = frozenset(Model.__struct_fields__)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message with its parts, in the order of their indexes. Times are milliseconds."""

    id: str
    role: str
    parts: list[Part]
    metadata: dict[str, Any]  # all of it, as recorded
    created_at: int
    updated_at: int

    @property
    def text(self) -> str:
        """What it says, without its other parts."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> list[ToolPart]:
        return [part for part in self.parts if isinstance(part, ToolPart)]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A user message and what answers it, up to the next user message.

    Rules: `number` counts from 1, hidden turns, too; what precedes the first user message belongs to the
    first turn; None means that nobody told.
    """

    number: int
    messages: list[Message]  # all of them, in their order
    model: Model | None = None  # of the last answer
    settings: dict[str, Any] = {}  # temperature and the like
    agent: str | None = None
    usage: Usage | None = None  # summed over the answers
    cost_usd: float | None = None
    started_at: int
    duration_ms: int | None = None
    first_token_ms: float | None = None
    stop_reason: str | None = None
    error: str | None = None
    system_prompt_digest: str | None = None
    tool_catalog_digest: str | None = None
    tools_available: list[str] | None = None
    tools_called: list[str] = []  # each once, in the order of the first call
    permissions: list[Any] = []  # the rules in force
    hidden_at: int | None = None  # by a rewind
    queued_at: int | None = None
    trace_id: str | None = None
    step: int | None = None
    calls: list[ModelCall] = []

    @property
    def user(self) -> list[Message]:
        return [message for message in self.messages if message.role == "user"]

    @property
    def assistant(self) -> list[Message]:
        return [message for message in self.messages if message.role == "assistant"]

    @property
    def parts(self) -> list[Part]:
        return [part for message in self.messages for part in message.parts]

    @property
    def user_text(self) -> str:
        return "\n\n".join(message.text for message in self.user if message.text)

    @property
    def assistant_text(self) -> str:
        return "\n\n".join(message.text for message in self.assistant if message.text)

    @property
    def tool_calls(self) -> list[ToolPart]:
        return [call for message in self.messages for call in message.tool_calls]

    @property
    def is_open(self) -> bool:
        """Whether its answer has begun and not ended."""
        return bool(self.assistant) and self.stop_reason is None and self.error is None


def load(store: Reader, session_id: str) -> Iterator[Turn]:
    """The turns of a session, the first one first; raises NotFound where there is no such chat."""
    require_chat(store, session_id)
    return _turns(store, session_id)


def require_chat(store: Reader, session_id: str) -> ChatSession:
    """The session's row; where there are only events of it, that is said."""
    try:
        return store.chat_session(session_id)
    except SessionNotFound:
        if store.traces(session_id):
            raise NotFound(
                f"Session {session_id!r} has records and no chat. See them with: dashcam session {session_id}"
            ) from None
        raise


def at(store: Reader, session_id: str, number: int) -> tuple[Turn | None, Turn]:
    """One turn, and the answered one before it; only the parts of these two are read."""
    require_chat(store, session_id)
    answered: tuple[int, list[ChatMessage]] | None = None
    place = 0
    for place, rows in enumerate(grouped(store.chat_messages(session_id)), 1):
        if place == number:
            sources = _Sources(store, session_id)
            return sources.turn(*answered) if answered else None, sources.turn(number, rows)
        if any(row.role == "assistant" for row in rows):
            answered = place, rows
    raise NotFound(
        f"Session {session_id!r} has {place} turns, and no turn {number}. See them with: dashcam show {session_id}"
    )


def grouped(messages: Iterable[ChatMessage]) -> Iterator[list[ChatMessage]]:
    """Messages in turns: each user message begins one, but for the first, which takes in what came before it."""
    turn: list[ChatMessage] = []
    has_user = False
    for message in messages:
        if message.role == "user" and has_user:
            yield turn
            turn = []
        has_user = has_user or message.role == "user"
        turn.append(message)
    if turn:
        yield turn


def _turns(store: Reader, session_id: str) -> Iterator[Turn]:
    sources = _Sources(store, session_id)
    for number, rows in enumerate(grouped(store.chat_messages(session_id)), 1):
        yield sources.turn(number, rows)


class _Sources:
    """Where a turn's facts come from, beside its rows. Holds what it read last: neighbours ask for the same."""

    def __init__(self, store: Reader, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._decisions: tuple[str | None, dict[str, Decision]] = ("", {})
        self._catalog: tuple[str, list[str] | None] = ("", None)

    def turn(self, number: int, rows: list[ChatMessage]) -> Turn:
        messages = [self._message(row) for row in rows]
        calls = [call for message in messages for call in self._calls_of(message)]
        digest = _text(_newest(messages, "tool_catalog_digest")) or next(
            (call.tool_catalog_digest for call in reversed(calls) if call.tool_catalog_digest), None
        )
        return turn_from(number, messages, calls, digest, self._tools(digest))

    def _message(self, row: ChatMessage) -> Message:
        metadata = row.metadata()
        rows = list(self._store.chat_parts(self._session_id, row.id))
        decisions = self._decisions_of(metadata) if any(_is_tool(part) for part in rows) else {}
        return Message(
            id=row.id,
            role=row.role,
            parts=[part_of(part, decisions) for part in rows],
            metadata=metadata,
            created_at=row.created_at,
            updated_at=row.updated_at,
        )

    def _calls_of(self, message: Message) -> list[ModelCall]:
        if message.role != "assistant":
            return []
        # A message at a time: all calls of a long session would be more than its longest turn.
        return self._store.model_calls(session_id=self._session_id, message_id=message.id)

    def _decisions_of(self, metadata: Mapping[str, Any]) -> dict[str, Decision]:
        """What was decided about the tool calls of a trace, or of the session where the trace isn't told."""
        trace_id = _text(metadata.get("trace_id"))
        if self._decisions[0] != trace_id:
            wanted = EventFilter(session_id=self._session_id, trace_id=trace_id, operation="span_ended")
            found = {}
            for event in self._store.events(wanted):
                if "permission.evaluate" not in event.fields:
                    continue
                fields = event.data()
                decision = decision_of(fields) if fields.get("name") == "permission.evaluate" else None
                if decision and isinstance(call_id := fields.get("tool_call_id"), str):
                    found[call_id] = decision
            self._decisions = (trace_id, found)
        return self._decisions[1]

    def _tools(self, digest: str | None) -> list[str] | None:
        if digest is None:
            return None
        if self._catalog[0] != digest:
            try:
                self._catalog = (digest, list(tools_of(self._store.tool_catalog(digest))))
            except ContentNotFound:
                self._catalog = (digest, None)
        return self._catalog[1]


def turn_from(
    number: int,
    messages: list[Message],
    calls: list[ModelCall],
    catalog_digest: str | None = None,
    tools_available: list[str] | None = None,
) -> Turn:
    """A turn out of its messages and model calls: what the messages don't tell, the calls may."""
    answers = [message for message in messages if message.role == "assistant"]
    # A summary that was folded in is counted, but it isn't what answers the user.
    spoken = [message for message in answers if message.metadata.get("trigger") != "compaction"] or answers
    usages = [usage for message in answers if (usage := usage_of(message.metadata))]
    costs = [cost for message in answers if (cost := _number(message.metadata.get("cost_usd"))) is not None]
    model = _newest(spoken, "model")
    model = model if isinstance(model, dict) else {}
    permissions = _newest(spoken, "permissions")
    asked = [message for message in messages if message.role == "user"]
    queued_at = _count(_newest(asked, "queued_at"))
    return Turn(
        number=number,
        messages=messages,
        model=_model(model, calls),
        settings={key: value for key, value in model.items() if key not in _MODEL} or _settings(calls),
        agent=_text(_newest(spoken, "agent")),
        usage=sum(usages[1:], usages[0]) if usages else None,
        cost_usd=sum(costs) if costs else None,
        started_at=messages[0].created_at,
        duration_ms=_duration(asked, answers, queued_at),
        first_token_ms=next((call.first_token_ms for call in calls if call.first_token_ms is not None), None),
        stop_reason=_text(spoken[-1].metadata.get("stop_reason")) if spoken else None,
        error=_error(_newest(spoken, "error")),
        system_prompt_digest=_text(_newest(spoken, "system_prompt_digest"))
        or next((call.system_prompt_digest for call in reversed(calls) if call.system_prompt_digest), None),
        tool_catalog_digest=_text(catalog_digest),
        tools_available=tools_available,
        tools_called=list(dict.fromkeys(call.tool for message in messages for call in message.tool_calls)),
        permissions=permissions if isinstance(permissions, list) else [],
        hidden_at=_count(_newest(messages, "hidden_at")),
        queued_at=queued_at,
        trace_id=_text(_newest(messages, "trace_id")),
        step=_count(_newest(messages, "step")),
        calls=calls,
    )


def _is_tool(row: ChatPart) -> bool:
    return row.type == "dynamic-tool" or row.type.startswith("tool-")


def model_from(told: Mapping[str, Any]) -> Model:
    """The model that a column names; what isn't text is left out."""
    return Model(**{name: value for name in Model.__struct_fields__ if (value := _text(told.get(name)))})


def _newest(messages: list[Message], key: str) -> Any:
    """What the last message that tells this says."""
    return next((found for message in reversed(messages) if (found := message.metadata.get(key)) is not None), None)


def _model(told: Mapping[str, Any], calls: list[ModelCall]) -> Model | None:
    if told:
        return model_from(told)
    return Model(provider_id=calls[-1].provider or "", model_id=calls[-1].model) if calls else None


def _settings(calls: list[ModelCall]) -> dict[str, Any]:
    return object_of(calls[-1].settings) if calls else {}


def _duration(asked: list[Message], answers: list[Message], queued_at: int | None) -> int | None:
    """From the question (or, where that waited, the beginning of the answer) to the last sign of the answer.

    That is the time of its parts: the message itself is touched again when it is hidden.
    """
    if not answers:
        return None
    begun = answers[0].created_at if queued_at is not None or not asked else asked[-1].created_at
    ended = max((part.updated_at for message in answers for part in message.parts), default=answers[-1].created_at)
    return max(0, ended - begun)


def _error(value: Any) -> str | None:
    """An error as text: its type, if it is told, and what it says."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        kind = value.get("type")
        if not isinstance(kind, str) or kind == "error":
            return str(value["message"])
        return f"{kind}: {value['message']}" if value["message"] else kind
    return msgspec.json.encode(value).decode()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: object) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and abs(value) < 1e300 else None  # type: ignore[arg-type]
