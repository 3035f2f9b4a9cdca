"""The process around the application, and its connections.

process.py         the socket, uvicorn, the signals
reloading.py       reads the configuration file again while the process serves
reload_outcome.py  what came of that, for the command that asked for it
pid_file.py        finds the process that serves a store
connection.py      one client's connection
agents_client.py   asks a running gateway for its agents, for the command line
"""
