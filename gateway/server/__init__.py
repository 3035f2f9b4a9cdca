"""The process around the application, and its connections.

process.py         the socket, uvicorn, the signals
asked_work.py      work that a signal asks the process for
reloading.py       reads the configuration file again while the process serves
vacuuming.py       rewrites the store while the process serves
outcome.py         the outcome of that work, for the command that asked for it
pid_file.py        finds the process that serves a store
connection.py      one client's connection
doctor.py          looks at whether a gateway could serve, for the command line
agents_client.py   asks a running gateway for its agents, for the command line
"""
