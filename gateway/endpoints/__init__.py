"""What the routes of all protocols share.

requests.py     reads a request: who asks, ids in its path, its body
fields.py       the members of a body, and what is wrong with them
failure_status.py  the HTTP status of a run that failed
media_fields.py, tool_fields.py, generation_fields.py  media, a client's tools and samplers in the members of a body
answers.py      plain JSON answers; headers that name a run
routes.py       routes that visitors may use too; functions as endpoints
route_table.py  finds a request's route among all
time_sharing.py  shares the loop's time between long pieces of work
error_forms.py  which protocol's form an error has
closed_protocols.py  refuses keys the protocols that are turned off for them
paths.py        paths with ids in which a slash is part of the id

Above: the contract of protocols, which gives its implementers what they need of it. Below: access, problems, errors.
"""
