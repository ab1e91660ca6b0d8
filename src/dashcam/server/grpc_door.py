"""OTLP over gRPC: the same three services, on the same event loop, with the messages as raw bytes.

To gRPC the methods are streams of one message. Only so it is ours to say how long that may take, and that one call too
many comes back later: gRPC's own limit would answer what senders take for a refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc  # type: ignore[import-untyped]

from dashcam.errors import DashcamError, SettingsError, TooBusy, TooSlow, UnreadableInput
from dashcam.record.receive import Signal
from dashcam.server.access import headers_of
from dashcam.server.answers import problem_of, status_message
from dashcam.server.otlp import response_message
from dashcam.server.state import Server
from dashcam.server.writing import Delivery, Outcome

CONCURRENT = 64  # calls at once; each may hold one message in memory
_SERVICE = "/opentelemetry.proto.collector.{}.v1.{}Service/Export"
_METHODS: dict[str, Signal] = {
    _SERVICE.format("trace", "Trace"): "traces",
    _SERVICE.format("logs", "Logs"): "logs",
    _SERVICE.format("metrics", "Metrics"): "metrics",
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class _Door(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, server: Server) -> None:
        self._server = server
        self._open = 0

    def service(self, details: Any) -> Any:
        signal = _METHODS.get(details.method)
        if signal is None:
            return None

        async def export(messages: AsyncIterator[bytes], context: Any) -> bytes:
            return await self._export(signal, messages, context)

        return grpc.stream_unary_rpc_method_handler(export)

    async def _export(self, signal: Signal, messages: AsyncIterator[bytes], context: Any) -> bytes:
        requests = self._server.metrics.requests
        try:
            outcome = await self._admit(signal, messages, context)
        except DashcamError as error:
            problem = problem_of(error)  # and no more of the error, which keeps the message in memory
        else:
            requests.labels(f"grpc {signal}", "200").inc()
            return response_message(signal, outcome, "protobuf")
        requests.labels(f"grpc {signal}", str(problem.status)).inc()
        details = (("grpc-status-details-bin", status_message(problem)),)
        await context.abort(_CODES[problem.code], problem.message, details)
        raise AssertionError  # abort has raised

    async def _admit(self, signal: Signal, messages: AsyncIterator[bytes], context: Any) -> Outcome:
        caller = self._server.doorman.admit(headers_of(context.invocation_metadata() or ()), "ingest")
        if self._open >= CONCURRENT:
            raise TooBusy(f"{self._open} calls are open, and no more are taken at once. Try again in a moment.")
        self._open += 1
        try:
            return await self._deliver(caller.project, signal, messages)
        finally:
            self._open -= 1

    async def _deliver(self, project: str, signal: Signal, messages: AsyncIterator[bytes]) -> Outcome:
        server, held = self._server, self._server.ingest.held
        delivery = Delivery(project=project, kind=signal, body=await self._read(messages))
        size = len(delivery.body)
        held.take(size)
        try:
            server.metrics.received.labels("grpc").inc(size)
            return await asyncio.wrap_future(server.ingest.deliver(delivery))
        finally:
            held.release(size)

    async def _read(self, messages: AsyncIterator[bytes]) -> bytes:
        try:
            async with asyncio.timeout(self._server.limits.body_seconds):
                return await anext(messages)
        except TimeoutError:
            raise TooSlow(self._server.limits.body_seconds) from None
        except StopAsyncIteration:
            raise UnreadableInput("The call has no message. Send one.") from None


async def open_grpc(server: Server, host: str, port: int) -> grpc.aio.Server:
    """Listen for gRPC; raises SettingsError where the port is taken."""
    door = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", server.limits.body),
            ("grpc.so_reuseport", 0),  # two servers on one port would share its calls by chance
        ),
    )
    door.add_generic_rpc_handlers((_Door(server),))
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = door.add_insecure_port(where)
    except RuntimeError:
        bound = 0
    if not bound:
        await door.stop(None)
        raise SettingsError(f"{where} is taken. Choose another --grpc-port, or 0 for no gRPC.")
    await door.start()
    return door
