"""Documents in SQLite that are found by the query DSL: in the file of the embedded search engine, and in the store's.

search.py        a search: sorted hits, a page of them, aggregations
evaluation.py    the documents that a query finds, with their scores
words.py         the words of texts, and how relevant they are
columns.py       where the values of a field are
aggregation.py   computes aggregations over all hits
documents.py     the indices of the embedded search engine
entries.py       stores what a document is found by
budget.py        bounds the work of a search
search_turns.py  the searches of several callers take turns

Below: the query language, in `query_dsl/`.
"""
