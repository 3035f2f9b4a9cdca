"""PythonTool: operators' functions as tools."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import ToolSettings
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError, ToolError
from gateway.http_client.clients import HttpClients
from gateway.messages import ContentBlock, ImageBlock, JsonObject, TextBlock, ToolCall
from gateway.tool import ConfiguredTool, SharedState, Tool, ToolContext, ToolEnvironment
from gateway.tools.python_function import MOST_TIMES, TOOL_TYPE
from gateway.turns.tool_executions import ToolExecutions

MODULE = "garden_tools"
EXPOSED = ToolSettings("PythonTool", expose_errors=True)


@pytest.fixture(autouse=True)
def _forget_imported_modules() -> Iterator[None]:
    before, path = set(sys.modules), list(sys.path)
    yield
    assert sys.path == path, "opening a tool left something on the import path"
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in (MODULE, "shop"):
            del sys.modules[name]


def environment(directory: Path) -> ToolEnvironment:
    clock = SystemClock()
    return ToolEnvironment(clock, HttpClients(clock), directory, None)


def context(state: SharedState | None = None) -> ToolContext:
    return ToolContext("call_1", "owner", "thread_1", "run_1", "agent_1", state or SharedState(None))


async def open_function(directory: Path, source: str, name: str = "f", **parameters: object) -> Tool:
    (directory / f"{MODULE}.py").write_text(textwrap.dedent(source))
    return await open_reference(directory, f"{MODULE}:{name}", **parameters)


async def open_reference(directory: Path, reference: str, **parameters: object) -> Tool:
    settings = ToolSettings("PythonTool", parameters={"function": reference, **parameters})  # type: ignore[dict-item]
    (tool,) = await TOOL_TYPE.open(settings, environment(directory)).tools()
    return tool


def text(blocks: tuple[ContentBlock, ...]) -> str:
    assert all(isinstance(block, TextBlock) for block in blocks)
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


async def result(directory: Path, source: str, arguments: JsonObject | None = None, **parameters: int) -> str:
    tool = await open_function(directory, source, "f", **parameters)
    return text(await tool.call(arguments or {}, context()))


class TestSchema:
    async def test_comes_from_the_annotations_defaults_and_docstring(self, tmp_path: Path) -> None:
        tool = await open_function(
            tmp_path,
            '''
            from typing import Literal

            def add(a: int, b: float = 0.5, unit: Literal["m", "km"] = "m", tags: list[str] | None = None) -> str:
                """Add two lengths.

                Args:
                    a: The first one,
                        in whole units.
                    b (float): The second one.

                Returns:
                    The sum.
                """
            ''',
            "add",
        )
        assert tool.spec.name == "add"
        assert tool.spec.description == "Add two lengths.\n\nReturns:\n    The sum."
        assert tool.spec.input_schema == {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first one, in whole units."},
                "b": {"type": "number", "default": 0.5, "description": "The second one."},
                "unit": {"type": "string", "enum": ["m", "km"], "default": "m"},
                "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
            },
            "required": ["a"],
            "additionalProperties": False,
        }

    @pytest.mark.parametrize(
        "docstring",
        [
            "Search.\n\n:param int size: How many.\n:type size: int\n:returns: The hits.",
            "Search.\n\nParameters\n----------\nsize : int\n    How many.\n\nReturns\n-------\nlist",
            "Search.\n\nArgs:\n    size: How many.",
        ],
    )
    async def test_knows_the_docstring_styles(self, tmp_path: Path, docstring: str) -> None:
        tool = await open_function(tmp_path, f"def f(size: int):\n    {docstring!r}\n")
        assert tool.spec.input_schema["properties"] == {"size": {"type": "integer", "description": "How many."}}
        assert tool.spec.description.startswith("Search.")
        assert "How many" not in tool.spec.description

    async def test_takes_descriptions_and_limits_from_annotated(self, tmp_path: Path) -> None:
        tool = await open_function(
            tmp_path,
            """
            from __future__ import annotations
            from typing import Annotated
            from pydantic import Field

            def f(
                n: Annotated[int, Field(ge=1, description="one or more")],
                who: Annotated[str, "a name"],
                size: int = Field(10, le=100),
            ):
                return [n, who, size]
            """,
        )
        assert tool.spec.input_schema["properties"] == {
            "n": {"type": "integer", "minimum": 1, "description": "one or more"},
            "who": {"type": "string", "description": "a name"},
            "size": {"type": "integer", "maximum": 100, "default": 10},
        }
        assert text(await tool.call({"n": 1, "who": "Ann"}, context())) == '[1,"Ann",10]'

    async def test_expresses_dataclasses_enums_and_models(self, tmp_path: Path) -> None:
        tool = await open_function(
            tmp_path,
            """
            import datetime, enum
            from dataclasses import dataclass
            from pydantic import BaseModel

            class Colour(enum.Enum):
                RED = "red"

            @dataclass
            class Point:
                x: int
                title: str = "origin"

            class Box(BaseModel):
                corner: Point

            def f(colour: Colour, box: Box, day: datetime.date):
                assert isinstance(colour, Colour) and isinstance(box.corner, Point)
                return [colour, box, day]
            """,
        )
        schema = tool.spec.input_schema
        assert schema["properties"] == {
            "colour": {"$ref": "#/$defs/Colour"},
            "box": {"$ref": "#/$defs/Box"},
            "day": {"type": "string", "format": "date"},
        }
        assert schema["$defs"]["Point"]["properties"]["title"] == {"type": "string", "default": "origin"}  # type: ignore[index,call-overload]
        arguments: JsonObject = {"colour": "red", "box": {"corner": {"x": 1}}, "day": "2024-02-29"}
        assert json.loads(text(await tool.call(arguments, context()))) == [
            "red",
            {"corner": {"x": 1, "title": "origin"}},
            "2024-02-29",
        ]

    async def test_any_parameter_name_will_do(self, tmp_path: Path) -> None:
        source = "def f(schema: int, json: int, _hidden: int, self: int, /, copy: int = 1, *, model_config: int = 2):\n"
        source += "    return [schema, json, _hidden, self, copy, model_config]"
        tool = await open_function(tmp_path, source)
        names = ["schema", "json", "_hidden", "self", "copy", "model_config"]
        assert list(tool.spec.input_schema["properties"]) == names  # type: ignore[arg-type]
        assert text(await tool.call({"schema": 1, "json": 2, "_hidden": 3, "self": 4}, context())) == "[1,2,3,4,1,2]"

    async def test_keyword_arguments_are_open(self, tmp_path: Path) -> None:
        tool = await open_function(tmp_path, "def f(a: int, **more): return [a, more]")
        assert tool.spec.input_schema["additionalProperties"] is True
        assert text(await tool.call({"a": 1, "b": [2]}, context())) == '[1,{"b":[2]}]'

    async def test_what_a_partial_fills_in_is_not_the_models(self, tmp_path: Path) -> None:
        source = (
            "import functools\ndef g(key: str, n: int): return key + str(n)\nf = functools.partial(g, key='secret-key')"
        )
        tool = await open_function(tmp_path, source)
        assert "secret-key" not in json.dumps(tool.spec.input_schema)
        with pytest.raises(ToolError, match="key"):
            await tool.call({"n": 1, "key": "mine"}, context())
        assert text(await tool.call({"n": 1}, context())) == "secret-key1"

    async def test_the_configuration_renames_and_describes(self, tmp_path: Path) -> None:
        (tmp_path / f"{MODULE}.py").write_text("def f(): 'words'")
        settings = ToolSettings("PythonTool", "other", "better words", {"function": f"{MODULE}:f"})
        (tool,) = await TOOL_TYPE.open(settings, environment(tmp_path)).tools()
        assert (tool.spec.name, tool.spec.description) == ("other", "better words")
        assert tool.spec.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


class TestContext:
    @pytest.mark.parametrize("annotation", ["ToolContext", "ToolContext | None = None", "Optional[ToolContext] = None"])
    async def test_is_given_and_not_shown(self, tmp_path: Path, annotation: str) -> None:
        tool = await open_function(
            tmp_path,
            f"""
            from typing import Optional
            from gateway.tool import ToolContext
            def f(n: int, where: {annotation}):
                where.state.replace({{"count": where.state.value["count"] + n}})
                return where.thread_id
            """,
        )
        assert list(tool.spec.input_schema["properties"]) == ["n"]  # type: ignore[arg-type]
        state = SharedState({"count": 1})
        assert text(await tool.call({"n": 2}, context(state))) == "thread_1"
        assert state.value == {"count": 3}
        assert state.changes == [{"count": 3}]


class TestResults:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("'as it is\\n'", "as it is\n"),
            ("None", ""),
            ("''", ""),
            ("0", "0"),
            ("{'a': float('nan'), 'b': float('inf')}", '{"a":null,"b":null}'),
            ("[datetime.datetime(2024, 1, 2), decimal.Decimal('1.50'), {3}]", '["2024-01-02T00:00:00","1.50",[3]]'),
            ("b'plain'", "plain"),
            ("b'\\xff\\xfe'", "//4="),
            ("{'data': b'\\xfb'}", '{"data":"-w=="}'),
            ("'half \\ud83d'", "half \ufffd"),
            ("'\\ud83d\\ude00'", "😀"),
            ("{'\\ud83d': ['\\ud83d']}", '{"\ufffd":["\ufffd"]}'),
            ("2 ** 70", "1180591620717411303424"),
            ("{(1, 2): 'x', None: 'y'}", '{"1,2":"x","None":"y"}'),
        ],
    )
    async def test_become_text(self, tmp_path: Path, expression: str, expected: str) -> None:
        assert await result(tmp_path, f"import datetime, decimal\ndef f(): return {expression}") == expected

    async def test_blocks_pass(self, tmp_path: Path) -> None:
        tool = await open_function(
            tmp_path,
            """
            from gateway.messages import *
            def f(): return [TextBlock("a picture"), ImageBlock(Base64Source("AA==", "image/png"))]
            """,
        )
        first, second = await tool.call({}, context())
        assert first == TextBlock("a picture")
        assert isinstance(second, ImageBlock)

    @pytest.mark.parametrize("source", ["def f(): return object()", "def f():\n  a = []\n  a.append(a)\n  return a"])
    async def test_what_has_no_json_form_is_an_error(self, tmp_path: Path, source: str) -> None:
        with pytest.raises(ToolError, match="no JSON form"):
            await result(tmp_path, source)

    async def test_are_cut_with_a_visible_mark(self, tmp_path: Path) -> None:
        given = await result(tmp_path, "def f(): return 'x' * 1_000", max_output_characters=10)
        assert given == "x" * 10 + "\n[truncated: this is the first 10 of 1,000 characters]"


async def told(tool: Tool, arguments: JsonObject | None = None) -> str:
    """What the model and viewers are told of a call that fails."""
    where = dataclasses.replace(context(), request_id="req-1")
    async with asyncio.timeout(10), ToolExecutions(SystemClock(), 1, 10) as executions:
        executions.add(ToolCall("call_1", tool.spec.name, "{}"), tool, arguments or {}, where)
        while not executions.finished:
            for given in await executions.take():
                assert given.is_error
                return text(given.content)
    raise AssertionError("there was no result")


class TestFailures:
    @pytest.mark.parametrize("kind", ["def", "async def"])
    @pytest.mark.parametrize(
        ("statement", "said"),
        [
            ("raise ValueError('no such customer: Eve')", "no such customer: Eve"),
            ("{}['Eve']", "there is no 'Eve'"),
            ("raise SystemExit(3)", "it tried to end the process"),
            ("raise KeyboardInterrupt", "it tried to end the process"),
            ("raise BaseException", "it gave no reason"),
            ("raise asyncio.CancelledError", "something it was waiting for was cancelled"),
            ("raise StopIteration('Eve')", ""),
            ("raise GeneratorExit", "it gave no reason"),
            ("raise InvalidRequestError('Eve')", "Eve"),
        ],
    )
    async def test_only_a_tool_error_speaks_to_callers_all_else_is_in_the_log(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, statement: str, said: str
    ) -> None:
        source = f"import asyncio\nfrom gateway.errors import InvalidRequestError\n{kind} f():\n    {statement}"
        tool = await open_function(tmp_path, source)
        assert await told(tool) == "The tool 'f' failed (request req-1)."
        [record] = [record for record in caplog.records if record.message == "a tool raised an exception"]
        assert vars(record).items() >= {"request_id": "req-1", "run_id": "run_1", "call_id": "call_1"}.items()
        assert record.exc_info is not None
        assert statement in "".join(traceback.format_exception(record.exc_info[1]))
        exposed = await told(ConfiguredTool(tool, EXPOSED))
        assert exposed.startswith(f"The tool 'f' failed: {said}")
        assert "Traceback" not in exposed
        assert "Error" not in exposed

    @pytest.mark.parametrize("kind", ["def", "async def"])
    async def test_a_tool_error_is_told_as_it_is(self, tmp_path: Path, kind: str) -> None:
        source = f"from gateway.tool import ToolError\n{kind} f():\n    raise ToolError('There is no order 7.')"
        assert await told(await open_function(tmp_path, source)) == "There is no order 7."

    async def test_an_exception_without_a_text_is_survived(self, tmp_path: Path) -> None:
        source = "class E(Exception):\n  def __str__(self): return 1 / 0\ndef f(): raise E"
        tool = await open_function(tmp_path, source)
        assert await told(ConfiguredTool(tool, EXPOSED)) == "The tool 'f' failed: it gave no reason"

    async def test_a_tool_error_that_was_made_without_its_words_is_survived(self, tmp_path: Path) -> None:
        source = """
        from gateway.tool import ToolError
        class SoldOut(ToolError):
            def __init__(self, item): self.item = item
        def f(): raise SoldOut("tea")
        """
        assert await told(await open_function(tmp_path, source)) == "tea"

    async def test_wrong_arguments_name_the_field(self, tmp_path: Path) -> None:
        with pytest.raises(ToolError, match=r"wrong arguments: n: .*integer"):
            await result(tmp_path, "def f(n: int): return n", {"n": "many"})


HANGING = """
    import threading
    started, go = threading.Semaphore(0), threading.Event()
    def f(hangs: bool):
        if hangs:
            started.release()
            go.wait(60)
        return "done"
    """


async def hanging(tool: Tool) -> asyncio.Task[Any]:
    """A call that has begun and hangs."""
    call = asyncio.create_task(tool.call({"hangs": True}, context()))
    assert await asyncio.to_thread(sys.modules[MODULE].started.acquire, timeout=10)
    return call


async def given_up(call: asyncio.Task[Any]) -> None:
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, 10)


class TestRunning:
    async def test_functions_run_in_threads_and_coroutines_in_place(self, tmp_path: Path) -> None:
        source = "import threading\n{kind} f(): return threading.current_thread() is threading.main_thread()"
        assert await result(tmp_path, source.format(kind="def")) == "false"
        del sys.modules[MODULE]
        assert await result(tmp_path, source.format(kind="async def")) == "true"

    async def test_an_awaitable_from_a_plain_function_is_awaited(self, tmp_path: Path) -> None:
        source = "async def g(): return 'late'\nclass C:\n  def __call__(self): return g()\nf = C()"
        assert await result(tmp_path, source) == "late"

    async def test_a_hanging_function_neither_blocks_the_loop_nor_the_cancel_nor_others(self, tmp_path: Path) -> None:
        tool = await open_function(tmp_path, HANGING, max_threads=1)
        module = sys.modules[MODULE]
        first = await hanging(tool)
        second = asyncio.create_task(tool.call({"hangs": False}, context()))
        await asyncio.sleep(0)
        assert not second.done(), "somebody waits for the first one, and it has the only place"
        await given_up(first)
        assert text(await asyncio.wait_for(second, 10)) == "done"
        module.go.set()

    async def test_a_tool_of_which_all_threads_hang_says_that_it_is_full(self, tmp_path: Path) -> None:
        tool = await open_function(tmp_path, HANGING, max_threads=2)
        module = sys.modules[MODULE]
        for _ in range(2 * MOST_TIMES):
            await given_up(await hanging(tool))
        with pytest.raises(ToolError, match="the tool is full: 16 calls of it have not returned"):
            await asyncio.wait_for(tool.call({"hangs": False}, context()), 10)
        module.go.set()
        answer: Any = None
        while answer is None:
            with suppress(ToolError):  # until one of them has returned
                answer = await asyncio.wait_for(tool.call({"hangs": False}, context()), 10)
        assert text(answer) == "done"

    async def test_threads_do_not_keep_the_process_alive(self, tmp_path: Path) -> None:
        source = "import threading\ndef f(): return threading.current_thread().daemon"
        assert await result(tmp_path, source) == "true"

    async def test_a_cancel_reaches_a_coroutine(self, tmp_path: Path) -> None:
        source = """
            import asyncio
            started, ended = asyncio.Event(), []
            async def f():
                started.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append(True)
            """
        tool = await open_function(tmp_path, source)
        module = sys.modules[MODULE]
        call = asyncio.create_task(tool.call({}, context()))
        await asyncio.wait_for(module.started.wait(), 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 5)
        assert module.ended == [True]

    async def test_calls_run_side_by_side(self, tmp_path: Path) -> None:
        source = "import threading\nbarrier = threading.Barrier(4)\ndef f(): barrier.wait(10); return 'met'"
        tool = await open_function(tmp_path, source)
        calls = [asyncio.create_task(tool.call({}, context())) for _ in range(4)]
        assert {text(blocks) for blocks in await asyncio.wait_for(asyncio.gather(*calls), 15)} == {"met"}
        assert threading.active_count() < 50


class TestFinding:
    async def test_a_package_beside_the_file_with_relative_imports(self, tmp_path: Path) -> None:
        shop = tmp_path / "shop"
        shop.mkdir()
        (shop / "prices.py").write_text("PRICES = {'tea': 3}")
        (shop / "tools.py").write_text("from .prices import PRICES\ndef price(item: str): return PRICES[item]")
        tool = await open_reference(tmp_path, "shop.tools:price")
        assert text(await tool.call({"item": "tea"}, context())) == "3"

    async def test_two_configurations_have_their_own_modules(self, tmp_path: Path) -> None:
        tools = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            tools.append(await open_function(tmp_path / name, f"def f(): return {name!r}"))
        assert [text(await tool.call({}, context())) for tool in tools] == ["one", "two"]

    async def test_two_tools_of_one_module_share_it(self, tmp_path: Path) -> None:
        first = await open_function(tmp_path, "seen = []\ndef f(): seen.append(1); return seen\ndef g(): return seen")
        await first.call({}, context())
        second = await open_reference(tmp_path, f"{MODULE}:g")
        assert text(await second.call({}, context())) == "[1]"

    async def test_an_installed_function_will_do(self, tmp_path: Path) -> None:
        tool = await open_reference(tmp_path, "textwrap:shorten")
        assert text(await tool.call({"text": "a  b", "width": 10}, context())) == "a b"

    @pytest.mark.parametrize(
        ("reference", "message"),
        [
            ("shop.tools.add", "not of the form 'package.module:function'"),
            ("shop:", "not of the form"),
            ("../shop:f", "not of the form"),
            ("nowhere.tools:add", "there is no module 'nowhere.tools'"),
            (f"{MODULE}.deeper:add", "there is no module"),
            (f"{MODULE}:ad", "has no 'ad'; did you mean 'add'?"),
            (f"{MODULE}:zzz", "has no 'zzz'; it has: add, everything"),
            (f"{MODULE}:LIMIT", "not a function"),
            (f"{MODULE}:Kind", "not a function"),
            (f"{MODULE}:everything", r"takes \*arguments"),
            (f"{MODULE}:numbers", "generator"),
            (f"{MODULE}:opaque", "has a type that JSON cannot express"),
            (f"{MODULE}:unknown", "an annotation names 'Nowhere'"),
            (f"{MODULE}:choosing", "make no usable JSON Schema: it has 120,"),
        ],
    )
    async def test_what_is_wrong_is_said_when_the_tool_is_opened(
        self, tmp_path: Path, reference: str, message: str
    ) -> None:
        source = """
            LIMIT = 3
            class Kind: pass
            def add(a, b): pass
            def everything(*a): pass
            def numbers(): yield 1
            def opaque(k: Kind): pass
            def unknown(k: "Nowhere"): pass
            import typing
            def choosing(k: typing.Literal["x" * 120_000]): pass
            """
        (tmp_path / f"{MODULE}.py").write_text(textwrap.dedent(source))
        if "zzz" in message:
            (tmp_path / f"{MODULE}.py").write_text("def add(a, b): pass\ndef everything(a): pass")
        with pytest.raises(ConfigurationError, match=message):
            await open_reference(tmp_path, reference)

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("def f(:", r"failed: .*\(garden_tools.py, line 1\)"),
            ("import not_installed_anywhere", "no module named 'not_installed_anywhere'"),
            ("raise RuntimeError('set SHOP_KEY first')", "failed: set SHOP_KEY first"),
            ("raise SystemExit", "tried to end the process"),
        ],
    )
    async def test_an_import_that_fails_is_reported(self, tmp_path: Path, source: str, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            await open_function(tmp_path, source)

    async def test_a_module_must_not_have_a_librarys_name(self, tmp_path: Path) -> None:
        (tmp_path / "json.py").write_text("def f(): pass")
        with pytest.raises(ConfigurationError, match="'json' beside the configuration has the name of an installed"):
            await open_reference(tmp_path, "json:f")

    async def test_unknown_parameters_suggest_the_nearest(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigurationError, match=r"parameters.max_thread is not known; did you mean 'max_threads'\?"
        ):
            await open_function(tmp_path, "def f(): pass", max_thread=3)
