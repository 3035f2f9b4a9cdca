"""Any history that a thread may come to, whichever providers it went through: for property tests of their requests."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    MediaSource,
    Message,
    Opaque,
    ReasoningBlock,
    Role,
    TextBlock,
    ToolCall,
    ToolResult,
    UrlSource,
    VideoBlock,
)

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

_SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
_FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
_THOUGHT: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "c2VhbGVk",
    "status": None,
}
_SEARCHED: JsonObject = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x", "sources": None},
}

# What each provider mints, under the model that the tests of that provider ask.
OPAQUES: Sequence[Opaque] = (
    Opaque("bedrock/converse", "anthropic.claude-sonnet-4-5-20250929-v1:0", "signature", "c2ln"),
    Opaque("bedrock/converse", "anthropic.claude-sonnet-4-5-20250929-v1:0", "redacted", "c2VhbGVk"),
    Opaque("anthropic/v1/messages", "claude-sonnet-4-5", "signature", "c2ln"),
    Opaque("anthropic/v1/messages", "claude-sonnet-4-5", "redacted_thinking", "c2VhbGVk"),
    Opaque("anthropic/v1/messages", "claude-sonnet-4-5", "item", json.dumps(_SEARCH)),
    Opaque("anthropic/v1/messages", "claude-sonnet-4-5", "item", json.dumps(_FOUND)),
    Opaque("anthropic/v1/messages", "claude-opus-4-1", "signature", "b3RoZXI="),
    Opaque("openai/v1/responses", "gpt-5.6", "reasoning_item", json.dumps(_THOUGHT)),
    Opaque("openai/v1/responses", "gpt-5.6", "reasoning_item", json.dumps({"type": "reasoning", "id": "rs_2"})),
    Opaque("openai/v1/responses", "gpt-5.6", "output_item", json.dumps(_SEARCHED)),
    Opaque("openai/v1/responses", "gpt-5.6", "message_item", '{"phase":"commentary"}'),
    Opaque("openai/v1/responses", "o3", "reasoning_item", json.dumps(_THOUGHT)),
    Opaque("bedrock/responses", "us.openai.gpt-5.6", "reasoning_item", json.dumps(_THOUGHT)),
    Opaque("gemini/v1beta/generatecontent", "gemini-3-pro", "thought_signature", "c2ln"),
    Opaque("somebody/else", "model", "signature", "not json"),
)

_words = st.one_of(st.sampled_from(["", " ", "hi"]), st.text(max_size=6))
_ids = st.one_of(st.sampled_from(["a", "b", "c|d"]), st.text(max_size=3))
_sources: st.SearchStrategy[MediaSource] = st.one_of(
    st.builds(
        Base64Source,
        st.sampled_from([PNG, "AAAA", "!", ""]),
        st.sampled_from(["image/png", "text/plain", "application/pdf", "x/y"]),
    ),
    st.builds(
        UrlSource, st.sampled_from(["https://x.example/k.png", "data:image/png;base64,aGk=", "s3://b/k", "ftp:"])
    ),
    st.builds(FileSource, st.just("file-1"), st.sampled_from([None, "openai", "anthropic", "gemini"])),
)
_parts: st.SearchStrategy[ContentBlock] = st.one_of(
    st.builds(TextBlock, _words),
    st.builds(ImageBlock, _sources, st.one_of(st.none(), _words)),
    st.builds(AudioBlock, _sources),
    st.builds(VideoBlock, _sources),
    st.builds(DocumentBlock, _sources, st.one_of(st.none(), _words)),
)


def _blocks(opaques: Sequence[Opaque]) -> st.SearchStrategy[ContentBlock]:
    opaque = st.sampled_from([None, *opaques])
    calls = st.sampled_from(["add", "a b", "shop.find", ""]), st.sampled_from(["", "{}", '{"a":1}', "["])
    return st.one_of(
        _parts,
        st.builds(ToolCall, _ids, *calls, st.just(-1), opaque),
        st.builds(ToolResult, _ids, st.lists(_parts, max_size=3).map(tuple), st.booleans()),
        st.builds(ReasoningBlock, _words, st.just(-1), opaque),
        st.builds(TextBlock, _words, st.just(-1), opaque),
    )


def any_histories(*more: Opaque) -> st.SearchStrategy[list[Message]]:
    """Histories with and without order. `more`: opaque parts beside those of `OPAQUES`."""
    roles: st.SearchStrategy[Role] = st.sampled_from(
        ["system", "developer", "user", "assistant", "reasoning", "tool", "assistant", "tool"]
    )
    turns = st.sampled_from([None, "t1", "t2", "t3"])
    drawn = st.tuples(roles, st.lists(_blocks((*OPAQUES, *more)), max_size=4), turns)
    return st.lists(drawn, max_size=10).map(_as_messages)


def _as_messages(drawn: Sequence[tuple[Role, list[ContentBlock], str | None]]) -> list[Message]:
    return [
        Message(f"m{place}", role, tuple(_of_role(role, blocks)), turn_id=None if role == "user" else turn)
        for place, (role, blocks, turn) in enumerate(drawn)
    ]


def _of_role(role: Role, blocks: Sequence[ContentBlock]) -> Sequence[ContentBlock]:
    """The blocks that may stand in a message of the role (messages.Message)."""
    if role == "tool":
        results = [block for block in blocks if isinstance(block, ToolResult)]
        return [*results[:1]] or [ToolResult("a", tuple(b for b in blocks if isinstance(b, TextBlock)))]
    if role == "assistant":
        return [block for block in blocks if isinstance(block, TextBlock | ToolCall)]
    if role == "reasoning":
        return [block for block in blocks if isinstance(block, ReasoningBlock)][:1] or [ReasoningBlock("hm")]
    if role == "user":
        return [block for block in blocks if not isinstance(block, ToolCall | ToolResult | ReasoningBlock)]
    return [TextBlock("".join(block.text for block in blocks if isinstance(block, TextBlock)))]
