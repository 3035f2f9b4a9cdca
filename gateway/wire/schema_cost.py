"""Estimates the cost of a JSON Schema for a validator, before a validator is made. Pure.

Above: `tool_calls`, which refuses schemas that cost too much. Frontend tools and MCP servers bring schemas from
anywhere, and a validator follows every reference: 20 definitions that each refer to the next one twice make a million
places. The count is never less than the work of `jsonschema-rs`. It takes linear time, because each place is counted
once and numbers stop at `ENDLESS`.

A place is a subschema, counted once for each path that leads to it. Keywords that are lists count by their entries,
patterns by `pattern_cost`. Of circular references, the longest path through the circle counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

import orjson

from gateway.wire.pattern_cost import pattern_cost
from gateway.wire.tool_schema import JsonSchema, as_list, as_mapping, pointed

MAX_BYTES: Final = 100_000
MAX_DEPTH: Final = 100
MAX_OBJECTS: Final = 1_000
MAX_PLACES: Final = 6_000
MAX_PATTERN_CHARACTERS: Final = 10_000
ENDLESS: Final = 1_000_000_000
"""More than any limit: numbers are not counted further."""

_SUBSCHEMAS = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
    | {"items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
)
"""Keywords that hold a schema, or a list of them."""
_NAMED_SUBSCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas", "dependencies"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_ENTRIES = frozenset({"enum", "const", "required", "dependentRequired", "dependencies"})
# Keywords whose schemas `unevaluatedProperties` and `unevaluatedItems` make a validator follow again.
_FOLLOWED_AGAIN = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", *_REFERENCES})
_UNEVALUATED_FACTOR = 4
# How many references are followed to count circles; a schema with more of them counts as endless.
_MOST_STEPS = 5_000


@dataclass(frozen=True, slots=True)
class SchemaCost:
    """`places`: how many there are with all references followed. `checks`: how many of them may look at one value.

    `size`: in bytes. `is_recursive`: it refers to itself. `has_patterns`: a check may read a whole text.
    """

    size: int
    places: int
    checks: int
    is_recursive: bool
    has_patterns: bool


def schema_cost(schema: JsonSchema, levels: int = 1) -> SchemaCost:
    """The cost of compiling the schema, and of checking one value.

    `levels`: how deep values are nested, where the validator goes through circular references on each level. A
    validator that describes errors does so. One that only says yes or no remembers what it has found.

    Raises:
        ValueError: it is too large, too deep, or has references that cannot be counted.
    """
    size = _checked_size(schema)
    count = _Count(_Document(schema), levels)
    places, checks = count.of_root()
    # A recursive place is checked once for each value by itself, besides the checks where it is referred to.
    checks = min(ENDLESS, checks + sum(count.checks[key] for key in count.recursive))
    return SchemaCost(size, places, checks, bool(count.recursive), count.has_patterns)


def _checked_size(schema: JsonSchema) -> int:
    try:
        text = orjson.dumps(schema)
    except TypeError:
        raise ValueError(f"it is no JSON, or nested more than {MAX_DEPTH} deep") from None
    if len(text) > MAX_BYTES:
        raise ValueError(f"it has {len(text):,} bytes, and {MAX_BYTES:,} are the most")
    if (objects := text.count(b"{")) > MAX_OBJECTS:
        raise ValueError(f"it has {objects:,} objects, and {MAX_OBJECTS:,} are the most")
    return len(text)


class _Edge(NamedTuple):
    to: int
    factor: int
    is_named: bool  # one of `properties`: each value is checked by only one of them
    is_reference: bool


class _Place(NamedTuple):
    depth: int
    own_places: int
    own_checks: int
    edges: list[_Edge]


class _Document:
    """A whole schema: the depth of each object in it, and the schemas that its anchors name."""

    def __init__(self, root: JsonSchema) -> None:
        self.root = root
        self.depths: dict[int, int] = {}
        self._anchors: dict[str, JsonSchema] = {}
        self._id_keyword = "id" if "draft-04" in str(root.get("$schema")) else "$id"
        waiting: list[tuple[object, int]] = [(root, 0)]
        while waiting:
            value, depth = waiting.pop()
            if depth > MAX_DEPTH:
                raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
            if isinstance(value, dict):
                self.depths[id(value)] = depth
                self._note_names(value)
                waiting += [(item, depth + 1) for item in value.values()]
            elif isinstance(value, list):
                waiting += [(item, depth + 1) for item in value]

    def _note_names(self, schema: JsonSchema) -> None:
        # References in a part with an id of its own would be relative to that id.
        if schema is not self.root and isinstance(schema.get(self._id_keyword), str):
            raise ValueError(f"a part of it has an {self._id_keyword!r} of its own")
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str) and self._anchors.setdefault(name, schema) is not schema:
                raise ValueError(f"it has the anchor {name[:100]!r} twice")

    def referred(self, reference: object) -> JsonSchema | None:
        """The schema that a reference names; None for true and false.

        Raises:
            ValueError: no schema has that name.
        """
        if not isinstance(reference, str):
            raise ValueError("a reference in it is not text")
        if _is_ambiguous(reference):
            raise ValueError(f"a reference in it can be read in two ways: {reference[:100]!r}")
        base = self.root.get(self._id_keyword)
        place = reference.removeprefix(base.rstrip("#")) if isinstance(base, str) else reference
        found: object = None
        if place in ("", "#"):
            found = self.root
        elif place.startswith("#/"):
            found = pointed(self.root, place)
        elif place.startswith("#"):
            found = self._anchors.get(place[1:])
        if isinstance(found, dict):
            return found
        if isinstance(found, bool):
            return None
        raise ValueError(f"a reference in it leads nowhere: {reference[:100]!r}")


def _is_ambiguous(reference: str) -> bool:
    """Whether encoded characters of a reference could be read as separators, so that it meant another place."""
    decoded = unquote(reference)
    is_split = any(decoded.count(mark) != reference.count(mark) for mark in "/~#")
    return is_split or "%" in decoded or decoded.count("#") > 1


class _Count:
    """The places of a schema as a graph, each once, and the counts that follow from it."""

    def __init__(self, document: _Document, rounds: int) -> None:
        self._document = document
        self._rounds = rounds  # how often the counts of each circle are repeated
        self._places: dict[int, _Place] = {}
        self.places: dict[int, int] = {}
        self.checks: dict[int, int] = {}
        self.recursive: list[int] = []  # places to which a reference within themselves leads
        self._pattern_characters = 0
        self._steps = 0

    def of_root(self) -> tuple[int, int]:
        root = self._document.root
        waiting = [root]
        while waiting:
            schema = waiting.pop()
            if id(schema) not in self._places:
                waiting += self._add(schema)
        for circle in _circles(id(root), self._places):
            self._settle(circle)
        return self.places[id(root)], self.checks[id(root)]

    def _add(self, schema: JsonSchema) -> list[JsonSchema]:
        """Add a place. Gives the places that it leads to."""
        again = _UNEVALUATED_FACTOR if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        own_places = own_checks = 1
        edges: list[_Edge] = []
        found: list[JsonSchema] = []
        for keyword, value in schema.items():
            if keyword in _SUBSCHEMAS or keyword in _NAMED_SUBSCHEMAS:
                factor = again if keyword in _FOLLOWED_AGAIN else 1
                for inner in _schemas_in(keyword, value):
                    edges.append(_Edge(id(inner), factor, keyword == "properties", False))
                    found.append(inner)
            elif keyword in _REFERENCES and (referred := self._document.referred(value)) is not None:
                edges.append(_Edge(id(referred), again, False, True))
                found.append(referred)
            if keyword in _ENTRIES:
                entries = _entries(keyword, value)
                own_places += entries // 4
                own_checks += entries
            elif keyword in ("pattern", "patternProperties"):
                patterns = [value] if isinstance(value, str) else list(as_mapping(value))
                own_places += self._cost_of(patterns)
                own_checks += len(patterns)
        self._places[id(schema)] = _Place(self._document.depths[id(schema)], own_places, own_checks, edges)
        return found

    def _cost_of(self, patterns: list[str]) -> int:
        self._pattern_characters += sum(map(len, patterns))
        if self._pattern_characters > MAX_PATTERN_CHARACTERS:
            raise ValueError(f"its patterns have more than {MAX_PATTERN_CHARACTERS:,} characters")
        return sum(map(pattern_cost, patterns))

    @property
    def has_patterns(self) -> bool:
        return self._pattern_characters > 0

    def _settle(self, circle: list[int]) -> None:
        """Count a group of places that refer to one another, mostly a single place. The places outside of the group
        that it leads to must be counted already.
        """
        within = set(circle)
        edges = [edge for key in circle for edge in self._places[key].edges if edge.to in within]
        if not edges:
            self._count_each(circle, {}, {})
            return
        entered = {edge.to for edge in edges if edge.is_reference}
        self.recursive += entered
        inner_first = sorted(circle, key=lambda key: -self._places[key].depth)
        for _ in range(len(entered) * self._rounds):
            self._steps += len(edges)
            if self._steps > _MOST_STEPS:
                self.places.update(dict.fromkeys(circle, ENDLESS))
                self.checks.update(dict.fromkeys(circle, ENDLESS))
                return
            places = {key: self.places.get(key, 1) for key in entered}
            checks = {key: self.checks.get(key, 1) for key in entered}
            self._count_each(inner_first, places, checks)

    def _count_each(self, keys: list[int], places: dict[int, int], checks: dict[int, int]) -> None:
        for key in keys:
            self.places[key] = _all_places(self._places[key], self.places, places)
            self.checks[key] = _all_checks(self._places[key], self.checks, checks)


def _all_places(place: _Place, counted: dict[int, int], in_circle: dict[int, int]) -> int:
    total = place.own_places
    for edge in place.edges:
        total += _followed(edge, counted, in_circle)
    return min(ENDLESS, total)


def _all_checks(place: _Place, counted: dict[int, int], in_circle: dict[int, int]) -> int:
    total, of_a_name = place.own_checks, 0
    for edge in place.edges:
        if edge.is_named:
            of_a_name = max(of_a_name, _followed(edge, counted, in_circle))
        else:
            total += _followed(edge, counted, in_circle)
    return min(ENDLESS, total + of_a_name)


def _followed(edge: _Edge, counted: dict[int, int], in_circle: dict[int, int]) -> int:
    """The count of the place that the edge leads to. `in_circle`: the counts of the round before, for references within
    the circle that is being counted.
    """
    found = in_circle.get(edge.to) if edge.is_reference else None
    return (counted[edge.to] if found is None else found) * edge.factor


def _schemas_in(keyword: str, value: object) -> list[JsonSchema]:
    if isinstance(value, dict):
        inner = list(value.values()) if keyword in _NAMED_SUBSCHEMAS else [value]
    else:
        inner = as_list(value)
    return [item for item in inner if isinstance(item, dict)]


def _entries(keyword: str, value: object) -> int:
    """The number of entries with which a value is compared one by one."""
    if keyword == "required":
        return len(as_list(value))
    if keyword == "enum":
        values = as_list(value)
        # A validator looks values up if all are texts, or all are integers.
        is_looked_up = all(type(item) is str for item in values) or all(type(item) is int for item in values)
        return len(values) // 64 if is_looked_up else 4 * _nodes(values)
    return _nodes([value])


def _nodes(values: Iterable[object]) -> int:
    """The number of these values and of all values in them."""
    waiting, count = list(values), 0
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return count


def _circles(root: int, places: dict[int, _Place]) -> Iterator[list[int]]:
    """The groups of places that lead to one another (Tarjan's algorithm), each after all groups that it leads to."""
    order: dict[int, int] = {root: 0}
    lowest: dict[int, int] = {root: 0}
    open_places = [root]
    is_open = {root}
    path = [(root, iter(places[root].edges))]
    while path:
        key, edges = path[-1]
        edge = next(edges, None)
        if edge is not None and edge.to not in order:
            order[edge.to] = lowest[edge.to] = len(order)
            open_places.append(edge.to)
            is_open.add(edge.to)
            path.append((edge.to, iter(places[edge.to].edges)))
        elif edge is not None:
            if edge.to in is_open:
                lowest[key] = min(lowest[key], order[edge.to])
        else:
            path.pop()
            if path:
                above = path[-1][0]
                lowest[above] = min(lowest[above], lowest[key])
            if lowest[key] == order[key]:
                circle = [open_places.pop()]
                while circle[-1] != key:
                    circle.append(open_places.pop())
                is_open.difference_update(circle)
                yield circle
