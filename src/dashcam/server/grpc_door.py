"""OTLP over gRPC: the same three services, on the same event loop, with the messages as raw bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc  # type: ignore[import-untyped]

from dashcam.errors import DashcamError, SettingsError
from dashcam.record.receive import Signal
from dashcam.server.access import headers_of
from dashcam.server.answers import problem_of, status_message
from dashcam.server.otlp import response_message
from dashcam.server.state import Server
from dashcam.server.writing import Delivery

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

    def service(self, details: Any) -> Any:
        signal = _METHODS.get(details.method)
        if signal is None:
            return None

        async def export(message: bytes, context: Any) -> bytes:
            return await self._export(signal, message, context)

        return grpc.unary_unary_rpc_method_handler(export)

    async def _export(self, signal: Signal, message: bytes, context: Any) -> bytes:
        server, held = self._server, self._server.ingest.held
        try:
            caller = server.doorman.admit(headers_of(context.invocation_metadata() or ()), "ingest")
            held.take(len(message))
            try:
                server.metrics.received.labels("grpc").inc(len(message))
                delivery = Delivery(project=caller.project, kind=signal, body=message)
                outcome = await asyncio.wrap_future(server.ingest.deliver(delivery))
            finally:
                held.release(len(message))
        except DashcamError as error:
            problem = problem_of(error)
            server.metrics.requests.labels(f"grpc {signal}", str(problem.status)).inc()
            details = (("grpc-status-details-bin", status_message(problem)),)
            await context.abort(_CODES[problem.code], problem.message, details)
        server.metrics.requests.labels(f"grpc {signal}", "200").inc()
        return response_message(signal, outcome, "protobuf")


async def open_grpc(server: Server, host: str, port: int) -> grpc.aio.Server:
    """Listen for gRPC; raises SettingsError where the port is taken."""
    door = grpc.aio.server(
        options=(
            ("grpc.max_receive_message_length", server.limits.body),
            ("grpc.so_reuseport", 0),  # two servers on one port would share its calls by chance
        ),
        maximum_concurrent_rpcs=CONCURRENT,
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
