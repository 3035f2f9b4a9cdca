"""The bodies of requests and answers as JSON Schemas (2020-12), for the OpenAPI document.

AG-UI's own types are given as far as the gateway reads or writes them; https://docs.ag-ui.com has them whole.
"""

from __future__ import annotations

from gateway.messages import JsonObject, JsonValue


def _object(required: list[str], properties: JsonObject, description: str = "") -> JsonObject:
    names: list[JsonValue] = [*required]
    schema: JsonObject = {"type": "object", "properties": properties}
    if names:
        schema["required"] = names
    return {"description": description, **schema} if description else schema


def _list(item: str) -> JsonObject:
    return {"type": "array", "items": _ref(item)}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


def _text(description: str = "") -> JsonObject:
    return {"type": "string", "description": description} if description else {"type": "string"}


def _nullable(schema: str, description: str = "") -> JsonObject:
    return {"type": [schema, "null"], "description": description} if description else {"type": [schema, "null"]}


def _words(*words: str) -> JsonObject:
    values: list[JsonValue] = [*words]
    return {"type": "string", "enum": values}


_TIME: JsonObject = {"type": "string", "format": "date-time"}
_MAYBE_TIME: JsonObject = {"type": ["string", "null"], "format": "date-time"}
_MAYBE_COUNT: JsonObject = {"type": ["integer", "null"], "minimum": 0}
_NEXT = _nullable("string", "Send it as `cursor` for the next page; null on the last one.")

