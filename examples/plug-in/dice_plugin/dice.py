import random

from gateway.agent import ToolSettings
from gateway.messages import ContentBlock, JsonObject, TextBlock, ToolSpec
from gateway.tool import SingleTool, Toolbox, ToolContext, ToolEnvironment, ToolType

SIDES: JsonObject = {"type": "integer", "minimum": 2}
SCHEMA: JsonObject = {"type": "object", "properties": {"sides": SIDES}, "required": ["sides"]}


class Dice:
    def __init__(self, name: str) -> None:
        self.spec = ToolSpec(name, "Roll a die.", SCHEMA)

    async def call(self, arguments: JsonObject, context: ToolContext) -> tuple[ContentBlock, ...]:
        sides = arguments["sides"]
        assert isinstance(sides, int), "the arguments fit the schema"
        return (TextBlock(str(random.randint(1, sides))),)


def open_dice(settings: ToolSettings, environment: ToolEnvironment) -> Toolbox:
    return SingleTool(Dice(settings.name or "dice"))


TOOL_TYPE = ToolType("DiceTool", open_dice)
