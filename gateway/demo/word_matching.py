"""Finds the tools that a user's words ask for, and their arguments, by plain word matching.

The same words and tools always give the same matches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.messages import JsonObject, JsonValue, ToolSpec


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Words that mean the same to a tool's name. The first stands for all of them.
_SYNONYMS = (
    "search find look lookup query seek retrieve",
    "add sum plus addition put append",
    "subtract minus difference",
    "multiply times product",
    "divide divided quotient",
    "show display present reveal",
    "list enumerate",
    "change set update modify switch make turn adjust",
    "color colour paint hue",
    "background backdrop wallpaper",
    "refund reimburse",
    "delete remove erase drop",
    "create new generate",
    "email mail",
    "navigate go open visit",
    "index indices indexes",
    "mapping mappings fields schema",
    "weather forecast temperature",
    "time clock hour",
    "date day today",
    "notify alert warn notification",
    "remind reminder",
    "book reserve booking reservation",
    "image picture photo",
    "document doc article",
    "calculate compute calculator",
    "theme appearance",
)
_STOP_WORDS = frozenset(
    _words(
        "a an the this that these those of for to in on at by with from about into and or then also please can could "
        "would will you me my i we us our your it its is are was be do does did have has s t d ll what which who whom "
        "when where why how there here so just now some any tell give let using use via as up out if not no yes tool "
        "tools many much like want need"
    )
)
_QUESTION = re.compile(r"^\s*(?:what|who|whom|whose|when|where|which|why|how|tell me|do you know|is|are|was)\b", re.I)
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"\"([^\"]+)\"|“([^”]+)”|`([^`]+)`|(?<!\w)'([^']+)'(?!\w)")
_SUFFIXES = ("ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "ed", "es", "s", "e", "y")

# Arithmetic is written in signs as often as in words; a minus or a slash between two numbers is more often a date's.
_OPERATORS = {"+": "plus", "*": "times", "×": "times", "÷": "divided"}
_OPERATOR = re.compile(r"(?<=\d)\s*([+*×÷])\s*(?=\d)")

_NAME_WEIGHT = 3.0
_THRESHOLD = 1.9


@dataclass(slots=True)
class Match:
    """A tool that fits a part of the user's words. `missing` names the required arguments that are not in the words."""

    spec: ToolSpec
    clause: str
    arguments: JsonObject
    missing: tuple[str, ...]
    score: float
    words: tuple[str, ...]


def match_tools(text: str, specs: Sequence[ToolSpec]) -> list[Match]:
    """At most one tool per clause of the text, in the order of the clauses; the same call only once."""
    vocabulary = _Vocabulary.of(specs)
    found: list[Match] = []
    text = _OPERATOR.sub(lambda sign: f" {_OPERATORS[sign[1]]} ", text)
    for clause in _clauses(text, vocabulary):
        best = _best(clause, specs, vocabulary)
        if best is not None and all((best.spec.name, best.arguments) != (m.spec.name, m.arguments) for m in found):
            found.append(best)
    return found