SCHEMAS: JsonObject = {
    "Id": {
        "type": "string",
        "minLength": 1,
        "maxLength": 256,
        "pattern": "^[^\\u0000-\\u001f\\u007f]+$",
        "description": "1 to 256 characters, none of them a control character.",
    },
    "Problem": _object(
        ["type", "title", "status", "detail", "code", "errors"],
        {
            "type": _text(),
            "title": _text("The status in words."),
            "status": {"type": "integer"},
            "detail": _text("What was wrong, then what would be right."),
            "code": _text("Stable: programs match on it."),
            "errors": _list("FieldProblem"),
            "missing": {**_list("Message"), "description": "With `stale_history`: messages that were not seen."},
            "after": _nullable(
                "string", "With `stale_history`: the id of the message that they follow; null for none."
            ),
        },
        "RFC 9457 problem details.",
    ),
    "FieldProblem": _object(
        ["pointer", "detail"],
        {"pointer": _text("RFC 6901, into the body."), "detail": _text("What is wrong with the field.")},
    ),
    "AgentList": _object(["agents"], {"agents": _list("Agent")}),
    "Agent": _object(
        ["id", "name", "description", "type", "url"],
        {"id": _text(), "name": _text(), "description": _text(), "type": _text(), "url": _text("Where to POST runs.")},
    ),
    "AgentCapabilities": _object(
        [],
        {
            "identity": {"type": "object"},
            "transport": {"type": "object"},
            "tools": {"type": "object"},
            "output": {"type": "object"},
            "state": {"type": "object"},
            "multiAgent": {"type": "object"},
            "reasoning": {"type": "object"},
            "multimodal": {"type": "object"},
            "execution": {"type": "object"},
            "humanInTheLoop": {"type": "object"},
        },
        "AG-UI AgentCapabilities: groups that are left out are not declared.",
    ),
    "RunAgentInput": _object(
        ["threadId", "runId", "messages"],
        {
            "threadId": _ref("Id"),
            "runId": _ref("Id"),
            "messages": _list("Message"),
            "protocolVersion": {
                "type": "string",
                "pattern": "^[0-9]+\\.[0-9]+$",
                "description": "`1.0`; absent: a client from before 1.0, which gets only what it knows.",
            },
            "parentRunId": _nullable("string"),
            "state": {"description": "The shared state as the client has it; any JSON."},
            "tools": {**_list("Tool"), "description": "The tools that the client runs."},
            "context": {**_list("Context"), "description": "What the model should know."},
            "forwardedProps": {
                "description": (
                    "Passed on untouched; any JSON. `agui_gateway.seen` is the id of the last message that the client "
                    "knows, null for none: where the thread has messages behind it, the run is refused with "
                    "`stale_history`. `toolChoice` (`{type: function, function: {name}}`) names one of `tools`, which "
                    "the model's first answer has to call; a new thread whose runs all have one is not listed."
                ),
            },
            "resume": {**_list("ResumeEntry"), "description": "Answers to open interrupts."},
        },
        "AG-UI RunAgentInput. What is unknown is dropped with a warning in the log; null is the same as absent.",
    ),
    "Tool": _object(
        ["name", "description"],
        {
            "name": _text(),
            "description": _text(),
            "parameters": {"description": "A JSON Schema; absent: no arguments."},
            "metadata": {"type": "object"},
        },
    ),
    "Context": _object(["description", "value"], {"description": _text(), "value": _text()}),
    "ResumeEntry": _object(
        ["interruptId", "status"],
        {
            "interruptId": _text(),
            "status": _words("resolved", "cancelled"),
            "payload": _ref("ApprovalAnswer"),
        },
    ),
    "ApprovalAnswer": _object(
        ["approved"],
        {
            "approved": {"type": "boolean"},
            "editedArgs": {"type": "object", "description": "Arguments to run the call with instead."},
            "reason": _text("Told to the model."),
        },
    ),
    "Message": _object(
        ["role"],
        {
            "id": _text("Minted where it is absent."),
            "role": _words("developer", "system", "user", "assistant", "tool", "reasoning"),
            "content": {
                "description": "Text; or parts, in a user's or a tool's message.",
                "anyOf": [{"type": "string"}, _list("ContentPart"), {"type": "null"}],
            },
            "name": _text(),
            "toolCalls": {**_list("ToolCall"), "description": "Of an assistant's message."},
            "toolCallId": _text("Of a tool's message: the call it answers."),
            "error": _text("Of a tool's message: what went wrong."),
            "encryptedValue": _text("Only its provider reads it; send it back as it came."),
            "metadata": {"type": "object"},
        },
        "An AG-UI Message.",
    ),
    "ContentPart": _object(
        ["type"],
        {
            "type": _words("text", "image", "audio", "video", "document", "binary"),
            "text": _text(),
            "source": _ref("Source"),
            "metadata": {"type": "object"},
        },
    ),
    "Source": _object(
        ["type", "value"],
        {
            "type": _words("data", "url", "file"),
            "value": _text("base64, a URL, or a provider's handle."),
            "mimeType": _text("Needed with `data`."),
            "provider": _text(),
        },
    ),
    "ToolCall": _object(
        ["id", "type", "function"],
        {
            "id": _text(),
            "type": {"const": "function"},
            "function": _object(["name", "arguments"], {"name": _text(), "arguments": _text("JSON text.")}),
            "encryptedValue": _text(),
        },
    ),
    "Run": _object(
        ["runId", "threadId", "agentId", "status", "error", "usage", "createdAt", "startedAt", "finishedAt"],
        {
            "runId": _ref("Id"),
            "threadId": _ref("Id"),
            "agentId": _text(),
            "status": _words("queued", "running", "completed", "interrupted", "cancelled", "failed"),
            "error": {"anyOf": [_ref("RunError"), {"type": "null"}]},
            "usage": _list("Usage"),
            "createdAt": _TIME,
            "startedAt": _MAYBE_TIME,
            "finishedAt": _MAYBE_TIME,
        },
    ),
    "RunError": _object(["code", "message"], {"code": _text("As in RUN_ERROR."), "message": _text()}),
    "Usage": _object(
        [
            "provider",
            "model",
            "inputTokens",
            "outputTokens",
            "totalTokens",
            "reasoningTokens",
            "cachedInputTokens",
            "cacheWriteInputTokens",
        ],
        {
            "provider": _text("As in the configuration: `openai/v1/responses`; in events the vendor alone: `openai`."),
            "model": _text(),
            "inputTokens": _MAYBE_COUNT,
            "outputTokens": _MAYBE_COUNT,
            "totalTokens": _MAYBE_COUNT,
            "reasoningTokens": _MAYBE_COUNT,
            "cachedInputTokens": _MAYBE_COUNT,
            "cacheWriteInputTokens": _MAYBE_COUNT,
        },
        "Tokens of one provider and model; null where the provider did not say.",
    ),
    "ThreadList": _object(["threads", "nextCursor"], {"threads": _list("Thread"), "nextCursor": _NEXT}),
    "Thread": _object(
        ["id", "title", "agentId", "createdAt", "updatedAt"],
        {
            "id": _ref("Id"),
            "title": _nullable("string"),
            "agentId": _text("The agent that ran last."),
            "createdAt": _TIME,
            "updatedAt": _TIME,
        },
    ),
    "ThreadChange": _object(
        ["title"],
        {
            "title": {
                "type": ["string", "null"],
                "minLength": 1,
                "maxLength": 500,
                "description": "null takes the title away.",
            }
        },
    ),
    "MessageList": _object(
        ["messages", "incomplete", "interrupts", "nextCursor"],
        {
            "messages": _list("Message"),
            "incomplete": {
                "type": "array",
                "items": _ref("Id"),
                "description": "Those of the page's messages that were cut off, because their run failed or was"
                " stopped.",
            },
            "interrupts": {
                "type": "array",
                "items": _ref("Interrupt"),
                "description": "The thread's questions that wait for an answer, the same on each page.",
            },
            "nextCursor": _NEXT,
        },
    ),
    "Interrupt": _object(
        ["id", "reason", "message"],
        {
            "id": _text("What an answer in `resume` names as `interruptId`."),
            "reason": _text("`tool_call`: a tool is not run without a person's approval."),
            "message": _text(),
            "toolCallId": _text("The call that waits."),
            "responseSchema": {"type": "object", "description": "What the answer's `payload` has to be."},
            "expiresAt": _TIME,
            "metadata": {"type": "object"},
        },
        "An AG-UI interrupt.",
    ),
    "ApprovalList": _object(["approvals", "nextCursor"], {"approvals": _list("Approval"), "nextCursor": _NEXT}),
    "Approval": _object(
        [
            "id",
            "owner",
            "threadId",
            "agentId",
            "interruptId",
            "toolCallId",
            "tool",
            "arguments",
            "responseSchema",
            "createdAt",
            "expiresAt",
        ],
        {
            "id": _text("Opaque, and no other approval's: what POST /approvals/{approvalId} takes."),
            "owner": _text("Whose conversation it is: the name of a key, or a visitor's."),
            "threadId": _ref("Id"),
            "agentId": _text("The agent that asks."),
            "interruptId": _text("The interrupt's id, as the conversation's own client has it."),
            "toolCallId": _text(),
            "tool": _text("What is to be run."),
            "arguments": {"type": "object", "description": "What it is to be run with."},
            "responseSchema": {
                "type": ["object", "null"],
                "description": "What an AG-UI client's answer has to be; its `editedArgs` are the arguments here.",
            },
            "createdAt": _TIME,
            "expiresAt": _MAYBE_TIME,
        },
    ),
    "ApprovalDecision": _object(
        ["approved"],
        {
            "approved": {"type": "boolean"},
            "arguments": {
                "type": ["object", "null"],
                "description": "What to run it with instead; they have to fit the tool.",
            },
            "reason": _nullable("string", "Told to the model where the call is not approved."),
        },
    ),
    "StartedRun": _object(
        ["runId", "threadId", "agentId"],
        {"runId": _ref("Id"), "threadId": _ref("Id"), "agentId": _text()},
        "A run of the thread's owner.",
    ),
    "VisitorRequest": _object([], {"visitorToken": _nullable("string", "The token that the visitor has.")}),
    "Visitor": _object(
        ["visitorToken", "expiresAt", "renewed"],
        {
            "visitorToken": _text("Opaque; keep it where the site's other pages find it."),
            "expiresAt": _TIME,
            "renewed": {"type": "boolean", "description": "For the visitor whose token was sent; else for a new one."},
        },
    ),
    "Health": _object(["status"], {"status": {"const": "ok"}}),
    "Readiness": _object(
        ["status", "problems", "warnings"],
        {
            "status": _words("ready", "unavailable"),
            "problems": {"type": "array", "items": _text(), "description": "Why requests are not served."},
            "warnings": {"type": "array", "items": _text(), "description": "What works less well, such as tools."},
        },
    ),
}
