"""The inside of the embedded search engine (`search_engines/embedded.py` is the part).

evaluation.py    which documents a query finds, how well, in which order
aggregation.py   what is counted and measured of all that it finds
budget.py        how much a search may do
documents.py     the documents, and how their fields are looked up

Below: the formats in `wire/`.
"""
