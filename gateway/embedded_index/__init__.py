"""The inside of the embedded search engine (`search_engines/embedded.py` is the part).

search.py        a search: hits in their order, a page of them
evaluation.py    which documents a query finds, and how well
aggregation.py   what is counted and measured of all that it finds
budget.py        how much a search may do
documents.py     the documents, and how their fields are looked up

Below: the query language, in `query_dsl/`.
"""
