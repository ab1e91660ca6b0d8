"""Dashcam: a flight recorder for AI agents.

    import dashcam
    trace = dashcam.new_trace(session_id="chat-42")
    trace = dashcam.log_event(trace, "tool_call_completed", tool="search", latency_ms=42)

Each name below is imported when it is first used, so that `import dashcam` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dashcam import testing as testing
    from dashcam.errors import DashcamError as DashcamError
    from dashcam.errors import UnjoinableRecord as UnjoinableRecord
    from dashcam.record.pydantic_ai import record as record
    from dashcam.record.recorder import record_session as record_session
    from dashcam.sdk.catalog import register_event as register_event
    from dashcam.sdk.emit import configure as configure
    from dashcam.sdk.emit import log_event as log_event
    from dashcam.sdk.emit import stats as stats
    from dashcam.sdk.propagate import extract as extract
    from dashcam.sdk.propagate import from_otel as from_otel
    from dashcam.sdk.propagate import inject as inject
    from dashcam.sdk.redaction import Redaction as Redaction
    from dashcam.sdk.trace import Trace as Trace
    from dashcam.sdk.trace import current_trace as current_trace
    from dashcam.sdk.trace import new_trace as new_trace
    from dashcam.sdk.trace import system_trace as system_trace
    from dashcam.sdk.trace import use_trace as use_trace
    from dashcam.views.joinability import orphan_rate as orphan_rate
    from dashcam.views.joinability import run_of as run_of

__version__ = "0.1.0"

_HOME = {
    "DashcamError": "dashcam.errors",
    "Redaction": "dashcam.sdk.redaction",
    "Trace": "dashcam.sdk.trace",
    "UnjoinableRecord": "dashcam.errors",
    "configure": "dashcam.sdk.emit",
    "current_trace": "dashcam.sdk.trace",
    "extract": "dashcam.sdk.propagate",
    "from_otel": "dashcam.sdk.propagate",
    "inject": "dashcam.sdk.propagate",
    "log_event": "dashcam.sdk.emit",
    "new_trace": "dashcam.sdk.trace",
    "orphan_rate": "dashcam.views.joinability",
    "record_session": "dashcam.record.recorder",
    "register_event": "dashcam.sdk.catalog",
    "run_of": "dashcam.views.joinability",
    "stats": "dashcam.sdk.emit",
    "system_trace": "dashcam.sdk.trace",
    "use_trace": "dashcam.sdk.trace",
}

_MODULES = ("record", "testing")  # `record` can be called; see there

__all__ = ["__version__", *_MODULES, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dashcam.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'dashcam' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value  # found at once from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
