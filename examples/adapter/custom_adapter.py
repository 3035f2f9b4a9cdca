"""A protocol of one's own: a question in, the answer's words out, at once or as they come.

The last line makes it a part: in a file of `gateway/protocols`, or behind an entry point of the group
`gateway.protocols`, every gateway has it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from gateway.adapters import AdapterApp, AdapterRequest, AgentFunction, ProtocolAdapter
from gateway.errors import InvalidRequestError


class QuestionAdapter(ProtocolAdapter):
    """`POST /ask` with `question`, and `conversation` where it goes on with one."""

    def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> Any:
        @app.post("/ask")
        async def ask(request: AdapterRequest) -> Any:
            response = await func(self._convert_request(request.data))
            return self._convert_response(response)

        @app.post("/ask/words")
        async def ask_for_words(request: AdapterRequest) -> AsyncIterator[str]:
            return self._words(func, request.data)

        return ask

    async def _words(self, func: AgentFunction, question: Any) -> AsyncIterator[str]:
        answers = set()
        async for frame in func(self._convert_request(question)):
            if frame["object"] == "message" and frame["type"] == "message":
                answers.add(frame["id"])
            if frame["object"] == "content" and frame.get("delta") and frame["msg_id"] in answers:
                yield frame["text"]

    def _convert_request(self, body: Any) -> dict[str, Any]:
        """A question as a request of the Agent API."""
        if not isinstance(body, dict) or not isinstance(body.get("question"), str):
            raise InvalidRequestError("question is missing; it must be a text")
        message = {"role": "user", "type": "message", "content": [{"type": "text", "text": body["question"]}]}
        return {"input": [message], "session_id": body.get("conversation")}

    def _convert_response(self, response: dict[str, Any]) -> dict[str, Any]:
        """The words of the answer, and what a next question goes on with."""
        answers = [message for message in response["output"] if message["type"] == "message"]
        words = [content["text"] for message in answers for content in message["content"] if content["type"] == "text"]
        return {"answer": "".join(words), "conversation": response["session_id"]}


PROTOCOL = QuestionAdapter().protocol("questions")
