"""What the model families behind Bedrock Converse accept, as data. No other code asks for a family's name.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-supported-models-features.html,
https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html, and the refusals of the service as users
report them. An unknown family gets the strictest rules, which every family accepts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["text", "image", "document", "video", "audio"]
CachePlace: TypeAlias = Literal["tools", "system", "messages"]


@dataclass(frozen=True, slots=True)
class Family:
    """What one family accepts. `pattern` matches the start of the model id without its region prefix.

    `beside_results`: the blocks that one message may have beside tool results. `inside_results`: the media that a tool
    result may contain. `result_status`: a result may say `error`. `signed_reasoning`: reasoning is sent back with its
    signature; other families never get any. `thinking_tags`: the model writes its reasoning into its text between
    these. `one_sampler`: temperature and top_p exclude each other. `forced_tool`: a request can force one tool's call.
    `input_media` and `reasons` are for the capabilities only.

    The options of a run: `samplers` (temperature, top_p), `top_k`, `schema_formats` (an answer's format may be a
    schema), and `effort`, how a request limits reasoning: by a budget of tokens, a level, or a field of its own.
    `blank_stops`: a stop text may be white space.
    """

    name: str
    pattern: str
    beside_results: frozenset[Kind] = frozenset()
    inside_results: frozenset[Kind] = frozenset()
    result_status: bool = False
    signed_reasoning: bool = False
    reasons: bool = False
    thinking_tags: tuple[str, str] | None = None
    system_prompt: bool = True
    one_sampler: bool = False
    forced_tool: bool = False
    cache_places: frozenset[CachePlace] = frozenset()
    input_media: frozenset[Kind] = frozenset({"document"})
    samplers: bool = True
    top_k: bool = False
    schema_formats: bool = False
    effort: Literal["", "budget", "level", "field"] = ""
    blank_stops: bool = True


_ALL_CACHES: frozenset[CachePlace] = frozenset({"tools", "system", "messages"})
_CLAUDE_BESIDE: frozenset[Kind] = frozenset({"text", "image"})
_CLAUDE_INSIDE: frozenset[Kind] = frozenset({"image", "document"})
_PICTURES: frozenset[Kind] = frozenset({"image", "document"})

UNKNOWN = Family("unknown", "")

_CLAUDE = Family(
    "claude",
    r"anthropic\.claude-(3-7|(sonnet|opus)-4-2025)",
    beside_results=_CLAUDE_BESIDE,
    inside_results=_CLAUDE_INSIDE,
    result_status=True,
    forced_tool=True,
    signed_reasoning=True,
    reasons=True,
    cache_places=_ALL_CACHES,
    input_media=_PICTURES,
    top_k=True,
    effort="budget",
    blank_stops=False,
)

# The first match counts: the special before the general.
FAMILIES: tuple[Family, ...] = (
    replace(
        _CLAUDE,
        name="claude without thinking",
        pattern=r"anthropic\.claude-(3-(haiku|sonnet|opus|5)|v2|instant)",
        reasons=False,
        effort="",
    ),
    _CLAUDE,
    replace(_CLAUDE, name="claude 4.1", pattern=r"anthropic\.claude-[a-z]+-4-1", one_sampler=True),
    replace(_CLAUDE, name="claude 4.5", pattern=r"anthropic\.claude-[a-z]+-4-5", one_sampler=True, schema_formats=True),
    replace(
        _CLAUDE,
        name="claude 4.6",
        pattern=r"anthropic\.claude-[a-z]+-4-6",
        one_sampler=True,
        schema_formats=True,
        effort="level",
    ),
    replace(
        _CLAUDE,
        name="claude since 4.7",
        pattern=r"anthropic\.",
        one_sampler=True,
        samplers=False,
        top_k=False,
        schema_formats=True,
        effort="level",
    ),
    Family(
        "nova",
        r"amazon\.nova",
        beside_results=frozenset({"text", "image", "document", "video"}),
        inside_results=frozenset({"image", "document", "video"}),
        result_status=True,
        forced_tool=True,
        reasons=True,
        thinking_tags=("<thinking>", "</thinking>"),
        cache_places=frozenset({"system", "messages"}),
        input_media=frozenset({"image", "document", "video"}),
    ),
    Family("titan", r"amazon\.titan", system_prompt=False),
    Family("early mistral", r"mistral\.(mistral-7b|mixtral-8x7b)", system_prompt=False),
    Family("mistral", r"mistral\."),
    Family("early command", r"cohere\.command-(text|light)", system_prompt=False),
    Family("llama with eyes", r"meta\.llama(3-2-(11|90)b|4)", input_media=_PICTURES),
    Family("llama", r"meta\."),
    Family("gpt-oss", r"openai\.", reasons=True, schema_formats=True, effort="field"),
    Family("reasoning in the open", r"deepseek\.r1|zai\.", reasons=True),
    Family(
        "reasoning in the open, with schemas",
        r"(deepseek|qwen|minimax|moonshot|moonshotai)\.",
        reasons=True,
        schema_formats=True,
    ),
)

_REGION_PREFIX = re.compile(r"^(us|eu|apac|us-gov|jp|au|ca|global)\.")


def bare_model_id(model_id: str) -> str:
    """The model id without its ARN and region group, which only say where it runs."""
    if model_id.startswith("arn:"):
        model_id = model_id.rsplit("/", 1)[-1]
    return _REGION_PREFIX.sub("", model_id)


def family_of(model_id: str) -> Family:
    """The family of a model id or ARN; `UNKNOWN` if the id does not say (application inference profiles)."""
    for segment in reversed(model_id.split("/")):  # a custom model's ARN names its base in the middle
        bare = bare_model_id(segment)
        for family in FAMILIES:
            if re.match(family.pattern, bare):
                return family
    return UNKNOWN