def concepts(text: str) -> list[str]:
    """The words of the text (or of a name in any spelling): stemmed, with synonyms unified, without filler words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ")
    return [_concept(word) for word in _WORD.findall(spaced.lower()) if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    if word == "news":  # not a plural of "new"
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


_CONCEPTS = {_stem(word): _stem(group.split()[0]) for group in _SYNONYMS for word in group.split()}


def _concept(word: str) -> str:
    stem = _stem(word)
    return _CONCEPTS.get(stem, stem)


# --- which tool ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ToolWords:
    name: frozenset[str]
    description: frozenset[str]
    values: frozenset[str]  # parameter names and the words of enumerations


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    tools: Mapping[str, _ToolWords]
    spread: Counter[str]  # the number of tools with a concept in their names; one in all of them distinguishes nothing

    @classmethod
    def of(cls, specs: Sequence[ToolSpec]) -> _Vocabulary:
        tools = {spec.name: _tool_words(spec) for spec in specs}
        return cls(tools, Counter(concept for words in tools.values() for concept in words.name))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.spread)


def _tool_words(spec: ToolSpec) -> _ToolWords:
    values: set[str] = set()
    for name, schema in properties(spec.input_schema).items():
        values.update(concepts(name))
        for choice in _choices(schema):
            values.update(concepts(str(choice)))
    # The first sentence says what a tool is for; what follows is advice, whose words would fit anything.
    purpose = re.split(r"(?<=[.!?])\s", spec.description, maxsplit=1)[0]
    return _ToolWords(frozenset(concepts(spec.name)), frozenset(concepts(purpose)), frozenset(values))


def _clauses(text: str, vocabulary: _Vocabulary) -> list[str]:
    """The text split into requests: at the ends of sentences, and at an "and" before a tool's word."""
    masked = _QUOTED.sub(lambda quote: "\0" * len(quote.group()), text)
    pieces: list[str] = []
    start = 0
    for separator in re.finditer(
        r"[.?!;](?=\s|$)|\n+|\b(?:and\s+)?then\b|,(?=\s)(?:\s*and\b)?|\band\b(?:\s+also\b)?", masked
    ):
        strong = not re.match(r",|and\b", separator.group()) or "then" in separator.group()
        following = [word for word in _WORD.findall(masked[separator.end() :].lower()) if word not in _STOP_WORDS]
        if strong or (following and _concept(following[0]) in vocabulary.names):
            pieces.append(text[start : separator.start()])
            start = separator.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if piece.strip()]


def _best(clause: str, specs: Sequence[ToolSpec], vocabulary: _Vocabulary) -> Match | None:
    words = _WORD.findall(clause.lower())
    said = {_concept(word): word for word in reversed(words) if word not in _STOP_WORDS}
    best: Match | None = None
    for spec in specs:
        match = _score(clause, spec, vocabulary, said)
        if match.score >= _THRESHOLD and (best is None or match.score > best.score):
            best = match
    return best


def _score(clause: str, spec: ToolSpec, vocabulary: _Vocabulary, said: Mapping[str, str]) -> Match:
    tool = vocabulary.tools[spec.name]
    by_name = tool.name & said.keys()
    by_description = (tool.description - tool.name) & said.keys()
    by_value = (tool.values - tool.name - tool.description) & said.keys()
    score = sum(_NAME_WEIGHT / vocabulary.spread[concept] ** 0.5 for concept in by_name)
    if by_name:
        score *= 0.5 + 0.5 * len(by_name) / len(tool.name)
    score += 1.0 * len(by_description) + 0.7 * len(by_value)
    if not by_name and _QUESTION.match(clause) and "search" in tool.name and said:
        score += _THRESHOLD  # a question without another tool's words is a search
    if score == 0:
        return Match(spec, clause, {}, (), 0.0, ())
    filling = fill_arguments(clause, spec)
    score += 0.5 * filling.typed - 1.5 * sum(1 for name in filling.missing if name in filling.plain)
    hits = sorted(by_name | by_description | by_value, key=lambda concept: clause.lower().find(said[concept]))
    return Match(spec, clause, filling.arguments, filling.missing, score, tuple(said[hit] for hit in hits))


# --- with what arguments ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Filling:
    """Arguments found in words. `typed`: how many were recognised by their form; `plain`: the names of numbers."""

    arguments: JsonObject = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    typed: int = 0
    plain: frozenset[str] = frozenset()


