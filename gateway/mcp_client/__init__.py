"""The inside of the MCP tool (`tools/mcp_server.py` is the part).

connection.py      a connection that is kept up
failures.py        why a server is not there, in words
transports.py      a server that is a program, or behind a URL
child_process.py   a program that is spoken to line by line

Below: tool_output, clock, errors. The `mcp` package and what belongs to it is known here and in the part alone.
"""
