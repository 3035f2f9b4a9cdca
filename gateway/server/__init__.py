"""The process around the application, and its connections.

process.py     the socket, uvicorn, the signals
reloading.py   the configuration file, read again while the process serves
pid_file.py    which process serves a store
connection.py  one client's connection
"""