_NUMBER_WORDS = {
    word: number
    for number, word in enumerate(_words("zero one two three four five six seven eight nine ten eleven twelve"))
}
_COLORS = _words(
    "red green blue yellow orange purple violet pink brown black white gray grey cyan magenta teal navy maroon olive "
    "lime indigo gold silver beige turquoise coral salmon khaki crimson lavender tomato"
)
_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "uri": re.compile(r"https?://[^\s,;]+[^\s,;.!?]|(?<!\S)/[\w/-]+"),
    "date": re.compile(r"\b\d{4}-\d{2}-\d{2}(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?|\b(?:today|tomorrow|yesterday)\b", re.I),
    "color": re.compile(r"#[0-9a-f]{3,8}\b|\b(?:(?:light|dark)\s?)?(?:" + "|".join(_COLORS) + r")\b", re.I),
    "number": re.compile(
        r"(?<![\w.#-])[-+]?(?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d{1,15})?(?![\w-]|\.\d)|\b(?:"
        + "|".join(_NUMBER_WORDS)
        + r")\b",
        re.I,
    ),
    "identifier": re.compile(r"#?\b(?=[\w-]*\d)[A-Za-z0-9][\w-]*\b"),
    "false": re.compile(r"\b(?:off|false|disabled?|hide|close|collapse)\b", re.I),
    "true": re.compile(r"\b(?:true|yes|enabled?|expand|(?:turn|switch)\s(?:\w+\s){0,3}on)\b", re.I),
}
_LOOKS_LIKE = {
    "email": "email",
    "color": "color",
    "url": "uri",
    "link": "uri",
    "uri": "uri",
    "path": "uri",
    "date": "date",
    "id": "identifier",
    "code": "identifier",
}


class _Clause:
    """The words of a clause, of which each is used for one argument."""

    def __init__(self, text: str) -> None:
        self.text = text

    def take(self, pattern: re.Pattern[str]) -> str | None:
        """The first match of the pattern (its first group that has one), which is removed from the words."""
        found = pattern.search(self.text)
        if found is None:
            return None
        groups = [group for group in found.groups() if group is not None]
        self.text = f"{self.text[: found.start()]} \0 {self.text[found.end() :]}"
        return groups[0] if groups else found.group()


def fill_arguments(clause: str, spec: ToolSpec) -> Filling:
    """The tool's arguments as far as they are in the clause. Unmistakable ones are found first, then plain text."""
    words = _Clause(clause)
    filling = Filling()
    wanted = properties(spec.input_schema)
    required = spec.input_schema.get("required")
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    chosen = set(concepts(spec.name))
    for find in (_find_named, _find_typed):
        for name, schema in wanted.items():
            if name not in filling.arguments and (value := find(words, name, schema, chosen)) is not None:
                filling.arguments[name] = value
                filling.typed += 1
                chosen.update(concepts(name))  # "3 days": the label belongs to the number
    labels = {name: _label(name) for name in wanted}
    for name, schema in wanted.items():
        if name not in filling.arguments and _is_plain_text(name, schema):
            others = [label for other, label in labels.items() if other != name and label]
            said = _take_labelled(words, labels[name], others)
            if said is not None and (about := _about(_Clause(said), chosen)):
                filling.arguments[name] = about
    for name in needed:
        if name in wanted and name not in filling.arguments:
            text = _find_text(words, name, wanted[name], chosen)
            if text is not None:
                filling.arguments[name] = text
    for name, schema in wanted.items():
        if name not in filling.arguments and (quoted := _take_quoted(words, schema)) is not None:
            filling.arguments[name] = quoted
    filling.missing = tuple(name for name in needed if name not in filling.arguments)
    filling.plain = frozenset(name for name, schema in wanted.items() if schema_type(schema) in ("number", "integer"))
    filling.arguments = {name: filling.arguments[name] for name in wanted if name in filling.arguments}
    return filling


def properties(schema: JsonObject) -> dict[str, JsonObject]:
    """The properties of an object schema, references and unions with null resolved."""
    found = schema.get("properties")
    if not isinstance(found, dict):
        return {}
    return {name: _resolve(item, schema) for name, item in found.items() if isinstance(item, dict)}


def _resolve(schema: JsonObject, root: JsonObject) -> JsonObject:
    for _ in range(4):  # a reference to a reference is enough
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            target: JsonValue = root
            for part in reference[2:].split("/"):
                target = target.get(part) if isinstance(target, dict) else None
            schema = target if isinstance(target, dict) else {}
            continue
        for union in ("anyOf", "oneOf"):
            choices = schema.get(union)
            if isinstance(choices, list):
                kept = [choice for choice in choices if isinstance(choice, dict) and choice.get("type") != "null"]
                schema = kept[0] if kept else {}
                break
        else:
            return schema
    return schema


