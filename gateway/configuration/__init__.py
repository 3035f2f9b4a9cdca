"""What an operator writes, and what is wrong with it.

file.py          the file as text: YAML with the place of everything in it, references expanded
sections.py      its shape: the sections and their fields
reading.py       a file's sections, and what is wrong with a field in the operator's words
checks.py        what no single field can say: names that nothing has, doors that are left open
key_checks.py    the same of keys and visitors
known_parts.py   which names there are

Above: settings, which makes the operator's decisions of it. Below: access, the contracts, parts, errors.
"""
