"""ml-commons' memory over its REST API: threads as conversation memories, and memory containers.

memories.py         threads as memories
interactions.py     a thread's messages as interactions and traces
interaction_notes.py  what an interaction has besides its words
interaction_writes.py  interactions that clients write, as messages
posted_traces.py    traces that clients write
memory_search.py    searches over memories, or over the interactions of one
memory_reading.py   a caller's memory, with all of its turns
memory_kinds.py     the kinds of documents in which memory containers and their contents are stored
memory_containers.py  the bodies that make and change a container
memory_documents.py  the bodies that make and change a document of a container
memory_requests.py  other requests for a container's documents
memory_messages.py  messages as documents of working memory
memory_access.py    a caller's containers
container_memories.py  a caller's documents in one container
retention.py        how long a container's memories stay
retention_sweep.py  deletes memories that stayed long enough

The routes, and the protocols as parts: memory_endpoints.py, message_endpoints.py, container_endpoints.py and
container_memory_endpoints.py.

Above: ml_agents, whose executions have memories. Below: ml_commons, protocol. All of it is pure, but for the routes,
`memory_access.py`, `container_memories.py`, `retention_sweep.py`, `memory_reading.py` and `posted_traces.py`.
https://docs.opensearch.org/latest/ml-commons-plugin/api/agentic-memory-apis/index/ (ml-commons 3.6 to 3.9)
"""
