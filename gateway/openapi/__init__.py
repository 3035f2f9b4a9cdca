"""What the gateway says of itself: its interface as an OpenAPI document, and as a page.

routes.py     where the two are served
document.py   the paths, and what each of them takes and gives
schemas.py    the bodies
page.py       any such document as HTML

Above: the composition root. Below: messages (JSON's types).
"""