def schema_type(schema: JsonObject) -> str:
    """The JSON type of this schema's values; string if the schema does not say."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), None)
    return kind if isinstance(kind, str) else "object" if "properties" in schema else "string"


def _choices(schema: JsonObject) -> list[JsonValue]:
    choices = schema.get("enum")
    if isinstance(choices, list):
        return choices
    return [schema["const"]] if "const" in schema else []


def _find_named(words: _Clause, name: str, schema: JsonObject, chosen: set[str]) -> JsonValue:
    """A value right after the argument's own name: `order A-17`, `title: "Lunch"`, `b = 3`."""
    if schema_type(schema) not in ("string", "number", "integer") or _choices(schema):
        return None
    if not (label := _label(name)):
        return None
    label += r"(?:\s+(?:id|number|no\.?))?"
    value = (
        r"[-+]?\d[\d,]{0,15}(?:\.\d{1,15})?\b"
        if schema_type(schema) != "string"
        else r"#?(?=[\w-]*\d)[A-Za-z0-9][\w-]*"
    )
    link = r"\s*(?:is|equals|to|of|=|:|#)?\s*"
    taken = words.take(re.compile(f"{label}{link}({value})", re.I))
    if taken is None and schema_type(schema) == "string":
        taken = words.take(
            re.compile(label + r"\s*(?:is|to|=|:|called|named|saying)?\s*(?:\"([^\"]+)\"|“([^”]+)”|'([^']+)')", re.I)
        )
    if taken is None:
        return None
    return taken.lstrip("#") if schema_type(schema) == "string" else _number(taken, schema)


def _find_typed(words: _Clause, name: str, schema: JsonObject, chosen: set[str]) -> JsonValue:
    """A value that is recognised by its form."""
    if choices := _choices(schema):
        return _find_choice(words, choices, chosen)
    match schema_type(schema):
        case "number" | "integer":
            return _number(words.take(_PATTERNS["number"]), schema)
        case "boolean":
            return _find_boolean(words, name)
        case "array":
            return _find_items(words, name, schema, chosen)
        case "string":
            kind = schema.get("format")
            looks = {"date-time": "date", "url": "uri"}.get(str(kind), str(kind))
            if looks not in _PATTERNS:
                looks = next((_LOOKS_LIKE[part] for part in reversed(_parts(name)) if part in _LOOKS_LIKE), "")
            taken = words.take(_PATTERNS[looks]) if looks else None
            return taken.lstrip("#") if taken is not None and looks == "identifier" else taken
        case _:
            return None


def _find_choice(words: _Clause, choices: Sequence[JsonValue], chosen: set[str]) -> JsonValue:
    for choice in choices:
        if isinstance(choice, str) and words.take(re.compile(rf"\b{re.escape(choice)}\b", re.I)) is not None:
            return choice
    said = set(concepts(words.text)) - chosen
    parts = {choice: set(concepts(choice)) for choice in choices if isinstance(choice, str)}
    for choice, own in parts.items():
        if own and own <= said:
            return choice
    # such as "the teapot", if only one choice has that word
    once = {word for word, count in Counter(word for own in parts.values() for word in own).items() if count == 1}
    named = [choice for choice, own in parts.items() if own & once & said]
    if len(named) == 1:
        return named[0]
    return choices[0] if len(choices) == 1 else None


def _find_boolean(words: _Clause, name: str) -> JsonValue:
    if words.take(_PATTERNS["false"]) is not None:
        return False
    if set(_parts(name)) & set(_WORD.findall(words.text.lower())):
        return re.search(r"\b(?:not|no|don't|without)\b", words.text, re.I) is None
    return True if words.take(_PATTERNS["true"]) is not None else None


def _find_items(words: _Clause, name: str, schema: JsonObject, chosen: set[str]) -> JsonValue:
    items = schema.get("items")
    item = items if isinstance(items, dict) else {}
    found: list[JsonValue] = []
    if schema_type(item) in ("number", "integer") or _choices(item):
        while (value := _find_typed(words, name, item, chosen)) is not None:
            if _choices(item) and value in found:
                break
            found.append(value)
    return found or None


