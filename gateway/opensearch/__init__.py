"""The insides of the store and of the search engine in an OpenSearch cluster.

store.py       the store: threads, runs and logs in the indices of one prefix
threads.py     reads threads, and commits each write with one write of the thread's document
thread_record.py  what that document says, and what each write makes of it
version_states.py  large states of a thread's versions, in documents of their own
thread_writes.py  what a write of a thread stores besides: messages, approvals, forks
runs.py        the begin, the queue and the end of runs
run_record.py  what a run's document says
logs.py        the logs of runs, in chunks
lists.py       lists and searches of threads, runs and approvals
collected_threads.py  the documents by which threads are searched
state.py       secrets, and deletions that are due at providers
membership.py  the one gateway that uses a prefix
sure_writes.py  writes of which it has to be known whether they were done
sources.py     documents by their ids: records, and the parts of large ones
bulks.py       writes that share `_bulk` requests
indices.py     the indices: names, settings, mappings
ids.py         the ids of documents
cluster.py     requests to the cluster: deadlines, retries, errors, refreshes
address.py     the URL of a cluster
extra.py       the client, which may not be installed
cluster_search.py  the search engine: searches by somebody, of allowed indices, within bounds
index_names.py the indices that may be searched, and names of indices as models write them
search_body.py what other indices the body of a search names, and whether it has scripts
ppl.py         queries in PPL
search_failures.py  what a cluster's refusal of a search means for a model
turns.py       work on each thing in the order of the calls
reach.py       whether a cluster can be reached, and knows its user
search_doctor.py  looks at whether a cluster can be searched
doctor.py      looks at a cluster without changing it, for `agui-gateway doctor`
cluster_findings.py  what a cluster's answers about itself mean for a store
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
