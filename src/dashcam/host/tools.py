"""Tools that somebody names as `module:name`, and running one of them with a limit to its time.

Only what is named on the command line is ever imported or called: a recording names tools, but never code.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from pydantic_ai import FunctionToolset, RunContext, Tool, ToolReturn
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from dashcam.errors import UnreadableInput
from dashcam.record.options import message_of
from dashcam.record.pydantic_messages import jsonable

_MOST = 2_000  # characters of an error


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What came of running a tool, as JSON has it."""

    output: Any = None
    error: str | None = None


class Tools:
    """Tools by their names."""

    def __init__(self, tools: Iterable[Tool[Any]]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.is_hung = False  # whether one took too long; its threads may go on for ever

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def names(self) -> list[str]:
        return list(self._tools)

    def run(self, name: str, given: Any, timeout: float) -> Ran:
        """Call a tool with this input, as a model's call would.

        In a thread that nobody waits for: a tool that hangs must not keep us from ending.
        """
        box: queue.SimpleQueue[Ran] = queue.SimpleQueue()
        context = contextvars.copy_context()
        work = (_work, self._tools[name], given, box)
        threading.Thread(target=context.run, args=work, name=f"tool {name}", daemon=True).start()
        try:
            return box.get(timeout=timeout)
        except queue.Empty:
            self.is_hung = True
            return Ran(error=f"It took longer than {timeout:g} s; allow more with --tool-timeout.")


def load(where: str) -> Tools:
    """The tools that stand at `module:name`: a function, several in a list or dict, or a Pydantic AI FunctionToolset."""
    module, colon, name = where.partition(":")
    if not (module and colon and name):
        raise UnreadableInput(f"{where!r:.100} names no tools. Write it as module:name.")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # as `python` itself has it
    try:
        found: Any = import_module(module)
        for each in name.split("."):
            found = getattr(found, each)
    except AttributeError as error:
        raise UnreadableInput(f"{where}: {message_of(error)}. Name something that {module} holds.") from error
    except Exception as error:  # whatever the module does when it is imported
        told = f"{type(error).__name__}: {message_of(error)}"
        raise UnreadableInput(f"{module} can't be imported: {told}. Run where Python finds it.") from error
    try:
        return Tools(_tools(found))
    except Exception as error:
        raise UnreadableInput(
            f"{where} holds no tools: {message_of(error)}. Name a function, a list or dict of functions, or a "
            "FunctionToolset."
        ) from error


def _tools(found: Any) -> list[Tool[Any]]:
    if isinstance(found, FunctionToolset):
        return list(found.tools.values())
    if isinstance(found, Mapping):
        return [_tool(each, str(name)) for name, each in found.items()]
    return [_tool(each) for each in found] if isinstance(found, list | tuple | set) else [_tool(found)]


def _tool(found: Any, name: str | None = None) -> Tool[Any]:
    if isinstance(found, Tool):
        return found
    if not callable(found):
        raise TypeError(f"{type(found).__name__} can't be called")
    return Tool(found, name=name)


def _work(tool: Tool[Any], given: Any, box: queue.SimpleQueue[Ran]) -> None:
    try:
        box.put(Ran(output=jsonable(_call(tool, given))))
    except BaseException as error:  # SystemExit, too: it is the tool's, and not ours
        box.put(Ran(error=f"{type(error).__name__}: {message_of(error)}"[:_MOST]))


def _call(tool: Tool[Any], given: Any) -> Any:
    arguments = tool.function_schema.validator.validate_python({} if given is None else given)
    context = [RunContext(deps=None, model=TestModel(), usage=RunUsage())] if tool.takes_ctx else []
    result: Any = tool.function(*context, **arguments)
    if inspect.isawaitable(result):
        result = asyncio.run(_awaited(result))
    return result.return_value if isinstance(result, ToolReturn) else result


async def _awaited(result: Any) -> Any:
    return await result
