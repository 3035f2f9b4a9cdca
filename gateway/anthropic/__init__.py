"""Anthropic's Messages API.

messages_api.py  facts of its wire: models, reasons, counts, addresses
request.py       writes a model request
reader.py        reads an answer
"""
