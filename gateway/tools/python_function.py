"""PythonTool: a function of the operator's own code in the configuration file's folder.

    tools:
      - {type: PythonTool, name: add, parameters: {function: "shop.tools:add"}}

The model sees the function's name, its docstring and a JSON Schema made of its annotations. A parameter annotated with
`gateway.tool.ToolContext` is hidden from the model: the gateway passes the call's context and the thread's state in it.
Coroutine functions run on the event loop, so they must not block. All other functions run in threads. A function that
fails raises `gateway.tool.ToolError` with a text that the model and the user may read; see tool_failures.

**Where modules are found.** While the module is imported, the directory of the configuration file is the first of the
import path. Afterwards the path is restored, so that no file there can shadow a module that is imported later.
Therefore a tool's module must import modules of that directory at its top, not within its functions. Two configurations
in one process may have modules of the same name: each gets its own.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.machinery
import inspect
import operator
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import Field

from gateway.agent import ToolSettings
from gateway.errors import ConfigurationError, ToolError
from gateway.messages import ContentBlock, JsonObject, ToolSpec
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType
from gateway.tool_definitions.function_signature import FunctionSignature, read_signature
from gateway.tool_definitions.parameters import ToolParameters, parameter_error, read_parameters
from gateway.tool_output import bounded, content_blocks
from gateway.turns.tool_calls import schema_problem
from gateway.turns.tool_failures import exception_text

MOST_TIMES: Final = 8
_importing = threading.Lock()  # the import path is the process's: one change at a time


class PythonToolParameters(ToolParameters):
    """The `parameters` of a PythonTool, which calls a Python function."""

    function: str
    """`package.module:function`; the part after the colon may be dotted (`module:Class.method`)."""
    max_threads: int = Field(default=8, gt=0, le=256)
    """How many calls of a function that is no coroutine may run at a time. No thread can be stopped: a call that was
    given up goes on until it returns, and with such calls there may be eight times as many threads."""


@dataclass(frozen=True, slots=True)
class PythonTool:
    """One function."""

    spec: ToolSpec
    function: Callable[..., Any]
    signature: FunctionSignature
    threads: _Threads
    max_output_characters: int

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        positional, named = self.signature.bind(arguments)
        for name in self.signature.given_parameters:
            named[name] = context
        value = await self._run(positional, named)
        return bounded(content_blocks(value), self.max_output_characters)

    async def _run(self, positional: list[Any], named: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self.function(*positional, **named)
        value = await self.threads.run(lambda: self.function(*positional, **named))
        return await value if inspect.isawaitable(value) else value


class _Threads:
    """At most `size` daemon threads at a time whose results somebody awaits. Together with threads that hang, there may
    be MOST_TIMES as many.

    This is not an executor: the interpreter waits for an executor's threads when it ends, and one function that hangs
    would keep the process from ending.
    """

    def __init__(self, size: int) -> None:
        self._free = asyncio.Semaphore(size)
        self._most = size * MOST_TIMES
        self._running = 0

    async def run(self, work: Callable[[], Any]) -> Any:
        """The result or exception of `work`. Cancelling ends the wait, but the thread goes on.

        Raises:
            ToolError: too many threads hang, or none could be started.
        """
        async with self._free:
            if self._running >= self._most:
                raise ToolError(
                    f"the tool is full: {self._running} calls of it have not returned, most of which were given up;"
                    " no other can begin before one returns"
                )
            value, raised = await self._begun(work)
        if raised is not None:
            raise raised
        return value

    def _begun(self, work: Callable[[], Any]) -> asyncio.Future[tuple[Any, BaseException | None]]:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def finish(result: tuple[Any, BaseException | None]) -> None:
            self._running -= 1
            if not outcome.done():
                outcome.set_result(result)

        def work_and_tell() -> None:
            result: tuple[Any, BaseException | None]
            try:
                result = work(), None
            except BaseException as error:  # SystemExit too: it would end this thread silently
                result = None, error
            # the process has ended meanwhile and closed the loop: nobody waits any more
            if not loop.is_closed():
                loop.call_soon_threadsafe(finish, result)

        try:
            threading.Thread(target=work_and_tell, name="python-tool", daemon=True).start()
        except RuntimeError as error:
            raise ToolError("no thread could be started for the tool; try again later") from error
        self._running += 1
        return outcome


def open_python_tool(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    """Import the function and read its signature.

    Raises:
        ConfigurationError: there is no such function, or a model cannot call it.
    """
    parameters = read_parameters(settings, PythonToolParameters)
    try:
        function = find_function(parameters.function, environment.directory)
        signature = read_signature(function, ToolContext)
    except ConfigurationError as error:
        raise parameter_error(settings, "function", f"{parameters.function!r}: {error.message}") from error
    if (wrong := schema_problem(signature.input_schema)) is not None:
        what = f"{parameters.function!r}: the types of its arguments make no usable JSON Schema: {wrong}"
        raise parameter_error(settings, "function", what)
    name = settings.name or parameters.function.rpartition(":")[2].rpartition(".")[2]
    description = settings.description or signature.documentation.text
    tool = PythonTool(
        ToolSpec(name, description, signature.input_schema),
        function,
        signature,
        _Threads(parameters.max_threads),
        parameters.max_output_characters,
    )
    return SingleTool(tool)


def find_function(reference: str, directory: Path) -> Callable[..., Any]:
    """The function that `package.module:function` names. The configuration's folder is searched first.

    Raises:
        ConfigurationError: not of this form, no such module, the module's import fails, or there is no such function.
    """
    module_name, colon, path = reference.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        raise ConfigurationError("not of the form 'package.module:function'")
    module = _import_beside(module_name, directory)
    try:
        function: object = operator.attrgetter(path)(module)
    except AttributeError:
        raise ConfigurationError(_no_such_function(module, path)) from None
    if not callable(function) or inspect.isclass(function):
        raise ConfigurationError(f"{path!r} is {type(function).__name__!r}, not a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{path!r} is a generator; a tool returns its result (a list, for example)")
    return function


def _no_such_function(module: ModuleType, path: str) -> str:
    names = [name for name, value in vars(module).items() if inspect.isroutine(value) and not name.startswith("_")]
    close = get_close_matches(path, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; it has: {', '.join(sorted(names)) or 'no functions'}"
    return f"the module {module.__name__!r} has no {path!r}{hint}"


def _import_beside(name: str, directory: Path) -> ModuleType:
    with _importing, _in_front_of_the_path(directory):
        _make_way(name.partition(".")[0], directory)
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(f"{error.name}.")):
                raise ConfigurationError(
                    f"there is no module {name!r}, neither in {str(directory)!r} nor among the installed ones"
                ) from None
            raise ConfigurationError(f"importing the module {name!r} failed: no module named {error.name!r}") from error
        except Exception as error:  # importing a module can raise anything
            raise ConfigurationError(f"importing the module {name!r} failed: {_import_problem(error)}") from error
        except (SystemExit, KeyboardInterrupt) as error:
            raise ConfigurationError(f"importing the module {name!r} tried to end the process") from error


@contextmanager
def _in_front_of_the_path(directory: Path) -> Iterator[None]:
    entry = str(directory.resolve())
    sys.path.insert(0, entry)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(entry)  # the first entry of this name, which is ours


def _make_way(top: str, directory: Path) -> None:
    """Forget a module of the same name that came from another configuration's folder.

    Raises:
        ConfigurationError: a module beside this configuration has the name of a library that is in use.
    """
    entry = str(directory.resolve())
    ours = importlib.machinery.PathFinder.find_spec(top, [entry])
    loaded = sys.modules.get(top)
    if ours is None or loaded is None or _is_from(loaded, directory.resolve()):
        return
    elsewhere = [path for path in sys.path if path != entry]
    if top in sys.stdlib_module_names or importlib.machinery.PathFinder.find_spec(top, elsewhere) is not None:
        raise ConfigurationError(f"{top!r} beside the configuration has the name of an installed module; rename it")
    for name in [name for name in sys.modules if name == top or name.startswith(f"{top}.")]:
        del sys.modules[name]


def _is_from(module: ModuleType, directory: Path) -> bool:
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", [])]
    return any(place and Path(place).resolve().is_relative_to(directory) for place in places)


def _import_problem(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({Path(error.filename or '?').name}, line {error.lineno})"
    return exception_text(error)


TOOL_TYPE = ToolType("PythonTool", open_python_tool, parameters=PythonToolParameters)
