"""An MCP server with one tool. The gateway starts it and speaks with it over stdin and stdout."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def forecast(city: str) -> str:
    """Tell the weather forecast of a city."""
    return f"It will be sunny in {city}, with 21 degrees."


server.run("stdio")
