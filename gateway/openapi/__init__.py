"""What the gateway says of itself: its interface as an OpenAPI document, and as a page.

routes.py        where the two are served
document.py      the document, put together from the protocols' parts
gateway_paths.py the part of the gateway's own paths
page.py          any such document as HTML
description.py   what a protocol says of its paths
shapes.py        pieces of JSON Schemas, for the bodies

Above: the composition root; the protocols, which describe themselves. Below: messages (JSON's types).
"""
