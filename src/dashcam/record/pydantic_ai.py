"""A Pydantic AI model that records every request of whatever agent uses it.

    agent = Agent(dashcam.record("openai:gpt-5"))

The agent runs as it did before: nothing that goes wrong in here reaches it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast

from pydantic_ai import models
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import KnownModelName, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext

from dashcam.contracts.chat import SESSION, Model
from dashcam.contracts.identity import fault_of_id
from dashcam.errors import UnjoinableRecord
from dashcam.record import pydantic_messages as said
from dashcam.record.calls import Request
from dashcam.record.pydantic_history import tell_news
from dashcam.record.pydantic_sessions import Body, Lane, Session, sessions
from dashcam.record.recorder import SessionRecorder, record_session
from dashcam.sdk import emit
from dashcam.sdk.ids import new_id
from dashcam.sdk.trace import Trace, current_trace, new_trace

_F = TypeVar("_F", bound=Callable[..., None])


def record(
    model: models.Model | KnownModelName | str,
    *,
    session: SessionRecorder | None = None,
    session_id: str | None = None,
    agent: str = "agent",
    **options: Any,
) -> RecordingModel:
    """The same model, recorded: `agent = Agent(dashcam.record("openai:gpt-5"))`.

    A request belongs to `session`, to the session `session_id`, to that of the current trace, to the
    conversation of its messages, or to a session of its own: the first of these that there is. Runs at the
    same time in one session are told as messages of their own. `options` are those of `record_session`.
    """
    if session_id is not None:
        new_trace(session_id)  # an id that can't be used is told here, and not lost in a run
    return RecordingModel(model, session=session, session_id=session_id, agent=agent, options=options)


class RecordingModel(WrapperModel):
    """Hands everything on to the model that it wraps, and writes down what was asked and answered."""

    def __init__(
        self,
        wrapped: models.Model | KnownModelName | str,
        *,
        session: SessionRecorder | None,
        session_id: str | None,
        agent: str,
        options: dict[str, Any],
    ) -> None:
        super().__init__(cast("KnownModelName", wrapped))
        self._session, self._session_id = session, session_id
        self._options: dict[str, Any] = {"agent": agent, **options}

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        take = Take()
        take.begin(self, messages, model_settings, model_request_parameters, _current_run())
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
        take, stream = Take(), None
        take.begin(self, messages, model_settings, model_request_parameters, run_context or _current_run())
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
        told += [getattr(run, "conversation_id", None), _run_id(messages, run)]
        session_id = next((each for each in told if each and fault_of_id(each, "session_id") is None), None)
        session_id = session_id or new_id(SESSION)[0]
        return session_id, trace if trace and trace.session_id == session_id else None

    def lane(self, known: Session, session_id: str, trace: Trace | None) -> Lane:
        """A recorder of its own for a run: the host's, where it gave one that isn't in use."""
        if self._session and all(lane.chat is not self._session for lane in known.lanes):
            return Lane(self._session, self, is_ours=False)
        model = Model(provider_id=self.wrapped.system, model_id=self.wrapped.model_name)
        return Lane(record_session(session_id, **{"model": model, "trace": trace, **self._options}), self)


def _quietly(method: _F) -> _F:
    """Unlike in `fails_open` nothing is told: the host isn't calling us, its agent is."""

    @wraps(method)
    def call(*given: Any) -> None:
        try:
            method(*given)
        except Exception:
            with suppress(Exception):
                emit.recorder().lost()

    return cast("_F", call)


