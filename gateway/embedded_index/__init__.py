"""The inside of the embedded search engine (`search_engines/embedded.py` is the part).

search.py        a search: sorted hits, a page of them, aggregations
evaluation.py    the documents that a query finds, with their scores
aggregation.py   computes aggregations over all hits
budget.py        bounds the work of a search
documents.py     stores the documents and looks up their fields

Below: the query language, in `query_dsl/`.
"""
