"""ml-commons' agent REST API: reads its requests as canonical input, and writes what became of them in its shapes.

routes.py           what its routes share: JSON answers, bodies, errors as responses
url_parameters.py   the parameters of URLs
filter_path.py      the parts of an answer that a client wants
api_document.py     how its operations stand in the API document
errors.py           the two forms of its errors
answers.py          ids, times, search answers and answers to writes, as OpenSearch has them
agent_form.py       what its users see of an agent, beyond what runs need
registration.py     the bodies that register and change an agent, with registration_members, registration_model and
                    registration_tools for their parts
generation_options.py  how a model is to answer, in any vendor's spelling
content.py          content blocks: text and media
parameters.py       the parameters of an execution
agent_input.py      the body of an execution as canonical input
execution_start.py  an execution's run: its memory, its interaction, its tools
execution.py        the answer of an execution
chunks.py           the same as a stream
memories.py         threads as memories
interactions.py     a thread's messages as interactions and traces
interaction_notes.py  what is said of interactions beside their words
interaction_writes.py  interactions that clients write, as messages
posted_traces.py    traces that clients write
memory_search.py    searches over memories, or over the interactions of one
memory_reading.py   a caller's memory, with all of its turns
memory_kinds.py     how memory containers and what they hold are stored
memory_containers.py  the bodies that make and change a container
memory_documents.py  the bodies that make and change what a container holds
memory_requests.py  other requests for what a container holds
memory_access.py    a caller's containers
container_memories.py  what a caller has in one container
retention.py        how long a container's memories stay
retention_sweep.py  deletes those that stayed long enough
memory_messages.py  messages as documents of working memory
feature_settings.py   the settings `plugins.ml_commons.*`: names, defaults, what is said where a feature is off
cluster_settings.py   the settings that hold now, and what callers set
settings_bodies.py    the bodies of `_cluster/settings`
tasks.py            what becomes of executions that nobody waits for

The routes, and the protocols as parts: agent_endpoints.py, execute_endpoints.py, task_endpoints.py, tool_endpoints.py,
settings_endpoints.py, memory_endpoints.py, message_endpoints.py, container_endpoints.py and
container_memory_endpoints.py.

Above: `protocols/ml_stream.py`. Below: protocol, the words. All of it is pure, but for the routes,
`routes.py`, `execution_start.py`, `memory_access.py`, `container_memories.py`,
`retention_sweep.py`, `memory_reading.py` and `posted_traces.py`.
https://docs.opensearch.org/latest/ml-commons-plugin/api/agent-apis/index/ (ml-commons 3.6 to 3.9)
"""
