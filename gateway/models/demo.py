"""A demonstration model without a network, a key or a language model: it matches words, and says so.

It chooses among the offered tools, frontend tools too, by their names, descriptions and schemas. It fills their
arguments from the user's words and makes its answer from their results. It shows everything else (streams, tools,
approvals, reasoning) on any machine, and always does the same. Its choices and phrases are in `demo/`.

`model_parameters`: `words_per_second` (the speed of its text, 0 for no pauses) and `reasoning` (whether it shows its
reasons).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from gateway.agent import ModelSettings
from gateway.clock import Clock
from gateway.demo.plan import pieces_of, plan_answer
from gateway.demo.situation import Answered, Situation
from gateway.errors import ConfigurationError
from gateway.events import Events, StopReason, Usage
from gateway.messages import TextBlock, ToolCall
from gateway.model import AnswerOptions, ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest
from gateway.options.generation import OneTool
from gateway.providers.answer_builder import AnswerBuilder
from gateway.turns.client_words import is_client_words

NAME = "demo"
_READ_CHARACTERS = 2_000  # of the user's words; matching more would only take time


class DemoModel:
    """One demo model. The request alone decides its answer."""

    provider = NAME
    capabilities = ModelCapabilities(
        reasoning=True,
        image_input=True,
        document_input=True,
        options=AnswerOptions(forced_tools=frozenset({"one", "any"})),
    )

    def __init__(
        self, clock: Clock, *, model_id: str = NAME, words_per_second: float = 60.0, reasoning: bool = True
    ) -> None:
        self.model_id = model_id
        self._clock = clock
        self._pause_seconds = 1 / words_per_second if words_per_second > 0 else 0.0
        self._reasoning = reasoning

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As model.Model says; never raises."""
        plan = plan_answer(_situation(request))
        builder = AnswerBuilder(request, self.provider, self.model_id)
        said, key = 0, 0
        for kind, piece in pieces_of(plan, self._reasoning):
            said += 1
            if kind == "reasoning":
                builder.reasoning("reasoning", piece)
            elif kind == "call":
                builder.close("reasoning")
                builder.close(key)
                key = said
                builder.tool_started(key, None, piece)
            elif kind == "arguments":
                builder.tool_arguments(key, piece)
            else:
                builder.close("reasoning")
                builder.text("text", piece)
            if self._pause_seconds:
                yield builder.take()
                await self._clock.sleep(self._pause_seconds)
        heard = sum(len(message.text.split()) for message in request.messages)
        builder.usage(Usage(self.provider, self.model_id, input_tokens=heard, output_tokens=said))
        builder.finish(StopReason.END_TURN)
        yield builder.take()

    async def close(self) -> None:
        return None


def _situation(request: ModelRequest) -> Situation:
    """The user's last message in the request, and the calls since."""
    words, media = "", 0
    calls: dict[str, ToolCall] = {}
    answered: list[Answered] = []
    for message in request.messages:
        if message.role == "user":
            texts = [block.text for block in message.content if isinstance(block, TextBlock)]
            words, answered = "".join(text for text in texts if not is_client_words(text))[:_READ_CHARACTERS], []
            media = len(message.content) - len(texts)
        for call in message.tool_calls:
            calls[call.call_id] = call
        if (result := message.tool_result) is not None and result.call_id in calls:
            answered.append(Answered(calls[result.call_id], result))
    specs, choice = request.tools, request.tool_choice
    if type(choice) is OneTool:
        specs = tuple(spec for spec in specs if spec.name == choice.name)
    return Situation(words, media, tuple(answered), specs, choice != "none")


def open_demo(settings: ModelSettings, environment: ModelEnvironment) -> DemoModel:
    """As model.ModelProvider says."""
    parameters = settings.model_parameters
    pace = parameters.get("words_per_second", 60.0)
    if isinstance(pace, bool) or not isinstance(pace, int | float) or not 0 <= pace < float("inf"):
        raise ConfigurationError(f"words_per_second is {pace!r}; it must be a number, 0 for no pauses")
    reasoning = parameters.get("reasoning", True)
    if not isinstance(reasoning, bool):
        raise ConfigurationError(f"reasoning is {reasoning!r}; it must be true or false")
    return DemoModel(
        environment.clock, model_id=settings.model_id or NAME, words_per_second=float(pace), reasoning=reasoning
    )


PROVIDER = ModelProvider(NAME, open_demo, needs_model_id=False)
