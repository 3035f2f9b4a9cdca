"""What the routes of all protocols share.

requests.py     reads a request: who asks, ids in its path, its body
fields.py       the members of a body, and what is wrong with them
failure_status.py  the HTTP status of a run that failed
answers.py      plain JSON answers
routes.py       routes that visitors may use too; functions as endpoints
error_forms.py  which protocol's form an error has
closed_protocols.py  refuses keys the protocols that are turned off for them
paths.py        paths with ids in which a slash is part of the id

Above: the contract of protocols, which gives its implementers what they need of it. Below: access, problems, errors.
"""
