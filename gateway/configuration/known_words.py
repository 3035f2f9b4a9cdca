"""Words of other programs' files, and the words here that mean the same.

Above: reading and checks, which hint at them: by their letters they are nearer to something else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

OPENAI_CHAT: Final = "openai/v1/chat/completions"
_OF_MODELS: Final = {
    **dict.fromkeys(("base_url", "baseurl", "api_base", "api_url", "url"), "endpoint"),
    **dict.fromkeys(("api_key", "apikey", "key", "token"), "credential"),
    **dict.fromkeys(("provider", "vendor"), "model_provider"),
    **dict.fromkeys(("model", "model_name", "name"), "model_id"),
}
_COMPATIBLE: Final = f"{OPENAI_CHAT}' with the program's 'endpoint"
_PROVIDERS: Final = {
    "ollama": f"{OPENAI_CHAT}' with 'endpoint: http://127.0.0.1:11434/v1",
    **dict.fromkeys(("openrouter", "vllm", "litellm", "lmstudio", "llamacpp", "groq", "deepseek"), _COMPATIBLE),
    **dict.fromkeys(("azure", "mistral", "together"), _COMPATIBLE),
    **dict.fromkeys(("gpt", "chatgpt"), OPENAI_CHAT),
    "claude": "anthropic/v1/messages",
    **dict.fromkeys(("google", "vertex", "vertexai"), "gemini/v1beta/generatecontent"),
    **dict.fromkeys(("aws", "amazon"), "bedrock/converse"),
}
_TOOLS: Final = dict.fromkeys(("mcp", "mcptool", "mcptoolset", "mcpservertool"), "McpServer")
_NAMES: Final = {"model provider": _PROVIDERS, "tool type": _TOOLS}
_VARIABLES: Final = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
}
_FAMILIES: Final = {"claude": "anthropic/v1/messages", "gemini": "gemini/v1beta/generatecontent"}


def key_for(key: str, known: Collection[str], credential: str) -> str | None:
    """The key here that means the same as such a key in the section of a model, or of an agent around it; None: there
    is none, or it is another section. `known` are the section's keys, `credential` is the result of `credential_for`.
    """
    word = _OF_MODELS.get(key.lower())
    if word is None or not ("model_provider" in known or "system_prompt" in known):
        return None
    word = credential if word == "credential" else word
    return word if "model_provider" in known else f"model: {{{word}}}" if " " in word else f"model.{word}"


def credential_for(provider: object, *, is_file: bool) -> str:
    """How a key of that model provider is given, in a file or in a request; OpenAI's where it is unknown."""
    vendor = provider.partition("/")[0] if isinstance(provider, str) else ""
    vendor, variable = (vendor, _VARIABLES[vendor]) if vendor in _VARIABLES else ("openai", _VARIABLES["openai"])
    value = f'"${{env:{variable}}}"' if is_file else "..."
    return f"credential: {{{vendor}_api_key: {value}}}"


def name_for(name: str, what: str) -> str | None:
    """The name here of a part that others call by that name. `what`: `model provider` or `tool type`."""
    return _NAMES.get(what, {}).get(name.lower().replace("-", "").replace("_", ""))


def model_for(name: str) -> str:
    """The `model` section of the model that others call so."""
    provider = next((of for family, of in _FAMILIES.items() if name.lower().startswith(family)), OPENAI_CHAT)
    return f"model: {{model_provider: {provider}, model_id: {name}}}"
