"""The part of OpenSearch's query language that the embedded search engine supports. It is parsed into plain data.

search_body.py          a search's body: the query, the page of hits and their order
search_size.py          the limits of a search's size
queries.py              the query DSL
query_string.py         the language of `query_string`
simple_query_string.py  the language of `simple_query_string`
aggregations.py         counts and numbers over all hits
clauses.py              the clauses that all of these are read into
name_patterns.py        patterns that name fields
options.py              reads options; unknown ones are errors
date_math.py            relative dates
field_mapping.py        the types of an index's fields
word_distance.py        similar words
"""
