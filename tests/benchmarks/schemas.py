"""How long the worst schemas that are accepted hold the event loop, and what they take: `--only schemas`.

Each kind grows until it is refused; the largest that was not is compiled, and checks arguments that grow as well, in a
process of its own. `python -m tests.benchmarks.schemas KIND` prints one kind's numbers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gateway.messages import JsonObject, JsonValue, ToolSpec
from gateway.turns.tool_calls import ArgumentChecks, schema_problem
from tests.benchmarks.measurements import Row

CEILING_MILLISECONDS = 20
CEILING_MEGABYTES = 20
DEADLINE_SECONDS = 120.0
_SIZES = [2**n for n in range(20)]


def _doubled(keyword: str, levels: int, leaf: JsonObject, **top: JsonValue) -> JsonObject:
    definitions: JsonObject = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{levels}": leaf}, **top}


def _both_ways(keyword: str, ways: int) -> JsonObject:
    return {"type": "object", keyword: [{"properties": {"a": {"$ref": "#"}}} for _ in range(ways)]}


def _variants(count: int) -> JsonObject:
    variants: list[JsonValue] = [
        {
            "type": "object",
            "properties": {"type": {"const": f"t{n}"}, "a": {"$ref": "#/$defs/any"}},
            "required": ["type"],
        }
        for n in range(count)
    ]
    return {"$ref": "#/$defs/any", "$defs": {"any": {"anyOf": variants}}}


def _patterns(pattern: str, count: int) -> JsonObject:
    return {"properties": {f"p{n}": {"pattern": f"{pattern}{n}"} for n in range(count)}}


_KINDS: dict[str, Callable[[int], JsonObject]] = {
    "anyOf doubled": lambda n: _doubled("anyOf", n, {"type": "string"}),
    "oneOf doubled": lambda n: _doubled("oneOf", n, {"type": "object"}),
    "allOf doubled": lambda n: _doubled("allOf", n, {"type": "object", "maxProperties": 0}),
    "unevaluatedProperties": lambda n: _doubled("anyOf", n, {"required": ["zz"]}, unevaluatedProperties=False),
    "many in one anyOf": lambda n: {"anyOf": [{"type": "string"} for _ in range(n * 20)]},
    "many required": lambda n: {"anyOf": [{"required": [f"r{m}" for m in range(40)]} for _ in range(n * 5)]},
    "many properties": lambda n: {"properties": {f"p{m}": {"type": "string"} for m in range(n * 20)}},
    "enum of objects": lambda n: {"additionalProperties": {"not": {"enum": [{"x": m} for m in range(n * 20)]}}},
    "recursive, two ways": lambda n: _both_ways("anyOf", n),
    "recursive, all ways": lambda n: _both_ways("allOf", n),
    "recursive variants": lambda n: _variants(n),
    "patterns of a class": lambda n: _patterns(r"\pL", n),
    "one pattern repeated": lambda n: _patterns(rf"\pL{{{n}}}", 1),
    "patterns of all": lambda n: _patterns(".{100}", n),
    "patterns on a text": lambda n: {"allOf": [{"pattern": f"[ab]{{0,{m * 20}}}[cd]"} for m in range(n)]},
}


def _arguments() -> Iterator[list[JsonObject]]:
    """Arguments that grow: deeper, wider, longer."""
    yield [{}]
    yield [_nested(size) for size in range(1, 190, 3)]
    yield [{f"p{n}": 1 for n in range(size)} for size in _SIZES[:17]]
    yield [{"a": [{"x": n} for n in range(size)]} for size in _SIZES[:15]]
    yield [{"p0": "ab" * size, "a": "ab" * size} for size in _SIZES]


def _nested(levels: int) -> JsonObject:
    value: JsonObject = {"a": 1}
    for _ in range(levels):
        value = {"a": value}
    return value


def measure(kind: str) -> dict[str, float]:
    """The longest that one call of ours held the loop, and the most memory that it took."""
    logging.disable()
    make, size = _KINDS[kind], 1
    while size < 1_000 and schema_problem(make(size + 1)) is None:
        size += 1
    schema = make(size)
    ArgumentChecks().problem(ToolSpec("warm", "", {"type": "object"}), {})
    slowest = most = 0.0
    checks = ArgumentChecks()
    for grown in _arguments():
        for arguments in grown:
            memory = _begin_memory()
            begun = time.process_time()
            checks.problem(ToolSpec("tool", "", schema), arguments)
            slowest = max(slowest, (time.process_time() - begun) * 1e3)
            most = max(most, _peak_megabytes() - memory)
    return {"size": size, "milliseconds": slowest, "megabytes": most}


def _begin_memory() -> float:
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
    return _peak_megabytes()


def _peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def run(print_row: Callable[[Row], None], kinds: tuple[str, ...] = tuple(_KINDS)) -> None:
    """A row for the time and one for the memory of each kind, beside the ceiling."""
    for kind in kinds:
        numbers = await _measured_alone(kind)
        for unit, ceiling in (("milliseconds", CEILING_MILLISECONDS), ("megabytes", CEILING_MEGABYTES)):
            share = f"{numbers[unit] / ceiling:.0%}"
            short = {"milliseconds": "ms", "megabytes": "MB"}[unit]
            name = f"schemas: {kind}, as large as accepted"
            print_row(Row(f"{name} ({short})", ceiling, numbers[unit], short, share, "<= 100%"))


async def _measured_alone(kind: str) -> dict[str, float]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.schemas", kind, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        written, _ = await process.communicate()
    numbers: dict[str, float] = json.loads(written)
    return numbers


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
