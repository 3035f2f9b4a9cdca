"""Formats that several parts share, and formats without a maintained package. Pure.

strict_json   reads JSON of clients strictly, and writes JSON that every reader accepts
lenient_json  reads JSON of model providers, with its oddities
json_pointer  places in a JSON document
merge_patch   a change of a JSON object
tool_schema   schemas as providers accept them
schema_cost   the cost of a JSON Schema for a validator
pattern_cost  the cost of a regular expression
data_urls     URLs that hold their content
media_bytes   facts about a medium's bytes
stand_ins     texts in place of content that a provider refuses
mounts        a request to an application below a prefix
log_counts    many items of one kind as the fields of one log line
"""
