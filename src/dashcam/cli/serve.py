"""`dashcam serve`: the server."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from dashcam.cli.common import Data, Json, Project, settings_of
from dashcam.cli.output import inert, out, write_json
from dashcam.errors import MissingExtra, SettingsError
from dashcam.sdk.settings import Settings

if TYPE_CHECKING:
    from dashcam.server.listening import Listening  # which needs what `serve` alone does

_MB = 1 << 20
_NEEDED = ("litestar", "uvicorn", "grpc", "prometheus_client", "opentelemetry.proto")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on. Beyond this machine a key is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port for API and OTLP/HTTP; 0: any.")] = 4680,
    otlp_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Second port for OTLP/HTTP; 0: none [default: 4318 if free].")
    ] = None,
    grpc_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port for OTLP/gRPC; 0: none [default: 4317 if free].")
    ] = None,
    require_key: Annotated[bool, typer.Option("--require-key", help="Ask for a key on this machine, too.")] = False,
    max_body: Annotated[int, typer.Option(metavar="MB", min=1, help="Largest body, as it is sent.")] = 32,
    max_decompressed: Annotated[int, typer.Option(metavar="MB", min=1, help="The same, decompressed.")] = 64,
    max_queued: Annotated[int, typer.Option(metavar="MB", min=1, help="All bodies that wait, together.")] = 64,
    max_requests: Annotated[int, typer.Option(min=1, help="Requests at the same time.")] = 256,
    body_timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="For a body to arrive.")] = 30.0,
    log_format: Annotated[
        str | None, typer.Option(metavar="text|json", help="Log lines [default: text on a terminal, else json].")
    ] = None,
    data: Data = None,
    project: Project = None,
    as_json: Json = False,
) -> None:
    """Take traces from OpenTelemetry, Langfuse and Logfire clients, and journals of other machines.

    Stops at Ctrl-C or SIGTERM, when all that it has taken is written.
    """
    if any(not _is_installed(name) for name in _NEEDED):
        raise MissingExtra("dashcam serve", "serve")
    if log_format not in (None, "text", "json"):
        raise SettingsError(f"--log-format is {log_format!r:.40}; say text or json.")
    from dashcam.server.limits import Limits
    from dashcam.server.listening import Options
    from dashcam.server.logs import Form, set_up
    from dashcam.server.run import serve as run

    settings: Settings = settings_of(data, project)
    form: Form = "json" if (log_format or ("text" if sys.stderr.isatty() else "json")) == "json" else "text"
    set_up(form)
    limits = Limits(
        body=max_body * _MB, inflated=max_decompressed * _MB, held=max_queued * _MB, requests=max_requests,
        body_seconds=body_timeout,
    )  # fmt: skip
    options = Options(
        data=settings.data, project=settings.project, host=host, port=port, otlp_port=otlp_port, grpc_port=grpc_port,
        require_key=require_key, limits=limits,
    )  # fmt: skip

    def ready(listening: Listening) -> None:
        if as_json:
            write_json(msgspec.json.encode(listening) + b"\n")
            sys.stdout.buffer.flush()
        else:
            _greet(listening)

    run(options, ready)


def _greet(listening: Listening) -> None:
    lines = [
        f"Dashcam serves {listening.data} (project {listening.project}) at {listening.url}",
        f"  OTLP/HTTP  OTEL_EXPORTER_OTLP_ENDPOINT={listening.url}",
        f"  OTLP/gRPC  OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_ENDPOINT={listening.grpc}"
        if listening.grpc
        else "",
        f"  Langfuse   LANGFUSE_BASE_URL={listening.url}",
        f"  Logfire    LOGFIRE_BASE_URL={listening.url}",
        f"  Dashcam    DASHCAM_URL={listening.url}",
        f"  API        {listening.url}/docs",
        *listening.said,
        "Stop with Ctrl-C.",
    ]
    for line in filter(None, lines):
        out.print(inert(line))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package around it
        return False


COMMANDS = (serve,)
