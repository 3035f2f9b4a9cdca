"""The inside of the MCP tool (`tools/mcp_server.py` is the part).

connection.py         a connection that reconnects by itself
failures.py           messages for a server that cannot be reached
transports.py         the transports: a program, or a URL
checked_transport.py  requests to a server that a caller named, through the HTTP client that checks them
child_process.py      a program that reads and writes lines

Below: http_client, tool_output, clock, errors. Only this package and the part import the `mcp` package.
"""
