"""AG-UI's types and its stream, as the API document describes them.

They are given as far as the gateway reads or writes them; https://docs.ag-ui.com has them whole. Below: the pieces of
API descriptions. Above: the protocols that speak AG-UI.
"""

from __future__ import annotations

from gateway.messages import JsonObject
from gateway.openapi.description import answer
from gateway.openapi.shapes import TIME, list_of, nullable, object_of, ref, text, words

_STREAM = """\
Server-sent events: one AG-UI event per `data:` line. `id:` is the decimal number of the event in the run's log,
strictly increasing; only the last frame of an event carries it. Comments keep the connection open and carry none."""

AG_UI_SHAPES: JsonObject = {
    "AgentCapabilities": object_of(
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
    "RunAgentInput": object_of(
        ["threadId", "runId", "messages"],
        {
            "threadId": ref("Id"),
            "runId": ref("Id"),
            "messages": list_of("Message"),
            "protocolVersion": {
                "type": "string",
                "pattern": "^[0-9]+\\.[0-9]+$",
                "description": "`1.0`; absent: a client from before 1.0, which gets only what it knows.",
            },
            "parentRunId": nullable("string"),
            "state": {"description": "The shared state as the client has it; any JSON."},
            "tools": {**list_of("Tool"), "description": "The tools that the client runs."},
            "context": {**list_of("Context"), "description": "What the model should know."},
            "forwardedProps": {
                "description": (
                    "Passed on untouched; any JSON. `agui_gateway.seen` is the id of the last message that the client "
                    "knows, null for none: where the thread has messages behind it, the run is refused with "
                    "`stale_history`. `toolChoice` (`{type: function, function: {name}}`) names one of `tools`, which "
                    "the model's first answer has to call; a new thread whose runs all have one is not listed."
                ),
            },
            "resume": {**list_of("ResumeEntry"), "description": "Answers to open interrupts."},
        },
        "AG-UI RunAgentInput. What is unknown is dropped with a warning in the log; null is the same as absent.",
    ),
    "Tool": object_of(
        ["name", "description"],
        {
            "name": text(),
            "description": text(),
            "parameters": {"description": "A JSON Schema; absent: no arguments."},
            "metadata": {"type": "object"},
        },
    ),
    "Context": object_of(["description", "value"], {"description": text(), "value": text()}),
    "ResumeEntry": object_of(
        ["interruptId", "status"],
        {
            "interruptId": text(),
            "status": words("resolved", "cancelled"),
            "payload": ref("ApprovalAnswer"),
        },
    ),
    "ApprovalAnswer": object_of(
        ["approved"],
        {
            "approved": {"type": "boolean"},
            "editedArgs": {"type": "object", "description": "Arguments to run the call with instead."},
            "reason": text("Told to the model."),
        },
    ),
    "Message": object_of(
        ["role"],
        {
            "id": text("Minted where it is absent."),
            "role": words("developer", "system", "user", "assistant", "tool", "reasoning", "activity"),
            "content": {
                "description": "Text; or parts, in a user's or a tool's message; or an activity's content, an object.",
                "anyOf": [{"type": "string"}, list_of("ContentPart"), {"type": "object"}, {"type": "null"}],
            },
            "name": text(),
            "toolCalls": {**list_of("ToolCall"), "description": "Of an assistant's message."},
            "activityType": text("Of an activity: `agui_gateway.media` is a medium that the model made."),
            "toolCallId": text("Of a tool's message: the call it answers."),
            "error": text("Of a tool's message: what went wrong."),
            "encryptedValue": text("Only its provider reads it; send it back as it came."),
            "metadata": {"type": "object"},
        },
        "An AG-UI Message.",
    ),
    "ContentPart": object_of(
        ["type"],
        {
            "type": words("text", "image", "audio", "video", "document", "binary"),
            "text": text(),
            "source": ref("Source"),
            "metadata": {"type": "object"},
        },
    ),
    "Source": object_of(
        ["type", "value"],
        {
            "type": words("data", "url", "file"),
            "value": text("base64, a URL, or a provider's handle."),
            "mimeType": text("Needed with `data`."),
            "provider": text(),
        },
    ),
    "ToolCall": object_of(
        ["id", "type", "function"],
        {
            "id": text(),
            "type": {"const": "function"},
            "function": object_of(["name", "arguments"], {"name": text(), "arguments": text("JSON text.")}),
            "encryptedValue": text(),
        },
    ),
    "Interrupt": object_of(
        ["id", "reason", "message"],
        {
            "id": text("What an answer in `resume` names as `interruptId`."),
            "reason": text("`tool_call`: a tool is not run without a person's approval."),
            "message": text(),
            "toolCallId": text("The call that waits."),
            "responseSchema": {"type": "object", "description": "What the answer's `payload` has to be."},
            "expiresAt": TIME,
            "metadata": {"type": "object"},
        },
        "An AG-UI interrupt.",
    ),
}


def events_response(description: str) -> JsonObject:
    """An answer that is a stream of AG-UI events."""
    example = 'id: 1\ndata: {"type":"RUN_STARTED","threadId":"thread-1","runId":"run-1"}\n\n'
    content: JsonObject = {"text/event-stream": {"schema": {"type": "string"}, "example": example}}
    return answer(f"{description} {_STREAM}", content)
