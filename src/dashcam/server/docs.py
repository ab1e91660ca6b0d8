"""/docs: the operations as one plain page that needs no network, and /docs/openapi.json for machines."""

from __future__ import annotations

from html import escape
from typing import Any

from litestar import MediaType, Request
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin

from dashcam import __version__

_METHODS = ("get", "post", "put", "patch", "delete")


class PlainPage(OpenAPIRenderPlugin):
    """Every operation with its parameters. The usual pages load their scripts from elsewhere."""

    def __init__(self) -> None:
        super().__init__(path="/", favicon="", style="")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        operations = [
            _operation(path, method, item[method])
            for path, item in sorted(openapi_schema["paths"].items())
            for method in _METHODS
            if method in item
        ]
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Dashcam API</title></head><body>'
            f"<h1>Dashcam {escape(__version__)}: API</h1>"
            '<p>For machines: <a href="/docs/openapi.json">openapi.json</a></p>'
            f"{''.join(operations)}</body></html>"
        )
        return page.encode()


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    parameters = "".join(map(_parameter, operation.get("parameters", ())))
    takes = ", ".join(operation.get("requestBody", {}).get("content", ()))
    answers = ", ".join(operation.get("responses", ()))
    lines = [
        f"<p>{escape(operation.get('description') or '')}</p>",
        f"<ul>{parameters}</ul>" if parameters else "",
        f"<p>Takes {escape(takes)}</p>" if takes else "",
        f"<p>Answers {escape(answers)}</p>",
    ]
    head = f"<code>{method.upper()} {escape(path)}</code> {escape(operation.get('summary') or '')}"
    return f"<details><summary>{head}</summary>{''.join(lines)}</details>"


def _parameter(parameter: dict[str, Any]) -> str:
    needed = ", required" if parameter.get("required") else ""
    where = f"{parameter['name']} ({parameter['in']}{needed})"
    return f"<li><code>{escape(where)}</code> {escape(parameter.get('description') or '')}</li>"


def openapi_config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Dashcam",
        version=__version__,
        description="A flight recorder for AI agents: OTLP and journals in, traces and chat sessions out.",
        path="/docs",
        render_plugins=[PlainPage(), JsonRenderPlugin(path="/openapi.json", media_type=MediaType.JSON)],
        use_handler_docstrings=True,
    )
