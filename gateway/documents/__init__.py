"""Documents that a store keeps, such as stored agents.

document.py   a document, a kind of documents, and the contract of a store of documents
owned.py      one owner's documents
checks.py     what every store checks before it writes a document
sealing.py    members of documents that are kept encrypted

Below: the query language, in `query_dsl/`. Above: `store/`, whose `Store.documents` this is.
"""
