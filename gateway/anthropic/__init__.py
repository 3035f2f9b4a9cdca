"""Anthropic's Messages API.

messages_api.py  facts of its wire: models, reasons, counts, addresses
options.py       a run's options in its words
request.py       writes a model request
reader.py        reads an answer
"""
