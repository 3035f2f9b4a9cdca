"""The process around the application, and its connections.

process.py     the socket, uvicorn, the signals
connection.py  one client's connection
"""