def _label(name: str) -> str:
    """A pattern for the argument's own name as people write it; empty if the name has no words."""
    own = [word for word in _parts(name) if word != "id"]
    return r"\b" + r"\s+".join(re.escape(word) for word in own) + r"\b" if own else ""


def _take_labelled(words: _Clause, label: str, others: Sequence[str]) -> str | None:
    """The words after the argument's own name, up to another argument's name: `with name Ada Lovelace and subject
    Lunch`.
    """
    if not label:
        return None
    before = r"(?:^|[\0,;:(]|\b(?:with|and|the|an?|my|its|as|for|of|by|set|where|whose)\b)\s*"
    end = rf"[,;]?\s*(?:\b(?:and|with)\b)?\s*(?:\b(?:the|an?|my)\b\s*)?(?:{'|'.join(others)})" if others else "$"
    link = r"\s*(?:=|:|\b(?:is|to|called|named|saying)\b)?\s*"
    return words.take(re.compile(rf"{before}{label}{link}(?!\s)([^\0]{{1,500}}?)(?=\s*(?:{end}|\0|$))", re.I))


def _is_plain_text(name: str, schema: JsonObject) -> bool:
    is_text = schema_type(schema) == "string" and not _choices(schema) and schema.get("format") is None
    return is_text and not _is_identifier(name)


def _find_text(words: _Clause, name: str, schema: JsonObject, tool: set[str]) -> JsonValue:
    """Plain text for a required argument: the quoted text, else the rest of the clause (see `_about`)."""
    match schema_type(schema):
        case "string" if _is_plain_text(name, schema):
            quoted = words.take(_QUOTED)
            text = quoted if quoted is not None else _about(words, tool)
            if quoted is None:
                words.text = ""
            return text or None
        case "array" if not _is_identifier(name):
            items = schema.get("items")
            if not isinstance(items, dict) or schema_type(items) == "string":
                return [part for part in re.split(r"\s*(?:,|\band\b)\s*", _about(words, tool)) if part] or None
        case "object":
            if inner := properties(schema):
                filled = fill_arguments(words.text, ToolSpec(name, "", schema))
                return filled.arguments if inner and not filled.missing else None
            if "search" in concepts(name):  # what search engines call a query
                text = " ".join(piece for piece in _about(words, tool).split() if not _is_empty(piece))
                return {"query": {"multi_match": {"query": text, "fields": ["*"]}}, "size": 3} if text else None
            return {}
        case _:
            pass
    return None


def _take_quoted(words: _Clause, schema: JsonObject) -> str | None:
    return words.take(_QUOTED) if schema_type(schema) == "string" and not _choices(schema) else None


def _is_identifier(name: str) -> bool:
    return _parts(name)[-1:] in (["id"], ["index"], ["indices"])


def _parts(name: str) -> list[str]:
    return _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", name).lower())


def _number(text: str | None, schema: JsonObject) -> JsonValue:
    if text is None:
        return None
    plain = text.replace(",", "").lower()
    value = float(_NUMBER_WORDS[plain]) if plain in _NUMBER_WORDS else float(plain)
    return int(value) if value.is_integer() else None if schema_type(schema) == "integer" else value


def _about(words: _Clause, tool: Iterable[str]) -> str:
    """The clause without the words that chose the tool, and without filler words at its ends."""
    chosen = set(tool)
    pieces: list[str] = []
    for piece in re.findall(r"\S+", words.text):
        plain = "".join(_WORD.findall(piece.lower().removesuffix("'s")))
        if piece != "\0" and not (plain and plain not in _STOP_WORDS and _concept(plain) in chosen):
            pieces.append(piece)
    while pieces and _is_empty(pieces[0]):
        pieces.pop(0)
    while pieces and _is_empty(pieces[-1]):
        pieces.pop()
    return " ".join(pieces).strip(" \t.,;:!?\"'")


def _is_empty(piece: str) -> bool:
    plain = "".join(_WORD.findall(piece.lower().removesuffix("'s")))
    return plain in _STOP_WORDS or not plain
