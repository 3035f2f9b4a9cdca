"""The gateway's own API documentation: an OpenAPI document, and a page.

routes.py        serves the two
document.py      builds the document from the protocols' parts
data.py          reads a protocol's part from the `api_document.yaml` of its room; this room's has the gateway's own
page.py          any such document as HTML
description.py   what a protocol gives to describe its paths
shapes.py        pieces of JSON Schemas for bodies

Above: the composition root; the protocols, which describe themselves. Below: messages (JSON's types).
"""
