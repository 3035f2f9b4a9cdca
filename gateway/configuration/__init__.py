"""The configuration file and its problems.

file.py          the file as text: YAML with the place of each value, references expanded
section.py       what every section of it is
sections.py      its sections and their fields
ml_commons_sections.py  the settings `plugins.ml_commons.*`
protocol_sections.py  the settings of protocols: for all callers, for keys, for agents
schema.py        the JSON Schema of a file, for editors
reading.py       fills the sections from a file, and words its problems
checks.py        checks across fields: unknown names, a server that is open by mistake
key_checks.py    the same for keys and visitors
definitions.py   from an agent's section to its definition, and whether its parts open
agent_body.py    an agent that a caller made, by the same rules
known_parts.py   the names of all parts

Above: settings. Below: access, the contracts, parts, errors.
"""
