"""Documents in SQLite that the query DSL finds: in the file of the embedded search engine, and in the store's.

search.py        a search: sorted hits, a page of them, aggregations
evaluation.py    the documents that a query finds, with their scores
words.py         searches the words of texts, and scores documents by them
columns.py       the SQL for the values of a field
aggregation.py   computes aggregations over all hits
documents.py     the indices of the embedded search engine
near_words.py    the words of a field that are similar to a word
document_values.py  the values of a store's documents that are searched
entries.py       stores the index entries of documents
budget.py        bounds the work of a search
search_slots.py  lets the searches of several callers share one processor

Below: the query language, in `query_dsl/`.
"""
