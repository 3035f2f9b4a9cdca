"""Documents that a store keeps for whoever has kinds of them, such as stored agents.

document.py   what a document and a kind of them is, and what a store of them promises
owned.py      one owner's documents
sealing.py    members of documents that are kept encrypted

Below: the query language, in `query_dsl/`. Above: `store.py`, whose `documents` this is.
"""
