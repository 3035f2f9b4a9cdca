"""Anthropic's Messages API.

messages_api.py  facts of its wire: models, reasons, counts, addresses
options.py       writes a run's options
request.py       writes a model request
reader.py        reads an answer
"""
