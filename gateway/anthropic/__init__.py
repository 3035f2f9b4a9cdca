"""Anthropic's Messages API.

messages_api.py  facts of its wire: models, reasons, counts, addresses
request.py       a model request in its words
"""