class Take:
    """One request to the model, from before it is sent until it is answered, fails or is given up."""

    def __init__(self) -> None:
        self._lane: Lane | None = None
        self._open: dict[int, Any] = {}  # parts that stream, by their index in the answer
        self._closed: dict[int, Any] = {}
        self._is_heard = False
        self._id = f"{new_id('')[0]}-"  # texts of one message need names of their own, however many answers are in it

    @_quietly
    def begin(
        self,
        model: RecordingModel,
        messages: Sequence[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        run: Any,
    ) -> None:
        session_id, trace = model.where(messages, run)
        self._model, self._parameters = model.wrapped, parameters
        self._session = known = sessions().of(session_id)
        run_id = _run_id(messages, run)
        with known.lock:
            bodies = known.bodies(messages, run_id)
            known.retries.update(said.retry_times(getattr(run, "messages", None) or messages))
            news = known.news(messages, bodies, run_id)
            lane = known.lane(
                model, run_id, trace, said.call_ids(messages), lambda: model.lane(known, session_id, trace)
            )
            lane.is_busy = True
        try:
            with lane.chat.lock:
                lane.pending -= tell_news(lane.chat, news, known.retries)
                lane.chat.settings = said.jsonable({**(model.wrapped.settings or {}), **(settings or {})})
                lane.chat.begin_step(self._request(lane, messages, bodies, known.retries))
        except BaseException:
            lane.is_busy = False
            raise
        self._lane = lane

    def _request(
        self, lane: Lane, messages: Sequence[ModelMessage], bodies: Sequence[Body], retries: set[datetime]
    ) -> Request:
        told, instructions = said.prompt_of(messages, self._parameters, retries)
        settings = {**lane.chat.settings, "parameters": said.parameters_of(self._parameters)}
        if told and instructions:
            settings["instructions"] = instructions
        texts = [*told, instructions] if instructions else told
        return lane.chat.calls.request(
            lane.sent(bodies),
            prompt="\n\n".join(texts) if texts else None,
            tools=said.tools_of(self._parameters),
            settings=settings,
            wire=said.WIRE,
            prompt_is_sent=bool(instructions),
        )

    def tell(self, response: ModelResponse) -> None:
        """An answer that came as a whole."""
        self._feed(said.answer_chunks(response.parts, self._id))

    def watch(self, stream: StreamedResponse) -> None:
        """Record what passes in a stream.

        The library has no hook for it, and a stream in our place would have to follow every change of its
        class. So the one method that each stream implements is replaced, on this stream alone: all that the
        library builds on it (ends of parts, deadlines, cancelling) stays as it is.
        """
        events = stream._get_event_iterator

        async def recorded() -> AsyncIterator[Any]:
            async for event in events():
                self._hear(stream, event)
                yield event

        with suppress(AttributeError):  # slots: then it is told as a whole at its end
            stream._get_event_iterator = recorded  # type: ignore[method-assign]

    @_quietly
    def _hear(self, stream: StreamedResponse, event: Any) -> None:
        self._is_heard = True
        if event.event_kind == "part_start":
            self._close_parts(stream)
            self._open[event.index] = event.part
            self._feed(said.start_chunks(event.part, f"{self._id}{event.index}"))
        elif event.event_kind == "part_delta":
            # A part may go on after the next one began; a call's input is then told again as a whole.
            is_late = event.index not in self._open
            part = self._open[event.index] = self._closed.pop(event.index) if is_late else self._open[event.index]
            if not (is_late and part.part_kind.endswith("tool-call")):
                self._feed(said.delta_chunks(event.delta, part, f"{self._id}{event.index}"))

    def _close_parts(self, stream: StreamedResponse) -> None:
        parts = stream.get().parts if self._open else ()
        for index, began in self._open.items():
            self._feed(said.end_chunks(parts[index] if index < len(parts) else began, f"{self._id}{index}"))
        self._closed |= self._open
        self._open.clear()

    @_quietly
    def _feed(self, chunks: Iterable[dict[str, Any]]) -> None:
        if self._lane:
            for chunk in chunks:
                self._lane.chat.chunk(chunk)

    def end_stream(self, stream: StreamedResponse | None, error: BaseException | None) -> None:
        """The stream is over, or was left."""
        response = self._finish(stream)
        if response and response.state in ("complete", "suspended"):
            error = None  # what went wrong afterwards is no fault of the model's
        elif error is None:
            error = asyncio.CancelledError()  # nobody listened to the end
        self.end(response, error)

    def _finish(self, stream: StreamedResponse | None) -> ModelResponse | None:
        """All that came, its parts ended if it came to its end; without one, text stays where it stopped."""
        try:
            if stream is None:
                return None
            response = stream.get()
            if response.state in ("complete", "suspended"):
                self._close_parts(stream)
                if not self._is_heard:
                    self.tell(response)
            return response
        except Exception:
            return None

    @_quietly
    def end(self, response: ModelResponse | None, error: BaseException | None = None) -> None:
        """The model has answered, or not, or not to the end."""
        lane, self._lane = self._lane, None
        if lane is None:
            return
        try:
            with lane.chat.lock:
                _end(lane, response, error, self._facts(response), self._parameters)
            if response:
                with self._session.lock:
                    self._session.saw(response)
            if not lane.pending:
                self._session.forget(lane.run_id)
        finally:
            lane.is_busy = False

    def _facts(self, response: ModelResponse | None) -> dict[str, Any]:
        if response is None:
            return {}
        usage, cost = response.usage, getattr(response.usage, "cost", None)
        return {
            "model": Model(
                provider_id=response.provider_name or self._model.system,
                model_id=response.model_name or self._model.model_name,
            ),
            "usage": usage if usage.has_values() else None,  # all 0: nobody has told
            "cost_usd": None if cost is None else float(cost),
            "response_id": response.provider_response_id,
            "output": said.bodies_of([response])[0],
        }


def _end(
    lane: Lane,
    response: ModelResponse | None,
    error: BaseException | None,
    facts: dict[str, Any],
    parameters: ModelRequestParameters,
) -> None:
    chat = lane.chat
    if error is not None:
        is_abort = isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt)
        reason = "abort" if is_abort else "error"
        chat.end_step(stop_reason=reason, error=None if is_abort else _words(error), **facts)
        chat.end_turn(reason, None if is_abort else error)
        lane.pending.clear()
        return
    assert response is not None
    reason = said.stop_reason_of(response)
    outputs = {tool.name for tool in parameters.output_tools}
    lane.pending |= said.asks_for(response, lambda name: name not in outputs)
    chat.end_step(stop_reason=reason, **facts)
    if lane.pending or response.state == "suspended":
        return
    if said.asks_for(response, outputs.__contains__):
        # The output is the call itself. It may yet be refused, and then the answer goes on: so the turn
        # isn't ended, but who looks now sees an answer that is complete.
        if chat._answer:
            chat._answer.rest("stop")
    else:
        chat.end_turn()


def _current_run() -> Any:
    """The run that asks, where the library tells."""
    try:
        from pydantic_ai._run_context import get_current_run_context

        return get_current_run_context()
    except Exception:
        return None


def _run_id(messages: Sequence[ModelMessage], run: Any) -> str | None:
    """The run of a request.

    A last message that was put together from two has lost it: then it is the current run's, if that is
    what it tells of, and not some other request from inside a tool.
    """
    last = messages[-1]
    if last.run_id is not None or not getattr(run, "messages", None):
        return last.run_id
    times = [{getattr(part, "timestamp", None) for part in each.parts} - {None} for each in (last, run.messages[-1])]
    return str(run.run_id) if times[0] & times[1] else None


def _words(error: BaseException) -> str:
    try:
        return str(error) or type(error).__qualname__
    except Exception:
        return type(error).__qualname__
