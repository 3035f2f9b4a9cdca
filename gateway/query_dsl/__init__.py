"""The part of OpenSearch's query language that the embedded search engine has. It is parsed into plain data.

search_body.py          a search's body: the query, which hits of it, in which order
search_size.py          how large a search may be
queries.py              the query DSL
query_string.py         the language of `query_string`
simple_query_string.py  the language of `simple_query_string`
aggregations.py         what is counted and measured of all hits
clauses.py              the clauses that all of these are read into
name_patterns.py        patterns that name fields
options.py              reading options, so that nothing unknown is ignored
date_math.py            dates that are reckoned
field_mapping.py        the types of an index's fields
word_distance.py        words that are nearly the same
"""
