"""A Pydantic AI model that records every request of whatever agent uses it.

    agent = Agent(dashcam.record("openai:gpt-5"))

The agent runs as it did before: nothing that goes wrong in here reaches it.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import KnownModelName, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from dashcam.contracts.chat import SESSION, Model
from dashcam.contracts.identity import fault_of_id
from dashcam.errors import SettingsError, UnjoinableRecord
from dashcam.record.options import rule_of
from dashcam.record.pydantic_sessions import Lane, Session, current_run, run_id_of
from dashcam.record.pydantic_take import Take
from dashcam.record.recorder import SessionRecorder, record_session
from dashcam.sdk.ids import new_id
from dashcam.sdk.trace import Trace, current_trace, new_trace


def record(
    model: models.Model | KnownModelName | str,
    *,
    session: SessionRecorder | None = None,
    session_id: str | None = None,
    agent: str | None = None,
    **options: Any,
) -> RecordingModel:
    """The same model, recorded: `agent = Agent(dashcam.record("openai:gpt-5"))`.

    A request belongs to `session`, to the session `session_id`, to that of the current trace, to the
    conversation of its messages, or to a session of its own: the first of these that there is. Runs at the
    same time in one session are told as messages of their own. A message history that this process hasn't
    recorded is told as earlier turns, without model calls. `agent` is by default the name that the agent has.
    `options` are those of `record_session`.
    """
    # What can't be used is told here, and not lost in a run.
    try:
        inspect.signature(SessionRecorder).bind(session_id, **options)
    except TypeError as error:
        known = ", ".join(inspect.signature(SessionRecorder).parameters)
        raise SettingsError(
            f"dashcam.record: {error}. It takes a model, session, and what record_session takes: {known}."
        ) from None
    for rule in options.get("permissions", ()):
        rule_of(rule)
    if session_id is not None:
        new_trace(session_id)
    return RecordingModel(model, session=session, session_id=session_id, agent=agent, options=options)


class RecordingModel(WrapperModel):
    """Hands everything on to the model that it wraps, and writes down what was asked and answered."""

    def __init__(
        self,
        wrapped: models.Model | KnownModelName | str,
        *,
        session: SessionRecorder | None,
        session_id: str | None,
        agent: str | None,
        options: dict[str, Any],
    ) -> None:
        super().__init__(cast("KnownModelName", wrapped))
        self._session, self._session_id = session, session_id
        self.owner: object = session or self  # of recorders: models that were given one share it
        self._agent, self._options = agent, options

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        take = Take(is_streamed=False)
        take.begin(self, messages, model_settings, model_request_parameters, current_run())
        try:
            response = await self.wrapped.request(messages, model_settings, model_request_parameters)
        except BaseException as error:
            take.end(None, error)
            raise
        take.tell(response)
        take.end(response)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        take, stream = Take(is_streamed=True), None
        take.begin(self, messages, model_settings, model_request_parameters, run_context or current_run())
        try:
            async with self.wrapped.request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                take.watch(stream)
                yield stream
        except BaseException as error:
            take.end_stream(stream, error)
            raise
        take.end_stream(stream, None)

    def where(self, messages: Sequence[ModelMessage], run: Any) -> tuple[str, Trace | None]:
        """The session of a request, and the current trace where it is of that session."""
        try:
            trace: Trace | None = current_trace()
        except UnjoinableRecord:
            trace = None
        told = [self._session.id if self._session else None, self._session_id, trace.session_id if trace else None]
        told += [message.conversation_id for message in reversed(messages)]
        told += [getattr(run, "conversation_id", None), run_id_of(messages, run)]
        session_id = next((each for each in told if each and fault_of_id(each, "session_id") is None), None)
        session_id = session_id or new_id(SESSION)[0]
        return session_id, trace if trace and trace.session_id == session_id else None

    def lane(self, known: Session, session_id: str, trace: Trace | None, run: Any) -> Lane:
        """A recorder of its own for a run: the host's, where it gave one that isn't in use."""
        if self._session and all(lane.chat is not self._session for lane in known.lanes):
            return Lane(self._session, self.owner, is_ours=False)
        model = Model(provider_id=self.wrapped.system, model_id=self.wrapped.model_name)
        name = self._agent or getattr(getattr(run, "agent", None), "name", None) or "agent"
        chat = record_session(session_id, **{"model": model, "trace": trace, "agent": name, **self._options})
        return Lane(chat, self.owner)
