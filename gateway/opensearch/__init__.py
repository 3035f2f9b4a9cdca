"""The inside of the OpenSearch store.

address.py     the store's URL
cluster.py     requests to the cluster: deadlines, retries, errors, refreshes
bulks.py       writes that share `_bulk` requests
indices.py     the indices: names, settings, mappings
doctor.py      looks at a cluster without changing it, for `agui-gateway doctor`
cluster_findings.py  what a cluster's answers about itself mean for a store
turns.py       work on each thing in the order of the calls
documents.py   the DocumentStore: seals, stores and searches documents
document_index.py  reads, writes and searches of the documents' index
document_records.py  documents as they are stored
document_fields.py  the fields of a kind of documents, and the searched values in them
document_search.py  a search over documents
document_queries.py  the clauses of a search as a query of the cluster
document_words.py  what a search has to know of the words that documents have
document_aggregations.py  the aggregations of a search
document_transfer.py  all documents as pieces for another store, and back
export_pieces.py  everything as pieces for another store
import_pieces.py  stores the pieces that another store gave
piece_batches.py  the steps in which pieces are given and taken
"""
