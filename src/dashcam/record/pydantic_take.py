"""One request to a model while it is recorded: what was asked, what comes back, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings

from dashcam.contracts.chat import Model
from dashcam.record import pydantic_messages as said
from dashcam.record.calls import Request
from dashcam.record.options import message_of
from dashcam.record.pydantic_history import tell_news
from dashcam.record.pydantic_sessions import Body, Lane, run_id_of, sessions
from dashcam.sdk import emit
from dashcam.sdk.ids import new_id

if TYPE_CHECKING:
    from dashcam.record.pydantic_ai import RecordingModel

_F = TypeVar("_F", bound=Callable[..., None])


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

    def __init__(self, *, is_streamed: bool) -> None:
        self._is_streamed = is_streamed
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
        run_id = run_id_of(messages, run)
        with known.lock:
            bodies = known.bodies(messages, run_id)
            known.retries.update(said.retry_times(getattr(run, "messages", None) or messages))
            news = known.news(messages, bodies, run_id)
            lane = known.lane(
                model.owner, run_id, trace, said.call_ids(messages), lambda: model.lane(known, session_id, trace, run)
            )
        try:
            with lane.chat.lock:
                tell_news(lane, known.lanes, news, known.retries)
                lane.chat.settings = said.jsonable({**(model.wrapped.settings or {}), **(settings or {})})
                lane.chat.begin_step(
                    self._request(lane, messages, bodies, known.retries), is_streamed=self._is_streamed
                )
        except BaseException:
            lane.is_busy = False
            raise
        self._lane = lane
        known.close_old(model.owner, trace)

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

    @_quietly
    def watch(self, stream: StreamedResponse) -> None:
        """Record what passes in a stream.

        The library has no hook for it, and a stream in our place would have to follow every change of its
        class. So the one method that each stream implements is replaced, on this stream alone: all that the
        library builds on it (ends of parts, deadlines, cancelling) stays as it is.
        """
        if self._lane is None:
            return
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
        chat.end_step(
            stop_reason=reason, error=None if is_abort else message_of(error) or type(error).__qualname__, **facts
        )
        chat.end_turn(reason, None if is_abort else error)
        lane.settle()
        return
    assert response is not None
    reason = said.stop_reason_of(response)
    outputs = {tool.name for tool in parameters.output_tools}
    lane.pending |= said.asks_for(response, lambda name: name not in outputs)
    lane.outputs |= said.asks_for(response, outputs.__contains__)
    chat.end_step(stop_reason=reason, **facts)
    if lane.pending or response.state == "suspended":
        return
    if lane.outputs:
        # The output is the call itself. It may yet be refused, and then the answer goes on: so the turn
        # isn't ended, but who looks now sees an answer that is complete.
        chat.rest()
    else:
        chat.end_turn()
