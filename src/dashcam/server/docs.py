"""/docs: the operations as one plain page that needs no network, and /docs/openapi.json for machines."""

from __future__ import annotations

import re
from collections import defaultdict
from html import escape
from typing import Any

from litestar import MediaType, Request
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin

from dashcam import __version__
from dashcam.server.api.describing import ERRORS, described

_METHODS = ("get", "post", "put", "patch", "delete")
_GROUPS = {
    "sessions": "Chat sessions, turn by turn",
    "traces": "Traces, spans, log records and events",
    "findings": "Looking for something",
    "live": "As it happens",
    "server": "The server itself",
    "otlp": "OpenTelemetry in",
    "records": "Journals in",
    "langfuse": "What Langfuse SDKs call",
    "logfire": "What the Logfire SDK calls",
}
_STYLE = """\
:root { color-scheme: light dark; --quiet: #667; --line: #8884; --soft: #8881; --get: #0a7d4f; --post: #2459b8;
  --delete: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --quiet: #9aa; --get: #4cc38a; --post: #7aa7ff; --delete: #ff8a80; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 6rem; }
h1 { font-size: 1.6rem; margin: 0; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; }
code { font: .875rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; margin: 1rem 0; }
details { border-top: 1px solid var(--line); }
summary { cursor: pointer; display: grid; grid-template-columns: 4.5rem 1fr; gap: 0 .5rem; padding: .5rem; }
summary:hover, details[open] > summary { background: var(--soft); }
summary span { grid-column: 2; color: var(--quiet); font-size: .9rem; }
details > div { padding: .25rem .5rem 1rem 5.5rem; }
b { font: 600 .8rem/1.75 ui-monospace, monospace; color: var(--get); }
b.post { color: var(--post); }
b.delete { color: var(--delete); }
p { margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
td { vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); }
.quiet { color: var(--quiet); }
@media (max-width: 40rem) { details > div { padding-left: .5rem; } }
"""


class Description(JsonRenderPlugin):
    """The description for machines, with what every route answers where something is wrong."""

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return super().render(request, described(openapi_schema))


class Style(OpenAPIRenderPlugin):
    """The page's style, a file of its own: nothing inline is allowed on any page of ours."""

    def __init__(self) -> None:
        super().__init__(path="/style.css", media_type="text/css")  # type: ignore[arg-type]

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return _STYLE.encode()


class PlainPage(OpenAPIRenderPlugin):
    """Every operation with its parameters. The usual pages load their scripts from elsewhere."""

    def __init__(self) -> None:
        super().__init__(path="/", favicon="", style="")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        groups: dict[str, list[str]] = defaultdict(list)
        for path, item in described(openapi_schema)["paths"].items():
            for method in _METHODS:
                if method in item:
                    tag = next(iter(item[method].get("tags", ())), "")
                    groups[_GROUPS.get(tag, "More")].append(_operation(path, method, item[method]))
        titles = [title for title in (*_GROUPS.values(), "More") if title in groups]
        links = "".join(f'<a href="/docs#{number}">{title}</a>' for number, title in enumerate(titles))
        sections = (
            f'<h2 id="{number}">{title}</h2>{"".join(groups[title])}' for number, title in enumerate(titles)
        )  # fmt: skip
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Dashcam API</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<link rel="stylesheet" href="/docs/style.css"></head><body>'
            f"<h1>Dashcam {escape(__version__)}: API</h1>"
            '<p class="quiet">For machines: <a href="/docs/openapi.json">openapi.json</a>. Lists answer '
            "<code>items</code> and <code>next</code>, which is the <code>cursor</code> of the page that follows. "
            f"Click on a route for what it takes.</p><nav>{links}</nav>{''.join(sections)}{_errors()}</body></html>"
        )
        return page.encode()


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    parameters = "".join(map(_parameter, operation.get("parameters", ())))
    takes = ", ".join(operation.get("requestBody", {}).get("content", ()))
    answers = ", ".join(
        f"{status} {' or '.join(answer.get('content', ()))}"
        for status, answer in operation["responses"].items()
        if status < "300"
    )
    lines = [
        f"<p>{_text(operation.get('description') or '')}</p>",
        f"<table>{parameters}</table>" if parameters else "",
        f'<p><span class="quiet">Takes</span> {escape(takes)}</p>' if takes else "",
        f'<p><span class="quiet">Answers</span> {escape(answers)}</p>',
    ]
    head = f'<b class="{method}">{method.upper()}</b><code>{escape(path)}</code>'
    said = operation.get("summary") or ""
    label = escape(f"{method.upper()} {path}: {said}")  # what is set apart by columns is read aloud as one word
    summary = f'<summary aria-label="{label}">{head}<span>{_text(said)}</span></summary>'
    return f"<details>{summary}<div>{''.join(lines)}</div></details>"


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    kinds = {each["type"] for each in schema.get("oneOf", (schema,)) if "type" in each} - {"null"}
    said = [*sorted(kinds), *([] if parameter["in"] == "query" else [parameter["in"]])]
    said += ["required"] if parameter.get("required") and parameter["in"] != "path" else []
    said += [f"{schema['default']} if not given"] if schema.get("default") not in (None, "", False) else []
    name, text = escape(parameter["name"]), _text(parameter.get("description") or "")
    return f'<tr><td><code>{name}</code></td><td class="quiet">{escape(", ".join(said))}</td><td>{text}</td></tr>'


def _text(said: str) -> str:
    """As HTML; what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(said))


def _errors() -> str:
    rows = "".join(f"<tr><td><code>{status}</code></td><td>{escape(said)}</td></tr>" for status, said in ERRORS.items())
    return f"<h2>Where something is wrong</h2><table>{rows}</table>"


def openapi_config() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="Dashcam",
        version=__version__,
        description="A flight recorder for AI agents: OTLP and journals in, traces and chat sessions out.",
        path="/docs",
        render_plugins=[PlainPage(), Style(), Description(path="/openapi.json", media_type=MediaType.JSON)],
        use_handler_docstrings=True,
    )
