"""Shared by ml-commons' agents (`ml_agents`) and memory (`ml_memory`): routes, errors, settings and REST input.

routes.py           JSON responses, bodies, errors as responses
url_parameters.py   the parameters of URLs
filter_path.py      the parts of a response that a client wants
errors.py           the two forms of errors
answers.py          ids, times, search answers and answers to writes, as OpenSearch has them
content.py          content blocks: text and media
input_messages.py   messages, content blocks or a text, as canonical messages
feature_settings.py    the settings `plugins.ml_commons.*`: names, defaults, the refusal of a feature that is off
cluster_settings.py    the settings that hold now, and those that callers set
settings_bodies.py     the bodies of `_cluster/settings`
settings_endpoints.py  its routes, and the protocol as a part

Above: ml_agents, ml_memory. Below: protocol, the words. All of it is pure, but for the routes, `routes.py` and
`cluster_settings.py`.
https://docs.opensearch.org/latest/ml-commons-plugin/api/agent-apis/index/ (ml-commons 3.6 to 3.9)
"""
